// budget.hpp - how long one thread serves others before it passes the section on.
//
// A drain ends after 50 us, which is what others may lose without noticing. A section that is
// passed on before its line is empty is behind those it has just served, who queue again, each of
// them, for ever; so it ends later where it may get to the end of a line of a thousand: where
// serving takes less than 0.5 us a body after 200 us, and after 400 if what is served stays with
// the thread, for then each body brings its coroutine over, and where lines are far a thousand take
// 300. On a brisk thread (executor/pace.hpp), where all that waits is likely to wait for bodies,
// after 400 in any case. One that some caller does besides its own business, and after its own
// request if that comes first, ends after 32 bodies too, as folly's strand does. One that is a job
// of its own does not: 1000 coroutines that ask again as soon as they are served would queue up
// behind it faster than 32 at a time are served, to the same effect (bench/counter).
//
// Finished requests are handed back every 2 us meanwhile, so that others can go on with them. The
// clock costs as much as a short body, so it is read after 1, 2, 4, ... 32 bodies and every 32 from
// then on, or after the body in which 2 us are over, if that comes first. Bodies that suddenly grow
// long are noticed 32 of them later.
#pragma once

#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace turnstile::detail {

class budget {
 public:
  static constexpr int callers = limit(32, 2);  // bodies
  static constexpr int jobs = std::numeric_limits<int>::max();
  // Tests of who serves whom have none, for a thread may be stopped that long
  // (test/support/unhurried.cpp).
  static inline constinit std::chrono::nanoseconds most_time = std::chrono::microseconds(50);
  static constexpr std::chrono::nanoseconds hand_back_after = std::chrono::microseconds(2);
  static constexpr std::chrono::nanoseconds most_of_short{500};  // with what serving takes

  enum class [[nodiscard]] verdict : std::uint8_t { go_on, hand_back, pass_on };

  explicit budget(int bodies) noexcept : most_bodies_(bodies) {}

  void be_brisk() noexcept { is_brisk_ = true; }
  // What is served stays with this thread.
  void keep_here() noexcept { keeps_ = true; }

  // Called after each body that another one follows.
  verdict after_body() noexcept {
    ++bodies_;
    if (bodies_ >= most_bodies_) return verdict::pass_on;
    if (bodies_ < next_look_) return verdict::go_on;
    const steady_clock::time_point now = steady_clock::now();
    const auto gone = now - begun_;
    note_time(now);
    if (gone >= longest(gone)) return verdict::pass_on;
    const auto soon = 1 + hand_back_after * bodies_ / std::max(gone, steady_clock::duration(1));
    next_look_ =
        bodies_ + static_cast<int>(std::min<std::int64_t>(soon, std::min(bodies_, callers)));
    if (now - handed_back_ < hand_back_after) return verdict::go_on;
    handed_back_ = now;
    return verdict::hand_back;
  }

  steady_clock::time_point begun() const noexcept { return begun_; }

 private:
  std::chrono::nanoseconds longest(steady_clock::duration gone) const noexcept {
    const bool may_empty = is_brisk_ || gone < bodies_ * most_of_short;
    if (!may_empty) return most_time;
    return (keeps_ ? 8 : 4) * most_time;
  }

  void note_time(steady_clock::time_point now) noexcept {
    thread_state& t = here();
    const auto ns = static_cast<std::uint64_t>((now - looked_).count());
    t.serving_ns += ns;
    if (is_brisk_) t.brisk_serving_ns += ns;
    looked_ = now;
  }

  const int most_bodies_;
  bool is_brisk_ = false;
  bool keeps_ = false;
  int bodies_ = 0;
  int next_look_ = 1;
  const steady_clock::time_point begun_ = steady_clock::now();
  steady_clock::time_point handed_back_ = begun_;
  steady_clock::time_point looked_ = begun_;
};

}  // namespace turnstile::detail
