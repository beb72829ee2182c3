// claims.cpp - sections that claim resources at the same moment, and ends in between.
//
// What is left when all is done is asked by a section of its own, exclusively.

#include "schedule/lane.hpp"

#include <turnstile/turnstile.hpp>

#include <memory>
#include <optional>
#include <tuple>
#include <utility>

using namespace schedule;
using namespace turnstile;

namespace {

enum class fate { ran, refused, closed };

fate ask(critical_section& cs, const resource_list& uses, bool exclusive) {
  try {
    sync_wait(cs.execute([] {}, {.uses = uses, .exclusive_resource_access = exclusive}));
  } catch (const exclusive_access_error&) {
    return fate::refused;
  } catch (const section_closed&) {
    return fate::closed;
  }
  return fate::ran;
}

bool flag() { return any_of(2) != 0; }

const execute_options sharing{.exclusive_resource_access = false};

// As what another library's coroutine does that has this share of a chain.
void touch_with(detail::chain_frame* chain, const detail::resource_identity& r) {
  detail::here().chain = chain;
  detail::touch(r);
  detail::drop(std::exchange(detail::here().chain, nullptr));
}

// Nobody claims `r`.
bool is_free(const resource_ref& r) {
  critical_section cs({.ring_capacity = 1});
  return ask(cs, r, true) == fate::ran;
}

void require_free(const resource_ref& r, bool free, const char* what) {
  require(is_free(r) == free, what);
}

// One of: v; w; v, w; w, v.
resource_list some_of(const resource_ref& v, const resource_ref& w, unsigned which) {
  switch (which) {
    case 0: return v;
    case 1: return w;
    case 2: return {v, w};
    default: return {w, v};
  }
}

bool has_v(unsigned which) { return which != 1; }
bool has_w(unsigned which) { return which != 0; }

void two_sections_ask(const resource_ref& v, const resource_ref& w) {
  auto a = std::make_unique<critical_section>(section_options{.ring_capacity = 1});
  auto b = std::make_unique<critical_section>(section_options{.ring_capacity = 1});
  const unsigned a_uses = any_of(4);
  const unsigned b_uses = any_of(4);
  const bool a_exclusive = flag();
  const bool b_exclusive = flag();
  fate to_a{};
  fate to_b{};
  together({[&] { to_a = ask(*a, some_of(v, w, a_uses), a_exclusive); },
            [&] { to_b = ask(*b, some_of(v, w, b_uses), b_exclusive); }});
  const bool meet = (has_v(a_uses) && has_v(b_uses)) || (has_w(a_uses) && has_w(b_uses));
  const bool conflict = meet && (a_exclusive || b_exclusive);
  const bool a_ran = to_a == fate::ran;
  const bool b_ran = to_b == fate::ran;
  require(a_ran || b_ran, "two were refused because of each other");
  require((a_ran && b_ran) == !conflict, conflict ? "a conflict was missed" : "nothing is wrong");
  require_free(v, !(a_ran && has_v(a_uses)) && !(b_ran && has_v(b_uses)),
               "v is left as it was not");
  require_free(w, !(a_ran && has_w(a_uses)) && !(b_ran && has_w(b_uses)),
               "w is left as it was not");
  a.reset();
  require_free(v, !(b_ran && has_v(b_uses)), "only b's claims are left, on v");
  require_free(w, !(b_ran && has_w(b_uses)), "only b's claims are left, on w");
  b.reset();
  require_free(v, true, "nobody's claims are left on v");
  require_free(w, true, "nobody's claims are left on w");
}

}  // namespace

TEST_SUITE("claims") {
  TEST_CASE("claims: two sections ask for two resources, in every way") {
    holds([] {
      const resource v;
      const resource w;
      two_sections_ask(v, w);
    });
  }

  TEST_CASE("claims: two sections ask for two addresses, in every way") {
    holds([] {
      const int v = 0;
      const int w = 0;
      two_sections_ask(resource_of(v), resource_of(w));
    });
  }

  TEST_CASE("claims: two sections touch two resources while they are held") {
    holds([] {
      const detail::resource_identity v;
      const detail::resource_identity w;
      critical_section a({.ring_capacity = 1});
      critical_section b({.ring_capacity = 1});
      const bool a_exclusive = flag();
      const bool b_exclusive = flag();
      unsigned touched[2][2] = {};
      const auto touch_both = [&](critical_section& cs, bool exclusive, unsigned(&got)[2],
                                  bool v_first) {
        sync_wait(cs.execute(
            [&] {
              for (int i = 0; i != 2; ++i) {
                const bool first = (i == 0) == v_first;
                try {
                  detail::touch(first ? v : w);
                  got[first ? 0 : 1] = 1;
                } catch (const exclusive_access_error&) {
                }
              }
            },
            {.exclusive_resource_access = exclusive}));
      };
      together({[&] { touch_both(a, a_exclusive, touched[0], true); },
                [&] { touch_both(b, b_exclusive, touched[1], false); }});
      const unsigned most = a_exclusive || b_exclusive ? 1 : 2;
      require(touched[0][0] + touched[1][0] == most, "v");
      require(touched[0][1] + touched[1][1] == most, "w");
    });
  }

  TEST_CASE("claims: a section ends while what has a copy of its body's chain touches something") {
    holds([] {
      const detail::resource_identity v;
      auto a = std::make_unique<critical_section>(section_options{.ring_capacity = 1});
      critical_section b({.ring_capacity = 1});
      const bool shared = flag();
      if (shared) sync_wait(b.execute([&] { detail::touch(v); }, sharing));
      detail::chain_frame* copy = nullptr;
      atomic<bool> there{false};
      const auto keep_chain = [&] {
        if (shared) detail::touch(v);
        copy = detail::keep(detail::here().chain);
        there.store(true, detail::seq_cst);
        there.notify_one();
      };
      together({[&] {
                  sync_wait(a->execute(keep_chain, sharing));
                  a.reset();
                },
                [&] {
                  there.wait(false, detail::acquire);
                  touch_with(copy, v);
                }});
      require_free(v, !shared, "who has ended has left nothing");
    });
  }

  TEST_CASE("claims: a section ends while who gave its guard away touches something") {
    holds([] {
      const detail::resource_identity v;
      auto a = std::make_unique<critical_section>(section_options{.ring_capacity = 1});
      section_guard given;
      atomic<bool> there{false};
      together({[&] {
                  given = sync_wait(a->lock());
                  there.store(true, detail::seq_cst);
                  there.notify_one();
                  detail::touch(v);
                },
                [&] {
                  there.wait(false, detail::acquire);
                  given.unlock();
                  a.reset();
                }});
      require_free(v, true, "who has ended has left nothing");
    });
  }

  TEST_CASE("claims: a section asks for what two others share, and one of those ends") {
    holds(
        [] {
          const resource v;
          critical_section a({.name = flag() ? "a" : "", .ring_capacity = 1});
          auto b = std::make_unique<critical_section>(section_options{.ring_capacity = 1});
          auto c = std::make_unique<critical_section>(section_options{.ring_capacity = 1});
          ask(*b, v, false);
          ask(*c, v, false);
          const auto share = [&] { require(ask(a, v, false) == fate::ran, "everybody shares"); };
          const auto share_twice = [&] {
            share();
            share();
          };
          together({share_twice, share, [&] { c.reset(); }});
          require(ask(a, v, true) == fate::refused, "b shares it");
          b.reset();
          require(ask(a, v, true) == fate::ran, "nobody else is left");
        },
        {.most = {1, 1}});
  }

  TEST_CASE("claims: nobody is refused because of a request for several that is refused itself") {
    holds([] {
      const resource v;
      const resource w;
      critical_section a({.ring_capacity = 1});
      critical_section b({.ring_capacity = 1});
      critical_section shares({.ring_capacity = 1});
      critical_section has_w({.ring_capacity = 1});
      ask(a, v, false);
      ask(has_w, w, true);
      together({[&] {
                  bool refused = false;
                  try {
                    sync_wait(execute(std::tie(a, b), [] {}, {.uses = {v, w}}));
                  } catch (const exclusive_access_error&) {
                    refused = true;
                  }
                  require(refused, "somebody else has it");
                },
                [&] { require(ask(shares, v, false) == fate::ran, "everybody shares"); }});
    });
  }

  TEST_CASE("claims: a section ends while another asks for what it has claimed") {
    holds([] {
      const resource v;
      const resource w;
      auto a = std::make_unique<critical_section>(section_options{.ring_capacity = 1});
      auto b = std::make_unique<critical_section>(section_options{.ring_capacity = 1});
      const bool a_exclusive = flag();
      const bool b_exclusive = flag();
      ask(*a, {v, w}, a_exclusive);
      fate to_b{};
      together({[&] { a.reset(); }, [&] { to_b = ask(*b, {w, v}, b_exclusive); }});
      const bool shared = !a_exclusive && !b_exclusive;
      require(to_b == fate::ran || !shared, "both share");
      require_free(v, to_b != fate::ran, "v");
      require_free(w, to_b != fate::ran, "w");
      require(ask(*b, {v, w}, true) == fate::ran, "nobody else is left");
      b.reset();
      require_free(v, true, "v, in the end");
      require_free(w, true, "w, in the end");
    });
  }

  TEST_CASE("claims: two sections and two resources that they share end at the same time") {
    holds([] {
      auto v = std::make_unique<resource>();
      auto w = std::make_unique<resource>("w");
      auto a = std::make_unique<critical_section>(section_options{.ring_capacity = 1});
      auto b = std::make_unique<critical_section>(section_options{.ring_capacity = 1});
      ask(*a, {*v, *w}, false);
      ask(*b, {*w, *v}, false);
      together({[&] { a.reset(); }, [&] { v.reset(); }, [&] { b.reset(); }});
      require_free(*w, true, "nobody is left");
    });
  }

  TEST_CASE("claims: a section claims one resource while another ends that it has claimed") {
    holds([] {
      auto v = std::make_unique<resource>();
      const resource w;
      critical_section a({.ring_capacity = 1});
      critical_section b({.ring_capacity = 1});
      ask(a, *v, false);
      ask(b, *v, false);
      fate to_a{};
      fate to_b{};
      together(
          {[&] { v.reset(); }, [&] { to_a = ask(a, w, true); }, [&] { to_b = ask(b, w, true); }});
      require((to_a == fate::ran) != (to_b == fate::ran), "one of them has it");
      require_free(w, false, "w is claimed");
    });
  }

  TEST_CASE("claims: what close refuses leaves no claim, what it lets pass leaves one") {
    holds(
        [] {
          lane serves;
          const resource v;
          auto a = std::make_unique<critical_section>(
              section_options{.executor = executor_ref(serves), .ring_capacity = 1});
          const bool one_exclusive = flag();
          fate one{};
          fate other{};
          together({[&] { one = ask(*a, v, one_exclusive); }, [&] { other = ask(*a, v, false); },
                    [&] { sync_wait(a->close()); }});
          require(one != fate::refused && other != fate::refused, "there is one section only");
          require_free(v, one != fate::ran && other != fate::ran, "whoever ran has claimed it");
          critical_section b({.ring_capacity = 1});
          const bool exclusive = one == fate::ran && one_exclusive;
          require((ask(b, v, false) == fate::ran) == !exclusive, "exclusively if it said so");
          a.reset();
        },
        {.most = {1, 0}});
  }

  TEST_CASE("claims: posts that close refuses, and one before it") {
    holds(
        [] {
          lane serves;
          const resource v;
          auto a = std::make_unique<critical_section>(
              section_options{.executor = executor_ref(serves), .ring_capacity = 1});
          bool posted = false;
          together({[&] {
                      try {
                        a->post([] {}, {.uses = v});
                        posted = true;
                      } catch (const section_closed&) {
                      }
                    },
                    [&] { sync_wait(a->close()); }});
          require_free(v, !posted, "what was posted has claimed it");
          a.reset();
          require_free(v, true, "nobody is left");
        },
        {.most = {1, 1}});
  }
}
