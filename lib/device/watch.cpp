// watch.cpp - looking seldom while others look, more often when nobody does, and not at all when
// nothing is pending.
//
// Two threads. The one that blocks in the driver can do nothing else meanwhile, and nobody can call
// it back; so it does that only, and the watch is there for what comes then. The process does not
// wait for it.

#include "device/watch.hpp"

#include "device/engine.hpp"

#include <turnstile/detail/trampoline.hpp>
#include <turnstile/thread_pool.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace turnstile::detail {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr nanoseconds shortest_watch_nap = 100us;  // that long nobody may have looked
constexpr nanoseconds longest_watch_nap = 1ms;
constexpr nanoseconds before_blocking = 1ms;  // of waiting for one lane only
constexpr nanoseconds stays_awake = 2ms;  // after the last one: to be woken costs who submits 5 us

class watch {
 public:
  watch() : runs_([this] { run(); }) {}
  watch(const watch&) = delete;
  watch& operator=(const watch&) = delete;

  void wake() noexcept {
    if (!rests_.load(seq_cst)) return;  // E2
    const std::lock_guard locked(lock_);
    called_.notify_one();
  }

  void end() noexcept {
    {
      std::unique_lock locked(lock_);
      is_over_ = true;
      called_.notify_all();
      called_.wait(locked, [this] { return !blocker_tells_; });
    }
    runs_.join();
  }

 private:
  void run() noexcept {
    while (!rest()) keep_watch();
  }

  // True: it is over.
  bool rest() noexcept {
    std::unique_lock locked(lock_);
    rests_.store(true, seq_cst);  // E2
    called_.wait(locked, [this] { return is_over_ || engine_.has_pending(); });
    rests_.store(false, relaxed);
    return is_over_;
  }

  // False: it is over.
  bool nap(nanoseconds time) noexcept {
    std::unique_lock locked(lock_);
    return !called_.wait_for(locked, time, [this] { return is_over_; });
  }

  void keep_watch() noexcept {
    nanoseconds waited{0};
    clock::time_point last_pending = clock::now();
    std::uint32_t seen = engine_.looks();
    while (nap(std::clamp<nanoseconds>(waited / 8, shortest_watch_nap, longest_watch_nap))) {
      const clock::time_point now = clock::now();
      if (!engine_.has_pending()) {
        if (now - last_pending > stays_awake) return;
        waited = 0ns;
        continue;
      }
      const bool others_look = engine_.looks() != seen;
      const bool looked_in_vain = !others_look && !engine_.poll();
      waited = looked_in_vain ? waited + (now - last_pending) : 0ns;
      last_pending = now;
      seen = engine_.looks();
      if (waited > before_blocking && block_for_one()) waited = 0ns;
    }
  }

  // Blocks another thread in the driver, and rests until that is over or more is pending. False:
  // there are several lanes, or the one there is has no such call.
  bool block_for_one() noexcept {
    // Counted first: who comes after that ends the rest (E2).
    const std::uint32_t lanes = engine_.lanes_ever();
    polled* const l = engine_.hold_only_one();
    if (l == nullptr) return false;
    if (!give_to_blocker(*l)) {
      l->let_go();
      return false;
    }
    std::unique_lock locked(lock_);
    rests_.store(true, seq_cst);  // E2
    called_.wait(locked, [&] {
      return is_over_ || blocked_on_ == nullptr || engine_.lanes_ever() != lanes;
    });
    rests_.store(false, relaxed);
    return true;
  }

  bool give_to_blocker(polled& l) noexcept {
    const std::lock_guard locked(lock_);
    if (blocked_on_ != nullptr) return false;
    if (!has_blocker_) {
      try {
        std::thread([this] { block(); }).detach();
      } catch (const std::system_error&) {
        return false;
      }
      has_blocker_ = true;
    }
    blocked_on_ = &l;
    to_block_.notify_one();
    return true;
  }

  void block() noexcept {
    std::unique_lock locked(lock_);
    for (;;) {
      to_block_.wait(locked, [this] { return blocked_on_ != nullptr; });
      polled& l = *blocked_on_;
      locked.unlock();
      l.block_on_oldest();
      locked.lock();
      if (is_over_) return;  // soon there is no shared pool to tell anybody on
      blocker_tells_ = true;
      locked.unlock();
      l.let_go();
      engine_.poll();
      locked.lock();
      blocker_tells_ = false;
      blocked_on_ = nullptr;
      called_.notify_all();
    }
  }

  engine& engine_ = engine::the();
  std::mutex lock_;
  std::condition_variable called_;
  std::condition_variable to_block_;
  bool is_over_ = false;          // under the lock
  bool has_blocker_ = false;      // by the watch
  polled* blocked_on_ = nullptr;  // under the lock
  bool blocker_tells_ = false;    // under the lock
  atomic<bool> rests_{false};
  std::thread runs_;  // the last one: it uses the others
};

// The watch ends before the shared pool does; the object and what the blocked thread uses stay.
class only_watch {
 public:
  only_watch() noexcept {
    try {
      thread_pool::shared();
      it_ = new watch;
    } catch (const std::exception&) {
    }
    running.store(it_, seq_cst);
  }
  ~only_watch() {
    running.store(nullptr, seq_cst);
    if (it_ != nullptr && ::getpid() == process_) it_->end();  // a forked child has no such thread
  }
  only_watch(const only_watch&) = delete;
  only_watch& operator=(const only_watch&) = delete;

  static inline constinit atomic<watch*> running{nullptr};

 private:
  watch* it_ = nullptr;
  const pid_t process_ = ::getpid();
};

}  // namespace

void start_watch() noexcept { static const only_watch it; }

void wake_watch() noexcept {
  start_watch();
  if (watch* const w = only_watch::running.load(seq_cst)) w->wake();
}

}  // namespace turnstile::detail
