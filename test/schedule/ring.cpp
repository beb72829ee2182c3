// ring.cpp - the rings by themselves: producers that arrive, publish, and serve when it falls to
// them.
//
// Checked in every execution: one body at a time (bodies write a guarded field), everybody served
// once, in the order of the tickets, nobody waiting for ever.

#include "schedule/scenario.hpp"

#include <turnstile/detail/inbox_ring.hpp>
#include <turnstile/detail/ticket_ring.hpp>

#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

using namespace schedule;
using namespace turnstile::detail;

namespace {

// A ring with what its owner has to do, and no more.
template <class Ring>
class line {
 public:
  explicit line(std::size_t cells) : ring_(cells), mine_(cells) {}

  // A request that is in line even if nobody else is. False: closed.
  bool ask(request& r) {
    typename Ring::place p;
    r.may_wait = false;
    switch (ring_.arrive(p)) {
      case arrival::owner:
        Ring::begin(p, mine_);
        if constexpr (has_tickets) r.ticket = ticket_word::ticket_of(p);
        serve(&r);
        return true;
      case arrival::queued: return publish(r, p);
      default: return false;
    }
    return false;
  }

  // All have their places in line before one is published, and the last is published first.
  void ask_and_publish_backwards(std::span<request> all) {
    std::vector<std::pair<request*, typename Ring::place>> late;
    for (request& r : all) {
      typename Ring::place p;
      r.may_wait = false;
      switch (ring_.arrive(p)) {
        case arrival::owner: run_alone(p); break;
        case arrival::queued: late.emplace_back(&r, p); break;
        default: fail("refused, and nobody closed");
      }
    }
    for (const auto& [r, p] : late | std::views::reverse) publish(*r, p);
  }

  // The short way of one that finds nobody.
  void ask_at_once(request& r) {
    typename Ring::place p;
    r.may_wait = false;
    switch (ring_.arrive(p)) {
      case arrival::owner: run_alone(p); break;
      case arrival::queued: publish(r, p); break;
      default: fail("refused, and nobody closed");
    }
  }

  // The short way, and the others come while its body runs.
  void ask_at_once(std::span<request> all) {
    typename Ring::place p;
    all[0].may_wait = false;
    switch (ring_.arrive(p)) {
      case arrival::owner:
        ran_ = ran_ + 1;
        for (request& r : all.subspan(1)) {
          const int before = ran_;
          require(ask(r), "refused");
          require(ran_ == before, "served while another body runs");
        }
        if (!ring_.leave(p, mine_)) serve(ring_.next(mine_));
        break;
      case arrival::queued:
        publish(all[0], p);
        for (request& r : all.subspan(1)) require(ask(r), "refused");
        break;
      default: fail("refused, and nobody closed");
    }
  }

  // Looks for its turn once, before it publishes.
  void ask_in_place(request& r) {
    typename Ring::place p;
    r.may_wait = false;
    switch (ring_.arrive(p)) {
      case arrival::owner: run_alone(p); break;
      case arrival::queued:
        if (ring_.is_next(p) && ring_.take_own(p, mine_)) {
          run_alone(p);
        } else {
          publish(r, p);
        }
        break;
      default: fail("refused, and nobody closed");
    }
  }

  bool try_to_ask() {
    typename Ring::place p;
    if (ring_.try_arrive(p) != arrival::owner) return false;
    run_alone(p);
    return true;
  }

  // False: closed already.
  bool close(request& r) {
    typename Ring::place p;
    r.may_wait = true;  // here: this is the end
    switch (ring_.close(p)) {
      case arrival::owner:
        Ring::begin(p, mine_);
        serve(&r);
        return true;
      case arrival::queued:
        if (ring_.publish_last(r, p, mine_) == after_publish::take_over) serve(ring_.next(mine_));
        return true;
      default: return false;
    }
    return false;
  }

  // Before threads begin: after so many bodies the owner tells the word, and puts the next request
  // back and takes it again, as one does that passes the section on.
  void pass_on_after(int bodies) noexcept { pass_on_after_ = bodies; }

  int ran() const noexcept { return ran_; }
  bool closed() const noexcept { return closed_; }
  std::size_t pending() const noexcept { return ring_.pending(); }

 private:
  static constexpr bool has_tickets = std::is_same_v<Ring, ticket_ring>;

  bool publish(request& r, typename Ring::place p) {
    switch (ring_.publish(r, p, mine_)) {
      case after_publish::nothing: return true;
      case after_publish::take_over: serve(ring_.next(mine_)); return true;
      case after_publish::closed: return false;
    }
    return false;
  }

  void run_alone(typename Ring::place p) {
    ran_ = ran_ + 1;
    if constexpr (has_tickets) note_turn(ticket_word::ticket_of(p));
    if (!ring_.leave(p, mine_)) serve(ring_.next(mine_));
  }

  void serve(request* r) {
    while (r != nullptr) {
      require(!closed_, "served after the end");
      if (r->may_wait) {
        closed_ = true;
        return;
      }
      ran_ = ran_ + 1;
      if constexpr (has_tickets) note_turn(r->ticket);
      Ring::finish(mine_);
      r = ring_.next(mine_);
      if (r != nullptr && pass_on_after_ != 0 && ran_ % pass_on_after_ == 0) {
        ring_.account(mine_);
        ring_.put_back(*r, mine_);
        r = ring_.next(mine_);
      }
    }
  }

  void note_turn(std::uint64_t ticket) {
    if (any_turn_) require(last_turn_ < ticket, "overtaken");
    any_turn_ = true;
    last_turn_ = ticket;
  }

  Ring ring_;
  typename Ring::private_side mine_;
  guarded<int> ran_{0};
  guarded<bool> closed_{false};
  guarded<bool> any_turn_{false};
  guarded<std::uint64_t> last_turn_{0};
  int pass_on_after_ = 0;
};

struct shape {
  int threads;
  int requests;  // of each thread, one after the other
  std::size_t cells;
  int pass_on_after = 0;
};

template <class Ring>
auto everybody_is_served(shape s) {
  return [s] {
    line<Ring> l(s.cells);
    l.pass_on_after(s.pass_on_after);
    std::vector<request> all(static_cast<std::size_t>(s.threads * s.requests));
    std::vector<std::function<void()>> work;
    for (int t = 0; t != s.threads; ++t) {
      work.push_back([&, t] {
        for (int i = 0; i != s.requests; ++i) {
          require(l.ask(all[static_cast<std::size_t>(t * s.requests + i)]), "refused");
        }
      });
    }
    together(std::move(work));
    require(l.ran() == s.threads * s.requests, "not everybody was served");
    require(l.pending() == 0, "not idle at the end");
  };
}

}  // namespace

TEST_SUITE("ring") {
  TEST_CASE("ring: three producers, two requests each, one cell") {
    holds(everybody_is_served<ticket_ring>({3, 2, 1}), {.most = {3, 1}});
  }

  TEST_CASE("ring: three producers, two requests each, two cells") {
    holds(everybody_is_served<ticket_ring>({3, 2, 2}), {.most = {3, 1}});
  }

  TEST_CASE("ring: three producers, two requests each, two cells for a stash") {
    holds(everybody_is_served<ticket_ring>({3, 2, 4}), {.most = {3, 1}});
  }

  TEST_CASE("ring: three late ones in falling order meet one that waits") {
    for (const std::size_t cells : {1, 4}) {
      holds([cells] {
        line<ticket_ring> l(cells);
        std::array<request, 2> in_order;
        std::array<request, 4> backwards;
        together({[&] {
                    for (request& r : in_order) l.ask_at_once(r);
                  },
                  [&] { l.ask_and_publish_backwards(backwards); }});
        require(l.ran() == 6, "not everybody was served");
        require(l.pending() == 0, "not idle at the end");
      });
    }
  }

  TEST_CASE("inbox: three producers, two requests each") {
    holds(everybody_is_served<inbox_ring>({3, 2, 1}), {.most = {2, 1}});
  }

  TEST_CASE("ring: four producers") {
    holds(everybody_is_served<ticket_ring>({4, 1, 1}), {.most = {2, 1}});
    holds(everybody_is_served<ticket_ring>({4, 1, 2}), {.most = {2, 1}});
    holds(everybody_is_served<inbox_ring>({4, 1, 1}), {.most = {2, 1}});
  }

  TEST_CASE("ring: an owner that passes on after each body") {
    holds(everybody_is_served<ticket_ring>({3, 2, 2, 1}), {.most = {2, 1}});
    holds(everybody_is_served<inbox_ring>({3, 2, 1, 1}), {.most = {2, 1}});
  }

  TEST_CASE_TEMPLATE("ring: the short way, the long way and a try", Ring, ticket_ring, inbox_ring) {
    holds([] {
      line<Ring> l(2);
      std::array<request, 3> all;
      guarded<int> tried{0};
      together({[&] {
                  l.ask_at_once(all[0]);
                  l.ask_at_once(all[1]);
                },
                [&] { require(l.ask(all[2]), "refused"); },
                [&] { tried = l.try_to_ask() ? 1 : 0; }});
      require(l.ran() == 3 + tried, "not everybody was served");
      require(l.pending() == 0, "not idle at the end");
    });
  }

  TEST_CASE("ring: two look for their turn in place, and others are in line") {
    for (const std::size_t cells : {1, 2, 8}) {
      holds(
          [cells] {
            line<ticket_ring> l(cells);
            std::array<request, 6> all;
            together({[&] {
                        l.ask_at_once(all[0]);
                        l.ask_in_place(all[1]);
                      },
                      [&] {
                        l.ask_in_place(all[2]);
                        l.ask_in_place(all[3]);
                      },
                      [&] {
                        for (request& r : std::span(all).subspan(4)) require(l.ask(r), "refused");
                      }});
            require(l.ran() == 6, "not everybody was served");
            require(l.pending() == 0, "not idle at the end");
          },
          {.most = {2, 1}});
    }
  }

  // What the owner knows of the word is from its last look, when more were there.
  TEST_CASE_TEMPLATE("ring: many come while a body runs, then few", Ring, ticket_ring, inbox_ring) {
    holds([] {
      line<Ring> l(1);
      std::array<request, 4> many;
      std::array<request, 2> meanwhile;
      std::array<std::array<request, 2>, 2> few;
      together({[&] { l.ask_at_once(many); },
                [&] {
                  for (request& r : meanwhile) require(l.ask(r), "refused");
                }});
      for (auto& two : few) l.ask_at_once(two);
      require(l.ran() == 10, "not everybody was served");
      require(l.pending() == 0, "not idle at the end");
    });
  }

  TEST_CASE_TEMPLATE("ring: whoever gets in before a close is served", Ring, ticket_ring,
                     inbox_ring) {
    holds([] {
      line<Ring> l(1);
      std::array<request, 3> all;
      request last;
      std::array<guarded<int>, 2> accepted{0, 0};
      together({[&] {
                  accepted[0] = l.ask(all[0]) ? 1 : 0;
                  accepted[0] = accepted[0] + (l.ask(all[1]) ? 1 : 0);
                },
                [&] { accepted[1] = l.ask(all[2]) ? 1 : 0; },
                [&] { require(l.close(last), "closed by nobody"); }});
      require(l.closed(), "not closed");
      require(l.ran() == accepted[0] + accepted[1], "accepted is not served");
    });
  }

  TEST_CASE_TEMPLATE("ring: only the first close closes", Ring, ticket_ring, inbox_ring) {
    holds([] {
      line<Ring> l(1);
      request one;
      std::array<request, 2> last;
      guarded<int> first{0};
      guarded<int> second{0};
      together({[&] { first = l.close(last[0]) ? 1 : 0; },
                [&] { second = l.close(last[1]) ? 1 : 0; },
                [&] { static_cast<void>(l.ask(one)); }});
      require(first + second == 1, "not one of them closed");
      require(l.closed(), "not closed");
    });
  }
}
