// on_top.cpp - whoever holds a section and leaves another one does not run the bodies of threads
// that block on top of what it does: they may block for what it holds, which it could never leave
// then. And within a function that changes a variable nobody's body runs, for it may ask for that
// one.

#include "support/foreign.hpp"
#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <cstddef>
#include <doctest/doctest.h>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

using namespace turnstile;
using support::hold;
using support::wait_for_waiters;

namespace {

const auto nothing = [] {};

// Who waits for its turn is counted a moment before it can be served: of many it is some.
constexpr int rounds = 100;

struct two_sections {
  two_sections() : two_sections(executor_ref()) {}
  explicit two_sections(executor_ref of_inner) : inner({.name = "inner", .executor = of_inner}) {}

  critical_section outer{"outer"};
  critical_section inner;
  std::atomic<int> had_both{0};

  // Has a place in the line of `inner`, and wants `outer` as well in its turn there.
  std::jthread wants_both() {
    const std::size_t before = inner.statistics().waiters;
    std::jthread t([this] {
      inner.execute_blocking([this] { outer.execute_blocking([this] { ++had_both; }); });
    });
    wait_for_waiters(inner, before + 1);
    return t;
  }
};

}  // namespace

TEST_CASE("a thread inside a section leaves another one to who waits for both") {
  for (int round = 0; round != rounds; ++round) {
    two_sections s;
    std::jthread first;
    std::jthread second;
    s.outer.execute_blocking([&] {
      s.inner.execute_blocking([&] {
        first = s.wants_both();
        second = s.wants_both();
      });
      CHECK(s.had_both == 0);
    });
    first.join();
    second.join();
    CHECK(s.had_both == 2);
  }
}

TEST_CASE("work that is begun inside a section leaves another one to who waits for both") {
  enum class begun { spawned, added, resumed, told } how = begun::spawned;
  SUBCASE("spawned") {}
  SUBCASE("added to an ordered_scope") { how = begun::added; }
  SUBCASE("resumed within an unlock") { how = begun::resumed; }
  SUBCASE("told within an unlock that a section has closed") { how = begun::told; }
  for (int round = 0; round != rounds; ++round) {
    two_sections s;
    std::jthread other;
    async_scope scope;
    ordered_scope ordered;
    variable<int> v{0};
    const auto enters = [&]() -> task<> {
      auto body = [&] { other = s.wants_both(); };
      co_await s.inner.execute(body);
    };
    critical_section third;
    const auto waits_first = [&]() -> task<> {
      if (how == begun::told) {
        co_await third.close();
      } else {
        co_await third.execute(nothing);
      }
      co_await enters();
    };
    std::optional<section_guard> outer = s.outer.try_lock();
    if (how == begun::spawned) scope.spawn(enters());
    if (how == begun::added) ordered.add(writes(v), enters);
    if (how == begun::resumed || how == begun::told) {
      std::optional<section_guard> first = third.try_lock();
      scope.spawn(waits_first());
      first->unlock();
    }
    CHECK(s.had_both == 0);
    outer->unlock();
    sync_wait(scope.join());
    sync_wait(ordered.join());
    other.join();
    CHECK(s.had_both == 1);
  }
}

TEST_CASE("the same of a coroutine whose body waits") {
  for (int round = 0; round != rounds; ++round) {
    thread_pool pool(1);
    two_sections s;
    std::jthread other;
    const auto both = [&]() -> task<> {
      co_await s.outer.execute([&]() -> task<> {
        co_await s.inner.execute([&] { other = s.wants_both(); });
        CHECK(s.had_both == 0);
      });
    };
    async_scope scope{{.executor = pool}};
    scope.spawn(both());
    sync_wait(scope.join());
    other.join();
    CHECK(s.had_both == 1);
  }
}

TEST_CASE("the same of guards") {
  for (int round = 0; round != rounds; ++round) {
    two_sections s;
    std::jthread other;
    section_guard outer = std::move(s.outer.try_lock().value());
    section_guard inner = std::move(s.inner.try_lock().value());
    other = s.wants_both();
    inner.unlock();
    outer.unlock();
    other.join();
    CHECK(s.had_both == 1);
  }
}

TEST_CASE("the same of several sections") {
  for (int round = 0; round != rounds; ++round) {
    two_sections s;
    critical_section third("third");
    std::jthread other;
    s.outer.execute_blocking([&] {
      sync_wait(execute(std::tie(s.inner, third), [&] { other = s.wants_both(); }));
      CHECK(s.had_both == 0);
    });
    other.join();
    CHECK(s.had_both == 1);
  }
}

TEST_CASE("the same of a section that is bound, on its executor") {
  thread_pool pool(2);
  for (int round = 0; round != rounds; ++round) {
    two_sections s{pool};
    std::jthread other;
    const auto has_both = [&]() -> task<> {
      section_guard outer = co_await s.outer.lock();
      section_guard inner = co_await s.inner.lock();
      other = s.wants_both();
      inner.unlock();
      outer.unlock();
    };
    async_scope scope{{.executor = pool}};
    scope.spawn(has_both());
    sync_wait(scope.join());
    other.join();
    CHECK(s.had_both == 1);
  }
}

TEST_CASE("who is given the section while it blocks in line serves nobody else") {
  for (int round = 0; round != rounds; ++round) {
    two_sections s;
    std::jthread behind_it;
    section_guard busy = hold(s.inner);
    for (int i = 0; i != 32; ++i) s.inner.post(nothing);  // as many as who unlocks serves
    std::jthread t([&] { s.outer.execute_blocking([&] { s.inner.execute_blocking(nothing); }); });
    wait_for_waiters(s.inner, 33);
    behind_it = s.wants_both();
    busy.unlock();
    t.join();
    behind_it.join();
    CHECK(s.had_both == 1);
  }
}

TEST_CASE("a coroutine is served on top all the same") {
  two_sections s;
  bool over = false;
  bool ran = false;
  section_guard busy = hold(s.inner);
  const support::foreign waiter =
      support::await_in_foreign(s.inner.execute([&] { ran = true; }), over);
  s.outer.execute_blocking([&] {
    busy.unlock();
    CHECK(ran);
  });
  CHECK(over);
}

TEST_CASE("a function that changes a variable leaves a section to others, but runs none of them") {
  critical_section cs;
  variable<int> v(0);
  std::optional<execution_handle<void>> other;
  const auto adds = [&v] { v.assign_add(10); };
  bool left = false;
  SUBCASE("behind a body") {
    v.update([&](int& n) {
      ++n;
      if (std::exchange(left, true)) return;  // again: somebody has changed it meanwhile
      cs.try_execute([&] { other.emplace(cs.submit(adds)); });
    });
  }
  SUBCASE("behind a guard") {
    section_guard g = std::move(cs.try_lock().value());
    other.emplace(cs.submit(adds));
    v.update([&](int& n) {
      ++n;
      if (std::exchange(left, true)) return;
      g.unlock();
    });
  }
  REQUIRE(other);
  CHECK_NOTHROW(sync_wait(*other));
  CHECK(*v.read() == 11);
}

TEST_CASE("a function that changes a variable leaves a section, and no predicate is asked there") {
  manual_executor home;
  critical_section cs;
  variable<std::string> v(std::string(100, 'x'));
  bool may = false;
  std::size_t read = 0;
  async_scope scope{{.executor = home}};
  scope.spawn(
      cs.execute_when([&] { return may && !v.read()->empty(); }, [&] { read = v.read()->size(); }));
  home.run();
  SUBCASE("behind a body") {
    v.update([&](std::string& text) {
      text += 'y';
      cs.try_execute([&may] { may = true; });
    });
  }
  SUBCASE("behind a guard") {
    section_guard g = std::move(cs.try_lock().value());
    v.update([&](std::string& text) {
      text += 'y';
      may = true;
      g.unlock();
    });
  }
  CHECK(read == 0);
  home.run();
  sync_wait(scope.join());
  CHECK(read == 101);
}

// On top of it after all. It must not be sent there again and again.
TEST_CASE("the same on an executor that runs at once what it gets") {
  struct {
    void post(job& j) noexcept { j.run(); }
  } at_once;
  critical_section cs;
  variable<int> v(0);
  std::optional<execution_handle<void>> other;
  async_scope scope{{.executor = at_once}};
  const auto changes = [&]() -> task<> {
    v.update([&](int& n) {
      ++n;
      if (other) return;
      cs.try_execute([&] { other.emplace(cs.submit([&v] { v.assign_add(10); })); });
    });
    co_return;
  };
  scope.spawn(changes());
  sync_wait(scope.join());
  CHECK_THROWS_AS(sync_wait(*other), std::logic_error);
  CHECK(*v.read() == 1);
}
