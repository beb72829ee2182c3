// blocking.cpp - plain threads in a section's line: they are told once, wake up, serve when they
// are asked to, and may end what they waited for.

#include "schedule/ended_by_the_last.hpp"
#include "schedule/kept.hpp"
#include "schedule/lane.hpp"
#include "schedule/shared_pool.hpp"
#include "support/hold.hpp"

#include <turnstile/detail/trampoline.hpp>
#include <turnstile/turnstile.hpp>

#include <stop_token>
#include <tuple>
#include <utility>

using namespace schedule;
using namespace turnstile;
using detail::acq_rel;

namespace {

void ask_and_leave(ended_by_the_last& s) { s.check_and_leave(s.cs.execute_blocking(s.body())); }

// As a section that is given to a thread in its line: it does what that thread blocks for, and then
// what it waits for.
struct given : job {
  explicit given() noexcept : job(&serve) {}
  static void serve(job& j) noexcept {
    auto& self = static_cast<given&>(j);
    self.other.signal();
    self.result = 1;
    self.in_line.signal();
  }

  detail::blocked_thread in_line;
  detail::blocked_thread other;
  guarded<int> result{0};
};

}  // namespace

TEST_SUITE("blocking") {
  TEST_CASE("blocking: three threads ask, the last one to have its result ends the section") {
    holds([] {
      auto& s = *new ended_by_the_last(3);
      const auto ask = [&s] { ask_and_leave(s); };
      together({ask, ask, ask});
    });
  }

  TEST_CASE("blocking: two threads ask twice") {
    holds([] {
      critical_section cs({.ring_capacity = 2});
      guarded<int> n{0};
      const auto ask = [&] {
        const int before = cs.execute_blocking([&] { return static_cast<int>(n = n + 1); });
        const int after = cs.execute_blocking([&] { return static_cast<int>(n = n + 1); });
        require(before < after, "out of order");
      };
      together({ask, ask});
      require(n == 4, "not everybody was served");
    });
  }

  TEST_CASE("blocking: the body runs on a lane, and the last one back ends the section") {
    holds(
        [] {
          lane serves;
          auto& s =
              *new ended_by_the_last(2, {.executor = executor_ref(serves), .ring_capacity = 1});
          const auto ask = [&s] { ask_and_leave(s); };
          together({ask, ask});
        },
        {.most = {1, 1}});
  }

  TEST_CASE("blocking: a body waits for a lane, and who is behind it waits too") {
    holds(
        [] {
          lane there;
          critical_section cs({.ring_capacity = 2});
          guarded<int> n{0};
          const auto add = [&]() -> task<> {
            n = n + 1;
            co_return;
          };
          together({[&] { cs.execute_blocking([&] { return schedule_on(there, add()); }); },
                    [&] { cs.execute_blocking([&] { n = n + 1; }); }});
          require(n == 2, "not once each");
        },
        {.most = {2, 0}});
  }

  TEST_CASE("blocking: who has served enough gives the section to the thread that is next") {
    holds([] {
      auto& s = *new ended_by_the_last(2);
      section_guard guard = support::hold(s.cs);
      for (int i = 0; i != 2; ++i) s.cs.post([&s] { s.n = s.n + 1; });
      together({[&] {
                  guard.unlock();
                  s.leave();
                },
                [&] {
                  require(s.cs.execute_blocking(s.body()) == 3, "not in its turn");
                  s.leave();
                }});
    });
  }

  TEST_CASE("blocking: one leaves a section inside another, to who wants both") {
    holds([] {
      critical_section outer({.ring_capacity = 1});
      critical_section inner({.ring_capacity = 1});
      guarded<int> n{0};
      section_guard guard = support::hold(inner);
      together(
          {[&] { outer.execute_blocking([&] { guard.unlock(); }); },
           [&] { inner.execute_blocking([&] { outer.execute_blocking([&] { n = n + 1; }); }); }});
      require(n == 1, "not served");
    });
  }

  TEST_CASE("blocking: one is given a section inside another, and who wants both is next") {
    holds(
        [] {
          critical_section outer({.ring_capacity = 1});
          critical_section inner({.ring_capacity = 2});
          section_guard guard = support::hold(inner);
          for (int i = 0; i != 2; ++i) inner.post([] {});
          const auto both = [](critical_section& first, critical_section& second) {
            bool ran = false;
            try {
              first.execute_blocking([&] { second.execute_blocking([&ran] { ran = true; }); });
            } catch (const deadlock_error&) {
              ran = true;
            }
            require(ran, "not served");
          };
          together(
              {[&] { guard.unlock(); }, [&] { both(outer, inner); }, [&] { both(inner, outer); }});
        },
        {.most = {2, 0}});
  }

  TEST_CASE("blocking: it is next, is given the section, and is asked to go") {
    holds(
        [] {
          auto& s = *new ended_by_the_last(2);
          section_guard guard = support::hold(s.cs);
          for (int i = 0; i != 2; ++i) s.cs.post([&s] { s.n = s.n + 1; });
          std::stop_source stop;
          together({[&] {
                      guard.unlock();
                      s.leave();
                    },
                    [&] {
                      try {
                        s.cs.execute_blocking([&s] { s.n = s.n + 1; }, {.stop = stop.get_token()});
                      } catch (const operation_cancelled&) {
                      }
                      s.leave();
                    },
                    [&] { stop.request_stop(); }});
        },
        {.most = {2, 0}});
  }

  TEST_CASE("blocking: one of two in line goes, and the other one is served") {
    holds(
        [] {
          auto& s = *new ended_by_the_last(3);
          section_guard guard = support::hold(s.cs);
          std::stop_source stop;
          together({[&] {
                      try {
                        s.cs.execute_blocking([&s] { s.n = s.n + 1; }, {.stop = stop.get_token()});
                      } catch (const operation_cancelled&) {
                      }
                      s.leave();
                    },
                    [&] { ask_and_leave(s); },
                    [&] {
                      stop.request_stop();
                      guard.unlock();
                      s.leave();
                    }});
        },
        {.most = {1, 0}});
  }

  TEST_CASE("blocking: a thread that blocks for something else keeps nothing, and waits again") {
    holds(
        [] {
          given g;
          const shared_pool pool;
          together({[&] {
                      {
                        const detail::blocked_thread::in_line until_it_waits(g.in_line);
                        detail::trampoline before_it(true);
                        detail::before_blocking();
                        g.other.wait();
                      }
                      g.in_line.wait();
                      require(g.result == 1, "it has not been served");
                    },
                    [&] { executor_ref(g.in_line).post(g); }});
        },
        {.most = {1, 1}});
  }

  // What keeps the section serves its line when it is asked, and only then takes a place itself.
  TEST_CASE(
      "blocking: one that a thread has served before it asks blocks it for the same section") {
    holds([] {
      const shared_pool pool;
      critical_section cs({.ring_capacity = 1});
      guarded<int> n{0};
      const auto count = [&n] { n = n + 1; };
      async_scope scope;
      const auto lock_and_block = [&]() -> task<> {
        {
          const section_guard had = co_await cs.lock();
        }
        cs.execute_blocking(count);
      };
      keep(cs);
      beside([&] { cs.execute_blocking(count); }, {[&] { scope.spawn(lock_and_block()); }});
      sync_wait(scope.join());
      require(n == 2, "not everybody was served");
    });
  }

  // Here while the thread that asks is not waiting yet: whoever it serves goes on there, and
  // blocks.
  TEST_CASE("blocking: one that a thread in line has served blocks it for the same section") {
    holds(
        [] {
          const shared_pool pool;
          critical_section cs({.ring_capacity = 1});
          guarded<int> n{0};
          const auto count = [&n] { n = n + 1; };
          section_guard busy = support::hold(cs);
          async_scope scope;
          const auto ask_and_block = [&]() -> task<> {
            co_await cs.execute(count);
            cs.execute_blocking(count);
          };
          together({[&] { scope.spawn(ask_and_block()); },
                    [&] {
                      busy.unlock();
                      cs.post(count);
                      cs.execute_blocking(count);
                    }});
          sync_wait(scope.join());
          cs.execute_blocking([] {});  // what was posted came before
          require(n == 4, "not everybody was served");
        },
        {.most = {2, 0}});
  }

  TEST_CASE("blocking: who has entered one of several does not wait for a body that waits for it") {
    holds(
        [] {
          critical_section a, b, last;
          async_scope scope;
          section_guard busy = sync_wait(last.lock());
          const auto both = [&last](critical_section& one) -> task<> {
            co_await execute(std::tie(one, last), [] {});
          };
          together({[&] { scope.spawn(both(a)), scope.spawn(both(b)); }});
          beside([&] { busy.unlock(); },
                 {[&] { a.execute_blocking([&] { last.execute_blocking([] {}); }); }});
          sync_wait(scope.join());
          require(last.statistics().executions == 4, "not everybody was served");
        },
        {.most = {1, 1}});
  }
}
