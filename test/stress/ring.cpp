// ring.cpp - every ring by itself: producers on threads, and whoever owns it serves.
//
// Each producer keeps some requests in line, stops now and then between arriving and publishing,
// and gives the ring away in the middle of serving to whoever sees that first, as a section does
// through an executor. The owner's side is plain variables, so the thread sanitizer sees two owners
// at once.

#include "ring/driven.hpp"
#include "stress/crew.hpp"
#include "stress/dice.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

using namespace ring_test;
using stress::dice;

namespace {

template <class Ring>
inline constexpr bool has_tickets = !std::is_same_v<Ring, inbox_ring>;

template <class Ring>
class arena {
 public:
  struct visitor : request {
    typename Ring::place place;
    int producer;
    int number;
    bool closes = false;
    std::atomic<bool> served{false};
  };

  arena(std::size_t cells, int producers)
      : ring_(cells), mine_(cells), last_number_(static_cast<std::size_t>(producers), -1) {}

  // False: the ring is closed.
  bool ask(visitor& v, dice& d) {
    switch (ring_.arrive(v.place)) {
      case arrival::owner: own(v, d); return true;
      case arrival::queued: return publish(v, d);
      default: break;
    }
    return false;
  }

  // Goes on where another owner gave the ring away.
  void help(dice& d) {
    if (given_away_.exchange(false, std::memory_order_acquire)) serve(ring_.next(mine_), d);
  }

  void close(visitor& v, dice& d) {
    v.closes = true;
    switch (ring_.close(v.place)) {
      case arrival::owner:
        Ring::begin(v.place, mine_);
        serve(&v, d);
        break;
      case arrival::queued:
        if (d.one_in(2)) std::this_thread::yield();
        if (ring_.publish_last(v, v.place, mine_) == after_publish::take_over) {
          serve(ring_.next(mine_), d);
        }
        break;
      default: break;
    }
  }

  // After all threads have ended.
  std::uint64_t served() const { return served_; }
  std::uint64_t out_of_order() const { return out_of_order_; }
  bool left_idle() const { return ring_.pending() == 0; }

 private:
  void own(visitor& v, dice& d) {
    if (d.one_in(2)) {
      note(v);
      if (!ring_.leave(v.place, mine_)) serve(ring_.next(mine_), d);
    } else {
      Ring::begin(v.place, mine_);
      serve(&v, d);
    }
  }

  bool publish(visitor& v, dice& d) {
    if (d.one_in(8)) std::this_thread::yield();
    switch (ring_.publish(v, v.place, mine_)) {
      case after_publish::take_over: serve(ring_.next(mine_), d); return true;
      case after_publish::nothing: return true;
      case after_publish::closed: break;
    }
    return false;
  }

  void serve(request* r, dice& d) {
    for (unsigned left = 1 + d.below(40); r != nullptr; --left) {
      if (left == 0) {
        ring_.put_back(*r, mine_);
        given_away_.store(true, std::memory_order_release);
        return;
      }
      if (d.one_in(16)) ring_.account(mine_);
      auto& v = static_cast<visitor&>(*r);
      if (v.closes) {
        v.served.store(true, std::memory_order_release);
        return;
      }
      Ring::finish(mine_);
      note(v);
      r = ring_.next(mine_);
    }
  }

  // What a body would do: plain variables, one after the other.
  void note(visitor& v) {
    ++served_;
    int& last = last_number_[static_cast<std::size_t>(v.producer)];
    if (v.number != last + 1) ++out_of_order_;
    last = v.number;
    if constexpr (has_tickets<Ring>) {
      const std::uint64_t ticket = turnstile::detail::ticket_word::ticket_of(v.place);
      if (ticket != next_ticket_) ++out_of_order_;
      next_ticket_ = ticket + 1;
    }
    v.served.store(true, std::memory_order_release);  // v may be used again
  }

  Ring ring_;
  typename Ring::private_side mine_;
  std::atomic<bool> given_away_{false};
  // The owner's.
  std::uint64_t served_ = 0;
  std::uint64_t out_of_order_ = 0;
  std::uint64_t next_ticket_ = 0;
  std::vector<int> last_number_;
};

// Keeps up to `width` requests of one producer in line.
template <class Ring>
class producer {
 public:
  producer(arena<Ring>& where, int id, std::size_t width)
      : arena_(&where), dice_(static_cast<std::uint32_t>(id)), mine_(width), id_(id) {}

  // False: the ring is closed.
  bool ask_once() {
    auto& v = mine_[static_cast<std::size_t>(asked_) % mine_.size()];
    if (asked_ >= static_cast<int>(mine_.size())) wait_for(v);
    v.producer = id_;
    v.number = asked_;
    v.served.store(false, std::memory_order_relaxed);
    if (!arena_->ask(v, dice_)) {
      v.served.store(true, std::memory_order_relaxed);  // it is as free as one that was served
      return false;
    }
    ++asked_;
    return true;
  }

  void wait_for_all() {
    const auto n = std::min<std::size_t>(mine_.size(), static_cast<std::size_t>(asked_));
    for (std::size_t back = 1; back <= n; ++back) {
      wait_for(mine_[(static_cast<std::size_t>(asked_) - back) % mine_.size()]);
    }
  }

  int asked() const { return asked_; }

 private:
  using visitor = typename arena<Ring>::visitor;

  void wait_for(visitor& v) {
    while (!v.served.load(std::memory_order_acquire)) {
      arena_->help(dice_);
      std::this_thread::yield();
    }
  }

  arena<Ring>* arena_;
  dice dice_;
  std::vector<visitor> mine_;
  int id_;
  int asked_ = 0;
};

template <class Ring>
void hammer(std::size_t cells, int producers, std::size_t width, int each) {
  CAPTURE(cells);
  CAPTURE(producers);
  CAPTURE(width);
  arena<Ring> where(cells, producers);
  stress::together(producers, [&](int id) {
    producer<Ring> p(where, id, width);
    for (int i = 0; i != each; ++i) static_cast<void>(p.ask_once());
    p.wait_for_all();
  });
  CHECK(where.served() == static_cast<std::uint64_t>(producers) * static_cast<unsigned>(each));
  CHECK(where.out_of_order() == 0);
  CHECK(where.left_idle());
}

// Producers ask until they are refused; one of them closes.
template <class Ring>
void close_amid(std::size_t cells, int producers, int before) {
  arena<Ring> where(cells, producers);
  typename arena<Ring>::visitor last;
  std::atomic<int> accepted{0};
  stress::together(producers, [&](int id) {
    producer<Ring> p(where, id, 4);
    while (p.ask_once()) {
      if (id == 0 && p.asked() == before) {
        dice d(static_cast<std::uint32_t>(before));
        where.close(last, d);
      }
      std::this_thread::yield();  // so that the one who closes gets to it
    }
    p.wait_for_all();
    accepted.fetch_add(p.asked(), std::memory_order_relaxed);
    dice d(static_cast<std::uint32_t>(id));
    while (!last.served.load(std::memory_order_acquire)) {
      where.help(d);
      std::this_thread::yield();
    }
  });
  CHECK(where.served() == static_cast<std::uint64_t>(accepted.load()));
  CHECK(where.out_of_order() == 0);
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE_TEMPLATE("ring: exactly once, one owner at a time, in order of arrival", Ring,
                     ALL_RINGS) {
    const int each = stress::times_scale(stress::sanitized ? 5000 : 50000);
    for (const std::size_t cells : {1, 2, 8, 64}) {
      hammer<Ring>(cells, 2, 1, each);
      hammer<Ring>(cells, 4, 16, each / 2);
      hammer<Ring>(cells, 7, 3, each / 4);
    }
  }

  TEST_CASE_TEMPLATE("ring: what was accepted before the close is served, and the close is last",
                     Ring, ALL_RINGS) {
    const int rounds = stress::times_scale(stress::sanitized ? 100 : 400);
    dice d(99);
    for (int i = 0; i != rounds; ++i) {
      close_amid<Ring>(std::size_t{1} << d.below(5), 2 + static_cast<int>(d.below(3)),
                       1 + static_cast<int>(d.below(50)));
    }
  }
}
