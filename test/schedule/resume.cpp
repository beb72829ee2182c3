// resume.cpp - ends that several threads meet at: scopes, when_all, sync_wait, shared holds.

#include "schedule/lane.hpp"

#include <turnstile/turnstile.hpp>

#include <memory>
#include <stdexcept>
#include <utility>

using namespace schedule;
using namespace turnstile;

TEST_SUITE("resume") {
  TEST_CASE("scope: the join sees what the work did, and may end the scope") {
    holds([] {
      lane one;
      lane other;
      guarded<int> a{0};
      guarded<int> b{0};
      const auto set = [](guarded<int>& x) -> task<> {
        x = 1;
        co_return;
      };
      {
        async_scope scope;
        scope.spawn(schedule_on(one, set(a)));
        scope.spawn(schedule_on(other, set(b)));
        sync_wait(scope.join());
        require(a + b == 2, "joined too early");
      }
    });
  }

  TEST_CASE("scope: two join, and one of them ends it") {
    holds([] {
      lane works;
      auto* const scope = new async_scope;
      atomic<int> joined{0};
      scope->spawn(schedule_on(works, []() -> task<> { co_return; }()));
      const auto join = [&] {
        sync_wait(scope->join());
        if (joined.fetch_add(1, detail::acq_rel) == 1) delete scope;
      };
      together({join, join});
    });
  }

  TEST_CASE("scope: two join on lanes, and go on there at once") {
    holds(
        [] {
          lane one;
          lane other;
          async_scope scope;
          scope.spawn(schedule_on(one, []() -> task<> { co_return; }()));
          const auto join = [&]() -> task<> { co_await scope.join(); };
          together({[&] { sync_wait(schedule_on(one, join())); },
                    [&] { sync_wait(schedule_on(other, join())); }});
        },
        {.most = {1, 0}});
  }

  TEST_CASE("scope: a join goes on elsewhere and ends the scope, while its thread still looks") {
    holds([] {
      lane works;
      auto* const scope = new async_scope;
      scope->spawn(schedule_on(works, []() -> task<> { co_return; }()));
      const auto join_and_end = [&]() -> task<> {
        co_await scope->join();
        delete scope;
      };
      sync_wait(join_and_end());
    });
  }

  TEST_CASE("scope: the first error, whichever it is, comes out of the join") {
    holds([] {
      lane one;
      lane other;
      async_scope scope;
      const auto fails = []() -> task<> {
        throw std::runtime_error("as planned");
        co_return;
      };
      scope.spawn(schedule_on(one, fails()));
      scope.spawn(schedule_on(other, fails()));
      bool thrown = false;
      try {
        sync_wait(scope.join());
      } catch (const std::runtime_error&) {
        thrown = true;
      }
      require(thrown, "an error was lost");
    });
  }

  TEST_CASE("scope: a join takes the error of work that has not quite ended") {
    struct planned {
      guarded<int> reason{1};
    };
    const auto join = [](async_scope& scope) {
      try {
        sync_wait(scope.join());
      } catch (const planned& error) {
        return static_cast<int>(error.reason);
      }
      return 0;
    };
    holds([join] {
      async_scope scope;
      guarded<int> first{0};
      const auto fails = []() -> task<> {
        throw planned();
        co_return;
      };
      together({[&] { scope.spawn(fails()); }, [&] { first = join(scope); }});
      require(first + join(scope) == 1, "an error was lost, or came twice");
    });
  }

  TEST_CASE("when_all: the parent goes on when the last child has ended, and sees them all") {
    holds([] {
      lane one;
      lane other;
      guarded<int> a{0};
      guarded<int> b{0};
      const auto set = [](guarded<int>& x) -> task<int> {
        x = 1;
        co_return 1;
      };
      const auto both = [&]() -> task<int> {
        auto [first, second] =
            co_await when_all(schedule_on(one, set(a)), schedule_on(other, set(b)));
        co_return first + second + a + b;
      };
      require(sync_wait(both()) == 4, "not all of them");
    });
  }

  TEST_CASE("schedule_on: there and back") {
    holds([] {
      lane there;
      guarded<int> n{0};
      const auto add = [&]() -> task<int> {
        n = n + 1;
        co_return static_cast<int>(n);
      };
      const auto go = [&]() -> task<int> { co_return co_await schedule_on(there, add()); };
      require(sync_wait(go()) == 1, "a wrong result");
    });
  }
}
