// A binary semaphore for coroutines: one atomic step where nobody waits, and a line of those who
// do. Who releases gives the token to the first of them and posts that one to the pool.

#include "contender/coroutines_on_pool.hpp"
#include "lines/lines.hpp"

#include <atomic>
#include <string_view>
#include <thread>
#include <utility>

namespace {

class async_binary_semaphore {
 public:
  static constexpr std::string_view name = "async_binary_semaphore";

  explicit async_binary_semaphore(turnstile::thread_pool& pool) noexcept : pool_(pool) {}

  // Who gets it not has announced itself by that.
  bool try_acquire() noexcept { return token_.fetch_sub(1, std::memory_order_acquire) > 0; }

  // False: the token was given to the caller before it got here.
  bool get_in_line(bench::waiting_coroutine& w) noexcept {
    const spinning alone(busy_);
    if (std::exchange(given_, false)) return false;
    *(first_ == nullptr ? &first_ : &last_->behind) = &w;
    last_ = &w;
    return true;
  }

  void release() noexcept {
    if (token_.fetch_add(1, std::memory_order_release) >= 0) return;
    if (bench::waiting_coroutine* const next = next_in_line()) pool_.post(*next);
  }

 private:
  class spinning {
   public:
    explicit spinning(std::atomic_flag& busy) noexcept : busy_(&busy) {
      while (busy_->test_and_set(std::memory_order_acquire)) std::this_thread::yield();
    }
    ~spinning() { busy_->clear(std::memory_order_release); }
    spinning(const spinning&) = delete;
    spinning& operator=(const spinning&) = delete;

   private:
    std::atomic_flag* busy_;
  };

  // Null: who comes next has announced itself and is not in line yet.
  bench::waiting_coroutine* next_in_line() noexcept {
    const spinning alone(busy_);
    bench::waiting_coroutine* const next = first_;
    if (next == nullptr) {
      given_ = true;
    } else {
      first_ = next->behind;
    }
    return next;
  }

  std::atomic<int> token_{1};  // below 0: so many wait, or are about to
  std::atomic_flag busy_;      // the rest is behind it
  bool given_ = false;
  bench::waiting_coroutine* first_ = nullptr;
  bench::waiting_coroutine* last_ = nullptr;
  turnstile::executor_ref pool_;
};

using contender = bench::coroutines_on_pool<async_binary_semaphore>;
const bool asked = bench::ask_everything<contender>() && bench::lines::ask<contender>();

}  // namespace
