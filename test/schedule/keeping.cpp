// keeping.cpp - a section that stays with one thread, and those who come for it all the same.

#include "schedule/client.hpp"
#include "schedule/ended_by_the_last.hpp"
#include "schedule/kept.hpp"
#include "schedule/shared_pool.hpp"

#include <turnstile/registry.hpp>
#include <turnstile/turnstile.hpp>

#include <memory>
#include <stop_token>
#include <tuple>
#include <utility>

using namespace schedule;
using namespace turnstile;
using detail::acq_rel;
using detail::acquire;
using detail::here;

namespace {

section_guard lock(critical_section& cs) { return sync_wait(cs.lock()); }

void ask_and_leave(ended_by_the_last& s) { s.check_and_leave(s.cs.execute_blocking(s.body())); }

}  // namespace

TEST_SUITE("keeping") {
  TEST_CASE("keeping: its thread and another one ask, and the last one back ends the section") {
    holds([] {
      auto& s = *new ended_by_the_last(2);
      keep(s.cs);
      const auto ask = [&s] { ask_and_leave(s); };
      beside(ask, {ask});
    });
  }

  TEST_CASE("keeping: its thread and two others ask, and the last one back ends the section") {
    holds(
        [] {
          auto& s = *new ended_by_the_last(3);
          keep(s.cs);
          const auto ask = [&s] { ask_and_leave(s); };
          beside(ask, {ask, ask});
        },
        {.most = {1, 1}});
  }

  TEST_CASE("keeping: its thread asks twice, and a coroutine of another one once") {
    holds([] {
      critical_section cs({.ring_capacity = 2});
      guarded<int> n{0};
      const auto add = [&] { return static_cast<int>(n = n + 1); };
      keep(cs);
      beside(
          [&] {
            const int before = cs.execute_blocking(add);
            require(before < cs.execute_blocking(add), "out of order");
          },
          {[&] { sync_wait(cs.execute(add)); }});
      require(n == 3, "not everybody was served");
    });
  }

  TEST_CASE("keeping: its thread stays away, and two others are served") {
    holds([] {
      auto& s = *new ended_by_the_last(2);
      keep(s.cs);
      const auto ask = [&s] { ask_and_leave(s); };
      together({ask, ask});
    });
  }

  TEST_CASE("keeping: its thread stays away, and who is served by another one does not come back") {
    holds([] {
      auto& s = *new ended_by_the_last(2);
      async_scope scope;
      keep(s.cs);
      const auto ask = [&]() -> task<> {
        const int got = co_await s.cs.execute(s.body());
        s.check_and_leave(got);
      };
      together({[&] { scope.spawn(ask()); }, [&] { ask_and_leave(s); }});
      sync_wait(scope.join());
    });
  }

  TEST_CASE("keeping: two were in line before it was kept, and two come while its thread asks") {
    holds(
        [] {
          auto& s = *new ended_by_the_last(3);
          async_scope scope;
          section_guard guard;
          together({[&] { guard = sync_wait(s.cs.lock()); }});
          const auto ask_before = [&]() -> task<> { co_await s.cs.execute([] {}); };
          scope.spawn(ask_before());
          scope.spawn(ask_before());
          guard.unlock();
          sync_wait(scope.join());
          keep(s.cs);
          const auto ask = [&s] { ask_and_leave(s); };
          beside(ask, {ask, ask});
        },
        {.most = {1, 1}});
  }

  TEST_CASE("keeping: its thread has ended, and two others are served") {
    holds([] {
      auto& s = *new ended_by_the_last(2);
      together({[&] { keep(s.cs); }});
      const auto ask = [&s] { ask_and_leave(s); };
      beside(ask, {ask});
    });
  }

  TEST_CASE("keeping: what is queued is served before what its thread asks for after it knows") {
    holds([] {
      async_scope scope;
      critical_section cs({.ring_capacity = 1});
      guarded<int> n{0};
      atomic<bool> queued{false};
      keep(cs);
      beside(
          [&] {
            cs.execute_blocking([&] { n = n + 2; });
            const bool after = queued.load(acquire);
            const int seen = cs.execute_blocking([&] { return static_cast<int>(n); });
            require(!after || seen == 3, "out of order");
          },
          {[&] {
            scope.spawn([&]() -> task<> { co_await cs.execute([&] { n = n + 1; }); }());
            queued.store(true, detail::release);
          }});
      sync_wait(scope.join());
      require(n == 3, "not everybody was served");
    });
  }

  // Who is given the section by its thread, which then has to wait, goes on elsewhere.
  TEST_CASE("keeping: another thread holds a guard while its thread asks") {
    holds([] {
      const shared_pool pool;
      critical_section cs({.ring_capacity = 1});
      guarded<int> n{0};
      keep(cs);
      beside([&] { cs.execute_blocking([&] { n = n + 1; }); }, {[&] {
               const section_guard g = sync_wait(cs.lock());
               n = n + 1;
             }});
      require(n == 2, "not everybody was served");
    });
  }

  TEST_CASE("keeping: somebody tries while its thread asks") {
    holds([] {
      critical_section cs({.ring_capacity = 1});
      guarded<int> n{0};
      guarded<int> tried{0};
      keep(cs);
      beside([&] { cs.execute_blocking([&] { n = n + 1; }); },
             {[&] { tried = cs.try_execute([&] { n = n + 1; }) ? 1 : 0; }});
      require(n == 1 + tried, "not everybody was served");
    });
  }

  TEST_CASE("keeping: its thread stays away, two try, and one of them gets it") {
    holds([] {
      critical_section cs({.ring_capacity = 1});
      guarded<int> n{0};
      atomic<int> got{0};
      keep(cs);
      const auto attempt = [&] {
        if (cs.try_execute([&] { n = n + 1; })) got.fetch_add(1, acq_rel);
      };
      together({attempt, attempt});
      require(got.load(acquire) >= 1, "nobody has got what nobody had");
      require(n == got.load(acquire), "two were inside");
    });
  }

  TEST_CASE("keeping: its thread stays away, one tries to lock it, and another one asks") {
    holds([] {
      critical_section cs({.ring_capacity = 1});
      guarded<int> n{0};
      guarded<int> tried{0};
      keep(cs);
      together({[&] {
                  if (const auto g = cs.try_lock()) {
                    n = n + 1;
                    tried = 1;
                  }
                },
                [&] { cs.execute_blocking([&] { n = n + 1; }); }});
      require(n == 1 + tried, "not everybody was served");
    });
  }

  TEST_CASE("keeping: it is given up for another section while somebody ends it") {
    holds([] {
      auto a = std::make_unique<critical_section>(section_options{.ring_capacity = 1});
      critical_section b({.ring_capacity = 1});
      keep(*a);
      come_close(b);
      beside([&] { ask(b); }, {[&] { a.reset(); }});
      require(!here().keeps->keeps_something(), "it is still kept");
    });
  }

  TEST_CASE("keeping: another section is kept in its place while somebody ends it") {
    holds([] {
      auto a = std::make_unique<critical_section>(section_options{.ring_capacity = 1});
      critical_section b({.ring_capacity = 1});
      keep(*a);
      come_close(b);
      beside(
          [&] {
            for (unsigned i = 0; i <= detail::bodies_in_a_turn + 1; ++i) ask(b);
          },
          {[&] { a.reset(); }});
      if (!here().keeps->keeps_something()) {  // who ends it had taken it, and had not counted
        for (unsigned i = 0; i != detail::bodies_in_a_turn; ++i) ask(b);
      }
      require(here().keeps->keeps_something(), "the other one is not kept");
    });
  }

  TEST_CASE("keeping: what has run is counted while somebody takes it away") {
    holds(
        [] {
          critical_section a({.ring_capacity = 1});
          critical_section b({.ring_capacity = 1});
          keep(a);
          come_close(b);
          const std::uint64_t before = a.statistics().executions;
          const auto has_at_least = [&](std::uint64_t n) {
            require(a.statistics().executions >= before + n, "what has run is not counted");
          };
          beside(
              [&] {
                ask(a);
                has_at_least(1);
                ask(b);  // if a is still its own, it is given up
                has_at_least(1);
                for (unsigned i = 0; i != detail::bodies_in_a_turn; ++i) ask(b);
                has_at_least(1);
              },
              {[&] {
                ask(a);
                has_at_least(1);
              }});
          require(a.statistics().executions == before + 2, "it is counted wrongly");
          for (unsigned i = 0; i != detail::bodies_in_a_turn; ++i) ask(b);
          require(here().keeps->keeps_something(), "nothing is kept any more");
        },
        {.most = {2, 1}});
  }

  TEST_CASE("keeping: it is given up for another section while others ask for it") {
    holds(
        [] {
          auto& s = *new ended_by_the_last(2);
          critical_section b({.ring_capacity = 1});
          keep(s.cs);
          come_close(b);
          const auto ask_first = [&s] { ask_and_leave(s); };
          beside([&] { ask(b); }, {ask_first, ask_first});
        },
        {.most = {2, 1}});
  }

  TEST_CASE("keeping: it is given up while the only one in line goes, who ends it") {
    holds([] {
      auto a = std::make_unique<critical_section>(section_options{.ring_capacity = 1});
      critical_section b({.ring_capacity = 1});
      client c;
      std::stop_source stop;
      keep(*a);
      come_close(b);
      beside([&] { ask(b); }, {[&] {
               c.begin(a->execute([] {}, {.stop = stop.get_token()}));
               stop.request_stop();
               c.end();
               a.reset();
             }});
      c.run_rest();
    });
  }

  TEST_CASE("keeping: a thread that begins has what one that ended kept, and gives it up") {
    holds([] {
      auto& s = *new ended_by_the_last(1);
      critical_section b({.ring_capacity = 1});
      together({[&] { keep(s.cs); }});
      come_close(b);
      require(here().keeps->keeps_something(), "it has another keeper");
      beside([&] { ask(b); }, {[&] { ask_and_leave(s); }});
    });
  }

  TEST_CASE("keeping: within a body of it another section is not kept") {
    holds([] {
      critical_section a({.ring_capacity = 1});
      critical_section b({.ring_capacity = 1});
      guarded<int> n{0};
      keep(a);
      come_close(b);
      beside(
          [&] {
            a.execute_blocking([&] {
              n = n + 1;
              ask(b);
              n = n + 1;
            });
          },
          {[&] { a.execute_blocking([&] { n = n + 1; }); }});
      require(n == 3, "not everybody was served");
    });
  }

  TEST_CASE("keeping: its thread asks for it with another section, and so does somebody else") {
    holds(
        [] {
          critical_section a({.ring_capacity = 1});
          critical_section b({.ring_capacity = 1});
          guarded<int> in_a{0};
          guarded<int> in_b{0};
          const auto both = [&] {
            in_a = in_a + 1;
            in_b = in_b + 1;
          };
          keep(a);
          beside(
              [&] {
                a.execute_blocking([&] { in_a = in_a + 1; });
                sync_wait(execute(std::tie(b, a), both));
              },
              {[&] { sync_wait(execute(std::tie(a, b), both)); }});
          require(in_a == 3 && in_b == 2, "not everybody was served");
        },
        {.most = {2, 1}});
  }

  TEST_CASE("keeping: somebody asks just when it is kept, and the last one back ends the section") {
    holds([] {
      auto& s = *new ended_by_the_last(2);
      come_close(s.cs);
      const auto ask = [&s] { ask_and_leave(s); };
      beside(ask, {ask});
      require(!here().keeps->is_inside(), "it is still inside");
    });
  }

  TEST_CASE("keeping: it is closed while its thread asks, and the last one back ends it") {
    holds([] {
      auto& s = *new ended_by_the_last(2);
      auto& accepted = *new guarded<int>(0);
      keep(s.cs);
      beside(
          [&] {
            try {
              s.cs.execute_blocking(s.body());
              accepted = 1;
            } catch (const section_closed&) {
            }
            s.leave();
          },
          {[&] {
            sync_wait(s.cs.close());
            s.leave();
          }});
      delete &accepted;
    });
  }

  TEST_CASE("keeping: when close is done, all that its thread was let in for has ended") {
    holds([] {
      critical_section cs({.ring_capacity = 1});
      guarded<int> n{0};
      guarded<int> accepted{0};
      keep(cs);
      beside(
          [&] {
            try {
              cs.execute_blocking([&] { n = n + 1; });
              accepted = 1;
            } catch (const section_closed&) {
            }
          },
          {[&] {
            sync_wait(cs.close());
            require(n <= 1, "a body runs after the end");
          }});
      require(n == accepted, "accepted is not served");
    });
  }

  TEST_CASE("keeping: its times are wanted while its thread asks, and somebody else") {
    holds(
        [] {
          critical_section cs({.ring_capacity = 1});
          guarded<int> n{0};
          keep(cs);
          const auto add = [&] { cs.execute_blocking([&] { n = n + 1; }); };
          beside(add, {add, [&] { registry::keep_times(cs); }});
          require(n == 2, "not everybody was served");
          ask(cs);
          require(registry::times(cs).hold.count != 0, "what comes later is not measured");
        },
        {.most = {1, 1}});
  }

  TEST_CASE("keeping: its times are wanted just when it is kept") {
    holds([] {
      critical_section cs({.ring_capacity = 1});
      come_close(cs);
      beside([&] { ask(cs); }, {[&] { registry::keep_times(cs); }});
      const auto before = registry::times(cs).hold.count;
      ask(cs);
      require(registry::times(cs).hold.count == before + 1, "what comes later is not measured");
    });
  }

  TEST_CASE("keeping: it is kept by another thread when somebody tries who saw the first one's") {
    holds(
        [] {
          detail::keeping::most_patience = 0;
          critical_section cs({.ring_capacity = 1});
          guarded<int> n{0};
          guarded<int> tried{0};
          keep(cs);
          together({[&] {
                      come_close(cs);
                      ask(cs);
                      cs.execute_blocking([&] { n = n + 1; });
                    },
                    [&] { tried = cs.try_execute([&] { n = n + 1; }) ? 1 : 0; }});
          require(n == 1 + tried, "not everybody was served");
        },
        {.most = {1, 1}});
  }

  TEST_CASE(
      "keeping: its thread keeps another section when somebody tries who saw it at the first") {
    holds(
        [] {
          critical_section a({.ring_capacity = 1});
          critical_section b({.ring_capacity = 1});
          guarded<int> in_a{0};
          guarded<int> in_b{0};
          guarded<int> tried{0};
          keep(a);
          come_close(b);
          here().left_in_turn = here().last_in_turn;
          beside(
              [&] {
                a.execute_blocking([&] { in_a = in_a + 1; });
                let_a_turn_end();
                b.execute_blocking([&] { in_b = in_b + 1; });
              },
              {[&] { tried = a.try_execute([&] { in_a = in_a + 1; }) ? 1 : 0; },
               [&] { b.execute_blocking([&] { in_b = in_b + 1; }); }});
          require(in_a == 1 + tried && in_b == 2, "not everybody was served");
        },
        {.most = {3, 0}});
  }

  TEST_CASE("keeping: its thread unlocks a guard while another one asks, who ends the section") {
    holds([] {
      auto& s = *new ended_by_the_last(1);
      keep(s.cs);
      section_guard guard = lock(s.cs);
      beside([&] { guard.unlock(); }, {[&] { ask_and_leave(s); }});
    });
  }

  TEST_CASE(
      "keeping: another thread unlocks its guard while a third one asks, who ends the section") {
    holds([] {
      auto& s = *new ended_by_the_last(1);
      keep(s.cs);
      section_guard guard = lock(s.cs);
      together({[&] { guard.unlock(); }, [&] { ask_and_leave(s); }});
    });
  }

  TEST_CASE("keeping: another thread unlocks its guard while its thread asks, and a third one") {
    holds(
        [] {
          critical_section cs({.ring_capacity = 1});
          guarded<int> n{0};
          const auto add = [&n] { n = n + 1; };
          client c;
          keep(cs);
          section_guard guard = lock(cs);
          beside(
              [&] {
                c.begin(cs.execute(add));
                c.end();
              },
              {[&] { guard.unlock(); }, [&] { cs.execute_blocking(add); }});
          c.run_rest();
          require(n == 2, "not everybody was served");
        },
        {.most = {1, 1}});
  }

  TEST_CASE(
      "keeping: another thread unlocks its guard while its thread comes back to another section") {
    holds(
        [] {
          critical_section a({.ring_capacity = 1});
          critical_section b({.ring_capacity = 1});
          keep(a);
          ask(a);
          section_guard guard = lock(a);
          const std::uint64_t before = a.statistics().executions;
          const auto come_back_to_b = [&] {
            come_close(b);
            ask(b);
          };
          beside(come_back_to_b, {[&] {
                   guard.unlock();
                   require(a.statistics().executions == before + 1, "it is counted wrongly");
                 }});
          come_back_to_b();
          require(here().keeps->keeps_something() && !here().keeps->is_inside(),
                  "the other one is not kept");
          together({[&] { ask(a); }, [&] { ask(b); }});
          require(a.statistics().executions == before + 2, "it is counted wrongly");
        },
        {.most = {2, 1}});
  }

  TEST_CASE("keeping: its thread has ended when its guard is unlocked, and another one begins") {
    holds(
        [] {
          critical_section a({.ring_capacity = 1});
          critical_section b({.ring_capacity = 1});
          guarded<int> n{0};
          section_guard guard;
          together({[&] {
            keep(a);
            guard = lock(a);
            n = n + 1;
          }});
          beside(
              [&] {
                keep(b);
                ask(b);
              },
              {[&] {
                 n = n + 1;
                 guard.unlock();
               },
               [&] { a.execute_blocking([&] { n = n + 1; }); }});
          require(n == 3, "not everybody was served");
        },
        {.most = {2, 1}});
  }

  TEST_CASE(
      "keeping: its guard is detached, and unlocked by another thread while a third one asks") {
    holds([] {
      auto& s = *new ended_by_the_last(1);
      keep(s.cs);
      section_guard guard = lock(s.cs);
      guard.detach();
      together({[&] { guard.unlock(); }, [&] { ask_and_leave(s); }});
    });
  }

  TEST_CASE("keeping: its guard is detached while another thread looks whether somebody has it") {
    holds([] {
      critical_section cs({.ring_capacity = 1});
      keep(cs);
      section_guard guard = lock(cs);
      beside([&] { guard.detach(); }, {[&] { require(cs.statistics().held, "nobody has it"); }});
    });
  }
}
