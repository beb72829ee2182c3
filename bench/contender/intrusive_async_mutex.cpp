// A mutex for coroutines that is one atomic word: free, held, or the last of those who wait, each
// of whom knows who came before. Who releases takes all of them, turns them round, and serves them
// in that order. The next one goes on within release, on that thread; or is posted to the pool.

#include "contender/coroutines_on_pool.hpp"
#include "lines/lines.hpp"

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

namespace {

enum class next_goes_on { in_place, on_the_pool };

template <next_goes_on Where>
class intrusive_async_mutex {
 public:
  static constexpr std::string_view name =
      Where == next_goes_on::in_place ? "intrusive_async_mutex" : "intrusive_async_mutex_posted";

  explicit intrusive_async_mutex(turnstile::thread_pool& pool) noexcept : pool_(pool) {}

  bool try_acquire() noexcept {
    std::uintptr_t seen = free;
    return word_.compare_exchange_strong(seen, held, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  // False: it was free, and is the caller's now.
  bool get_in_line(bench::waiting_coroutine& w) noexcept {
    std::uintptr_t seen = word_.load(std::memory_order_relaxed);
    for (;;) {
      if (seen == free) {
        if (word_.compare_exchange_weak(seen, held, std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
          return false;
        }
      } else {
        w.behind = waiter(seen);
        if (word_.compare_exchange_weak(seen, reinterpret_cast<std::uintptr_t>(&w),
                                        std::memory_order_release, std::memory_order_relaxed)) {
          return true;
        }
      }
    }
  }

  void release() noexcept {
    if (ordered_ == nullptr) {
      std::uintptr_t seen = held;
      if (word_.compare_exchange_strong(seen, free, std::memory_order_release,
                                        std::memory_order_relaxed)) {
        return;
      }
      ordered_ = reversed(waiter(word_.exchange(held, std::memory_order_acquire)));
    }
    bench::waiting_coroutine* const next = ordered_;
    ordered_ = next->behind;
    if constexpr (Where == next_goes_on::in_place) {
      next->resume_here();
    } else {
      pool_.post(*next);
    }
  }

 private:
  static constexpr std::uintptr_t held = 0;
  static constexpr std::uintptr_t free = 1;

  static bench::waiting_coroutine* waiter(std::uintptr_t word) noexcept {
    return reinterpret_cast<bench::waiting_coroutine*>(word);
  }

  static bench::waiting_coroutine* reversed(bench::waiting_coroutine* last) noexcept {
    bench::waiting_coroutine* first = nullptr;
    while (last != nullptr) {
      first = std::exchange(last, std::exchange(last->behind, first));
    }
    return first;
  }

  std::atomic<std::uintptr_t> word_{free};
  bench::waiting_coroutine* ordered_ = nullptr;  // the holder's: taken, and not served yet
  turnstile::executor_ref pool_;
};

template <next_goes_on Where>
bool ask() {
  using contender = bench::coroutines_on_pool<intrusive_async_mutex<Where>>;
  return bench::ask_everything<contender>() && bench::lines::ask<contender>();
}

const bool asked = ask<next_goes_on::in_place>() && ask<next_goes_on::on_the_pool>();

}  // namespace
