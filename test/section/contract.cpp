// contract.cpp - breaking the contract of a section: one line with its name, then abort.

#include "support/dies.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/keeping.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <chrono>
#include <doctest/doctest.h>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>

using namespace turnstile;
using support::await_in_foreign;
using support::await_moved_from;
using support::await_twice;
using support::foreign;
using support::gate;

namespace {

// `f` is given a section called "accounts" that it may do anything to.
template <class F>
void check_dies(F f, const char* place = "contract.cpp") {
  const auto child = [&] {
    auto cs = std::make_unique<critical_section>("accounts");
    f(cs);
  };
  support::check_dies(child, "accounts", place);
}

using owned = std::unique_ptr<critical_section>;

// Leaves by an error once the guard is opened.
foreign hold_and_fail(critical_section& cs, bool& threw) {
  try {
    const section_guard g = co_await cs.lock();
    throw std::runtime_error("while it is held");
  } catch (const std::runtime_error&) {
    threw = true;
  }
}

foreign await_handle_twice(execution_handle<int> h) {
  co_await h;
  co_await h;
}

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("destroying a section whose guard is owned aborts") {
    check_dies(
        [](owned& cs) {
          section_guard g = support::hold(*cs);
          cs.reset();
        },
        "");
  }

  TEST_CASE("destroying a section with a request that waits aborts") {
    check_dies(
        [](owned& cs) {
          section_guard g = support::hold(*cs);
          bool over = false;
          const foreign f = await_in_foreign(cs->execute([] {}), over);
          cs.reset();
        },
        "");
  }

  TEST_CASE("destroying a section while its body runs aborts") {
    check_dies([](owned& cs) { cs->try_execute([&] { cs.reset(); }); }, "");
  }

  TEST_CASE("destroying a section while its body waits aborts") {
    check_dies(
        [](owned& cs) {
          gate g;
          bool over = false;
          auto body = [&]() -> task<> { co_await g; };
          const foreign f = await_in_foreign(cs->execute(body), over);
          cs.reset();
        },
        "");
  }

  TEST_CASE("destroying a section that was closed but not to the end aborts") {
    check_dies(
        [](owned& cs) {
          section_guard g = support::hold(*cs);
          bool over = false;
          const foreign f = await_in_foreign(cs->close(), over);
          cs.reset();
        },
        "");
  }

  TEST_CASE("destroying an unnamed section in use names it by its number") {
    support::check_dies(
        [] {
          std::optional<critical_section> cs(std::in_place);
          section_guard g = support::hold(*cs);
          cs.reset();
        },
        "section #");
  }

  TEST_CASE("awaiting an execution twice aborts") {
    check_dies([](owned& cs) { await_twice(cs->execute([] { return 1; })); });
  }

  TEST_CASE("awaiting a lock twice aborts") {
    check_dies([](owned& cs) {
      section_guard g = support::hold(*cs);
      g.unlock();
      await_twice(cs->lock());
    });
  }

  TEST_CASE("awaiting a close twice aborts") {
    check_dies([](owned& cs) { await_twice(cs->close()); });
  }

  TEST_CASE("awaiting an execution that was moved from aborts") {
    check_dies([](owned& cs) { await_moved_from(cs->execute([] { return 1; })); });
  }

  TEST_CASE("a body that moves or awaits its own execution aborts") {
    for (const bool is_kept : {false, true}) {
      const auto check_dies_of = [is_kept](auto meddle) {
        check_dies([&](owned& cs) {
          if (is_kept) support::come_back_to(*cs);
          std::function<void()> by_the_body;
          auto e = cs->execute([&] { by_the_body(); });
          by_the_body = [&] { meddle(e); };
          sync_wait(std::move(e));
        });
      };
      check_dies_of([](auto& e) { const auto other = std::move(e); });
      check_dies_of([](auto& e) {
        try {
          sync_wait(std::move(e));
        } catch (const reentry_error&) {
        }
      });
    }
  }

  TEST_CASE("awaiting a lock that was moved from aborts") {
    check_dies([](owned& cs) { await_moved_from(cs->lock()); });
  }

  TEST_CASE("awaiting a close that was moved from aborts") {
    check_dies([](owned& cs) { await_moved_from(cs->close()); });
  }

  TEST_CASE("awaiting a handle twice aborts") {
    check_dies([](owned& cs) {
      manual_executor jobs;
      critical_section bound{section_options{.name = cs->name(), .executor = jobs}};
      auto h = bound.submit([] { return 1; });
      jobs.run();
      await_handle_twice(std::move(h));
    });
  }

  TEST_CASE("destroying a coroutine that waits for a section aborts") {
    check_dies([](owned& cs) {
      section_guard g = support::hold(*cs);
      bool over = false;
      {
        const foreign f = await_in_foreign(cs->execute([] {}), over);
      }
    });
  }

  TEST_CASE("destroying a coroutine that waits for a lock aborts") {
    check_dies([](owned& cs) {
      section_guard g = support::hold(*cs);
      bool over = false;
      {
        const foreign f = await_in_foreign(cs->lock(), over);
      }
    });
  }

  TEST_CASE("destroying a coroutine that waits for the end of a close aborts") {
    check_dies([](owned& cs) {
      section_guard g = support::hold(*cs);
      bool over = false;
      {
        const foreign f = await_in_foreign(cs->close(), over);
      }
    });
  }

  TEST_CASE("destroying a coroutine whose body waits aborts") {
    check_dies([](owned& cs) {
      gate g;
      bool over = false;
      auto body = [&]() -> task<> { co_await g; };
      {
        const foreign f = await_in_foreign(cs->execute(body), over);
      }
    });
  }

  TEST_CASE("destroying a coroutine that waits for a handle aborts") {
    check_dies([](owned& cs) {
      manual_executor jobs;
      critical_section bound{section_options{.name = cs->name(), .executor = jobs}};
      auto h = bound.submit([] { return 1; });
      {
        const foreign f = [](execution_handle<int>& from) -> foreign { co_await from; }(h);
      }
      jobs.run();
    });
  }

  TEST_CASE("destroying a section with a request that waits and may be withdrawn aborts") {
    check_dies(
        [](owned& cs) {
          section_guard g = support::hold(*cs);
          std::stop_source stop;
          bool over = false;
          const foreign f = await_in_foreign(cs->execute([] {}, {.stop = stop.get_token()}), over);
          cs.reset();
        },
        "");
  }

  TEST_CASE("destroying a section with a request that is set aside aborts") {
    check_dies(
        [](owned& cs) {
          bool over = false;
          const foreign f = await_in_foreign(cs->execute_when([] { return false; }, [] {}), over);
          cs.reset();
        },
        "");
  }

  TEST_CASE("destroying a coroutine that waits and may be withdrawn aborts") {
    check_dies([](owned& cs) {
      section_guard g = support::hold(*cs);
      std::stop_source stop;
      bool over = false;
      {
        const foreign f = await_in_foreign(cs->execute([] {}, {.stop = stop.get_token()}), over);
      }
    });
  }

  TEST_CASE("destroying a coroutine whose lock may be withdrawn aborts") {
    check_dies([](owned& cs) {
      section_guard g = support::hold(*cs);
      std::stop_source stop;
      bool over = false;
      {
        const foreign f = await_in_foreign(cs->lock({.stop = stop.get_token()}), over);
      }
    });
  }

  TEST_CASE("destroying a coroutine that is set aside aborts") {
    check_dies([](owned& cs) {
      std::stop_source stop;
      bool over = false;
      {
        const foreign f = await_in_foreign(
            cs->execute_when([] { return false; }, [] {}, {.stop = stop.get_token()}), over);
      }
    });
  }

  TEST_CASE("destroying a coroutine that waits for several sections aborts") {
    check_dies([](owned& cs) {
      critical_section other;
      section_guard g = support::hold(*cs);
      std::stop_source stop;
      bool over = false;
      {
        const foreign f = await_in_foreign(
            execute(std::tie(*cs, other), [] {}, {.stop = stop.get_token()}), over);
      }
    });
  }

  TEST_CASE("awaiting an execution with a token twice aborts") {
    check_dies([](owned& cs) {
      std::stop_source stop;
      await_twice(cs->execute([] { return 1; }, {.stop = stop.get_token()}));
    });
  }

  TEST_CASE("awaiting an execution with a token that was moved from aborts") {
    check_dies([](owned& cs) {
      std::stop_source stop;
      await_moved_from(cs->execute([] { return 1; }, {.stop = stop.get_token()}));
    });
  }

  TEST_CASE("awaiting an execute_when twice, or one that was moved from, aborts") {
    check_dies([](owned& cs) { await_twice(cs->execute_when([] { return true; }, [] {})); });
    check_dies([](owned& cs) { await_moved_from(cs->execute_when([] { return true; }, [] {})); });
  }

  TEST_CASE("awaiting an execution after others twice, or one that was moved from, aborts") {
    const auto make = [](critical_section& cs) {
      return cs.execute(after([]() -> task<int> { co_return 1; }()), [](int n) { return n; });
    };
    const auto check = [&](auto await) { check_dies([&](owned& cs) { await(make(*cs)); }); };
    check([](auto t) { await_twice(std::move(t)); });
    check([](auto t) { await_moved_from(std::move(t)); });
  }

  TEST_CASE("destroying a coroutine whose execution after others waits aborts") {
    check_dies([](owned& cs) {
      section_guard g = support::hold(*cs);
      bool over = false;
      {
        const foreign f =
            await_in_foreign(cs->execute(after([]() -> task<> { co_return; }()), [] {}), over);
      }
    });
  }

  TEST_CASE("awaiting an execution again that was withdrawn aborts") {
    check_dies([](owned& cs) {
      std::stop_source stop;
      stop.request_stop();
      [](auto a) -> foreign {
        try {
          co_await std::move(a);
        } catch (const operation_cancelled&) {
        }
        co_await std::move(a);
      }(cs->execute([] {}, {.stop = stop.get_token()}));
    });
  }

  TEST_CASE("a guard that was moved from owns nothing, and unlocking it does nothing") {
    critical_section cs;
    section_guard g = support::hold(cs);
    section_guard other = std::move(g);
    CHECK_FALSE(g.owns_lock());
    CHECK_FALSE(static_cast<bool>(g));
    g.unlock();
    g.detach();
    CHECK(cs.statistics().held);
    g = section_guard();
    CHECK(cs.statistics().held);
    CHECK(other.owns_lock());
    other.unlock();
    other.unlock();
    CHECK_FALSE(cs.statistics().held);
    CHECK(cs.statistics().executions == 1);
  }

  TEST_CASE("unwinding: a guard on the stack is given back") {
    critical_section cs;
    int inside = 0;
    bool over = false;
    std::optional<foreign> waits;
    try {
      const section_guard g = support::hold(cs);
      waits.emplace(
          await_in_foreign(cs.execute([&inside] { inside = std::uncaught_exceptions(); }), over));
      throw std::runtime_error("unwind");
    } catch (const std::runtime_error&) {
    }
    CHECK(over);
    CHECK(inside == 1);  // served by the guard's destructor
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("unwinding: bodies that throw in a drain that unwinding began harm nobody") {
    critical_section cs;
    bool threw = false;
    std::optional<foreign> waits;
    const auto ask = [&]() -> foreign {
      try {
        co_await cs.execute([] { throw std::logic_error("a body's"); });
      } catch (const std::logic_error&) {
        threw = true;
      }
    };
    try {
      const section_guard g = support::hold(cs);
      waits.emplace(ask());
      throw std::runtime_error("unwind");
    } catch (const std::runtime_error& e) {
      CHECK(e.what() == std::string("unwind"));
    }
    CHECK(threw);
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("unwinding: a guard in a coroutine's frame is given back") {
    critical_section cs;
    bool threw = false;
    bool over = false;
    section_guard g = support::hold(cs);
    const foreign fails = hold_and_fail(cs, threw);
    const foreign behind = await_in_foreign(cs.execute([] {}), over);
    g.unlock();
    CHECK(threw);
    CHECK(over);
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("unwinding: a scope whose work has ended, and handles, ready or not, may go") {
    critical_section cs;
    manual_executor jobs;
    critical_section bound({.executor = jobs});
    std::stop_source stop;
    int ran = 0;
    try {
      const auto ready = bound.submit([&ran] { ++ran; });
      jobs.run();
      const auto not_ready = bound.submit([&ran] { ++ran; }, {.stop = stop.get_token()});
      async_scope scope;
      scope.spawn(cs.execute([&ran] { ++ran; }));
      sync_wait(scope.join());
      throw std::runtime_error("unwind");
    } catch (const std::runtime_error&) {
    }
    CHECK(ran == 2);
    jobs.run();
    CHECK(ran == 3);
  }

  TEST_CASE(
      "unwinding: what was never awaited, and frames that never began or have ended, may go") {
    critical_section cs;
    std::stop_source stop;
    bool over = false;
    try {
      const auto execution = cs.execute([] {}, {.stop = stop.get_token()});
      const auto when = cs.execute_when([] { return false; }, [] {}, {.stop = stop.get_token()});
      const auto both = when_any(cs.execute([] {}), cs.lock());
      const auto limited = timeout(cs.lock(), std::chrono::hours(1));
      const task<> never_begun = [](critical_section& s) -> task<> {
        co_await s.execute([] {});
      }(cs);
      const foreign ended = await_in_foreign(cs.execute([] {}), over);
      throw std::runtime_error("unwind");
    } catch (const std::runtime_error&) {
    }
    CHECK(over);
    CHECK(cs.statistics().executions == 1);
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("unwinding: destroying a coroutine that waits aborts there, too") {
    check_dies([](owned& cs) {
      const section_guard g = support::hold(*cs);
      bool over = false;
      try {
        const foreign f = await_in_foreign(cs->execute_when([] { return true; }, [] {}), over);
        throw std::runtime_error("unwind");
      } catch (const std::runtime_error&) {
      }
    });
  }

  TEST_CASE("contract: destroying a coroutine that has had its turn and lets others go first") {
    const auto child = [] {
      critical_section cs;
      support::loop l;
      support::run_on(l, [&cs] {
        detail::here().crowded = []() noexcept { return true; };  // as a pool's worker with others
        const foreign asks = [](critical_section& x) -> foreign {
          for (;;) co_await x.execute([] {});
        }(cs);
      });
    };
    support::check_dies(child, "a coroutine is destroyed while it waits", "contract.cpp");
  }

  TEST_CASE("contract: destroying a coroutine whose fork has not begun") {
    const auto child = [] {
      gate never;
      bool over = false;
      support::loop l;
      support::run_on(l, [&] {
        const auto nothing = []() -> task<> { co_return; };
        const auto wait = [](gate& g) -> task<> { co_await g; };
        const foreign waits = await_in_foreign(when_all(fork(nothing()), wait(never)), over);
      });
    };
    support::check_dies(child, "what it has forked");
  }
}
