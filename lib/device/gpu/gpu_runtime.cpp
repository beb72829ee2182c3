// gpu_runtime.cpp - the table in use, what is available, and the end of it all.

#include "device/gpu/gpu_runtime.hpp"

#include "device/engine.hpp"
#include "device/gpu/gpu_device.hpp"
#include "device/gpu/gpu_lane.hpp"
#include "device/watch.hpp"

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/claims.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/detail/timer.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace turnstile {
namespace detail {
namespace {

using lost_hook = void (*)(device, const device_error&);

constinit atomic<const gpu_api*> table{nullptr};
constinit atomic<lost_hook> hook{nullptr};
constinit atomic<const gpu_end*> forked{nullptr};

constexpr const char* after_shutdown =
    "the use of GPUs in this process has ended: shut_down_devices was called";

// What was found out about a GPU.
struct availability {
  int code = gpu_errors::success;
  std::string name;           // of the error
  std::string_view sentence;  // empty: it is available
  std::string model;
};

// What belongs to the table in use. One lock for all of it; the first question starts the driver
// under it.
struct session {
  mutex lock;
  std::map<int, availability> found;
  std::map<int, gpu_device*> devices;  // in use, which last for good
  std::vector<gpu_device*> ended;      // whose use has ended, and some of whose streams had not
  std::vector<std::unique_ptr<gpu_device>> kept;
  bool is_over = false;
};

// Never destroyed.
session& the_session() {
  static session& it = *new session;
  return it;
}

availability not_available(int index, int code, std::string name, const std::string& why) {
  return {code, std::move(name),
          kept_for_good(device::cuda(index).name() + " is not available: " + why), ""};
}

std::string version(int v) {
  return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
}

std::string why_no_driver(int needed, int there) {
  if (there == 0) return "there is no CUDA driver (libcuda.so.1) on this machine";
  return "the CUDA driver is too old: it is for CUDA " + version(there) + ", and CUDA " +
         version(needed / 1000 * 1000) + " or newer is needed";
}

std::string why(const gpu_api& api, int code, int driver_version) {
  switch (code) {
    case gpu_errors::stub_library:
      return "the library path leads to the CUDA toolkit's stub library instead of the driver";
    case gpu_errors::insufficient_driver: return why_no_driver(api.runtime_version, driver_version);
    case gpu_errors::no_device: return "there is no CUDA device, or CUDA_VISIBLE_DEVICES hides it";
    case 803:
    case 804:
      return "the CUDA driver and its library do not match: restart the machine or reload the "
             "driver";
    default: return std::string(api.error_name(code)) + ": " + api.error_text(code);
  }
}

std::string count_text(int n) {
  return n == 1 ? "there is only one CUDA device"
                : "there are only " + std::to_string(n) + " CUDA devices";
}

// Once, before the driver is asked for anything: what it says is of no use to a child process.
void prepare_for_forks() {
  static const gpu_end& end = *new gpu_end(device_error(
      0, "", "this process was forked after its parent had used CUDA, and cannot use it itself",
      true));
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forked.store(&end, relaxed); });
  static_cast<void>(registered);
}

availability find_out(const gpu_api& api, int index) {
  prepare_for_forks();
  const no_last_error kept(api);
  int driver_version = 0;
  int count = 0;  // what fails leaves these as they are
  char model[256] = "";
  api.driver_get_version(&driver_version);
  int code = api.get_device_count(&count);
  if (code == gpu_errors::success && count == 0) code = gpu_errors::no_device;
  if (code == gpu_errors::success && index >= count) {
    return not_available(index, 0, "", count_text(count));
  }
  if (code == gpu_errors::success) code = api.get_device_name(index, model, sizeof model);
  if (code != gpu_errors::success) {
    return not_available(index, code, api.error_name(code), why(api, code, driver_version));
  }
  return {0, "", "", model};
}

availability find_out(const session& all, int index) {
  const gpu_api* const api = table.load(acquire);
  if (api == nullptr) {
    return not_available(index, 0, "", "this program is not linked with turnstile-cuda");
  }
  if (all.is_over) return not_available(index, 0, "", after_shutdown);
  return find_out(*api, index);
}

// Under the lock. Only the first question about a GPU allocates.
const availability& why_not(session& all, int index) {
  const auto at = all.found.find(index);
  if (at != all.found.end()) return at->second;
  return all.found.emplace(index, find_out(all, index)).first->second;
}

gpu_device* in_use(session& all, int index) {
  const auto at = all.devices.find(index);
  return at == all.devices.end() ? nullptr : at->second;
}

// Before the lock, which a thread may have held that the child does not have.
void refuse_child() {
  if (const gpu_end* const end = end_by_fork()) std::rethrow_exception(end->error);
}

gpu_device& device_in_use(int index) {
  refuse_child();
  session& all = the_session();
  const std::lock_guard locked(all.lock);
  const availability& f = why_not(all, index);
  if (!f.sentence.empty()) throw device_error(f.code, f.name, std::string(f.sentence));
  if (gpu_device* const d = in_use(all, index)) return *d;
  all.kept.push_back(std::make_unique<gpu_device>(*table.load(relaxed), index, f.model));
  return *(all.devices[index] = all.kept.back().get());
}

lane_ref lane_for(gpu_device& d, std::shared_ptr<gpu_stream> s) {
  return lane_ref(new gpu_lane(d.where(), std::move(s)));
}

[[noreturn]] void raise_adopting(const gpu_api& api, gpu_outcome o) {
  api.get_last_error();  // it is told
  throw gpu_error(api, o.code, std::string("adopting a stream: ") + o.call);
}

int device_of_stream(const gpu_api& api, CUstream_st* s) {
  int index = 0;
  const gpu_outcome o = api.stream_get_device != nullptr
                            ? gpu_outcome{api.stream_get_device(s, &index), "cudaStreamGetDevice"}
                            : gpu_outcome{api.get_device(&index), "cudaGetDevice"};
  if (o.failed()) raise_adopting(api, o);
  return index;
}

void refuse_default_streams(CUstream_st* s) {
  const auto handle = reinterpret_cast<std::uintptr_t>(s);
  if (handle <= 1) {
    throw std::invalid_argument(
        "turnstile: the legacy default stream cannot be adopted: it waits for all other streams, "
        "and they "
        "for it");
  }
  if (handle == 2) {
    throw std::invalid_argument(
        "turnstile: the per-thread default stream cannot be adopted: a coroutine may go on on "
        "another "
        "thread, where it is another stream");
  }
}

// First of all questions: others end the capture.
void refuse_capture(const gpu_api& api, CUstream_st* s) {
  bool is_capturing = false;
  const gpu_outcome o{api.stream_is_capturing(s, &is_capturing), "cudaStreamIsCapturing"};
  if (o.failed()) raise_adopting(api, o);
  if (is_capturing) {
    throw std::invalid_argument(
        "turnstile: a stream that is being captured cannot be adopted: its events are never "
        "reached");
  }
}

void refuse_after_shutdown() {
  session& all = the_session();
  const std::lock_guard locked(all.lock);
  if (all.is_over) throw_shut_down();
}

// No more streams. All whose use has to end yet, also those that earlier calls have waited for.
std::vector<gpu_device*> end_session() {
  session& all = the_session();
  const std::lock_guard locked(all.lock);
  all.is_over = true;
  all.found.clear();
  for (const auto& [index, d] : all.devices) all.ended.push_back(d);
  all.devices.clear();
  return all.ended;
}

// Nothing is left of it to wait for; another call may have found that, too.
void forget_ended(const gpu_device* d) {
  session& all = the_session();
  const std::lock_guard locked(all.lock);
  std::erase(all.ended, d);
}

bool is_in_use(const std::shared_ptr<gpu_stream>& s) noexcept { return s->is_in_use(); }

}  // namespace

void use_gpu_api(const gpu_api* api) noexcept {
  session& all = the_session();
  const std::lock_guard locked(all.lock);
  if (!all.devices.empty() || !all.ended.empty()) return;
  table.store(api, release);
  all.found.clear();
  all.is_over = false;
}

std::string_view gpu_why_not(int index) noexcept {
  if (const gpu_end* const end = end_by_fork()) return end->sentence;
  session& all = the_session();
  const std::lock_guard locked(all.lock);
  const std::string_view sentence = why_not(all, index).sentence;
  const gpu_device* const d = sentence.empty() ? in_use(all, index) : nullptr;
  const gpu_end* const end = d == nullptr ? nullptr : d->over();
  return end == nullptr ? sentence : end->sentence;
}

lane_ref make_gpu_lane(int index) {
  gpu_device& d = device_in_use(index);
  start_watch();
  return lane_for(d, gpu_stream::make(d));
}

lane_ref adopt_gpu_stream(CUstream_st* s) {
  refuse_default_streams(s);
  refuse_child();
  refuse_after_shutdown();
  const gpu_api* const api = table.load(acquire);
  if (api != nullptr) refuse_capture(*api, s);
  gpu_device& d = device_in_use(api == nullptr ? 0 : device_of_stream(*api, s));
  d.must_work();
  start_watch();
  device_of_address.store(&gpu_device_of_pointer, relaxed);
  return lane_for(d, gpu_stream::adopt(d, s));
}

int gpu_device_of_pointer(const void* p) noexcept {
  const gpu_api* const api = table.load(acquire);
  int index = -1;
  if (api == nullptr || end_by_fork() != nullptr) return -1;
  const no_last_error kept(*api);
  return api->device_of_pointer(p, &index) == gpu_errors::success ? index : -1;
}

void tell_device_lost(device d, const device_error& why) noexcept {
  if (const lost_hook h = hook.load(acquire)) {
    h(d, why);
  } else {
    std::fprintf(stderr, "%s; nothing works there any more in this process\n", why.what());
  }
}

const gpu_end* end_by_fork() noexcept { return forked.load(relaxed); }

void throw_shut_down() { throw device_error(0, "", after_shutdown); }

}  // namespace detail

void on_device_lost(void (*hook)(device, const device_error&)) noexcept {
  detail::hook.store(hook, detail::release);
}

std::vector<std::string> shut_down_devices(std::chrono::nanoseconds within) {
  using namespace detail;
  if (end_by_fork() != nullptr) return {};  // who has the locks may not be here
  const auto until = later(steady_clock::now(), within);
  const std::vector<gpu_device*> devices = end_session();
  std::vector<std::vector<std::shared_ptr<gpu_stream>>> streams;  // of each
  for (gpu_device* const d : devices) streams.push_back(d->retire());
  for (const auto& each : streams) {
    for (const auto& s : each) s->close(gpu_stream::pending::everything);
  }
  const auto are_done = [](const auto& each) { return std::ranges::none_of(each, &is_in_use); };
  engine::the().drain([&] { return std::ranges::all_of(streams, are_done); }, until);
  std::vector<std::string> busy;
  std::vector<gpu_device*> ended;
  for (std::size_t i = 0; i != devices.size(); ++i) {
    const std::size_t before = busy.size();
    for (const auto& s : streams[i]) {
      if (!s->finish()) busy.push_back(s->name());
    }
    if (busy.size() == before) ended.push_back(devices[i]);
  }
  for (gpu_device* const d : devices) {
    if (!d->destroy_events(until)) std::erase(ended, d);
  }
  // Not before that: another call, too, waits for who calls the driver for them.
  std::ranges::for_each(ended, &forget_ended);
  return busy;
}

}  // namespace turnstile
