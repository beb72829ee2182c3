// keeping.hpp - which section stays with this thread, and how to bring that about.
#pragma once

#include <turnstile/critical_section.hpp>
#include <turnstile/detail/keeper.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>

#include <latch>
#include <thread>
#include <utility>

namespace support {

// Not with every ring, nor on every machine.
inline bool can_be_kept() {
  return turnstile::detail::section_ring::can_be_kept && turnstile::detail::light_fence_is_light();
}

inline turnstile::detail::keeper::sight seen_by(turnstile::detail::keeper& who,
                                                const turnstile::critical_section& cs) {
  // There is nothing else in it.
  static_assert(sizeof(cs) == sizeof(turnstile::detail::section_core));
  const void* const core = &cs;
  return who.seen_by(*static_cast<const turnstile::detail::section_core*>(core));
}
// By that thread, and nobody has taken it away.
inline bool kept_by(turnstile::detail::keeper& who, const turnstile::critical_section& cs) {
  return static_cast<bool>(seen_by(who, cs));
}
inline bool kept_here(const turnstile::critical_section& cs) {
  return kept_by(*turnstile::detail::here().keeps, cs);
}

// Enough for a fresh section, wherever this thread is in its turn and whatever it keeps: two turns
// and what is left of one, and one more to give up another section.
inline constexpr int enough_bodies = 128;

inline void come_back_to(turnstile::critical_section& cs) {
  for (int i = 0; i != enough_bodies; ++i) cs.execute_blocking([] {});
}

// While it lives, nothing is kept that is not kept already.
class never_kept {
 public:
  never_kept() { turnstile::detail::keeping::is_on = false; }
  ~never_kept() { turnstile::detail::keeping::is_on = before_; }
  never_kept(const never_kept&) = delete;
  never_kept& operator=(const never_kept&) = delete;

 private:
  const bool before_ = turnstile::detail::keeping::is_on;
};

// While it lives, how often a section was taken away too soon makes no difference.
class endless_optimism {
 public:
  endless_optimism() { most_ = 0; }
  ~endless_optimism() { most_ = before_; }
  endless_optimism(const endless_optimism&) = delete;
  endless_optimism& operator=(const endless_optimism&) = delete;

 private:
  unsigned& most_ = turnstile::detail::keeping::most_patience;
  const unsigned before_ = most_;
};

// A thread that keeps a section and then does not look at it any more, until it is told to go on.
class keeping_thread {
 public:
  explicit keeping_thread(turnstile::critical_section& cs) : keeping_thread(cs, [] {}) {}
  template <class F>
  keeping_thread(turnstile::critical_section& cs, F afterwards)
      : thread_([this, &cs, f = std::move(afterwards)]() mutable {
          come_back_to(cs);
          kept_ = kept_here(cs);
          there_.count_down();
          told_.wait();
          f();
        }) {
    there_.wait();
  }
  ~keeping_thread() {
    if (thread_.joinable()) go_on();
  }
  keeping_thread(const keeping_thread&) = delete;
  keeping_thread& operator=(const keeping_thread&) = delete;

  // Whether it was its own when it came to rest.
  bool kept() const { return kept_; }
  void tell() { told_.count_down(); }
  void join() { thread_.join(); }
  void go_on() {
    tell();
    join();
  }

 private:
  bool kept_ = false;
  std::latch there_{1};
  std::latch told_{1};
  std::thread thread_;
};

}  // namespace support
