// threads.hpp - the library's seam for threads, locks and the clock, given to the checker.
#pragma once

#include "schedule/checker/world.hpp"
#include "schedule/seam/atomic.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
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

inline constinit atomic<std::uint32_t> order_of_stops{0};

// The standard one waits in its destructor for a call that another thread makes. To it all threads
// are one here, so that is done before; and that the call sees what came before the registration is
// said by a word that all have in common. It must not be destroyed inside its own call.
template <class F>
class stop_callback {
 public:
  stop_callback(const std::stop_token& token, F f)
      : call_(f), begin_(order_of_stops.fetch_add(1, release)), callback_(token, forward{this}) {
    is_made_ = true;
  }
  ~stop_callback() {
    schedule::require(is_made_, "a stop callback ends before it is made");
    if (!is_called_) return;
    while (!over_.load(acquire)) over_.wait(false, acquire);
  }
  stop_callback(const stop_callback&) = delete;
  stop_callback& operator=(const stop_callback&) = delete;

 private:
  struct forward {
    stop_callback* to;
    void operator()() const noexcept {
      to->is_called_ = true;
      order_of_stops.fetch_add(1, acq_rel);
      to->call_();
      atomic<bool>& over = to->over_;
      over.store(true, seq_cst);
      over.notify_all();
    }
  };

  F call_;
  guarded<bool> is_made_{false};
  bool is_called_ = false;  // known at once: nobody else's turn comes between
  atomic<bool> over_{false};
  [[maybe_unused]] std::uint32_t begin_;
  std::stop_callback<forward> callback_;
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

inline steady_clock::time_point coarse_now() noexcept { return steady_clock::now(); }

// As in the real build for a thread sanitizer: one of two comes first, and the second sees what the
// other's thread did before.
inline void light_fence() noexcept { order_of_fences.fetch_add(1, acq_rel); }
inline void heavy_fence() noexcept { order_of_fences.fetch_add(1, acq_rel); }
inline void lightest_fence() noexcept { light_fence(); }
inline bool light_fence_is_light() noexcept { return true; }

inline void sleep_for(std::chrono::nanoseconds time) noexcept { schedule::pause(time); }

template <class T>
constexpr T limit([[maybe_unused]] T full, T small) noexcept {
  return small;
}

}  // namespace turnstile::detail
