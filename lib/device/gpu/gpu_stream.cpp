// gpu_stream.cpp - giving work to a stream of a GPU, and looking how far it got.

#include "device/gpu/gpu_stream.hpp"

#include "base/captured.hpp"
#include "device/gpu/gpu_runtime.hpp"

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/thread_pool.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>
#include <source_location>
#include <utility>

namespace turnstile::detail {

namespace {

constexpr int most_calls = 256;         // kept without a point behind them
constexpr int most_failed_looks = 100;  // in a row: a stream that never answers keeps nobody
// Takes the driver about as long as the call, and a host function 40 us (bench/device).
constexpr std::size_t short_copy = std::size_t{64} << 10;

void report(std::exception_ptr e, const std::string& place) noexcept {
  report_unobserved(std::move(e), place, std::source_location::current());
}

// Keeps the first. True: `e` is another one, which nobody takes.
bool comes_behind(std::exception_ptr& first, std::exception_ptr& e) noexcept {
  if (first != nullptr) return e != nullptr && e != first;
  first = std::move(e);
  return false;
}

void add_error(std::exception_ptr& first, std::exception_ptr e, const std::string& place) noexcept {
  if (comes_behind(first, e)) report(std::move(e), place);
}

}  // namespace

// As add_error, for who has a stream's turn: the others are reported at the end, which comes after
// the turn. Whoever hears of them may give work to the same stream.
class gpu_stream::other_errors {
 public:
  explicit other_errors(const std::string& place) noexcept : place_(place) {}
  ~other_errors() {
    for (std::size_t i = 0; i != count_; ++i) report(std::move(all_[i]), place_);
  }
  other_errors(const other_errors&) = delete;
  other_errors& operator=(const other_errors&) = delete;

  void add_behind(std::exception_ptr& first, std::exception_ptr e) noexcept {
    if (comes_behind(first, e)) all_[count_++] = std::move(e);
  }

 private:
  const std::string& place_;
  std::array<std::exception_ptr, 2> all_;  // no turn has more
  std::size_t count_ = 0;
};

std::shared_ptr<gpu_stream> gpu_stream::make(gpu_device& on) {
  on.must_work();
  const std::shared_ptr<gpu_stream> it(new gpu_stream(on, false));
  // Whoever shuts down meanwhile closes it when it is there.
  gpu_outcome o;
  {
    const std::lock_guard turn(it->order_);
    on.add(it);
    o = on.make_current();
    CUstream_st* s = nullptr;
    if (!o.failed()) o = {on.api().stream_create(&s), "cudaStreamCreateWithFlags"};
    if (!o.failed()) it->native_.store(s, relaxed);
  }
  if (o.failed()) on.raise(o, on.where().name());
  return it;
}

std::shared_ptr<gpu_stream> gpu_stream::adopt(gpu_device& on, CUstream_st* s) {
  on.must_work();
  const std::shared_ptr<gpu_stream> it(new gpu_stream(on, true));
  const std::lock_guard turn(it->order_);
  on.add(it);
  it->native_.store(s, relaxed);
  return it;
}

gpu_stream::gpu_stream(gpu_device& on, bool is_adopted)
    : device_(on),
      is_adopted_(is_adopted),
      name_(on.where().name() + " stream #" + std::to_string(on.next_number())),
      last_resort_(on.take_bare_point()) {}

gpu_stream::~gpu_stream() {
  finish();
  std::exception_ptr left = std::move(carried_);
  add_error(left, std::move(owed_), name());
  if (left != nullptr) report(std::move(left), name());
}

void gpu_stream::must_be_open() const {
  if (is_closed_.load(relaxed)) throw_shut_down();
}

// Calls `f`, which gives an outcome, with its device current and while nobody else gives work.
template <class F>
void gpu_stream::give(F f) {
  device_.must_work();
  gpu_outcome o;
  {
    const std::lock_guard turn(order_);
    must_be_open();
    o = device_.make_current();
    if (!o.failed()) o = f();
  }
  if (!o.failed()) return;
  device_.forget_last_error();
  device_.raise(o, name());
}

// As give; throws instead if the stream is being captured, and the driver hears of nothing.
template <class F>
void gpu_stream::give_uncaptured(F f) {
  bool is_capturing = false;
  give([&]() -> gpu_outcome {
    const gpu_outcome o = ask_for_capture(is_capturing);
    return o.failed() || is_capturing ? o : f();
  });
  if (is_capturing) refuse_capture();
}

// By who has its turn. The driver has `call` then, unless it failed.
gpu_outcome gpu_stream::launch(std::unique_ptr<gpu_call>& call) {
  const int code = device_.api().launch_host_func(native(), &gpu_call::run, call.get());
  if (code != gpu_errors::success) return {code, "cudaLaunchHostFunc"};
  calls_.add(call.release());
  is_bare_ = true;
  return {};
}

// Somebody else's stream may be gone when there is no more time for a point.
void gpu_stream::limit_calls() noexcept {
  if (calls_.size() < (is_adopted_ ? 1 : most_calls)) return;
  gpu_outcome o;
  static_cast<void>(try_to_put_point(o));  // if not now, then behind the next callable
}

void gpu_stream::enqueue(std::unique_ptr<lane_work> w) {
  auto call = std::make_unique<gpu_call>(std::move(w), thread_pool::shared());
  bool is_given = false;
  try {
    give_uncaptured([&] {
      is_given = true;
      const gpu_outcome o = launch(call);
      limit_calls();
      return o;
    });
  } catch (...) {
    if (call != nullptr) gpu_call::refuse(std::move(call), !is_given || device_.over() == nullptr);
    throw;
  }
}

// Of the memory of whoever asked for a copy: it ends when that one hears that the copy failed.
class gpu_stream::loan {
 public:
  void copy(void* to, const void* from, std::size_t bytes) noexcept {
    const std::lock_guard locked(lock_);
    if (!is_over_) std::memcpy(to, from, bytes);
  }
  void end() noexcept {
    const std::lock_guard locked(lock_);
    is_over_ = true;
  }

 private:
  mutex lock_;
  bool is_over_ = false;
};

// What the driver calls to copy memory of the host.
struct gpu_stream::host_copy final : lane_work {
  host_copy(std::shared_ptr<loan> l, void* t, const void* f, std::size_t n) noexcept
      : memory(std::move(l)), to(t), from(f), bytes(n) {}
  void run() override { memory->copy(to, from, bytes); }

  const std::shared_ptr<loan> memory;
  void* const to;
  const void* const from;
  const std::size_t bytes;
};

struct gpu_stream::copying {
  bool is_pageable() const noexcept { return from_pageable || to_pageable; }
  bool is_on_host() const noexcept { return from_pageable && to_pageable; }

  void* to;
  const void* from;
  std::size_t bytes;
  bool from_pageable = false;
  bool to_pageable = false;
  std::shared_ptr<loan> memory = nullptr;
};

// What is nowhere is for the driver to refuse.
gpu_outcome gpu_stream::ask_for_end(bool& is_pageable, const void* p) const noexcept {
  if (p == nullptr) return {};
  return {device_.api().is_pageable(p, &is_pageable), "cudaPointerGetAttributes"};
}

// Whether the driver would do it in its turn and block nobody. What is short does so, in a stream
// of ours that has nothing to do: it is done at once, and whoever might write its source has done
// so. Somebody else's may wait for what CUDA's default stream does. And a capture gets what it
// would get without the library: what copies through a block is called once.
gpu_outcome gpu_stream::ask_who_copies(copying& c, bool& driver) const noexcept {
  driver = c.bytes == 0;
  if (driver) return {};
  gpu_outcome o = ask_for_end(c.from_pageable, c.from);
  if (!o.failed()) o = ask_for_end(c.to_pageable, c.to);
  driver = !c.is_pageable();
  if (o.failed() || driver) return o;
  o = ask_for_capture(driver);
  if (o.failed() || driver || c.bytes > short_copy || is_adopted_) return o;
  if (!is_nobodys(device_.api().peek_at_last_error())) return o;  // the answer would replace it
  device_.prepare_to_look();
  const gpu_outcome idle{device_.answer(device_.api().stream_query(native())), "cudaStreamQuery"};
  driver = !idle.failed();
  return idle.code == gpu_errors::not_ready ? gpu_outcome{} : idle;
}

gpu_outcome gpu_stream::give_copy(void* to, const void* from, std::size_t bytes) {
  is_bare_ = true;
  return {device_.api().memcpy_async(to, from, bytes, native()), "cudaMemcpyAsync"};
}

void gpu_stream::copy(void* to, const void* from, std::size_t bytes) {
  copying c{to, from, bytes};
  try {
    give([&]() -> gpu_outcome {
      bool driver = false;
      const gpu_outcome o = ask_who_copies(c, driver);
      if (o.failed()) return o;
      return driver ? give_copy(to, from, bytes) : copy_on_host(c);
    });
  } catch (...) {
    if (c.memory != nullptr) take_back(*c.memory);
    throw;
  }
}

// From now on nothing that was given of the copy uses either end of it, not even the driver.
void gpu_stream::take_back(loan& memory) noexcept {
  memory.end();
  gpu_outcome o;
  {
    const std::lock_guard turn(order_);
    if (device_.over() != nullptr || native() == nullptr) return;  // or it may just be closed
    o = device_.make_current();
    if (!o.failed()) o = synchronize();
  }
  if (!o.failed()) return;
  device_.forget_last_error();
  device_.ends_with(o, name());
}

// One piece after the other through the stream's one block: whoever fills it or empties it comes in
// the stream's order, too.
gpu_outcome gpu_stream::copy_on_host(copying& c) {
  gpu_outcome o;
  if (block_ == nullptr && !c.is_on_host()) block_ = device_.take_block(o);
  if (o.failed()) return o;
  c.memory = std::make_shared<loan>();
  for (std::size_t done = 0; done != c.bytes && !o.failed();) {
    const std::size_t n = std::min(c.bytes - done, gpu_device::block_bytes);
    o = give_piece(c, done, n);
    done += n;
    limit_calls();
  }
  // What the driver still does with it nobody will know.
  if (o.failed() && is_adopted_) block_ = nullptr;
  return o;
}

gpu_outcome gpu_stream::give_piece(const copying& c, std::size_t at, std::size_t n) {
  void* const to = static_cast<std::byte*>(c.to) + at;
  const void* const from = static_cast<const std::byte*>(c.from) + at;
  auto call =
      std::make_unique<gpu_call>(std::make_unique<host_copy>(c.memory, c.to_pageable ? to : block_,
                                                             c.from_pageable ? from : block_, n),
                                 executor_ref());
  gpu_outcome o;
  if (!c.from_pageable) o = give_copy(block_, from, n);
  if (o.failed()) return o;
  o = launch(call);
  if (call != nullptr) gpu_call::refuse(std::move(call), !is_sticky(o.code));
  if (!o.failed() && !c.to_pageable) o = give_copy(to, block_, n);
  return o;
}

void* gpu_stream::allocate(std::size_t bytes) {
  void* p = nullptr;
  give([&]() -> gpu_outcome {
    is_bare_ = true;
    return {device_.api().malloc_async(&p, bytes, native()), "cudaMallocAsync"};
  });
  return p;
}

// Also after it was closed: the memory belongs to what was given before. What goes wrong is the
// next point's.
void gpu_stream::deallocate(void* p) noexcept {
  if (end_by_fork() != nullptr) return;  // who has the locks may not be here
  gpu_outcome o;
  {
    const std::lock_guard turn(order_);
    if (device_.over() != nullptr || native() == nullptr) return;
    if (device_.make_current().failed()) device_.forget_last_error();  // freeing may work yet
    is_bare_ = true;
    o = {device_.api().free_async(p, native()), "cudaFreeAsync"};
  }
  if (!o.failed()) return;
  device_.forget_last_error();
  if (!device_.ends_with(o, name())) owe(device_.failure(o, name()));
}

void gpu_stream::owe(std::exception_ptr e) noexcept {
  other_errors others(name());
  const std::lock_guard turn(order_);
  others.add_behind(owed_, std::move(e));
}

// A host's, or one behind which nothing could be recorded.
void gpu_stream::refuse_without_event(const point& p) const {
  if (dynamic_cast<const gpu_point*>(&p) == nullptr) {
    throw device_mismatch_error("event", device_.where(), device::host());
  }
  throw device_error(0, "",
                     name() +
                         " cannot wait for work behind which no event could be recorded: "
                         "co_await it instead");
}

void gpu_stream::wait(point& p) {
  if (p.is_reached()) return;
  CUevent_st* const e = p.native();
  if (e == nullptr) refuse_without_event(p);
  gpu_outcome of_other;
  give_uncaptured([&]() -> gpu_outcome {
    if (p.is_reached()) return {};
    is_bare_ = true;
    const gpu_outcome o{device_.api().stream_wait_event(native(), e), "cudaStreamWaitEvent"};
    if (!is_sticky(o.code) || has_ended()) return o;
    of_other = o;
    return {};
  });
  if (of_other.failed()) std::rethrow_exception(device_.error_of(of_other, name()));
}

// Whether a sticky error is this device's, and not the other one's that was part of the call.
bool gpu_stream::has_ended() noexcept {
  device_.prepare_to_look();
  return is_sticky(device_.answer(device_.api().stream_query(native())));
}

// By who has its turn.
gpu_outcome gpu_stream::synchronize() const noexcept {
  device_.prepare_to_look();
  return {device_.api().stream_synchronize(native()), "cudaStreamSynchronize"};
}

point_ref gpu_stream::record() {
  point_ref end;
  give_uncaptured([&] {
    gpu_outcome o;
    end = point_ref(put_point(o, asked_for::by_somebody));
    return o;
  });
  return end;
}

// By who has its turn. Throws if all is over, also what was given: when the device is lost a
// callable may still run, and a stream that is closed may still have work.
void gpu_stream::must_have_work() const {
  if (!may_still_call()) device_.must_work();
  if (native() == nullptr) throw_shut_down();
}

// By who has its turn. What goes wrong is that place's, unless it ends the device.
point_ref gpu_stream::place_behind_all(gpu_outcome& o, gpu_outcome& again, other_errors& others) {
  bool is_capturing = false;
  o = device_.make_current();
  if (!o.failed()) o = ask_for_capture(is_capturing);
  if (is_capturing) refuse_capture();
  if (is_closed_.load(relaxed)) others.add_behind(owed_, captured(&throw_shut_down));
  point_ref end;
  if (!o.failed()) end = point_ref(put_point(o, asked_for::by_somebody));
  if (end || is_sticky(o.code) || o.code == gpu_errors::runtime_unloading) return end;
  others.add_behind(owed_, device_.error_of(o, name()));
  again = device_.make_current();
  if (!again.failed()) end = point_ref(put_point(again, asked_for::by_somebody));
  return end;
}

// For want of memory it is waited here.
point_ref gpu_stream::record_to_wait() try {
  if (end_by_fork() != nullptr) device_.must_work();  // who has the locks may not be here
  point_ref end;
  gpu_outcome o;
  gpu_outcome again;
  other_errors others(name());
  {
    const std::lock_guard turn(order_);
    must_have_work();
    if (device_.over() == nullptr) end = place_behind_all(o, again, others);
    if (!end) {
      gpu_point& bare = *device_.take_bare_point();
      put_bare_point(bare, asked_for::by_somebody);
      end = point_ref(&bare);
    }
  }
  if (o.failed()) device_.forget_last_error();
  device_.ends_with(o, name());
  device_.ends_with(again, name());
  return end;
} catch (const std::bad_alloc&) {
  if (wait_instead()) throw;
  std::rethrow_exception(device_.over()->error);
}

// By who has its turn, with the device current. The result is the caller's share, if somebody asked
// for it; null: `o` failed.
gpu_point* gpu_stream::put_point(gpu_outcome& o, asked_for by) {
  gpu_point* const p = device_.take_point(o);
  if (p == nullptr) return nullptr;
  o = {device_.api().event_record(p->native(), native()), "cudaEventRecord"};
  if (o.failed()) {
    device_.forget_last_error();
    p->spoil(o);
    device_.give_back(*p);
    return nullptr;
  }
  p->begin(calls_.take(), std::exchange(owed_, nullptr), by == asked_for::here);
  is_bare_ = false;
  if (by == asked_for::by_somebody) p->keep();
  append(*p);
  return p;
}

bool gpu_stream::try_to_put_point(gpu_outcome& o) noexcept try {
  return put_point(o, asked_for::here) != nullptr;
} catch (const std::bad_alloc&) {
  return false;
}

// For what was given and has no point behind it: reached when the stream has nothing more to do.
void gpu_stream::put_bare_point(gpu_point& p, asked_for by, gpu_outcome failure) noexcept {
  p.begin(calls_.take(), std::exchange(owed_, nullptr), by == asked_for::here);
  p.failure_ = failure;
  if (by == asked_for::by_somebody) p.keep();
  append(p);
}

void gpu_stream::append(gpu_point& p) noexcept {
  {
    const std::lock_guard locked(list_lock_);
    points_.push(p);
    if (watched_ != nullptr) return;
    watched_ = shared_from_this();
  }
  engine::the().watch(*this);
}

gpu_outcome gpu_stream::ask_for_capture(bool& yes) const noexcept {
  return {device_.api().stream_is_capturing(native(), &yes), "cudaStreamIsCapturing"};
}

void gpu_stream::refuse_capture() const {
  throw device_error(0, "",
                     name() +
                         " is being captured: what is captured does not run, so nothing can "
                         "be ordered by it, and its events are never reached");
}

int gpu_stream::begin_submission() {
  give_uncaptured([&] {
    ++submissions_;
    return gpu_outcome();
  });
  return device_.api().peek_at_last_error();
}

// An error that has been told is taken from the thread, or the next one of the same number would
// not be seen. Not one that is beside an older one: that may be of a body around this one, unless
// it is nobody's. That something is not ready, which the body may have asked, is no error.
lane::submitted gpu_stream::end_submission(int error_before) noexcept {
  lane::submitted all;
  if (device_.over() == nullptr) {
    const int now = device_.api().peek_at_last_error();
    if (now != error_before && now != gpu_errors::success) {
      if (now != gpu_errors::not_ready) {
        all.error = device_.error_of({now, "a call of the body"}, name());
      }
      if (is_nobodys(error_before)) device_.forget_last_error();
    }
  }
  record_behind_body(all);
  return all;
}

// What was given has to be ordered, or done. That the device is lost takes the place of an error of
// the body's; the point says it, if a callable may still run there.
void gpu_stream::record_behind_body(lane::submitted& all) noexcept try {
  if (const gpu_end* const forked = end_by_fork()) {  // who has the locks may not be here
    all.error = forked->error;
    return;
  }
  gpu_outcome o;
  gpu_outcome again;
  bool is_over = false;
  {
    const std::lock_guard turn(order_);
    --submissions_;
    is_over = device_.over() != nullptr;
    if (!is_over) {
      if (o = device_.make_current(); !o.failed()) {
        all.end = point_ref(put_point(o, asked_for::by_somebody));
      }
      if (all.end) return;
      all.end = point_ref(put_point(again, asked_for::by_somebody));
      if (!all.end) again = synchronize();
      is_over = is_final(again.code);
    }
    if (!all.end && (is_over ? may_still_call() : again.failed())) {
      gpu_point& bare = *device_.take_bare_point();
      put_bare_point(bare, asked_for::by_somebody, is_over ? again : gpu_outcome());
      all.end = point_ref(&bare);
    }
  }
  device_.forget_last_error();
  device_.ends_with(again, name());
  if (is_over) {
    all.error = all.end ? nullptr : device_.over()->error;
    return;
  }
  std::exception_ptr e = device_.failure(o, name());
  if (all.error == nullptr || device_.over() != nullptr) all.error = std::move(e);
} catch (...) {
  std::exception_ptr why = std::current_exception();
  if (!wait_instead()) why = device_.over()->error;
  if (all.error == nullptr || device_.over() != nullptr) all.error = std::move(why);
}

// For want of memory. False: the device is lost, and no callable runs there any more.
bool gpu_stream::wait_instead() noexcept {
  gpu_outcome o;
  {
    const std::lock_guard turn(order_);
    if (device_.over() == nullptr && native() != nullptr) o = synchronize();
  }
  if (o.failed()) {
    device_.forget_last_error();
    device_.ends_with(o, name());
  }
  if (device_.over() == nullptr) return true;
  while (!are_all_settled()) sleep_for(std::chrono::microseconds(50));
  return false;
}

bool gpu_stream::are_all_settled() noexcept {
  const std::lock_guard turn(order_);
  const std::lock_guard locked(list_lock_);
  bool all = calls_.are_settled();
  for (gpu_point* p = points_.front(); p != nullptr; p = p->next_) all &= p->calls_.are_settled();
  return all;
}

// Behind what was given, if there are no callables. What is captured does not run, and a point
// would spoil the capture. Callables given before it need a point all the same; one without an
// event would not help, for then the stream is asked, which spoils it as well. Somebody else's
// stream may be gone by now.
bool gpu_stream::needs_point(pending looked_for) const noexcept {
  if (device_.over() != nullptr) return false;
  if (looked_for == pending::given && (is_adopted_ || !is_bare_)) return false;
  bool is_capturing = false;
  if (ask_for_capture(is_capturing).failed()) device_.forget_last_error();  // recording says it too
  return !is_capturing;
}

void gpu_stream::close(pending looked_for) noexcept {
  if (end_by_fork() != nullptr) return;  // as above
  gpu_outcome o;
  {
    const std::lock_guard turn(order_);
    if (is_closed_.exchange(true, relaxed) && calls_.empty()) return;
    if (native() == nullptr) return;
    if (calls_.empty() && !needs_point(looked_for)) return;
    if (device_.over() == nullptr) {
      const no_last_error kept(device_.api());
      o = device_.make_current();
    }
    if (device_.over() != nullptr || o.failed() || !try_to_put_point(o)) {
      put_bare_point(*std::exchange(last_resort_, nullptr), asked_for::here);
    }
  }
  if (o.failed()) device_.ends_with(o, name());
}

// By who has its turn, on a lost device.
bool gpu_stream::may_still_call() const noexcept { return !calls_.empty() || is_watched(); }

bool gpu_stream::is_watched() const noexcept {
  const std::lock_guard locked(list_lock_);
  return watched_ != nullptr;
}

bool gpu_stream::is_in_use() noexcept {
  if (end_by_fork() == nullptr) {  // as above
    const std::lock_guard turn(order_);
    if (submissions_ != 0) return true;
  }
  return is_watched();
}

bool gpu_stream::finish() noexcept {
  if (end_by_fork() != nullptr) return true;  // as above
  CUstream_st* s = nullptr;
  void* block = nullptr;
  gpu_point* unused = nullptr;
  {
    const std::lock_guard turn(order_);
    const std::lock_guard locked(list_lock_);
    if (!points_.empty() || submissions_ != 0) return false;
    device_.begin_destroy();
    s = native_.exchange(nullptr, relaxed);
    block = std::exchange(block_, nullptr);
    unused = std::exchange(last_resort_, nullptr);
  }
  if (unused != nullptr) {
    unused->spoilt_ = false;  // its event is as good as before
    unused->reach(nullptr);   // and it goes back
  }
  if (block != nullptr) device_.give_back_block(block);
  if (!is_adopted_) device_.destroy(s);
  device_.end_destroy();
  return true;
}

polled::answer gpu_stream::poll() noexcept {
  std::shared_ptr<gpu_stream> me;
  device_.prepare_to_look();
  bool any = false;
  while (gpu_point* const p = first_or_let_go(me)) {
    if (!is_past() || !p->calls_.are_settled()) return {any, true};
    if (p == past_) past_ = nullptr;
    tell(*p);
    any = true;
  }
  if (is_closed_.load(relaxed)) finish();
  return {any, false};
}

gpu_point* gpu_stream::first_or_let_go(std::shared_ptr<gpu_stream>& me) noexcept {
  const std::lock_guard locked(list_lock_);
  if (points_.empty()) me = std::move(watched_);
  return points_.front();
}

bool gpu_stream::is_past() noexcept {
  if (past_ != nullptr || device_.over() != nullptr) return true;
  bool past = false;
  while (!look(past)) {
  }
  return past;
}

// Null: none has; `last` is the last that waits.
gpu_point* gpu_stream::first_with_event(gpu_point*& last) noexcept {
  const std::lock_guard locked(list_lock_);
  last = points_.back();
  gpu_point* p = points_.front();
  while (p != nullptr && p->spoilt_) p = p->next_;
  return p;
}

// One question. False: it failed, so another one has to be asked.
bool gpu_stream::look(bool& past) noexcept {
  gpu_point* last = nullptr;
  gpu_point* const asked = first_with_event(last);
  gpu_outcome o = asked == nullptr
                      ? gpu_outcome{device_.api().stream_query(native()), "cudaStreamQuery"}
                      : gpu_outcome{device_.api().event_query(asked->native()), "cudaEventQuery"};
  o.code = device_.answer(o.code);
  past = !o.failed() || (o.code != gpu_errors::not_ready && device_.ends_with(o, name()));
  if (past || o.code == gpu_errors::not_ready) {
    if (past) past_ = asked == nullptr ? last : asked;
    failed_looks_ = 0;
    return true;
  }
  device_.forget_last_error();  // it is told at the place
  if (asked != nullptr) {
    spoil(*asked, o);
    return false;
  }
  past = !asks_again();
  if (past) past_ = last;
  return true;
}

// The stream, which did not answer. Somebody else's may be gone, and what is captured does not run.
bool gpu_stream::asks_again() noexcept {
  bool is_capturing = false;
  if (ask_for_capture(is_capturing).failed()) device_.forget_last_error();
  if (!is_adopted_ && !is_capturing && ++failed_looks_ != most_failed_looks) return true;
  failed_looks_ = 0;
  return false;
}

void gpu_stream::spoil(gpu_point& p, gpu_outcome why) noexcept {
  const std::lock_guard locked(list_lock_);
  p.spoil(why);
}

// By poll: the oldest.
void gpu_stream::tell(gpu_point& p) noexcept {
  {
    const std::lock_guard locked(list_lock_);
    points_.pop();
  }
  std::exception_ptr e = error_of(p);
  if (p.inner_) {
    add_error(carried_, std::move(e), name());
    e = nullptr;
  }
  p.reach(std::move(e));  // p may be in use again
}

std::exception_ptr gpu_stream::error_of(gpu_point& p) noexcept {
  const gpu_end* const over = device_.over();
  std::exception_ptr first;
  if (over != nullptr) {
    first = over->error;
  } else if (p.failure_.failed()) {
    first = device_.failure(p.failure_, name());
  }
  if (!p.inner_) add_error(first, std::exchange(carried_, nullptr), name());
  add_error(first, std::exchange(p.owed_, nullptr), name());
  p.calls_.dispose([&](std::exception_ptr e) { add_error(first, std::move(e), name()); });
  return p.inner_ && over != nullptr ? nullptr : first;
}

bool gpu_stream::can_block() const noexcept {
  const std::lock_guard locked(list_lock_);
  return !points_.empty() && !points_.front()->spoilt_ && device_.over() == nullptr;
}

void gpu_stream::hold() noexcept {
  const std::lock_guard locked(list_lock_);
  if (++holds_ == 1) held_ = shared_from_this();
}

void gpu_stream::let_go() noexcept {
  std::shared_ptr<gpu_stream> me;  // ends after the lock
  const std::lock_guard locked(list_lock_);
  if (--holds_ == 0) me = std::move(held_);
}

void gpu_stream::block_on_oldest() noexcept {
  point_ref kept;
  gpu_point* p = nullptr;
  {
    const std::lock_guard locked(list_lock_);
    p = points_.front();
    if (p == nullptr || p->spoilt_ || device_.over() != nullptr) return;
    kept = point_ref::more(*p);
    device_.begin_block();
  }
  device_.prepare_to_look();
  const gpu_outcome o{device_.api().event_synchronize(p->native()), "cudaEventSynchronize"};
  if (o.failed() && !device_.ends_with(o, name())) spoil_if_first(*p, o);
  kept = point_ref();  // while who shuts down still waits for us: it may go back to the device
  device_.end_block();
}

void gpu_stream::spoil_if_first(gpu_point& p, gpu_outcome why) noexcept {
  const std::lock_guard locked(list_lock_);
  if (points_.front() == &p) p.spoil(why);
}

}  // namespace turnstile::detail
