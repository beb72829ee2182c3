// delays.hpp - the library's seam for atomics, with delays around every operation.
//
// The operations are the standard ones. Before and after each, the thread may pause, yield or
// sleep, by numbers that come from the seed and the number of the thread. Nothing is ordered by a
// sleep: it only lets others in where they seldom get in by themselves.
//
// What the ticket ring does is known by the file that does it and by its order: ticket_word raises
// its word with acquire only to claim, and ticket_ring exchanges a cell with release to park and
// with acquire to take over. So a claim can be held up before its request is published, which makes
// the owner find the gap and park, and the request learns its ticket.
#pragma once

#include <turnstile/detail/config.hpp>

#include <atomic>
#include <cstdint>
#include <source_location>
#include <string_view>
#include <type_traits>

namespace stress {

struct record;

// How often, from now on. Any thread may ask for it, between two rounds.
struct delay_rates {
  std::uint32_t rough;         // 0: never; else this many sleeps in 4096 chances, and more pauses
  std::uint32_t one_claim_in;  // claims of a busy section that are held up; 0: none
};
void use(delay_rates rates) noexcept;

struct delay_counts {
  std::uint64_t held_up;     // between claim and publish
  std::uint64_t parked;      // owners that left at a gap
  std::uint64_t taken_over;  // publishers that found the section parked
};
delay_counts counted_delays() noexcept;

// Perhaps.
void delay() noexcept;

// The next ticket that this thread claims belongs to `r`.
void expect_claim(record* r) noexcept;

// What the ticket ring did, by the thread that did it.
void claimed(std::uint64_t word) noexcept;
void parked() noexcept;
void taken_over() noexcept;

#if defined(TURNSTILE_RING_INBOX)
inline constexpr bool has_tickets = false;
#else
inline constexpr bool has_tickets = true;
#endif

// `file` without its ending.
inline bool is_in(std::string_view file, const std::source_location& at) noexcept {
  const std::string_view path = at.file_name();
  const std::size_t end = path.rfind('.');
  return end != path.npos && path.substr(0, end).ends_with(file);
}

}  // namespace stress

namespace turnstile::detail {

using enum std::memory_order;

template <class T>
using statistic = std::atomic<T>;

template <class T>
class atomic : public std::atomic<T> {
  using base = std::atomic<T>;
  using order = std::memory_order;
  using site = std::source_location;

 public:
  using base::base;

  T load(order o) const noexcept {
    return between_delays([&] { return base::load(o); });
  }
  void store(T to, order o) noexcept {
    between_delays([&] { return base::store(to, o), 0; });
  }
  T exchange(T to, order o) noexcept {
    return between_delays([&] { return base::exchange(to, o); });
  }
  T fetch_add(T n, order o, site at = site::current()) noexcept {
    return between_delays([&] {
      const T was = base::fetch_add(n, o);
      note(was, was + n, o, at);
      return was;
    });
  }
  T fetch_sub(T n, order o) noexcept {
    return between_delays([&] { return base::fetch_sub(n, o); });
  }
  T fetch_and(T bits, order o) noexcept {
    return between_delays([&] { return base::fetch_and(bits, o); });
  }

  bool compare_exchange_weak(T& seen, T to, order done, order not_done,
                             site at = site::current()) noexcept {
    const T was = seen;
    return between_delays([&] {
      const bool ok = base::compare_exchange_weak(seen, to, done, not_done);
      if (ok) note(was, to, done, at);
      return ok;
    });
  }
  bool compare_exchange_weak(T& seen, T to, order o) noexcept {
    return between_delays([&] { return base::compare_exchange_weak(seen, to, o); });
  }
  bool compare_exchange_strong(T& seen, T to, order done, order not_done,
                               site at = site::current()) noexcept {
    const T was = seen;
    return between_delays([&] {
      const bool ok = base::compare_exchange_strong(seen, to, done, not_done);
      if (ok) note(was, to, done, at);
      return ok;
    });
  }

  void wait(T old, order o) const noexcept {
    stress::delay();
    base::wait(old, o);
  }

 private:
  // The object may be gone after the operation, so nothing of it is touched then.
  template <class F>
  static auto between_delays(F f) noexcept {
    stress::delay();
    const auto answer = f();
    stress::delay();
    return answer;
  }

  // `was` became `to`: was that a claim, an owner that parks, or one that takes over?
  static void note([[maybe_unused]] T was, [[maybe_unused]] T to, [[maybe_unused]] order o,
                   [[maybe_unused]] const site& at) noexcept {
    if constexpr (stress::has_tickets && std::is_same_v<T, std::uint64_t>) {
      if (o == acquire && stress::is_in("/ticket_word", at)) stress::claimed(was);
      if (!stress::is_in("/ticket_ring", at)) return;
      if (o == acquire) stress::taken_over();
      if (o == release && to == 1) stress::parked();
    }
  }
};

template <class T>
using guarded = T;

inline void pause() noexcept {
  spin_hint();
  stress::delay();
}

}  // namespace turnstile::detail
