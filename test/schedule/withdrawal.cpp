// withdrawal.cpp - requests that go before their turn: the line, lanes, several sections, those set
// aside; and the tokens that they keep.
//
// Who asks is a client, begun by the scenario's own thread, so that what is in line at first costs
// no turns. Where its own thread matters, that begins it.

#include "schedule/client.hpp"
#include "schedule/lane.hpp"
#include "schedule/place.hpp"
#include "schedule/shared_pool.hpp"

#include <turnstile/manual_clock.hpp>
#include <turnstile/turnstile.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <tuple>
#include <utility>
#include <vector>

using namespace schedule;
using namespace turnstile;
using namespace std::chrono_literals;
using detail::acq_rel;
using detail::relaxed;

namespace {

bool went(ending e) {
  return e == ending::cancelled || e == ending::expired || e == ending::closed;
}

constexpr auto much = how{.most = {3, 2}};

}  // namespace

TEST_SUITE("withdrawal") {
  // --- in line ----------------------------------------------------------------------------------

  TEST_CASE("withdrawal: it is counted who waits while the first one that may go begins to") {
    holds([] {
      place p;
      client c;
      std::stop_source stop;
      p.hold();
      together({[&] { c.begin(p.ask(0, stop)); },
                [&] {
                  const section_statistics s = p.cs.statistics();
                  require(s.withdrawn == 0 && s.waiters <= 1, "counted for nothing");
                }});
      p.unlock();
      require(c.end() == ending::ran, "not served");
      p.is_free();
    });
  }

  TEST_CASE("withdrawal: one of three goes while the holder hands over") {
    holds(
        [] {
          const std::size_t which = any_of(3);
          place p;
          std::array<client, 3> c;
          std::array<std::stop_source, 3> stop;
          p.hold();
          for (std::size_t i = 0; i != 3; ++i) c[i].begin(p.ask(static_cast<int>(i), stop[i]));
          together({[&] { p.unlock(); }, [&] { stop[which].request_stop(); }});
          int ran = 0;
          for (std::size_t i = 0; i != 3; ++i) {
            const ending how = c[i].end();
            require(how == ending::ran || i == which, "the wrong one went");
            ran += how == ending::ran ? 1 : 0;
          }
          for (client& each : c) each.run_rest();
          require(p.n == ran, "not once each");
          p.is_free();
        },
        {.most = {2, 2}});
  }

  TEST_CASE("withdrawal: two of two go while the holder hands over") {
    holds([] {
      place p;
      std::array<client, 2> c;
      std::array<std::stop_source, 2> stop;
      p.hold();
      for (std::size_t i = 0; i != 2; ++i) c[i].begin(p.ask(static_cast<int>(i), stop[i]));
      together(
          {[&] { p.unlock(); }, [&] { stop[0].request_stop(); }, [&] { stop[1].request_stop(); }});
      int ran = 0;
      for (client& each : c) ran += each.end() == ending::ran ? 1 : 0;
      require(p.n == ran, "not once each");
      p.is_free();
    });
  }

  TEST_CASE("withdrawal: who looks for its turn in place is asked to stop by the body before") {
    holds([] {
      const bool by_scope = any_of(2) != 0;  // which nobody withdraws for
      place p({.ring_capacity = 2});
      std::stop_source stop;
      async_scope scope;
      guarded<bool> waits{false};
      guarded<ending> how{ending::none};
      together({[&] {
                  p.cs.execute_blocking([&] {
                    waits = p.cs.statistics().waiters != 0;
                    stop.request_stop();
                    scope.request_stop();
                  });
                },
                [&] {
                  if (by_scope) {
                    scope.spawn(note(p.ask(0), how));
                  } else {
                    how = client().run(p.ask(0, stop));
                  }
                }});
      static_cast<void>(client().run(scope.join()));
      const bool ran = how == ending::ran;
      require(ran || how == ending::cancelled, "neither ran nor went");
      require(!ran || !waits, "it was asked to stop in line, and ran");
      p.is_free();
    });
  }

  TEST_CASE("withdrawal: who looks for its turn in place has its deadline in the body before") {
    holds([] {
      manual_clock clock;
      place p({.ring_capacity = 2});
      guarded<bool> waits{false};
      guarded<int> how{-1};
      const auto until = clock.now() + 1ms;
      together({[&] {
                  p.cs.execute_blocking([&] {
                    waits = p.cs.statistics().waiters != 0;
                    clock.advance(2ms);
                  });
                },
                [&] { how = static_cast<int>(client().run(p.ask(0, until))); }});
      const bool ran = how == static_cast<int>(ending::ran);
      require(ran || how == static_cast<int>(ending::expired), "neither ran nor went");
      require(!ran || !waits, "its deadline came in line, and it ran");
      p.is_free();
    });
  }

  // Whoever comes after that body has found no stop, or has waited for it.
  TEST_CASE("withdrawal: nobody begins whom the body before has asked to stop") {
    holds([] {
      const std::size_t way = any_of(5);
      const shared_pool pool;  // what is withdrawn comes back there
      place p({.ring_capacity = 2});
      async_scope scope;
      std::stop_source stop;
      const std::stop_token token = stop.get_token();
      const execute_options options{.stop = token};
      const std::stop_token around = scope.stop_token();  // known from now on
      guarded<bool> asked{false};
      const auto begins = [&] { require(!asked, "it was asked to stop before"); };
      const auto waits = [&]() -> task<> {
        begins();
        co_return;
      };
      const auto locks = [&](const execute_options& how) -> task<> {
        const section_guard guard = co_await p.cs.lock(how);
        begins();
      };
      together({[&] {
                  p.cs.execute_blocking([&] {
                    stop.request_stop();
                    scope.request_stop();
                    asked = true;
                  });
                },
                [&] {
                  switch (way) {
                    case 0: static_cast<void>(client().run(p.cs.execute(begins, options))); break;
                    case 1: static_cast<void>(client().run(p.cs.execute(waits, options))); break;
                    case 2: static_cast<void>(client().run(locks(options))); break;
                    case 3: scope.spawn(p.cs.execute(begins)); break;
                    default: scope.spawn(locks({}));
                  }
                }});
      static_cast<void>(client().run(scope.join()));
      p.is_free();
    });
  }

  TEST_CASE("withdrawal: one looks for its turn in place, and others go, wait apart, or close") {
    holds(
        [] {
          const int other = any_of(3);
          place p({.ring_capacity = 2});
          std::stop_source stop;
          p.hold();
          together({[&] {
                      p.unlock();
                      stop.request_stop();
                    },
                    [&] {
                      const ending how = client().run(p.open_it());
                      require(how == ending::ran || (other == 2 && how == ending::closed),
                              "not served");
                    },
                    [&] {
                      client c;
                      switch (other) {
                        case 0: static_cast<void>(c.run(p.ask(0, stop))); break;
                        case 1: require(c.run(p.ask_when(0)) == ending::ran, "not woken"); break;
                        default: require(c.run(p.cs.close()) == ending::ran, "not closed");
                      }
                    }});
          if (other != 2) p.is_free();
        },
        {.most = {1, 1}});
  }

  TEST_CASE("withdrawal: two in line, one of them goes, and the last one back ends the section") {
    holds(
        [] {
          const std::size_t which = any_of(2);
          shared_place p(3);
          std::array<client, 2> c;
          std::array<std::stop_source, 2> stop;
          p.hold();
          for (std::size_t i = 0; i != 2; ++i) c[i].begin(p->ask(static_cast<int>(i), stop[i]));
          const std::size_t first = any_of(3);
          beside({[&] { p.unlock(); }, [&] { stop[which].request_stop(); }}, [&] {
            for (std::size_t i = first; i != first + 3; ++i) {
              if (i % 3 == 2) {
                p.end_of_holder();
              } else {
                require(p.end(c[i % 3]) == ending::ran || i % 3 == which, "the wrong one went");
              }
            }
          });
        },
        {.most = {2, 0}});
  }

  TEST_CASE("withdrawal: the only one in line goes, and ends the section that is just being left") {
    holds(
        [] {
          shared_place p(2);
          client c;
          std::stop_source stop;
          p.hold();
          c.begin(p->ask(0, stop));
          const bool holder_first = any_of(2) == 1;
          beside({[&] { p.unlock(); }, [&] { stop.request_stop(); }}, [&] {
            if (holder_first) p.end_of_holder();
            p.end(c);
            if (!holder_first) p.end_of_holder();
          });
        },
        {.most = {2, 1}});
  }

  TEST_CASE("withdrawal: a deadline comes while the holder hands over") {
    holds([] {
      manual_clock clock;
      const std::size_t which = any_of(2);
      place p;
      std::array<client, 2> c;
      p.hold();
      for (std::size_t i = 0; i != 2; ++i) {
        c[i].begin(p.ask(static_cast<int>(i), clock.now() + (i == which ? 1s : 2s)));
      }
      together({[&] { p.unlock(); }, [&] { clock.advance(1s); }});
      const ending first = c[0].end();
      const ending second = c[1].end();
      require((which == 0 ? second : first) == ending::ran, "the wrong one went");
      require(p.n == (first == ending::ran) + (second == ending::ran), "not once each");
      require(clock.pending() == 0, "a timer was left");
      p.is_free();
    });
  }

  TEST_CASE(
      "withdrawal: a token and a deadline come at once while it gets into line, and it goes once") {
    holds(
        [] {
          manual_clock clock;
          place p;
          client c;
          std::stop_source stop;
          p.hold();
          const std::stop_token token = stop.get_token();
          const auto until = clock.now() + 1s;
          beside({[&] { clock.advance(1s); }, [&] { stop.request_stop(); }}, [&] {
            c.begin(p.cs.execute(p.body(0), {.stop = token, .deadline = until}));
            const ending how = c.end();
            require(how == ending::cancelled || how == ending::expired, "a wrong error");
          });
          require(clock.pending() == 0, "a timer was left");
          p.unlock();
          p.is_free();
        },
        {.most = {1, 0}});
  }

  TEST_CASE("withdrawal: it is asked to go while it gets into line, whoever has the section") {
    holds(
        [] {
          place p;
          client c;
          std::stop_source stop;
          p.hold();
          together({[&] { stop.request_stop(); },
                    [&] { require(c.run(p.ask(0, stop)) == ending::cancelled, "it ran"); }});
          p.unlock();
          require(p.n == 0, "it ran");
          p.is_free();
        },
        much);
  }

  TEST_CASE("withdrawal: it is asked to go, and then the section is handed over") {
    holds([] {
      place p;
      client c;
      std::stop_source stop;
      p.hold();
      beside({[&] {
               stop.request_stop();
               p.unlock();
             }},
             [&] {
               c.begin(p.ask(0, stop));
               const bool waited = !c.has_ended();
               require(c.end() == ending::cancelled || !waited, "it ran");
             });
      c.run_rest();
      p.is_free();
    });
  }

  TEST_CASE("withdrawal: it gets into line while the section is handed over, and ends it") {
    holds(
        [] {
          shared_place p(2);
          client c;
          std::stop_source stop;
          p.hold();
          beside({[&] { p.unlock(); }, [&] { stop.request_stop(); }, [&] { p.end_of_holder(); }},
                 [&] {
                   c.begin(p->ask(0, stop));
                   p.end(c);
                 });
        },
        {.most = {2, 0}});
  }

  TEST_CASE("withdrawal: two get into line while the section is handed over, and one goes") {
    holds(
        [] {
          place p;
          client a;
          client b;
          std::stop_source stop;
          p.hold();
          const auto add = [&] { p.n = p.n + 1; };
          beside({[&] { p.unlock(); }, [&] { stop.request_stop(); },
                  [&] { a.run(p.cs.execute(add, {.stop = stop.get_token()})); }},
                 [&] { require(b.run(p.cs.execute(add)) == ending::ran, "the wrong one went"); });
          a.run_rest();
          b.run_rest();
          p.is_free();
        },
        {.most = {2, 0}});
  }

  TEST_CASE("withdrawal: one goes when the time to serve others is up, and its job runs at once") {
    holds(
        [] {
          const bool another = any_of(2) == 1;
          place p;
          std::array<client, 4> c;
          std::array<std::stop_source, 4> stop;
          p.hold();
          const std::size_t all = another ? 4 : 3;
          for (std::size_t i = 0; i != all; ++i) c[i].begin(p.ask(static_cast<int>(i), stop[i]));
          together({[&] { p.unlock(); }, [&] { stop[2].request_stop(); }, [&] { c[2].end(); }});
          for (std::size_t i = 0; i != all; ++i) {
            if (i != 2) require(c[i].end() == ending::ran, "the wrong one went");
          }
          for (client& each : c) each.run_rest();
          p.is_free();
        },
        {.most = {1, 1}});
  }

  TEST_CASE("withdrawal: who waits for a lock goes while the section is handed over") {
    holds(
        [] {
          place p;
          client a;
          client b;
          std::stop_source stop;
          const auto lock = [&](std::stop_token token) -> task<> {
            section_guard g = co_await p.cs.lock({.stop = token});
            p.n = p.n + 1;
          };
          p.hold();
          a.begin(lock(stop.get_token()));
          b.begin(lock({}));
          beside({[&] { p.unlock(); }, [&] { stop.request_stop(); }}, [&] {
            a.end();
            require(b.end() == ending::ran, "the wrong one went");
          });
          p.is_free();
        },
        {.most = {2, 1}});
  }

  TEST_CASE("withdrawal: a body that waits is not stopped, and those behind it are served") {
    holds([] {
      place p;
      client first;
      client second;
      std::stop_source stop;
      auto& given = *new signal;
      p.hold();
      const auto body = [&]() -> task<> {
        p.busy = true;
        co_await given;
        p.busy = false;
      };
      const std::stop_token token = stop.get_token();
      first.begin(p.cs.execute(body, {.stop = token}));
      second.begin(p.ask(0));
      together({[&] { p.unlock(); }, [&] { stop.request_stop(); }, [&] { given.give(); }});
      first.end();
      require(second.end() == ending::ran, "the wrong one went");
      p.is_free();
      delete &given;
    });
  }

  TEST_CASE("withdrawal: closing waits for nobody who has gone") {
    holds(
        [] {
          place p;
          client asks;
          client closes;
          std::stop_source stop;
          p.hold();
          asks.begin(p.ask(0, stop));
          closes.begin(p.cs.close());
          together({[&] { p.unlock(); }, [&] { stop.request_stop(); }, [&] { closes.end(); }});
          const ending how = asks.end();
          require(how != ending::closed, "what was accepted is refused");
          require(p.n == (how == ending::ran), "not once");
        },
        {.most = {2, 1}});
  }

  // --- on a lane --------------------------------------------------------------------------------

  TEST_CASE("withdrawal: it goes while its section waits for the lane, and ends it") {
    holds(
        [] {
          server serves;
          shared_place p(1, {.executor = executor_ref(serves), .ring_capacity = 1});
          client c;
          std::stop_source stop;
          c.begin(p->ask(0, stop));
          beside({[&] { stop.request_stop(); }}, [&] {
            const ending how = c.end();
            require(p->n == (how == ending::ran), "not once");
            p->is_free();
            p.leave();
          });
        },
        {.most = {2, 2}});
  }

  TEST_CASE("withdrawal: the first of two goes while the section waits for the lane") {
    holds(
        [] {
          const bool both_may = any_of(2) == 1;
          server serves;
          shared_place p(2, {.executor = executor_ref(serves), .ring_capacity = 1});
          std::array<client, 2> c;
          std::stop_source stop;
          std::stop_source other;
          c[0].begin(p->ask(0, stop));
          both_may ? c[1].begin(p->ask(1, other)) : c[1].begin(p->ask(1));
          beside({[&] { stop.request_stop(); }}, [&] {
            c[0].end();
            p.leave();
          });
          require(c[1].end() == ending::ran, "the wrong one went");
          p->is_free();
          p.leave();
        },
        {.most = {2, 1}});
  }

  TEST_CASE("withdrawal: two go while the section waits for the lane, and a third one does not") {
    holds(
        [] {
          const bool another = any_of(2) == 1;
          server serves;
          place p({.executor = executor_ref(serves), .ring_capacity = 1});
          std::array<client, 3> c;
          std::array<std::stop_source, 2> stop;
          for (std::size_t i = 0; i != 2; ++i) c[i].begin(p.ask(static_cast<int>(i), stop[i]));
          if (another) c[2].begin(p.ask(2));
          together({[&] { stop[0].request_stop(); }, [&] { stop[1].request_stop(); }});
          int ran = c[0].end() == ending::ran ? 1 : 0;
          ran += c[1].end() == ending::ran ? 1 : 0;
          if (another) require(c[2].end() == ending::ran, "the wrong one went");
          require(p.n == ran + (another ? 1 : 0), "not once each");
          p.is_free();
        },
        {.most = {2, 0}});
  }

  TEST_CASE("withdrawal: who is back has its job in the executor, which may end then") {
    holds(
        [] {
          auto gui = std::make_unique<client>();
          place p({.executor = executor_ref(*gui), .ring_capacity = 1});
          client holder;
          client c;
          std::stop_source stop;
          section_guard guard;
          holder.run([&]() -> task<> { guard = co_await p.cs.lock(); }());
          guard.detach();
          c.begin(p.ask(0, stop));
          beside({[&] { guard.unlock(); }, [&] { stop.request_stop(); }}, [&] {
            require(c.end() == ending::cancelled, "it ran, and nobody works there");
            gui->run_rest();
            gui.reset();
          });
        },
        {.most = {2, 1}});
  }

  TEST_CASE("withdrawal: it is asked to go while it gets to the lane") {
    holds(
        [] {
          server serves;
          shared_place p(1, {.executor = executor_ref(serves), .ring_capacity = 1});
          client c;
          std::stop_source stop;
          beside({[&] { stop.request_stop(); }}, [&] {
            c.run(p->ask(0, stop));
            p->is_free();
            p.leave();
          });
        },
        {.most = {2, 1}});
  }

  // --- several sections, and what nobody awaits --------------------------------------------------

  TEST_CASE("withdrawal: who has one section and waits for another one goes, and leaves both") {
    holds(
        [] {
          place a;
          place b;
          client both;
          client behind;
          std::stop_source stop;
          b.hold();
          const auto body = [&] {
            a.n = a.n + 1;
            b.n = b.n + 1;
          };
          const std::stop_token token = stop.get_token();
          both.begin(execute(std::tie(a.cs, b.cs), body, {.stop = token}));
          behind.begin(a.ask(0));
          together({[&] { b.unlock(); }, [&] { stop.request_stop(); }, [&] { both.end(); }});
          require(behind.end() == ending::ran, "the wrong one went");
          both.run_rest();
          require(a.n == b.n + 1, "not in both");
          a.is_free();
          b.is_free();
        },
        {.most = {2, 1}});
  }

  TEST_CASE("withdrawal: who waits for two sections one after the other goes, or has both") {
    holds(
        [] {
          place a;
          place b;
          client both;
          std::stop_source stop;
          a.hold();
          b.hold();
          const auto body = [&] { a.n = a.n + 1; };
          const std::stop_token token = stop.get_token();
          both.begin(execute(std::tie(a.cs, b.cs), body, {.stop = token}));
          beside({[&] {
                    a.unlock();
                    b.unlock();
                  },
                  [&] { stop.request_stop(); }},
                 [&] {
                   const ending how = both.end();
                   require(a.n == (how == ending::ran), "not once");
                 });
          both.run_rest();
          a.is_free();
          b.is_free();
        },
        {.most = {2, 0}});
  }

  TEST_CASE("withdrawal: it is asked to go while it enters several sections, and ends them") {
    holds(
        [] {
          const bool second = any_of(2) == 1;
          shared_place a(second ? 1 : 2);
          shared_place b(second ? 2 : 1);
          shared_place& held = second ? b : a;
          client c;
          std::stop_source stop;
          held.hold();
          together({[&] { held.unlock(); }, [&] { stop.request_stop(); },
                    [&] { held.end_of_holder(); },
                    [&] {
                      const auto body = [&] { a->n = a->n + 1; };
                      const std::stop_token token = stop.get_token();
                      c.run(execute(std::tie(a->cs, b->cs), body, {.stop = token}));
                      a.leave();
                      b.leave();
                    }});
        },
        {.most = {1, 1}});
  }

  TEST_CASE("withdrawal: what was submitted goes, or its body runs, and the handle says which") {
    holds(
        [] {
          const shared_pool pool;
          place p;
          std::stop_source stop;
          p.hold();
          auto handle = p.cs.submit(p.body(0), {.stop = stop.get_token()});
          together({[&] { p.unlock(); }, [&] { stop.request_stop(); }});
          bool ran = true;
          try {
            sync_wait(std::move(handle));
          } catch (const operation_cancelled&) {
            ran = false;
          }
          require(p.n == (ran ? 1 : 0), "not once");
          p.is_free();
        },
        {.most = {1, 0}});
  }

  TEST_CASE("withdrawal: what was posted goes, or its body runs") {
    static int errors = 0;
    on_unobserved_error(
        [](std::exception_ptr, std::string_view, std::source_location) { ++errors; });
    holds(
        [] {
          errors = 0;
          place p;
          std::stop_source stop;
          {
            const shared_pool pool;
            p.hold();
            p.cs.post(p.body(0), {.stop = stop.get_token()});
            together({[&] { p.unlock(); }, [&] { stop.request_stop(); }});
          }
          require(p.n + errors == 1, "not once");
          p.is_free();
        },
        {.most = {1, 0}});
    on_unobserved_error(nullptr);
  }

  // --- set aside --------------------------------------------------------------------------------

  TEST_CASE("withdrawal: one that is set aside goes while a body makes its predicate true") {
    holds(
        [] {
          place p;
          client waits;
          client opens;
          std::stop_source stop;
          waits.begin(p.ask_when(0, stop));
          together({[&] { require(opens.run(p.open_it()) == ending::ran, "not served"); },
                    [&] { stop.request_stop(); }});
          const ending how = waits.end();
          require(p.n == (how == ending::ran), "not once");
          p.is_free();
        },
        much);
  }

  TEST_CASE("withdrawal: one that is set aside goes, and ends the section") {
    holds([] {
      shared_place p(2);
      client waits;
      client opens;
      std::stop_source stop;
      waits.begin(p->ask_when(0, stop));
      beside({[&] {
                opens.run(p->open_it());
                p.leave();
              },
              [&] { stop.request_stop(); }},
             [&] {
               waits.end();
               p.leave();
             });
    });
  }

  TEST_CASE("withdrawal: two are set aside, and one goes while both might run") {
    holds(
        [] {
          const std::size_t which = any_of(2);
          place p;
          std::array<client, 2> c;
          std::array<std::stop_source, 2> stop;
          client opens;
          for (std::size_t i = 0; i != 2; ++i) c[i].begin(p.ask_when(static_cast<int>(i), stop[i]));
          together({[&] { opens.run(p.open_it()); }, [&] { stop[which].request_stop(); }});
          int ran = 0;
          for (std::size_t i = 0; i != 2; ++i) {
            const ending how = c[i].end();
            require(how == ending::ran || i == which, "the wrong one went");
            ran += how == ending::ran ? 1 : 0;
          }
          require(p.n == ran, "not once each");
          p.is_free();
        },
        much);
  }

  TEST_CASE("withdrawal: two are set aside, and each of them goes") {
    holds(
        [] {
          place p;
          std::array<client, 2> c;
          std::array<std::stop_source, 2> stop;
          client opens;
          for (std::size_t i = 0; i != 2; ++i) c[i].begin(p.ask_when(static_cast<int>(i), stop[i]));
          together({[&] { opens.run(p.open_it()); }, [&] { stop[0].request_stop(); },
                    [&] { stop[1].request_stop(); }});
          int ran = 0;
          for (client& each : c) ran += each.end() == ending::ran ? 1 : 0;
          require(p.n == ran, "not once each");
          p.is_free();
        },
        {.most = {2, 1}});
  }

  TEST_CASE("withdrawal: it is set aside while it is asked to go, and ends the section") {
    holds(
        [] {
          shared_place p(1);
          client c;
          std::stop_source stop;
          beside({[&] { stop.request_stop(); }}, [&] {
            require(c.run(p->ask_when(0, stop)) == ending::cancelled, "it ran");
            p.leave();
          });
        },
        much);
  }

  TEST_CASE("withdrawal: it is set aside by one owner while the next one wakes it") {
    holds(
        [] {
          shared_place p(2);
          client waits;
          client opens;
          std::stop_source stop;
          beside({[&] {
                    opens.run(p->open_it());
                    p.leave();
                  },
                  [&] { stop.request_stop(); }},
                 [&] {
                   waits.run(p->ask_when(0, stop));
                   p.leave();
                 });
          opens.run_rest();
        },
        {.most = {2, 1}});
  }

  TEST_CASE("withdrawal: in line, then set aside, and it goes") {
    holds(
        [] {
          place p;
          client waits;
          client opens;
          std::stop_source stop;
          p.hold();
          waits.begin(p.ask_when(0, stop));
          opens.begin(p.open_it());
          together({[&] { p.unlock(); }, [&] { stop.request_stop(); }});
          const ending how = waits.end();
          require(opens.end() == ending::ran, "the wrong one went");
          require(p.n == (how == ending::ran), "not once");
          p.is_free();
        },
        much);
  }

  TEST_CASE("withdrawal: in line, then set aside, and it goes and ends the section") {
    holds(
        [] {
          shared_place p(2);
          client waits;
          std::stop_source stop;
          p.hold();
          waits.begin(p->ask_when(0, stop));
          beside({[&] { p.unlock(); }, [&] { stop.request_stop(); }}, [&] {
            p.end_of_holder();
            require(p.end(waits) == ending::cancelled, "it ran");
          });
        },
        {.most = {2, 1}});
  }

  TEST_CASE("withdrawal: set aside by one owner, woken by the next one, and it goes on at once") {
    holds(
        [] {
          place p;
          client waits;
          client opens;
          p.hold();
          waits.begin(p.ask_when(0, std::stop_source()));
          beside({[&] { p.unlock(); }, [&] { opens.run(p.open_it()); }},
                 [&] { require(waits.end() == ending::ran, "not served"); });
          p.is_free();
        },
        {.most = {2, 1}});
  }

  TEST_CASE("withdrawal: one that was woken goes when the time to serve others is up") {
    holds(
        [] {
          const bool two = any_of(2) == 1;
          place p;
          client waits;
          client waits_too;
          std::array<client, 2> c;
          std::stop_source stop;
          waits.begin(p.ask_when(0, stop));
          if (two) waits_too.begin(p.ask_when(1));
          p.hold();
          c[0].begin(p.cs.execute([] {}));
          c[1].begin(p.open_it());
          together({[&] { p.unlock(); }, [&] { stop.request_stop(); }, [&] { waits.end(); }});
          for (client& each : c) require(each.end() == ending::ran, "the wrong one went");
          if (two) require(waits_too.end() == ending::ran, "the wrong one went");
          waits.run_rest();
          p.is_free();
        },
        {.most = {1, 1}});
  }

  TEST_CASE("withdrawal: a section closes while one that is set aside goes") {
    holds([] {
      manual_clock clock;
      place p;
      client waits;
      client closes;
      const auto no = [] { return false; };
      waits.begin(p.cs.execute_when(no, [] {}, {.deadline = clock.now() + 1s}));
      together({[&] { require(closes.run(p.cs.close()) == ending::ran, "not closed"); },
                [&] { clock.advance(1s); }});
      require(went(waits.end()), "it ran");
      require(clock.pending() == 0, "a timer was left");
    });
  }

  TEST_CASE("withdrawal: a section closes and ends while one that is set aside goes") {
    holds([] {
      const bool stops = any_of(2) == 1;
      shared_place p(2);
      client waits;
      client closes;
      std::stop_source stop;
      waits.begin(p->ask_when(0, stop));
      beside({[&] {
                closes.run(p->cs.close());
                p.leave();
              },
              [&] {
                if (stops) stop.request_stop();
              }},
             [&] {
               const ending how = waits.end();
               require(how == ending::closed || (stops && how == ending::cancelled), "it ran");
               p.leave();
             });
    });
  }

  TEST_CASE("withdrawal: a section ends, and one that was set aside has gone") {
    holds(
        [] {
          shared_place p(2);
          std::array<client, 2> c;
          std::stop_source stop;
          for (std::size_t i = 0; i != 2; ++i) c[i].begin(p->ask_when(static_cast<int>(i), stop));
          const auto end = [&](client& each) {
            require(each.end() == ending::cancelled, "it ran");
            p.leave();
          };
          together({[&] { stop.request_stop(); }, [&] { end(c[0]); }, [&] { end(c[1]); }});
        },
        {.most = {2, 1}});
  }

  TEST_CASE("withdrawal: a body that waits is woken, and goes or runs") {
    holds([] {
      place p;
      client waits;
      client opens;
      std::stop_source stop;
      auto& given = *new signal;
      const auto is_open = [&] { return static_cast<bool>(p.open); };
      const auto body = [&]() -> task<> {
        p.n = p.n + 1;
        co_await given;
        p.n = p.n + 1;
      };
      const std::stop_token token = stop.get_token();
      waits.begin(p.cs.execute_when(is_open, body, {.stop = token}));
      together(
          {[&] { opens.run(p.open_it()); }, [&] { stop.request_stop(); }, [&] { given.give(); }});
      const ending how = waits.end();
      require(p.n == (how == ending::ran ? 2 : 0), "not once");
      p.is_free();
      delete &given;
    });
  }

  TEST_CASE(
      "withdrawal: on a lane, one that is set aside goes while a body makes its predicate true") {
    holds(
        [] {
          server serves;
          place p({.executor = executor_ref(serves), .ring_capacity = 1});
          client waits;
          client opens;
          std::stop_source stop;
          waits.begin(p.ask_when(0, stop));
          opens.begin(p.open_it());
          together({[&] { stop.request_stop(); }});
          const ending how = waits.end();
          require(opens.end() == ending::ran, "the wrong one went");
          require(p.n == (how == ending::ran), "not once");
          p.is_free();
        },
        {.most = {2, 1}});
  }

  TEST_CASE(
      "withdrawal: on a lane, it is set aside while it is asked to go, and ends the section") {
    holds(
        [] {
          server serves;
          shared_place p(1, {.executor = executor_ref(serves), .ring_capacity = 1});
          client waits;
          std::stop_source stop;
          waits.begin(p->ask_when(0, stop));
          beside({[&] { stop.request_stop(); }},
                 [&] { require(p.end(waits) == ending::cancelled, "it ran"); });
        },
        {.most = {2, 1}});
  }

  TEST_CASE("withdrawal: on a lane, a hold ends elsewhere, and one that is set aside goes") {
    holds(
        [] {
          server serves;
          place p({.executor = executor_ref(serves), .ring_capacity = 1});
          std::array<client, 2> waits;
          client holds_it;
          std::stop_source stop;
          signal go_on;
          const auto may = [&] {
            require(detail::here().runs_on == executor_ref(serves), "asked elsewhere");
            return static_cast<bool>(p.open);
          };
          const std::stop_token token = stop.get_token();
          waits[0].begin(p.cs.execute_when(may, p.body(0), {.stop = token}));
          waits[1].begin(p.cs.execute_when(may, p.body(1)));
          const auto open_late = [&]() -> task<> {
            co_await go_on;
            p.open = true;
          };
          holds_it.begin(p.cs.execute(open_late));
          together({[&] { stop.request_stop(); }, [&] { go_on.give(); }});
          const ending how = waits[0].end();
          require(waits[1].end() == ending::ran, "the wrong one went");
          require(holds_it.end() == ending::ran, "the wrong one went");
          require(p.n == (how == ending::ran ? 2 : 1), "not once each");
          p.is_free();
        },
        {.most = {1, 0}});
  }

  TEST_CASE(
      "withdrawal: on a lane, a hold ends elsewhere, and all that are set aside go and end it") {
    holds(
        [] {
          server serves;
          shared_place p(2, {.executor = executor_ref(serves), .ring_capacity = 1});
          client waits;
          std::stop_source stop;
          waits.begin(p->ask_when(0, stop));
          p.hold();
          beside({[&] { p.unlock(); }, [&] { stop.request_stop(); }}, [&] {
            p.end_of_holder();
            require(p.end(waits) == ending::cancelled, "it ran");
          });
        },
        {.most = {1, 0}});
  }

  TEST_CASE("withdrawal: whoever withdraws asks no predicate") {
    holds(
        [] {
          server serves;
          place p({.executor = executor_ref(serves), .ring_capacity = 1});
          client waits;
          std::array<client, 2> c;
          std::array<std::stop_source, 2> stop;
          const auto may = [&] {
            require(detail::here().runs_on == executor_ref(serves), "on another thread");
            return static_cast<bool>(p.open);
          };
          waits.begin(p.cs.execute_when(may, [] {}));
          client first;
          first.run(p.cs.execute([] {}));  // it is set aside then
          for (std::size_t i = 0; i != 2; ++i) c[i].begin(p.ask(static_cast<int>(i), stop[i]));
          together({[&] { stop[0].request_stop(); }, [&] { stop[1].request_stop(); }});
          c[0].end();
          c[1].end();
          client opens;
          opens.run(p.open_it());
          require(waits.end() == ending::ran, "not served");
          p.is_free();
        },
        {.most = {2, 0}});
  }

  // --- the tokens that requests keep ------------------------------------------------------------

  TEST_CASE(
      "token: what a thread has kept is given back elsewhere while the thread takes another one") {
    holds(
        [] {
          std::stop_source one;
          std::stop_source other;
          std::optional<detail::kept_token> given;
          atomic<bool> there{false};
          together({[&] {
                      const std::stop_token first = one.get_token();
                      const std::stop_token second = other.get_token();
                      given.emplace(&first);
                      there.store(true, detail::seq_cst);
                      there.notify_one();
                      for (int i = 0; i != 2; ++i) {
                        const detail::kept_token b(&second);
                        const detail::kept_token a(&first);
                        require(a.get() == first && b.get() == second, "another token");
                      }
                    },
                    [&] {
                      there.wait(false, detail::acquire);
                      require(given->get() == one.get_token(), "another token");
                      given.reset();
                    }});
        },
        much);
  }

  TEST_CASE("token: what a thread has kept is given back elsewhere while the thread ends") {
    holds(
        [] {
          std::stop_source one;
          std::array<std::optional<detail::kept_token>, 2> given;
          atomic<bool> there{false};
          together({[&] {
                      const std::stop_token t = one.get_token();
                      for (auto& each : given) each.emplace(&t);
                      const detail::kept_token mine(&t);
                      there.store(true, detail::seq_cst);
                      there.notify_all();
                    },
                    [&] {
                      there.wait(false, detail::acquire);
                      given[0].reset();
                    },
                    [&] {
                      there.wait(false, detail::acquire);
                      given[1].reset();
                    }});
        },
        much);
  }

  TEST_CASE("token: one that was set apart is given back by its own thread, and by another one") {
    holds(
        [] {
          std::stop_source one;
          std::stop_source other;
          std::optional<detail::kept_token> given;
          atomic<bool> there{false};
          together({[&] {
                      const std::stop_token first = one.get_token();
                      const std::stop_token second = other.get_token();
                      std::optional<detail::kept_token> mine(std::in_place, &first);
                      given.emplace(&first);
                      const detail::kept_token apart(&second);
                      there.store(true, detail::seq_cst);
                      there.notify_one();
                      mine.reset();
                      require(apart.get() == second, "another token");
                    },
                    [&] {
                      there.wait(false, detail::acquire);
                      given.reset();
                    }});
        },
        much);
  }

  TEST_CASE("token: several are set apart, and come free in another order") {
    holds(
        [] {
          std::array<std::stop_source, 4> sources;
          std::array<std::optional<detail::kept_token>, 2> given;
          atomic<bool> there{false};
          together({[&] {
                      std::array<std::stop_token, 4> t;
                      for (std::size_t i = 0; i != t.size(); ++i) t[i] = sources[i].get_token();
                      given[0].emplace(&t[0]);
                      given[1].emplace(&t[1]);
                      there.store(true, detail::seq_cst);
                      there.notify_one();
                      std::optional<detail::kept_token> mine(std::in_place, &t[2]);
                      const detail::kept_token last(&t[3]);
                      require(mine->get() == t[2] && last.get() == t[3], "another token");
                      mine.reset();
                      for (std::size_t i = 0; i != 3; ++i) {
                        const detail::kept_token again(&t[i]);
                        require(again.get() == t[i] && last.get() == t[3], "another token");
                      }
                    },
                    [&] {
                      there.wait(false, detail::acquire);
                      require(given[1]->get() == sources[1].get_token(), "another token");
                      given[1].reset();
                      given[0].reset();
                    }});
        },
        much);
  }

  TEST_CASE("token: a request is made on one thread and awaited on another one") {
    holds([] {
      place p;
      client c;
      std::stop_source stop;
      using request = decltype(p.ask(0, stop));
      std::optional<request> made;
      atomic<bool> there{false};
      p.hold();
      together({[&] {
                  made.emplace(p.ask(0, stop));
                  there.store(true, detail::seq_cst);
                  there.notify_one();
                },
                [&] {
                  there.wait(false, detail::acquire);
                  c.begin(std::move(*made));
                },
                [&] { stop.request_stop(); }});
      made.reset();
      p.unlock();
      c.end();
      p.is_free();
    });
  }
}
