// fake_gpu.cpp - streams, events and memory of GPUs that are not there.

#include "device/fake_gpu.hpp"

#include "device/gpu/gpu_error.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

struct CUevent_st {
  int device = 0;
  std::uint64_t recorded = 0;  // how often
  std::uint64_t reached = 0;   // which of those, at least
  int blocked = 0;
  bool failed = false;
  bool destroyed = false;
};

struct CUstream_st {
  struct piece {
    std::function<void()> quick;    // under the lock, so that it is done or never begun
    std::function<void()> kernel;   // or outside it
    void (*host)(void*) = nullptr;  // or this
    void* with = nullptr;
    CUevent_st* waits_for = nullptr;  // or
    CUevent_st* records = nullptr;
    std::uint64_t turn = 0;
  };

  int device = 0;
  std::deque<piece> pieces;
  bool works = false;  // on a piece
  bool captured = false;
  bool destroyed = false;
};

namespace fake {
namespace {

namespace gpu_errors = turnstile::detail::gpu_errors;
using turnstile::detail::gpu_api;

constexpr int devices = 2;
constexpr int of_no_device = -1;  // pinned memory
constexpr int invalid_value = 1;
constexpr std::size_t most_at_once = std::size_t{64} << 10;  // of a copy, by the driver itself
constexpr int invalid_handle = 400;
constexpr int not_while_capturing = 900;  // and the capture is over
constexpr int strict_capture = 0;
constexpr int relaxed_capture = 2;

struct allocation {
  int device = 0;
  std::size_t bytes = 0;
  bool freed = false;
};

struct planned {
  int k = 0;
  int error = 0;
  int device = any_device;
};

struct world {
  std::mutex lock;
  std::condition_variable changed;
  std::vector<std::unique_ptr<CUstream_st>> streams;  // also destroyed ones
  std::vector<std::unique_ptr<CUevent_st>> events;
  std::map<void*, allocation> memory;
  std::array<std::vector<planned>, calls> plans;
  std::array<std::array<int, devices + 1>, calls> counts{};  // by device, the first for none
  std::array<int, devices> sticky{};
  misuse wrong;
  bool by_itself = false;
  bool is_ending = false;
  int blocked = 0;  // threads
  int number = 0;   // of the world
};

world& w() {
  static world& it = *new world;
  return it;
}

thread_local int current = 0;

// A thread's last error, which a new world does not know.
struct error_of_thread {
  int code = 0;
  int world = 0;
};
thread_local error_of_thread last;
thread_local int capture_mode = strict_capture;

using locked = std::unique_lock<std::mutex>;

// Under the lock.
void note_error(int code) { last = {code, w().number}; }

// Under the lock. What this call is to give; below 0 there is no device it is for.
int begin(call c, int device) {
  const auto i = static_cast<std::size_t>(c);
  ++w().counts[i][static_cast<std::size_t>(device + 1)];
  int error = device < 0 ? 0 : w().sticky[static_cast<std::size_t>(device)];
  for (planned& p : w().plans[i]) {
    const bool meant = p.device == any_device || p.device == device;
    if (meant && --p.k == 0 && error == 0) error = p.error;
  }
  if (error == 0) return 0;
  if (device >= 0 && turnstile::detail::is_sticky(error)) {
    w().sticky[static_cast<std::size_t>(device)] = error;
    w().changed.notify_all();
  }
  note_error(error);
  return error;
}

// Under the lock.
int last_error() { return last.world == w().number ? last.code : 0; }

// Under the lock. A runtime may take it for an error of the thread that asks.
int not_ready() {
  note_error(gpu_errors::not_ready);
  return gpu_errors::not_ready;
}

int refuse(int& counter, int error = invalid_handle) {
  ++counter;
  note_error(error);
  return error;
}

void must_be_current(int device) {
  if (current != device) ++w().wrong.not_current;
}

bool is_lost(int device) { return w().sticky[static_cast<std::size_t>(device)] != 0; }

// On a lost device there is no capture left to spoil, and the thread's mode cannot be changed any
// more.
void must_look_gently(int device) {
  if (capture_mode != relaxed_capture && !is_lost(device)) ++w().wrong.strict_look;
}

// Who waits for a lost device goes on.
bool can_begin(const CUstream_st& s) {
  if (s.works || s.captured || s.pieces.empty() || is_lost(s.device)) return false;
  const auto& p = s.pieces.front();
  return p.waits_for == nullptr || p.waits_for->reached >= p.turn || is_lost(p.waits_for->device);
}

void add(CUstream_st& s, CUstream_st::piece p) {
  s.pieces.push_back(std::move(p));
  w().changed.notify_all();
}

void do_piece(CUstream_st& s, locked& l) {
  auto p = std::move(s.pieces.front());
  s.pieces.pop_front();
  if (p.records != nullptr) p.records->reached = std::max(p.records->reached, p.turn);
  if (p.quick) p.quick();
  if (p.kernel || p.host != nullptr) {
    s.works = true;
    l.unlock();
    if (p.kernel) p.kernel();
    if (p.host != nullptr) p.host(p.with);
    l.lock();
    s.works = false;
  }
  w().changed.notify_all();
}

bool step(CUstream_st& s, locked& l) {
  if (!can_begin(s)) return false;
  do_piece(s, l);
  return true;
}

bool step_all(locked& l) {
  bool any = false;
  for (std::size_t i = 0; i != w().streams.size(); ++i) any |= step(*w().streams[i], l);
  return any;
}

void move_on(locked& l) {
  if (w().by_itself) step_all(l);
}

// Until `done()`, or the device is lost, or the world ends.
template <class F>
int wait_until(locked& l, int device, F done) {
  while (!done()) {
    if (const int e = w().sticky[static_cast<std::size_t>(device)]) return e;
    if (w().is_ending) return turnstile::detail::gpu_errors::runtime_unloading;
    if (!w().by_itself || !step_all(l)) w().changed.wait(l);
  }
  return 0;
}

template <class F>
int block(locked& l, int device, F done) {
  ++w().blocked;
  const int error = wait_until(l, device, done);
  --w().blocked;
  w().changed.notify_all();
  return error;
}

bool is_idle(const CUstream_st& s) { return s.pieces.empty() && !s.works; }
bool is_reached(const CUevent_st& e) { return e.reached >= e.recorded; }

int usable(const CUstream_st& s) { return s.destroyed ? refuse(w().wrong.after_destroy) : 0; }
int usable(const CUevent_st& e) { return e.destroyed ? refuse(w().wrong.after_destroy) : 0; }

int driver_get_version(int* version) {
  const locked l(w().lock);
  if (const int e = begin(call::driver_get_version, -1)) return e;
  *version = 13000;
  return 0;
}

int get_device_count(int* n) {
  const locked l(w().lock);
  if (const int e = begin(call::get_device_count, -1)) return e;
  *n = devices;
  return 0;
}

int get_device_name(int device, char* to, std::size_t size) {
  const locked l(w().lock);
  if (const int e = begin(call::get_device_name, -1)) return e;
  const std::string text = "fake " + std::to_string(device);
  std::memcpy(to, text.c_str(), std::min(size, text.size() + 1));
  return 0;
}

int set_device(int device) {
  const locked l(w().lock);
  if (const int e = begin(call::set_device, device)) return e;
  current = device;
  return 0;
}

int get_device(int* device) {
  const locked l(w().lock);
  if (const int e = begin(call::get_device, current)) return e;
  *device = current;
  return 0;
}

CUstream_st* add_stream(int device) {
  w().streams.push_back(std::make_unique<CUstream_st>());
  w().streams.back()->device = device;
  return w().streams.back().get();
}

int stream_create(CUstream_st** s) {
  const locked l(w().lock);
  if (const int e = begin(call::stream_create, current)) return e;
  *s = add_stream(current);
  return 0;
}

// An error is one of work before: it is destroyed all the same.
int stream_destroy(CUstream_st* s) {
  const locked l(w().lock);
  const int e = begin(call::stream_destroy, s->device);
  if (s->destroyed) return refuse(w().wrong.destroyed_twice);
  s->destroyed = true;
  return e;
}

int stream_query(CUstream_st* s) {
  locked l(w().lock);
  must_look_gently(s->device);
  if (const int e = begin(call::stream_query, s->device)) return e;
  if (const int e = usable(*s)) return e;
  move_on(l);
  return is_idle(*s) ? 0 : not_ready();
}

int stream_synchronize(CUstream_st* s) {
  locked l(w().lock);
  if (const int e = begin(call::stream_synchronize, s->device)) return e;
  must_look_gently(s->device);
  if (const int e = usable(*s)) return e;
  return block(l, s->device, [&] { return is_idle(*s); });
}

int stream_is_capturing(CUstream_st* s, bool* yes) {
  const locked l(w().lock);
  if (const int e = begin(call::stream_is_capturing, s->device)) return e;
  if (const int e = usable(*s)) return e;
  *yes = s->captured;
  return 0;
}

int stream_get_device(CUstream_st* s, int* device) {
  const locked l(w().lock);
  if (const int e = begin(call::stream_get_device, s->device)) return e;
  if (s->captured) return not_while_capturing;
  *device = s->device;
  return 0;
}

int stream_wait_event(CUstream_st* s, CUevent_st* e) {
  const locked l(w().lock);
  if (const int error = begin(call::stream_wait_event, s->device)) return error;
  if (const int error = usable(*s)) return error;
  if (const int error = usable(*e)) return error;
  if (e->recorded == 0) ++w().wrong.unrecorded;
  CUstream_st::piece p;
  p.waits_for = e;
  p.turn = e->recorded;
  add(*s, std::move(p));
  return 0;
}

int event_create(CUevent_st** e) {
  const locked l(w().lock);
  if (const int error = begin(call::event_create, current)) return error;
  w().events.push_back(std::make_unique<CUevent_st>());
  w().events.back()->device = current;
  *e = w().events.back().get();
  return 0;
}

int event_destroy(CUevent_st* e) {
  const locked l(w().lock);
  const int error = begin(call::event_destroy, e->device);
  if (e->destroyed) return refuse(w().wrong.destroyed_twice);
  e->destroyed = true;
  return error;
}

int event_record(CUevent_st* e, CUstream_st* s) {
  const locked l(w().lock);
  must_be_current(s->device);
  if (e->failed) ++w().wrong.used_after_error;
  if (const int error = begin(call::event_record, s->device)) {
    e->failed = true;
    return error;
  }
  if (const int error = usable(*s)) return error;
  if (const int error = usable(*e)) return error;
  if (e->device != s->device) return refuse(w().wrong.wrong_device);
  if (!is_reached(*e) || e->blocked != 0) ++w().wrong.recorded_again;
  CUstream_st::piece p;
  p.records = e;
  p.turn = ++e->recorded;
  add(*s, std::move(p));
  return 0;
}

int event_query(CUevent_st* e) {
  locked l(w().lock);
  must_look_gently(e->device);
  if (const int error = begin(call::event_query, e->device)) {
    e->failed = true;
    return error;
  }
  if (const int error = usable(*e)) return error;
  if (e->recorded == 0) ++w().wrong.unrecorded;
  move_on(l);
  return is_reached(*e) ? 0 : not_ready();
}

int event_synchronize(CUevent_st* e) {
  locked l(w().lock);
  must_look_gently(e->device);
  if (const int error = begin(call::event_synchronize, e->device)) {
    e->failed = true;
    return error;
  }
  if (const int error = usable(*e)) return error;
  if (e->recorded == 0) ++w().wrong.unrecorded;
  ++e->blocked;
  const int error = block(l, e->device, [&] { return is_reached(*e); });
  --e->blocked;
  return error;
}

int add_work(call c, CUstream_st* s, std::function<void()> work) {
  const locked l(w().lock);
  if (const int e = begin(c, s->device)) return e;
  if (const int e = usable(*s)) return e;
  if (c == call::memcpy_async) must_be_current(s->device);
  CUstream_st::piece p;
  p.quick = std::move(work);
  add(*s, std::move(p));
  return 0;
}

// Under the lock.
const allocation* memory_at(const void* p) {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  for (const auto& [begins, a] : w().memory) {
    const auto first = reinterpret_cast<std::uintptr_t>(begins);
    if (at >= first && at < first + a.bytes) return &a;
  }
  return nullptr;
}

int memcpy_async(void* to, const void* from, std::size_t bytes, CUstream_st* s) {
  {
    const locked l(w().lock);
    const bool is_known = memory_at(to) != nullptr && memory_at(from) != nullptr;
    if (bytes != 0 && (to == nullptr || from == nullptr)) return invalid_value;
    const bool waits = !is_idle(*s) || bytes > most_at_once;
    if (bytes != 0 && !is_known && !s->captured && waits) ++w().wrong.pageable;
  }
  return add_work(call::memcpy_async, s, [=] { std::memmove(to, from, bytes); });
}

int malloc_async(void** p, std::size_t bytes, CUstream_st* s) {
  const locked l(w().lock);
  if (const int e = begin(call::malloc_async, s->device)) return e;
  if (const int e = usable(*s)) return e;
  *p = std::malloc(bytes);
  w().memory[*p] = {s->device, bytes, false};
  return 0;
}

void free_memory(void* p) {
  w().memory.erase(p);
  std::free(p);
}

int free_async(void* p, CUstream_st* s) {
  {
    const locked l(w().lock);
    const auto at = w().memory.find(p);
    // Before it may be done, and the address be somebody else's.
    if (at == w().memory.end() || std::exchange(at->second.freed, true))
      return refuse(w().wrong.freed_twice, invalid_value);
  }
  const int e = add_work(call::free_async, s, [p] { free_memory(p); });
  if (e == 0) return 0;
  const locked l(w().lock);
  w().memory[p].freed = false;
  return e;
}

int host_alloc(void** p, std::size_t bytes) {
  const locked l(w().lock);
  if (const int e = begin(call::host_alloc, current)) return e;
  if (capture_mode != relaxed_capture) ++w().wrong.strict_look;
  *p = std::malloc(bytes);
  w().memory[*p] = {of_no_device, bytes, false};
  return 0;
}

int launch_host_func(CUstream_st* s, void (*f)(void*), void* with) {
  const locked l(w().lock);
  if (const int e = begin(call::launch_host_func, s->device)) return e;
  if (const int e = usable(*s)) return e;
  must_be_current(s->device);
  CUstream_st::piece p;
  p.host = f;
  p.with = with;
  add(*s, std::move(p));
  return 0;
}

int device_of_pointer(const void* p, int* device) {
  const locked l(w().lock);
  if (const int e = begin(call::device_of_pointer, current)) return e;
  const allocation* const a = memory_at(p);
  *device = a == nullptr ? of_no_device : a->device;
  return 0;
}

int is_pageable(const void* p, bool* yes) {
  const locked l(w().lock);
  if (const int e = begin(call::is_pageable, current)) return e;
  *yes = memory_at(p) == nullptr;
  return 0;
}

int exchange_capture_mode(int* mode) {
  const locked l(w().lock);
  if (const int e = begin(call::exchange_capture_mode, current)) return e;
  std::swap(capture_mode, *mode);
  return 0;
}

int peek_at_last_error() {
  const locked l(w().lock);
  if (const int e = begin(call::peek_at_last_error, -1)) return e;
  return last_error();
}

int get_last_error() {
  const locked l(w().lock);
  if (const int e = begin(call::get_last_error, -1)) return e;
  const int code = last_error();
  if (!turnstile::detail::is_sticky(code)) last = {};
  return code;
}

const char* error_name(int error) {
  switch (error) {
    case 2: return "cudaErrorMemoryAllocation";
    case 34: return "cudaErrorStubLibrary";
    case 35: return "cudaErrorInsufficientDriver";
    case 100: return "cudaErrorNoDevice";
    case 400: return "cudaErrorInvalidResourceHandle";
    case 719: return "cudaErrorLaunchFailure";
    case 800: return "cudaErrorNotPermitted";
    case 803: return "cudaErrorSystemDriverMismatch";
    default: return "cudaErrorOfTheFake";
  }
}

const char* error_text(int error) {
  return error == 719 ? "unspecified launch failure" : "as the test wants it";
}

constexpr std::array<std::string_view, calls> names{"driver_get_version",
                                                    "get_device_count",
                                                    "get_device_name",
                                                    "set_device",
                                                    "get_device",
                                                    "stream_create",
                                                    "stream_destroy",
                                                    "stream_query",
                                                    "stream_synchronize",
                                                    "stream_is_capturing",
                                                    "stream_get_device",
                                                    "stream_wait_event",
                                                    "event_create",
                                                    "event_destroy",
                                                    "event_record",
                                                    "event_query",
                                                    "event_synchronize",
                                                    "memcpy_async",
                                                    "malloc_async",
                                                    "free_async",
                                                    "launch_host_func",
                                                    "host_alloc",
                                                    "device_of_pointer",
                                                    "is_pageable",
                                                    "exchange_capture_mode",
                                                    "peek_at_last_error",
                                                    "get_last_error"};

constexpr gpu_api all{
    .runtime_version = 13000,
    .driver_get_version = &driver_get_version,
    .get_device_count = &get_device_count,
    .get_device_name = &get_device_name,
    .set_device = &set_device,
    .get_device = &get_device,
    .stream_create = &stream_create,
    .stream_destroy = &stream_destroy,
    .stream_query = &stream_query,
    .stream_synchronize = &stream_synchronize,
    .stream_is_capturing = &stream_is_capturing,
    .stream_get_device = &stream_get_device,
    .stream_wait_event = &stream_wait_event,
    .event_create = &event_create,
    .event_destroy = &event_destroy,
    .event_record = &event_record,
    .event_query = &event_query,
    .event_synchronize = &event_synchronize,
    .memcpy_async = &memcpy_async,
    .malloc_async = &malloc_async,
    .free_async = &free_async,
    .launch_host_func = &launch_host_func,
    .host_alloc = &host_alloc,
    .device_of_pointer = &device_of_pointer,
    .is_pageable = &is_pageable,
    .exchange_capture_mode = &exchange_capture_mode,
    .peek_at_last_error = &peek_at_last_error,
    .get_last_error = &get_last_error,
    .error_name = &error_name,
    .error_text = &error_text,
};

}  // namespace

std::string_view name(call c) { return names[static_cast<std::size_t>(c)]; }

const gpu_api& table() { return all; }

void reset() {
  locked l(w().lock);
  w().is_ending = true;
  w().changed.notify_all();
  w().changed.wait(l, [] { return w().blocked == 0; });
  w().is_ending = false;
  for (const auto& [p, a] : w().memory) std::free(p);
  w().memory.clear();
  w().streams.clear();
  w().events.clear();
  w().plans = {};
  w().counts = {};
  w().sticky = {};
  w().wrong = {};
  w().by_itself = false;
  ++w().number;
}

void go_by_itself(bool on) {
  const locked l(w().lock);
  w().by_itself = on;
  w().changed.notify_all();
}

bool step(CUstream_st* s) {
  locked l(w().lock);
  return step(*s, l);
}

void finish_all() {
  locked l(w().lock);
  while (step_all(l)) {
  }
}

void fail(call c, int k, int error, int device) {
  const locked l(w().lock);
  w().plans[static_cast<std::size_t>(c)].push_back({k, error, device});
}

void lose(int device, int error) {
  const locked l(w().lock);
  w().sticky[static_cast<std::size_t>(device)] = error;
  w().changed.notify_all();
}

int count(call c, int device) {
  const locked l(w().lock);
  const auto& by_device = w().counts[static_cast<std::size_t>(c)];
  if (device != any_device) return by_device[static_cast<std::size_t>(device + 1)];
  return std::accumulate(by_device.begin(), by_device.end(), 0);
}

void launch(CUstream_st* s, std::function<void()> kernel, int error) {
  const locked l(w().lock);
  if (error != 0) {
    note_error(error);
    return;
  }
  CUstream_st::piece p;
  p.kernel = std::move(kernel);
  add(*s, std::move(p));
}

void set_last_error(int error) {
  const locked l(w().lock);
  note_error(error);
}

int call_late() {
  locked l(w().lock);
  int called = 0;
  for (const auto& s : w().streams) {
    while (!s->pieces.empty()) {
      const auto p = std::move(s->pieces.front());
      s->pieces.pop_front();
      if (p.host == nullptr) continue;
      l.unlock();
      p.host(p.with);
      l.lock();
      ++called;
    }
  }
  return called;
}

CUstream_st* new_stream(int device) {
  const locked l(w().lock);
  return add_stream(device);
}

void begin_capture(CUstream_st* s) {
  const locked l(w().lock);
  s->captured = true;
}

bool is_destroyed(CUstream_st* s) {
  const locked l(w().lock);
  return s->destroyed;
}

int device_of(CUstream_st* s) {
  const locked l(w().lock);
  return s->device;
}

int current_device() { return current; }

int pending() {
  const locked l(w().lock);
  std::size_t all_pieces = 0;
  for (const auto& s : w().streams) all_pieces += s->pieces.size();
  return static_cast<int>(all_pieces);
}

misuse misused() {
  const locked l(w().lock);
  return w().wrong;
}

alive living() {
  const locked l(w().lock);
  alive n;
  for (const auto& s : w().streams) n.streams += s->destroyed ? 0 : 1;
  for (const auto& e : w().events) n.events += e->destroyed ? 0 : 1;
  for (const auto& [p, a] : w().memory) n.allocations += a.device != of_no_device;
  return n;
}

}  // namespace fake
