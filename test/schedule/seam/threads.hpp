// threads.hpp - the library's seam for threads, locks and the clock, given to the checker.
#pragma once

#include "schedule/checker/world.hpp"
#include "schedule/seam/atomic.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

inline constinit atomic<std::uint32_t> order_of_fences{0};

class mutex {
 public:
  constexpr mutex() noexcept {
    if (!std::is_constant_evaluated()) schedule::begin_life(&place_);
  }
  constexpr ~mutex() {
    if (!std::is_constant_evaluated()) schedule::end_life(&place_);
  }
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  void lock() noexcept { schedule::lock(&place_); }
  void unlock() noexcept { schedule::unlock(&place_); }

 private:
  char place_ = 0;  // what the checker knows it by
};

class thread {
 public:
  thread() noexcept = default;
  explicit thread(std::function<void()> work) : id_(schedule::start(std::move(work))) {}
  thread(thread&& other) noexcept : id_(std::exchange(other.id_, nobody)) {}
  thread& operator=(thread&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~thread() { schedule::require(!joinable(), "a thread object ends before its thread was joined"); }

  bool joinable() const noexcept { return id_ != nobody; }
  void join() noexcept { schedule::join(std::exchange(id_, nobody)); }

  static unsigned hardware_concurrency() noexcept { return 2; }

 private:
  static constexpr int nobody = -1;
  int id_ = nobody;
};

// The standard one, whose own steps are one here and whose threads are all the same thread. So an atomic
// says what it orders, and the end waits for a call that is being made.
template <class F>
class stop_callback {
 public:
  template <class G>
  stop_callback(const std::stop_token& token, G&& f) : function_(std::forward<G>(f)) {
    turns_.fetch_add(1, acq_rel);
    real_.emplace(token, call{this});
  }
  ~stop_callback() {
    turns_.fetch_add(1, acq_rel);
    real_.reset();
    if (!called_) return;
    while (over_.load(acquire) == 0) over_.wait(0, relaxed);
  }
  stop_callback(const stop_callback&) = delete;
  stop_callback& operator=(const stop_callback&) = delete;

 private:
  struct call {
    stop_callback* self;
    void operator()() const noexcept { self->run(); }
  };

  void run() noexcept {
    called_ = true;  // no other thread comes between this and what the standard one has done before
    turns_.fetch_add(1, acq_rel);
    function_();
    over_.exchange(1, seq_cst);
    over_.notify_one();
  }

  F function_;
  atomic<int> turns_{0};
  atomic<int> over_{0};
  bool called_ = false;
  std::optional<std::stop_callback<call>> real_;
};

// Time passes when somebody waits, and as the scenario says at every look.
struct steady_clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<steady_clock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept { return time_point(schedule::now()); }
};

// As in the real build for a thread sanitizer: one of two comes first, and the second sees what the
// other's thread did before.
inline void light_fence() noexcept { order_of_fences.fetch_add(1, acq_rel); }
inline void heavy_fence() noexcept { order_of_fences.fetch_add(1, acq_rel); }

inline void sleep_for(std::chrono::nanoseconds time) noexcept { schedule::pause(time); }

template <class T>
constexpr T limit([[maybe_unused]] T full, T small) noexcept {
  return small;
}

}  // namespace turnstile::detail
