// stream.hpp - work that a device does in the order it was given, and places in that order to wait
// for.
//
// Behind it: lib/device.
#pragma once

#include <turnstile/detail/awaitable.hpp>
#include <turnstile/detail/completion_awaiter.hpp>
#include <turnstile/detail/lane.hpp>
#include <turnstile/device.hpp>
#include <turnstile/executor.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace turnstile {

namespace detail {
struct stream_access;
}

/// A place in the order of a stream: what was given to it before. A default-constructed event is
/// reached.
///
/// Threads    any member from any thread; copies are the same event. Asking for a GPU's may change
///            the calling thread's current device, and makes its capture mode relaxed, so that no
///            capture ends with an error for it
/// Memory     whatever finds it ready, or resumes after awaiting it, sees what the work before it
///            wrote, in host, pinned and managed memory
/// Progress   does not block a thread
/// Resumes    on the executor the coroutine was running on; without one on thread_pool::shared().
///            Those that wait for one stream resume in the order of their places
/// Throws     what went wrong between the place before it and this one: what a callable threw, or
///            device_error
/// Cancel     a stop is ignored: what the device still works on must outlive that work
/// Lifetime   does not keep the stream, and may outlive it
class event {
 public:
  event() noexcept = default;

  /// Never blocks.
  bool ready() const noexcept;

  auto operator co_await() const noexcept { return detail::completion_awaiter(point_); }

 private:
  friend class stream;
  template <class R>
  friend class execution_handle;
  explicit event(detail::point_ref p) noexcept : point_(std::move(p)) {}

  detail::point_ref point_;
};

/// Settings that most streams leave alone. Read inside the constructor they are passed to.
struct stream_options {
  executor_ref executor = {};  ///< host device: does the work; default: thread_pool::shared()
  bool polled = false;         ///< host device: completions are looked for, as on a GPU
};

/// Work for one device, done in the order in which it was given.
///
/// On the host device an executor does it, one piece after the other; what is given to a GPU runs
/// there.
///
/// Threads    any member from any thread, but for moves and the end. What is given to a GPU leaves
///            that the calling thread's current device; a body that launches elsewhere as well sets
///            it itself
/// Order      what one stream was given is done in that order; streams wait for each other only
///            where they are told to
/// Progress   giving work takes a lock for a list splice and, on a GPU, the time of the driver's
///            call; CUDA blocks a thread that gives more than about a thousand launches ahead
/// Throws     device_error if the device is not available, lost, or refuses; std::invalid_argument
///            if it is to be on any(); bad_alloc
/// Lifetime   destroying it waits for nothing: what was given is still done, and what that uses
///            must live until then. A moved-from stream may only be assigned to or destroyed
class stream {
 public:
  explicit stream(device where = device::host(), const stream_options& options = {});
  stream(stream&&) noexcept = default;
  stream& operator=(stream&&) noexcept = default;

  device where() const noexcept { return lane_->where(); }
  /// For launches and calls of CUDA; null on the host device. What is its thread's last error after
  /// a section's body, and was not before, is that execution's error; if the body has thrown
  /// another one, on_unobserved_error hears of it. The answer that something is not ready may take
  /// its place: a body that asks checks its launches first.
  CUstream_st* native_handle() const noexcept { return lane_->native(); }

  /// Calls `f()` after everything given before. On a GPU as a host function: it must not call CUDA,
  /// and what is given later waits for it. What it throws goes to the next place that is recorded
  /// in this stream, awaited or not. It must not return an awaitable, nor wait for the thread that
  /// gives it.
  ///
  /// Throws     also device_error if a GPU's stream is being captured: `f` would be called as often
  ///            as the graph is launched
  /// Lifetime   `f` is kept until it has run, and is not destroyed on a thread of the driver's
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  void enqueue(F&& f) {
    static_assert(!detail::awaitable<std::invoke_result_t<std::decay_t<F>&>>,
                  "what is given to a stream is called, and what it returns is not awaited");
    lane_->enqueue(std::make_unique<work<std::decay_t<F>>>(std::forward<F>(f)));
  }

  /// Copies from anywhere to anywhere that the device can reach; both must live until that is done.
  /// Memory of the host that is not pinned is read and written in its turn as well, and no thread
  /// waits for what comes before: it goes through 1 MiB of pinned memory, piece by piece, which
  /// takes longer. Each piece is a callable, of which CUDA runs one at a time, and a copy; CUDA
  /// blocks a thread that gives more than about 1000 of those ahead. Like asking a GPU's event, it
  /// may make the calling thread's capture mode relaxed.
  void copy(void* to, const void* from, std::size_t bytes) { lane_->copy(to, from, bytes); }

  /// This place in the order. When it throws, what was given before may not be done.
  event record() { return event(lane_->record()); }

  /// What is given from now on does not begin before `e` is reached. No thread waits for that.
  ///
  /// Throws     device_mismatch_error if this stream's device cannot wait for it: a GPU does not
  ///            wait for the host device; device_error if nothing could be recorded behind the
  ///            execution that `e` stands for, and its device is not lost. In both cases co_await
  ///            it instead
  void wait(const event& e) {
    if (e.point_) lane_->wait(*e.point_);
  }

  /// co_await: waits for everything given until then. See `event`; allocates nothing. An error
  /// comes when all of that is done, also if the wait itself cannot be asked for; only a GPU's
  /// stream that is being captured refuses it at once, and the host device if there is no memory.
  auto completion() noexcept { return detail::completion_awaiter(lane_); }

 private:
  friend struct detail::stream_access;

  template <class F>
  struct work final : detail::lane_work {
    template <class G>
    explicit work(G&& g) : f(std::forward<G>(g)) {}
    void run() override { static_cast<void>(std::invoke(f)); }
    F f;
  };

  explicit stream(detail::lane_ref l) noexcept : lane_(std::move(l)) {}

  detail::lane_ref lane_;
};

namespace detail {

// The private side of a stream.
struct stream_access {
  static detail::lane_ref lane_of(const stream& s) noexcept { return s.lane_; }
  static stream on(detail::lane_ref l) noexcept { return stream(std::move(l)); }
};

}  // namespace detail

}  // namespace turnstile
