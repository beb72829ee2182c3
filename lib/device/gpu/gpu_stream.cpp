// gpu_stream.cpp - making a stream of a GPU, giving work to it, and its end.

#include "device/gpu/gpu_stream.hpp"

#include "device/gpu/gpu_runtime.hpp"
#include "device/gpu/place_errors.hpp"

#include <turnstile/thread_pool.hpp>

#include <mutex>
#include <utility>

namespace turnstile::detail {

namespace {

constexpr int most_calls = 256;  // kept without a point behind them

}  // namespace

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
  if (left != nullptr) report_untaken(std::move(left), name());
}

void gpu_stream::must_be_open() const {
  if (is_closed_.load(relaxed)) throw_shut_down();
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

// A host's, or one behind which nothing could be recorded.
void gpu_stream::refuse_without_event(const point& p) const {
  const auto* const of_gpu = dynamic_cast<const gpu_point*>(&p);
  if (of_gpu == nullptr) throw device_mismatch_error("event", device_.where(), device::host());
  device_.must_work();
  of_gpu->device_.must_work();
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

gpu_outcome gpu_stream::ask_for_capture(bool& yes) const noexcept {
  return {device_.api().stream_is_capturing(native(), &yes), "cudaStreamIsCapturing"};
}

void gpu_stream::refuse_capture() const {
  throw device_error(0, "",
                     name() +
                         " is being captured: what is captured does not run, so nothing can "
                         "be ordered by it, and its events are never reached");
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
    if (!points_.empty() || is_telling_ || submissions_ != 0) return false;
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

}  // namespace turnstile::detail
