// sync_wait.hpp - wait for an awaitable on a plain thread.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/branch.hpp>
#include <turnstile/detail/trampoline.hpp>

#include <coroutine>
#include <cstdint>
#include <utility>

namespace turnstile {
namespace detail {

// Shape    word  0 --block--> parked; whichever of them --ended--> over
//
// Edges    Y1  word.exchange(seq_cst) in ended -> load(acquire) in has_ended: the result. seq_cst,
//              because notify_one looks whether anybody waits: its look must not come first.
// Dangers  After the exchange the waiting thread may have returned, and this object be gone.
//          Notifying uses the address only, and a waiter looks at the word again whenever it wakes.
//          Only who is parked is notified: libstdc++ makes the system call as soon as anybody waits
//          whose word's address has the same hash, such as a pool's idle worker.
// Proof    test/schedule (every scenario that waits with it)
class thread_blocker : public branch_end {
 public:
  thread_blocker() noexcept : branch_end(&ended_here) {}

  bool has_ended() const noexcept { return word_.load(acquire) == over; }  // Y1
  // Of a thread_blocker.
  static bool is_over(const void* self) noexcept {
    return static_cast<const thread_blocker*>(self)->has_ended();
  }
  void block() noexcept {
    std::uint32_t running = 0;
    word_.compare_exchange_strong(running, parked, relaxed, relaxed);
    while (!has_ended()) word_.wait(parked, relaxed);
  }

 private:
  static constexpr std::uint32_t parked = 1;
  static constexpr std::uint32_t over = 2;

  static std::coroutine_handle<> ended_here(branch_end& self) noexcept {
    atomic<std::uint32_t>& word = static_cast<thread_blocker&>(self).word_;
    if (word.exchange(over, seq_cst) == parked) word.notify_one();  // Y1
    return {};
  }

  atomic<std::uint32_t> word_{0};
};

}  // namespace detail

/// Runs `a` and blocks the calling thread until it has ended. References come back as references,
/// but a `T&&` as a T.
///
/// Memory     the caller sees what `a` wrote
/// Runs on    the calling thread until `a` first suspends
/// Throws     what `a` throws; a wait that the caller's own holds would make endless is refused
/// Cancel     whatever `a` waits for in the library, by what surrounds the caller
/// Lifetime   `a` is referred to, and must outlive the call
/// Progress   blocks a thread. On a pool's thread it can starve the pool, which nothing detects.
///            Coroutines without an executor that were about to resume on this thread do so on
///            thread_pool::shared()
template <detail::awaitable A>
detail::kept<detail::awaited<A>> sync_wait(A&& a) {
  detail::thread_blocker end;
  auto root = detail::make_branch<A&&>(std::forward<A>(a));
  root.prepare(end, detail::share(detail::here().chain));
  {
    const detail::on_top of_the_caller;
    detail::trampoline base(&detail::thread_blocker::is_over, &end);
    const detail::not_in_fiber coroutines_run_here;
    detail::begin_turn();
    root.run();
  }
  if (!end.has_ended()) {
    detail::before_blocking();
    end.block();
  }
  if (detail::chain_frame* const left = root.take_left()) detail::adopt_holds(*left);
  return root.got().take();
}

}  // namespace turnstile
