// contract.cpp - breaking the contract of a section: one line with its name, then abort.

#include "support/child_process.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <memory>
#include <optional>
#include <string>
#include <utility>

using namespace turnstile;
using support::await_in_foreign;
using support::foreign;
using support::gate;

namespace {

// `f` is given a section called "accounts" that it may do anything to.
template <class F>
void check_dies(F f, const char* place = "contract.cpp") {
  const support::child_end end = support::in_child([&] {
    auto cs = std::make_unique<critical_section>("accounts");
    f(cs);
  });
  INFO(end.said);
  CHECK(end.aborted);
  CHECK(end.one_line());
  CHECK(end.says("accounts"));
  CHECK(end.says(place));
}

using owned = std::unique_ptr<critical_section>;

template <class A>
foreign await_twice(A a) {
  co_await std::move(a);
  co_await std::move(a);
}

template <class A>
foreign await_moved_from(A a) {
  A other = std::move(a);
  co_await std::move(a);
  co_await std::move(other);
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
    const support::child_end end = support::in_child([] {
      std::optional<critical_section> cs(std::in_place);
      section_guard g = support::hold(*cs);
      cs.reset();
    });
    CHECK(end.aborted);
    CHECK(end.one_line());
    CHECK(end.says("section #"));
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
}
