// fiber.cpp - schedules of fibers: a wait begins off the stack that waits, and what a fiber does
// between lock and unlock is a body of the section, on whatever thread serves that.

#include "schedule/lane.hpp"
#include "schedule/signal.hpp"
#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <mutex>
#include <utility>

using namespace schedule;
using namespace turnstile;

namespace {

struct place {
  critical_section cs{section_options{.ring_capacity = 1}};
  delegated_mutex m{cs};
  guarded<int> n{0};

  void lock_and_add() {
    const std::scoped_lock lock(m);
    n = n + 1;
  }
};

}  // namespace

TEST_SUITE("fiber") {
  TEST_CASE("fiber: it is resumed while its wait begins") {
    holds([] {
      lane home;
      signal s;
      guarded<int> n{0};
      auto f = spawn_fiber(home, [&] {
        n = 1;
        turnstile::await(s);
        n = n + 1;
        return static_cast<int>(n);
      });
      s.give();
      require(sync_wait(std::move(f)) == 2, "a wrong result");
    });
  }

  TEST_CASE("fiber: it ends while it is let go of") {
    holds([] {
      guarded<int> ran{0};
      {
        lane home;
        spawn_fiber(home, [&] { ran = ran + 1; });
      }
      require(ran == 1, "not run once");
    });
  }

  TEST_CASE("fiber: two lock, and each goes home") {
    holds(
        [] {
          place p;
          {
            lane one;
            lane other;
            auto f = spawn_fiber(one, [&] { p.lock_and_add(); });
            auto g = spawn_fiber(other, [&] { p.lock_and_add(); });
            sync_wait(std::move(f));
            sync_wait(std::move(g));
          }
          require(p.n == 2, "not once each");
          require(!p.cs.statistics().held && p.cs.statistics().executions == 2, "not free");
        },
        {.most = {2, 0}});
  }

  TEST_CASE("fiber: one locks while a thread gives the section up") {
    holds(
        [] {
          place p;
          lane home;
          section_guard busy = support::hold(p.cs);
          auto f = spawn_fiber(home, [&] { p.lock_and_add(); });
          busy.unlock();
          sync_wait(std::move(f));
          require(p.n == 1 && !p.cs.statistics().held, "not served");
        },
        {.most = {2, 1}});
  }

  TEST_CASE("fiber: its code waits inside, and goes on before the loop has left it") {
    holds(
        [] {
          place p;
          lane home;
          signal s;
          section_guard busy = support::hold(p.cs);
          auto f = spawn_fiber(home, [&] {
            const std::scoped_lock lock(p.m);
            p.n = p.n + 1;
            turnstile::await(s);
            p.n = p.n + 1;
          });
          together({[&] { busy.unlock(); }, [&] { s.give(); }});
          sync_wait(std::move(f));
          require(p.n == 2 && !p.cs.statistics().held, "not served");
        },
        {.most = {1, 1}});
  }

  TEST_CASE("fiber: it asks for what it has, and is refused") {
    holds([] {
      place p;
      lane home;
      guarded<bool> refused{false};
      auto f = spawn_fiber(home, [&] {
        const std::scoped_lock lock(p.m);
        try {
          turnstile::await(p.cs.execute([] {}));
        } catch (const reentry_error&) {
          refused = true;
        }
      });
      sync_wait(std::move(f));
      require(refused, "not refused");
      require(!p.cs.statistics().held, "not free");
    });
  }

  TEST_CASE("fiber: it is asked to stop while it waits for its lock") {
    holds(
        [] {
          place p;
          lane home;
          section_guard busy = support::hold(p.cs);
          auto f = spawn_fiber(home, [&] { p.lock_and_add(); }, {.stoppable = true});
          f.request_stop();
          busy.unlock();
          bool cancelled = false;
          try {
            sync_wait(std::move(f));
          } catch (const operation_cancelled&) {
            cancelled = true;
          }
          require(p.n == (cancelled ? 0 : 1) && !p.cs.statistics().held, "held by nobody");
        },
        {.most = {1, 1}});
  }
}
