// resume.cpp - ends that several threads meet at: scopes, when_all, when_any, sync_wait, shared
// holds; and waits that end by themselves while they are stopped.

#include "schedule/lane.hpp"
#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <utility>
#include <variant>

using namespace schedule;
using namespace turnstile;
using namespace std::chrono_literals;

namespace {

struct planned_failure {
  guarded<int> reason{1};
};
struct planned_cancellation : operation_cancelled {
  guarded<int> reason{1};
};

task<> nothing() { co_return; }

task<> fails(const char* text) {
  throw std::runtime_error(text);
  co_return;
}

task<> cancelled() {
  throw operation_cancelled();
  co_return;
}

// Joins, on `home`, and says whether it was withdrawn.
task<> join_on(lane& home, async_scope& s, guarded<int>& withdrawn) {
  const auto join = [&]() -> task<> {
    try {
      co_await s.join();
    } catch (const operation_cancelled&) {
      withdrawn = withdrawn + 1;
    }
  };
  co_await schedule_on(home, join());
}

}  // namespace

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

  TEST_CASE_TEMPLATE("scope: a join takes the error of work that has not quite ended", Planned,
                     planned_failure, planned_cancellation) {
    const auto join = [](async_scope& scope) {
      try {
        sync_wait(scope.join());
      } catch (const Planned& error) {
        return static_cast<int>(error.reason);
      }
      return 0;
    };
    holds([join] {
      async_scope scope;
      guarded<int> first{0};
      const auto fails = []() -> task<> {
        throw Planned();
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

  TEST_CASE("scope: with fail_fast two errors, and the rest is stopped once") {
    holds([] {
      lane one;
      lane other;
      async_scope scope{{.fail_fast = true}};
      scope.spawn(schedule_on(one, fails("one")));
      scope.spawn(schedule_on(other, fails("other")));
      bool thrown = false;
      try {
        sync_wait(scope.join());
      } catch (const std::runtime_error&) {
        thrown = true;
      }
      require(thrown, "an error was lost");
      require(scope.stop_token().stop_requested(), "nobody asked for a stop");
    });
  }

  TEST_CASE("scope: the error that sets off a stop comes out, whatever the rest ends with") {
    holds(
        [] {
          lane one;
          lane other;
          async_scope work;
          work.spawn(schedule_on(other, nothing()));
          {
            async_scope scope{{.fail_fast = true}};
            scope.spawn(schedule_on(one, fails("the cause")));
            scope.spawn(schedule_on(one, work.join()));
            bool thrown = false;
            try {
              sync_wait(scope.join());
            } catch (const operation_cancelled&) {
            } catch (const std::runtime_error&) {
              thrown = true;
            }
            require(thrown, "a cancellation hides its cause");
          }
          sync_wait(work.join());
        },
        {.most = {1, 0}});
  }

  TEST_CASE("scope: a cancellation and an error at the same time, and the error comes out") {
    holds([] {
      lane one;
      lane other;
      async_scope scope;
      scope.spawn(schedule_on(one, cancelled()));
      scope.spawn(schedule_on(other, fails("the cause")));
      bool thrown = false;
      try {
        sync_wait(scope.join());
      } catch (const operation_cancelled&) {
      } catch (const std::runtime_error&) {
        thrown = true;
      }
      require(thrown, "a cancellation hides its cause");
    });
  }

  TEST_CASE("withdrawal: a join is withdrawn while the last work ends, and may end its scope") {
    holds([] {
      lane works;
      lane home;
      guarded<int> withdrawn{0};
      async_scope work;
      work.spawn(schedule_on(works, nothing()));
      {
        async_scope joins;
        joins.spawn(join_on(home, work, withdrawn));
        joins.request_stop();
        sync_wait(joins.join());
      }
      sync_wait(work.join());
      require(withdrawn <= 1, "withdrawn twice");
    });
  }

  TEST_CASE("withdrawal: one of two joins is withdrawn, and the other one goes on waiting") {
    holds(
        [] {
          lane works;
          lane home;
          guarded<int> done{0};
          guarded<int> withdrawn{0};
          async_scope work;
          work.spawn(schedule_on(works, [](guarded<int>& n) -> task<> {
            n = 1;
            co_return;
          }(done)));
          async_scope joins;
          joins.spawn(join_on(home, work, withdrawn));
          together({[&] { joins.request_stop(); },
                    [&] {
                      sync_wait(work.join());
                      require(done == 1, "joined too early");
                    }});
          sync_wait(joins.join());
        },
        {.most = {1, 0}});
  }

  TEST_CASE("withdrawal: the wait for a handle, while its body ends; then it is awaited again") {
    holds([] {
      lane works;
      lane home;
      critical_section cs{section_options{.executor = works}};
      int body = 0;
      auto handle = cs.submit([&body] { return ++body; });
      guarded<int> got{0};
      const auto wait = [&]() -> task<> { got = co_await handle; };
      async_scope waits;
      waits.spawn(schedule_on(home, wait()));
      waits.request_stop();
      bool withdrawn = false;
      try {
        sync_wait(waits.join());
      } catch (const operation_cancelled&) {
        withdrawn = true;
      }
      if (withdrawn) got = sync_wait(handle);
      require(got == 1, "the result was lost");
    });
  }

  TEST_CASE("when_any: two children end at the same time, and one of them decides") {
    holds([] {
      lane one;
      lane other;
      const auto gives = [](int n) -> task<int> { co_return n; };
      const auto got =
          sync_wait(when_any(schedule_on(one, gives(1)), schedule_on(other, gives(2))));
      require(got.value.index() == got.index, "two decided");
      require(got.index == 0 ? std::get<0>(got.value) == 1 : std::get<1>(got.value) == 2,
              "the wrong value");
    });
  }

  TEST_CASE("when_any: who has ended before the others start decides") {
    holds([] {
      lane other;
      const auto got = sync_wait(when_any(nothing(), schedule_on(other, nothing())));
      require(got.index == 0, "the last one decided");
    });
  }

  TEST_CASE("when_any: a child's wait ends while its sibling stops it") {
    holds(
        [] {
          lane works;
          lane one;
          lane other;
          async_scope work;
          work.spawn(schedule_on(works, nothing()));
          const auto joins = [&]() -> task<int> {
            co_await work.join();
            co_return 1;
          };
          const auto gives = []() -> task<int> { co_return 2; };
          const auto got =
              sync_wait(when_any(schedule_on(one, joins()), schedule_on(other, gives())));
          require(got.value.index() == got.index, "two decided");
          sync_wait(work.join());
        },
        {.most = {1, 0}});
  }

  TEST_CASE("when_any: a child waits for what ends only after it") {
    holds(
        [] {
          lane one;
          lane other;
          critical_section cs;
          section_guard busy = support::hold(cs);
          async_scope work;
          work.spawn(cs.lock());
          const auto joins = [&]() -> task<> { co_await work.join(); };
          const auto got =
              sync_wait(when_any(schedule_on(one, joins()), schedule_on(other, nothing())));
          require(got.index == 1, "joined too early");
          busy.unlock();
          sync_wait(work.join());
        },
        {.most = {1, 0}});
  }

  TEST_CASE("when_any: stopped from outside, a child does not wait for what ends after it") {
    holds([] {
      lane home;
      critical_section cs;
      section_guard busy = support::hold(cs);
      async_scope work;
      work.spawn(cs.lock());
      async_scope scope;
      scope.spawn(schedule_on(home, when_any(work.join())));
      scope.request_stop();
      bool cancelled = false;
      try {
        sync_wait(scope.join());
      } catch (const operation_cancelled&) {
        cancelled = true;
      }
      require(cancelled, "it was not stopped");
      busy.unlock();
      sync_wait(work.join());
    });
  }

  TEST_CASE("when_any: a cancellation and an error at the same time, and the error is thrown") {
    holds([] {
      lane one;
      lane other;
      bool thrown = false;
      try {
        static_cast<void>(sync_wait(
            when_any(schedule_on(one, cancelled()), schedule_on(other, fails("the cause")))));
      } catch (const operation_cancelled&) {
      } catch (const std::runtime_error&) {
        thrown = true;
      }
      require(thrown, "a cancellation hides its cause");
    });
  }

  TEST_CASE("when_any: it is stopped from outside while a child ends") {
    holds(
        [] {
          lane one;
          lane other;
          async_scope scope;
          guarded<int> ends{0};
          const auto whole = [&]() -> task<> {
            static_cast<void>(co_await when_any(schedule_on(one, nothing())));
            ends = ends + 1;
          };
          scope.spawn(schedule_on(other, whole()));
          scope.request_stop();
          sync_wait(scope.join());
          require(ends == 1, "it did not end once");
        },
        {.most = {1, 0}});
  }

  TEST_CASE("timeout: its time is over while what it was given ends") {
    holds([] {
      manual_clock clock;
      lane there;
      guarded<int> got{0};
      const auto gives = []() -> task<int> { co_return 1; };
      together({[&] { clock.advance(1s); },
                [&] { got = sync_wait(timeout(schedule_on(there, gives()), 1s)); }});
      require(got == 1 && clock.pending() == 0, "a value was lost, or a timer left");
    });
  }

  TEST_CASE("timeout: its time is over while a join below it ends") {
    holds(
        [] {
          manual_clock clock;
          lane works;
          lane home;
          async_scope work;
          work.spawn(schedule_on(works, nothing()));
          guarded<int> ends{0};
          const auto joins = [&]() -> task<> {
            try {
              co_await timeout(work.join(), 1s);
            } catch (const deadline_exceeded&) {
            }
            ends = ends + 1;
          };
          together({[&] { clock.advance(1s); }, [&] { sync_wait(schedule_on(home, joins())); }});
          require(ends == 1 && clock.pending() == 0, "it did not end once, or a timer was left");
          sync_wait(work.join());
        },
        {.most = {1, 0}});
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
