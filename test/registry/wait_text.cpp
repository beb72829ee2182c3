// wait_text.cpp - the wait graph, looked at while chains wait.

#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <string>
#include <thread>
#include <utility>

using namespace turnstile;
using support::loop;

namespace {

bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

task<> inner(critical_section& wanted) {
  auto body = [] {};
  co_await wanted.execute(body, {.name = "pay"});
}

task<> outer(critical_section& held, critical_section& wanted) {
  auto body = [&wanted] { return inner(wanted); };
  co_await held.execute(body, {.name = "move"});
}

task<> enter(critical_section& wanted) {
  co_await wanted.execute([] {});
}

task<> join_inside(critical_section& held, async_scope& work) {
  auto body = [&work]() -> task<> { co_await work.join(); };
  co_await held.execute(body);
}

task<> join_deep(int depth, critical_section& wanted, loop& l) {
  if (depth == 0) {
    co_await enter(wanted);
    co_return;
  }
  async_scope work({.executor = l});
  work.spawn(join_deep(depth - 1, wanted, l));
  co_await work.join();
}

}  // namespace

TEST_SUITE("registry") {
  TEST_CASE("wait_graph: is empty when nobody who holds something waits") {
    critical_section a{"a"};
    async_scope scope;
    section_guard busy = support::hold(a);
    scope.spawn(enter(a));
    CHECK(registry::wait_graph().empty());
    CHECK(registry::wait_graph_dot() == "digraph waits {\n}\n");
    busy.unlock();
    sync_wait(scope.join());
  }

  TEST_CASE("wait_graph: says what is held, what is wanted, by whom and where") {
    critical_section a{"a"};
    critical_section b;
    async_scope scope;
    section_guard busy = support::hold(b);
    scope.spawn(outer(a, b));
    const std::string text = registry::wait_graph();
    CHECK(has(text, "a (move, "));
    CHECK(has(text, "async_scope ("));
    CHECK(has(text, " waits for section #"));
    CHECK(has(text, " (pay, "));
    CHECK(has(text, "wait_text.cpp:"));
    const std::string dot = registry::wait_graph_dot();
    CHECK(has(dot, "[label=\"a\"]"));
    CHECK(has(dot, "[label=\"section #"));
    CHECK(has(dot, " -> "));
    CHECK(has(dot, "shape=box"));
    busy.unlock();
    sync_wait(scope.join());
    CHECK(registry::wait_graph().empty());
  }

  TEST_CASE("wait_graph: shows what the work waits for that somebody joins") {
    critical_section a{"a"};
    critical_section b{"b"};
    async_scope work;
    async_scope joins;
    section_guard busy = support::hold(b);
    work.spawn(enter(b));
    joins.spawn(join_inside(a, work));
    const std::string text = registry::wait_graph();
    CHECK(has(text, " waits for async_scope ("));
    CHECK(has(text, " waits for b ("));
    busy.unlock();
    sync_wait(joins.join());
    sync_wait(work.join());
  }

  TEST_CASE("wait_graph_dot: quotes names, and keeps sections of one name apart") {
    critical_section a{"say \"a\""};
    critical_section b{"say \"a\""};
    async_scope scope;
    section_guard busy = support::hold(b);
    scope.spawn(outer(a, b));
    const std::string dot = registry::wait_graph_dot();
    CHECK(has(dot, "n1 [label=\"say \\\"a\\\"\"]"));
    CHECK(has(dot, "n2 [label=\"say \\\"a\\\"\"]"));
    busy.unlock();
    sync_wait(scope.join());
  }

  TEST_CASE("wait_graph: may be looked at while chains come and go") {
    critical_section a{"a"};
    critical_section b{"b"};
    thread_pool pool(2);
    std::atomic<bool> ended{false};
    std::thread looks([&] {
      while (!ended.load()) {
        static_cast<void>(registry::wait_graph());
        static_cast<void>(registry::wait_graph_dot());
      }
    });
    async_scope scope({.executor = pool});
    for (int i = 0; i != 500; ++i) {
      scope.spawn(outer(a, b));
      scope.spawn(enter(b));
    }
    sync_wait(scope.join());
    ended.store(true);
    looks.join();
    CHECK(a.statistics().executions == 500);
    CHECK(b.statistics().executions == 1000);
    CHECK(registry::wait_graph().empty());
  }

  TEST_CASE("wait_graph: a fiber may ask for it, however deep joins are nested") {
    constexpr int depth = 1000;
    critical_section a;
    critical_section b;
    loop l;
    async_scope scope({.executor = l});
    section_guard busy = support::hold(b);
    const auto body = [&] { return join_deep(depth, b, l); };
    scope.spawn(a.execute(body));
    l.run();
    std::string text;
    auto fiber = spawn_fiber(l, [&text] { text = registry::wait_graph(); });
    l.run();
    CHECK(std::ranges::count(text, '\n') == depth + 1);
    busy.unlock();
    l.run();
    sync_wait(std::move(fiber));
    sync_wait(scope.join());
  }
}
