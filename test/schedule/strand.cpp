// strand.cpp - whole sections: serving, waiting bodies, guards, closing, and their end.
//
// Threads wait with sync_wait, so that a result comes back through the word that it waits on; or
// they are lanes, so that the one that serves has no request of its own.

#include "schedule/client.hpp"
#include "schedule/ended_by_the_last.hpp"
#include "schedule/lane.hpp"
#include "schedule/signal.hpp"
#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <memory>
#include <optional>
#include <tuple>
#include <utility>

using namespace schedule;
using namespace turnstile;
using detail::acq_rel;
using detail::relaxed;

namespace {

void ask_and_leave(ended_by_the_last& s) { s.check_and_leave(sync_wait(s.cs.execute(s.body()))); }

}  // namespace

TEST_SUITE("strand") {
  TEST_CASE("strand: three threads ask, the last one to have its result ends the section") {
    holds([] {
      auto& s = *new ended_by_the_last(3);
      const auto ask = [&s] { ask_and_leave(s); };
      together({ask, ask, ask});
    });
  }

  TEST_CASE("strand: two threads ask twice") {
    holds([] {
      critical_section cs({.ring_capacity = 2});
      guarded<int> n{0};
      const auto ask = [&] {
        const int before = sync_wait(cs.execute([&] { return static_cast<int>(n = n + 1); }));
        const int after = sync_wait(cs.execute([&] { return static_cast<int>(n = n + 1); }));
        require(before < after, "out of order");
      };
      together({ask, ask});
      require(n == 4, "not everybody was served");
    });
  }

  TEST_CASE("strand: three threads ask, and look for their turn in place") {
    holds(
        [] {
          auto& s = *new ended_by_the_last(3, {.ring_capacity = 2});
          const auto ask = [&s] { ask_and_leave(s); };
          together({ask, ask, ask});
        },
        {.most = {2, 1}});
  }

  TEST_CASE("strand: a section bound to a lane ends with the last result") {
    holds([] {
      lane serves;
      auto& s = *new ended_by_the_last(2, {.executor = executor_ref(serves), .ring_capacity = 1});
      const auto ask = [&s] { ask_and_leave(s); };
      together({ask, ask});
    });
  }

  TEST_CASE("strand: results come back to lanes, and the server is another one") {
    holds(
        [] {
          lane one;
          lane other;
          async_scope scope;
          {
            critical_section cs({.ring_capacity = 1});
            guarded<int> n{0};
            const auto ask = [&]() -> task<> { co_await cs.execute([&] { n = n + 1; }); };
            scope.spawn(schedule_on(one, ask()));
            scope.spawn(schedule_on(other, ask()));
            scope.spawn(schedule_on(other, ask()));
            sync_wait(scope.join());
            require(n == 3, "not everybody was served");
          }
        },
        {.most = {1, 1}});
  }

  TEST_CASE("strand: results go to lanes before a body that waits, and more of them after it") {
    holds(
        [] {
          lane one;
          auto& given = *new signal;
          async_scope scope;
          {
            critical_section cs({.ring_capacity = 4});
            guarded<int> n{0};
            const auto ask = [&]() -> task<> { co_await cs.execute([&] { n = n + 1; }); };
            section_guard guard = sync_wait(cs.lock());
            scope.spawn(schedule_on(one, ask()));
            cs.post([&]() -> task<> { co_await given; });
            scope.spawn(schedule_on(one, ask()));
            guard.unlock();
            given.give();
            sync_wait(scope.join());
            require(n == 2, "not everybody was served");
          }
          delete &given;
        },
        {.most = {1, 0}});
  }

  TEST_CASE("strand: bodies of a bound section run on its lane, whoever asks") {
    holds(
        [] {
          lane serves;
          critical_section cs({.executor = executor_ref(serves), .ring_capacity = 1});
          guarded<int> n{0};
          const auto add = [&] {
            require(detail::here().runs_on == executor_ref(serves), "on another thread");
            n = n + 1;
          };
          section_guard guard = sync_wait(cs.lock());
          together({[&] { sync_wait(cs.execute(add)); }, [&] { sync_wait(cs.execute(add)); },
                    [&, g = std::make_shared<section_guard>(std::move(guard))] { g->unlock(); }});
          require(n == 2, "not everybody was served");
        },
        {.most = {2, 1}});
  }

  TEST_CASE("strand: the time is up after each body") {
    holds(
        [] {
          lane serves;
          critical_section cs({.executor = executor_ref(serves), .ring_capacity = 1});
          guarded<int> n{0};
          const auto ask = [&] { sync_wait(cs.execute([&] { n = n + 1; })); };
          together({ask, ask});
          require(n == 2, "not everybody was served");
        },
        {.most = {2, 1}, .look_takes = std::chrono::microseconds(60)});
  }

  TEST_CASE("strand: a body waits, and whoever ends it goes on") {
    holds([] {
      auto& s = *new ended_by_the_last(2);
      auto& given = *new signal;
      together({[&] {
                  sync_wait(s.cs.execute([&]() -> task<> {
                    s.n = s.n + 1;
                    co_await given;
                    s.n = s.n + 1;
                  }));
                  s.leave();
                },
                [&] { given.give(); }, [&] { ask_and_leave(s); }});
      delete &given;
    });
  }

  TEST_CASE("strand: a guard is unlocked by another thread, and the next one sees what it saw") {
    holds([] {
      critical_section cs({.ring_capacity = 1});
      guarded<int> n{0};
      section_guard guard = sync_wait(cs.lock());
      n = 1;
      together(
          {[&, g = std::make_shared<section_guard>(std::move(guard))]() mutable {
             n = n + 1;
             g->unlock();
           },
           [&] { require(sync_wait(cs.execute([&] { return n == 2; })), "not after the guard"); }});
    });
  }

  TEST_CASE(
      "strand: a guard is unlocked while two want one, and the last one back ends the section") {
    holds(
        [] {
          auto& s = *new ended_by_the_last(2);
          const auto lock = [&s]() -> task<> {
            {
              const section_guard mine = co_await s.cs.lock();
              s.n = s.n + 1;
            }
            s.leave();
          };
          const auto one = [&] { require(client().run(lock()) == ending::ran, "refused"); };
          section_guard guard = support::hold(s.cs);
          together({one, one, [&] { guard.unlock(); }});
        },
        {.most = {2, 1}});
  }

  TEST_CASE("strand: a thread asks again while another unlocks the guard that it gave away") {
    holds([] {
      critical_section cs({.ring_capacity = 1});
      guarded<int> n{0};
      section_guard given;
      atomic<bool> there{false};
      together({[&] {
                  given = sync_wait(cs.lock());
                  there.store(true, detail::seq_cst);
                  there.notify_one();
                  try {
                    sync_wait(cs.execute([&] { n = n + 1; }));
                  } catch (const reentry_error&) {
                  }
                },
                [&] {
                  there.wait(false, detail::acquire);
                  n = n + 1;
                  given.unlock();
                }});
      require(n >= 1, "nobody was served");
    });
  }

  TEST_CASE("strand: a thread asks again after another has unlocked the guard that it gave away") {
    holds([] {
      critical_section cs({.ring_capacity = 1});
      guarded<int> n{0};
      section_guard given = sync_wait(cs.lock());
      together({[&] { given.unlock(); }});
      sync_wait(cs.execute([&] { n = n + 1; }));
      require(n == 1, "nobody was served");
    });
  }

  TEST_CASE(
      "strand: a guard is unlocked while another thread gives back its share of the guard's "
      "frame") {
    holds([] {
      critical_section cs({.ring_capacity = 1});
      detail::chain_frame* shared = nullptr;
      atomic<bool> there{false};
      together({[&] {
                  section_guard g = sync_wait(cs.lock());
                  shared = detail::share(detail::here().chain);
                  require(detail::is_hold(shared), "the thread has not the guard's frame");
                  there.store(true, detail::seq_cst);
                  there.notify_one();
                  g.unlock();
                  require(detail::here().chain == nullptr, "the thread still has it");
                },
                [&] {
                  there.wait(false, detail::acquire);
                  static_cast<void>(detail::gone(*shared));
                  detail::drop(shared);
                }});
    });
  }

  TEST_CASE("strand: a guard below another one is unlocked while a thread gives back its share") {
    holds([] {
      critical_section a({.ring_capacity = 1});
      critical_section b({.ring_capacity = 1});
      detail::chain_frame* shared = nullptr;
      atomic<bool> there{false};
      together({[&] {
                  section_guard below = sync_wait(a.lock());
                  const section_guard g = sync_wait(b.lock());
                  shared = detail::share(detail::here().chain);
                  there.store(true, detail::seq_cst);
                  there.notify_one();
                  below.unlock();
                },
                [&] {
                  there.wait(false, detail::acquire);
                  static_cast<void>(detail::gone(*shared->parent));
                  detail::drop(shared);
                }});
    });
  }

  TEST_CASE("strand: two ask for two sections in opposite orders, and others for one of them") {
    holds([] {
      critical_section a({.ring_capacity = 1});
      critical_section b({.ring_capacity = 1});
      guarded<int> in_a{0};
      guarded<int> in_b{0};
      const auto both = [&] {
        in_a = in_a + 1;
        in_b = in_b + 1;
      };
      together({[&] { sync_wait(execute(std::tie(a, b), both)); },
                [&] {
                  sync_wait(execute(std::tie(b, a), both));
                  sync_wait(b.execute([&] { in_b = in_b + 1; }));
                }});
      require(in_a == 2 && in_b == 3, "not everybody was served");
    });
  }

  TEST_CASE("strand: the one whose two sections are left last ends both") {
    holds([] {
      auto* const a = new critical_section({.ring_capacity = 1});
      auto* const b = new critical_section({.ring_capacity = 1});
      guarded<int> n{0};
      atomic<int> users{2};
      const auto ask = [&] {
        sync_wait(execute(std::tie(*a, *b), [&] { n = n + 1; }));
        if (users.fetch_sub(1, acq_rel) != 1) return;
        delete a;
        delete b;
      };
      together({ask, ask});
      require(n == 2, "not everybody was served");
    });
  }

  TEST_CASE("strand: a body that waits holds two sections, and whoever ends it leaves both") {
    holds(
        [] {
          critical_section a({.ring_capacity = 1});
          critical_section b({.ring_capacity = 1});
          guarded<int> n{0};
          auto& given = *new signal;
          together({[&] {
                      sync_wait(execute(std::tie(a, b), [&]() -> task<> {
                        n = n + 1;
                        co_await given;
                        n = n + 1;
                      }));
                    },
                    [&] { given.give(); }, [&] { sync_wait(b.execute([&] { n = n + 1; })); }});
          require(n == 3, "not everybody was served");
          delete &given;
        },
        {.most = {2, 1}});
  }

  TEST_CASE("strand: on lanes, sections of one request go on at the same time") {
    holds(
        [] {
          lane one;
          lane other;
          async_scope scope;
          {
            critical_section a({.ring_capacity = 1});
            critical_section b({.ring_capacity = 1});
            guarded<int> in_a{0};
            guarded<int> in_b{0};
            const auto both = [&]() -> task<> {
              co_await execute(std::tie(a, b), [&] {
                in_a = in_a + 1;
                in_b = in_b + 1;
              });
            };
            const auto first = [&]() -> task<> { co_await a.execute([&] { in_a = in_a + 1; }); };
            const auto second = [&]() -> task<> { co_await b.execute([&] { in_b = in_b + 1; }); };
            section_guard guard = sync_wait(b.lock());
            scope.spawn(schedule_on(one, both()));
            scope.spawn(schedule_on(other, first()));
            scope.spawn(schedule_on(other, second()));
            guard.unlock();
            sync_wait(scope.join());
            require(in_a == 2 && in_b == 2, "not everybody was served");
          }
        },
        {.most = {1, 0}});
  }

  TEST_CASE("strand: two guards from two threads") {
    holds([] {
      critical_section cs({.ring_capacity = 1});
      guarded<int> n{0};
      const auto hold = [&] {
        section_guard g = sync_wait(cs.lock());
        n = n + 1;
      };
      together({hold, hold});
      require(n == 2, "not everybody was served");
    });
  }

  TEST_CASE("strand: a handle's result, awaited on another thread than it comes from") {
    holds([] {
      lane serves;
      critical_section cs({.executor = executor_ref(serves), .ring_capacity = 1});
      guarded<int> n{0};
      // A guarded result: reading it races with the body unless the handle orders them.
      auto handle = cs.submit([&] { return guarded<int>(n = n + 1); });
      const guarded<int> got = sync_wait(std::move(handle));
      require(got == 1, "a wrong result");
    });
  }

  TEST_CASE("strand: a handle is dropped while its execution ends") {
    holds([] {
      lane serves;
      critical_section cs({.executor = executor_ref(serves), .ring_capacity = 1});
      guarded<int> n{0};
      {
        auto handle = cs.submit([&] { n = n + 1; });
      }
      cs.post([&] { n = n + 1; });
      sync_wait(cs.close());
      require(n == 2, "accepted is not served");
    });
  }

  TEST_CASE("strand: when close is done the section may end, and all that was accepted has ended") {
    holds([] {
      auto* const cs = new critical_section({.ring_capacity = 1});
      guarded<int> n{0};
      guarded<int> accepted{0};
      together({[&] {
                  try {
                    sync_wait(cs->execute([&] { n = n + 1; }));
                    accepted = 1;
                  } catch (const section_closed&) {
                  }
                },
                [&] { sync_wait(cs->close()); }});
      require(n == accepted, "accepted is not served");
      delete cs;
    });
  }

  TEST_CASE("strand: whoever closes ends the section, while posted bodies are on their way") {
    holds(
        [] {
          lane serves;
          auto* const cs =
              new critical_section({.executor = executor_ref(serves), .ring_capacity = 1});
          guarded<int> n{0};
          cs->post([&] { n = n + 1; });
          cs->post([&] { n = n + 1; });
          sync_wait(cs->close());
          require(n == 2, "accepted is not served");
          delete cs;
        },
        {.most = {2, 1}});
  }

  TEST_CASE("strand: two close at once, and each of them sees what came before") {
    holds(
        [] {
          lane serves;
          critical_section cs({.executor = executor_ref(serves), .ring_capacity = 1});
          guarded<int> n{0};
          cs.post([&] { n = n + 1; });
          const auto close = [&] {
            sync_wait(cs.close());
            require(n == 1, "accepted is not served");
          };
          together({close, close});
        },
        {.most = {2, 1}});
  }

  TEST_CASE("strand: two close on lanes, and go on there at once") {
    holds(
        [] {
          lane one;
          lane other;
          critical_section cs({.ring_capacity = 1});
          const auto close = [&]() -> task<> { co_await cs.close(); };
          async_scope scope;
          scope.spawn(schedule_on(one, close()));
          scope.spawn(schedule_on(other, close()));
          sync_wait(scope.join());
        },
        {.most = {1, 1}});
  }

  TEST_CASE("strand: a try among others") {
    holds([] {
      critical_section cs({.ring_capacity = 1});
      guarded<int> n{0};
      guarded<int> tried{0};
      const auto ask = [&] { sync_wait(cs.execute([&] { n = n + 1; })); };
      together({ask, ask, [&] { tried = cs.try_execute([&] { n = n + 1; }) ? 1 : 0; }});
      require(n == 2 + tried, "not everybody was served");
    });
  }
}
