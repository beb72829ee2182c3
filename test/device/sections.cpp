// sections.cpp - device executions: when the section is handed on, who waits for the tail, what is
// refused.

#include "support/dies.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"
#include "support/unobserved.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;

namespace {

using ints = std::vector<int>;

section_options on_host(std::string_view name = "s") {
  return {.name = name, .place = device::host()};
}

// What is submitted is done only when the test says so: the lane is done by hand.
struct by_hand {
  manual_executor lane;
  stream s{device::host(), {.executor = lane}};
};

auto noting(ints& list, int id) {
  return [&list, id](stream& s) { s.enqueue([&list, id] { list.push_back(id); }); };
}

task<> run_noting(critical_section& cs, by_hand& d, ints& list, int id, ints* resumed = nullptr) {
  auto body = noting(list, id);
  co_await cs.execute(body, {.on = &d.s});
  if (resumed != nullptr) resumed->push_back(id);
}

template <class F>
task<> run_host(critical_section& cs, F f) {
  auto body = [&f] { f(); };
  co_await cs.execute(body);
}

template <class A>
void expect_error(A a, std::string_view text) {
  try {
    sync_wait(std::move(a));
    FAIL("nothing was thrown");
  } catch (const std::exception& e) {
    CAPTURE(e.what());
    CHECK(std::string_view(e.what()).find(text) != std::string_view::npos);
  }
}

// What is on other threads may take its time.
template <class Predicate>
void wait_running(support::loop& l, Predicate is_so) {
  while (!is_so()) {
    if (l.run() == 0) std::this_thread::yield();
  }
}

// All of the work goes on there.
void join_running(support::loop& l, async_scope& work) {
  bool over = false;
  const auto joins = support::await_in_foreign(work.join(), over);
  wait_running(l, [&] { return over; });
}

// Who waits for the submission goes on because of `cause`, and not before.
template <class Handle, class F>
void check_told_by(Handle& handle, F cause) {
  support::loop l;
  bool over = false;
  const auto asks = [&]() -> task<> {
    co_await handle.submitted();
    over = true;
  };
  async_scope scope({.executor = l});
  scope.spawn(asks());
  l.run();
  CHECK_FALSE(over);
  cause();
  wait_running(l, [&] { return over; });
  sync_wait(scope.join());
}

}  // namespace

TEST_SUITE_BEGIN("device sections");

TEST_CASE("a device execution gives what its body returned when its work is complete") {
  critical_section cs(on_host());
  const auto go = [](critical_section& s) -> task<std::pair<int, int>> {
    int done = 0;
    auto body = [&done](stream& to) {
      to.enqueue([&done] { ++done; });
      return 7;
    };
    const int got = co_await s.execute(body);
    co_return std::pair(got, done);
  };
  CHECK(sync_wait(go(cs)) == std::pair(7, 1));
  CHECK(cs.statistics().executions == 1);
  CHECK_FALSE(cs.statistics().held);
}

TEST_CASE("the section is handed on at submission, and callers go on at completion") {
  support::loop l;
  by_hand d;
  critical_section cs(on_host());
  ints done;
  ints resumed;
  async_scope scope({.executor = l});
  for (int i = 0; i != 4; ++i) scope.spawn(run_noting(cs, d, done, i, &resumed));
  l.run();
  CHECK(cs.statistics().executions == 4);  // all bodies ran, and nothing is done yet
  CHECK(done.empty());
  CHECK(resumed.empty());
  CHECK(cs.statistics().held);
  d.lane.run();
  CHECK(done == ints{0, 1, 2, 3});
  l.run();
  CHECK(resumed == ints{0, 1, 2, 3});
  CHECK_FALSE(cs.statistics().held);
  sync_wait(scope.join());
}

TEST_CASE("a host execution waits for the tail, keeps its place, and nobody overtakes it") {
  support::loop l;
  by_hand d;
  critical_section cs(on_host());
  ints seen;
  ints done;
  async_scope scope({.executor = l});
  scope.spawn(run_noting(cs, d, done, 1));
  l.run();
  scope.spawn(run_host(cs, [&] { seen = done; }));
  scope.spawn(run_noting(cs, d, done, 2));
  l.run();
  CHECK(cs.statistics().executions == 1);
  CHECK(cs.statistics().waiters >= 1);  // the one whose turn it is may count
  d.lane.run();
  l.run();
  CHECK(seen == ints{1});
  CHECK(cs.statistics().executions == 3);
  CHECK(done == ints{1});
  d.lane.run();
  l.run();
  CHECK(done == ints{1, 2});
  sync_wait(scope.join());
}

TEST_CASE("a section whose tail is pending is not idle") {
  support::loop l;
  by_hand d;
  critical_section cs(on_host());
  ints done;
  async_scope scope({.executor = l});
  scope.spawn(run_noting(cs, d, done, 1));
  l.run();
  CHECK_FALSE(cs.try_execute([] {}));
  CHECK_FALSE(cs.try_lock());
  d.lane.run();
  CHECK(cs.try_execute([] {}));
  CHECK(cs.try_lock());
  l.run();
  sync_wait(scope.join());
}

TEST_CASE("guards, predicates and several sections wait for the tail too") {
  support::loop l;
  by_hand d;
  critical_section cs(on_host());
  critical_section other;
  ints done;
  std::string order;
  const auto locks = [&]() -> task<> {
    const section_guard g = co_await cs.lock();
    order += 'l';
    order += static_cast<char>('0' + done.size());
  };
  const auto asks = [&]() -> task<> {
    auto pred = [&] { return !done.empty(); };
    auto body = [&] { order += 'w'; };
    co_await cs.execute_when(pred, body);
  };
  const auto enters = [&]() -> task<> {
    auto body = [&] { order += 's'; };
    co_await turnstile::execute(std::tie(other, cs), body);
  };
  async_scope scope({.executor = l});
  scope.spawn(run_noting(cs, d, done, 1));
  l.run();
  scope.spawn(locks());
  scope.spawn(asks());
  scope.spawn(enters());
  l.run();
  CHECK(order.empty());
  d.lane.run();
  l.run();
  CHECK(order == "l1ws");
  sync_wait(scope.join());
}

TEST_CASE(
    "while requests are set aside a device execution keeps the section until it is complete") {
  support::loop l;
  by_hand d;
  critical_section cs(on_host());
  ints done;
  std::atomic<bool> ran{false};
  const auto asks = [&]() -> task<> {
    auto pred = [&] { return done.size() == 2; };
    auto body = [&] { ran = true; };
    co_await cs.execute_when(pred, body);
  };
  async_scope scope({.executor = l});
  scope.spawn(asks());
  l.run();
  scope.spawn(run_noting(cs, d, done, 1));
  scope.spawn(run_noting(cs, d, done, 2));
  l.run();
  CHECK(d.lane.pending() == 1);
  d.lane.run();
  // The predicate is asked on a pool, and what comes next begins there.
  wait_running(l, [&] {
    d.lane.run();
    return ran.load();
  });
  CHECK(done == ints{1, 2});
  join_running(l, scope);
}

TEST_CASE("no more executions than max_in_flight are submitted at once") {
  support::loop l;
  by_hand d;
  critical_section cs({.name = "s", .place = device::host(), .max_in_flight = 2});
  ints done;
  async_scope scope({.executor = l});
  for (int i = 0; i != 5; ++i) scope.spawn(run_noting(cs, d, done, i));
  l.run();
  CHECK(cs.statistics().executions == 2);
  for (int round = 0; round != 5; ++round) {
    d.lane.run();
    l.run();
    CHECK(cs.statistics().executions <= done.size() + 2);
  }
  CHECK(done == ints{0, 1, 2, 3, 4});
  CHECK(cs.statistics().executions == 5);
  sync_wait(scope.join());
}

TEST_CASE("released at completion, the next body sees what the one before left") {
  support::loop l;
  by_hand d;
  critical_section cs(
      {.name = "s", .place = device::host(), .hand_on = turnstile::release::completion});
  ints done;
  ints resumed;
  async_scope scope({.executor = l});
  for (int i = 0; i != 3; ++i) scope.spawn(run_noting(cs, d, done, i, &resumed));
  for (std::size_t i = 0; i != 3; ++i) {
    l.run();
    CHECK(cs.statistics().executions == i);
    CHECK(done.size() == i);
    d.lane.run();
  }
  l.run();
  CHECK(resumed == ints{0, 1, 2});
  sync_wait(scope.join());
}

TEST_CASE(
    "released at completion, a section goes on though nobody runs where who asked is at home") {
  support::loop idle;
  support::loop l;
  by_hand d;
  critical_section cs(
      {.name = "s", .place = device::host(), .hand_on = turnstile::release::completion});
  ints done;
  ints seen;
  ints resumed;
  async_scope of_idle({.executor = idle});
  async_scope scope({.executor = l});
  of_idle.spawn(run_noting(cs, d, done, 1, &resumed));
  idle.run();
  scope.spawn(run_host(cs, [&] { seen = done; }));
  l.run();
  CHECK(seen.empty());
  d.lane.run();
  l.run();
  CHECK(seen == ints{1});
  CHECK(cs.statistics().executions == 2);
  CHECK_FALSE(cs.statistics().held);
  CHECK(resumed.empty());
  idle.run();
  CHECK(resumed == ints{1});
  sync_wait(of_idle.join());
  sync_wait(scope.join());
}

TEST_CASE("with requests set aside, a section goes on though nobody runs where any is at home") {
  support::loop idle;
  support::loop l;
  by_hand d;
  critical_section cs(on_host());
  ints done;
  bool may_run = false;
  const auto who_is_told = std::this_thread::get_id();
  bool told = false;
  std::atomic<bool> asked_by_told{false};
  std::atomic<bool> ran{false};
  bool resumed = false;
  const auto waits = [&]() -> task<> {
    auto pred = [&] {
      if (told && std::this_thread::get_id() == who_is_told) asked_by_told = true;
      return may_run;
    };
    auto body = [&] { ran = true; };
    co_await cs.execute_when(pred, body);
    resumed = idle.here();
  };
  async_scope of_idle({.executor = idle});
  async_scope scope({.executor = l});
  of_idle.spawn(waits());
  of_idle.spawn(run_noting(cs, d, done, 1));
  idle.run();
  scope.spawn(run_host(cs, [&] { may_run = done == ints{1}; }));
  l.run();
  told = true;
  d.lane.run();
  wait_running(l, [&] { return ran.load(); });
  CHECK_FALSE(asked_by_told);
  CHECK_FALSE(resumed);
  join_running(idle, of_idle);
  CHECK(resumed);
  join_running(l, scope);
}

TEST_CASE("what a body or its work throws reaches its own caller, when the work is complete") {
  support::loop l;
  by_hand d;
  critical_section cs(on_host());
  ints done;
  std::string got;
  const auto body_throws = [&]() -> task<> {
    auto body = [&](stream& s) {
      s.enqueue([&] { done.push_back(1); });
      throw std::runtime_error("body");
    };
    try {
      co_await cs.execute(body, {.on = &d.s});
    } catch (const std::runtime_error& e) {
      got += e.what();
    }
  };
  const auto work_throws = [&]() -> task<int> {
    auto body = [&](stream& s) {
      s.enqueue([] { throw std::runtime_error("work"); });
      return 1;
    };
    try {
      co_return co_await cs.execute(body, {.on = &d.s});
    } catch (const std::runtime_error& e) {
      got += e.what();
    }
    co_return 0;
  };
  async_scope scope({.executor = l});
  scope.spawn(body_throws());
  scope.spawn(work_throws());
  scope.spawn(run_noting(cs, d, done, 2));
  l.run();
  CHECK(got.empty());
  CHECK(cs.statistics().executions == 3);
  d.lane.run();
  l.run();
  CHECK(got == "bodywork");
  CHECK(done == ints{1, 2});
  sync_wait(scope.join());
}

TEST_CASE("closing waits for the tail") {
  support::loop l;
  by_hand d;
  std::optional<critical_section> cs(std::in_place, on_host());
  ints done;
  bool closed = false;
  const auto closes = [&]() -> task<> {
    co_await cs->close();
    closed = true;
  };
  async_scope scope({.executor = l});
  scope.spawn(run_noting(*cs, d, done, 1));
  l.run();
  scope.spawn(closes());
  l.run();
  CHECK_FALSE(closed);
  d.lane.run();
  while (!closed) {  // its last step runs on the shared pool: it belongs to nobody
    l.run();
    std::this_thread::yield();
  }
  cs.reset();
  sync_wait(scope.join());
}

TEST_CASE("the caller of the last execution may end the section and the stream") {
  for (int i = 0; i != 200; ++i) {
    const auto go = [](int n) -> task<int> {
      auto cs = std::make_unique<critical_section>(on_host());
      auto s = std::make_unique<stream>();
      int done = 0;
      for (int k = 0; k != n; ++k) {
        auto body = [&done](stream& to) { to.enqueue([&done] { ++done; }); };
        co_await cs->execute(body, {.on = s.get()});
      }
      cs.reset();
      s.reset();
      co_return done;
    };
    CHECK(sync_wait(schedule_on(thread_pool::shared(), go(1 + i % 3))) == 1 + i % 3);
  }
}

TEST_CASE("a section that is destroyed while its tail is pending is a contract break") {
  const auto child = [] {
    support::loop l;
    by_hand d;
    auto cs = std::make_unique<critical_section>(on_host("weights"));
    ints done;
    async_scope scope({.executor = l});
    scope.spawn(run_noting(*cs, d, done, 1));
    l.run();
    cs.reset();
  };
  support::check_dies(child, "weights");
}

TEST_CASE("submit: submitted tells when the work has its place, and streams can wait for it") {
  support::loop l;
  by_hand d;
  by_hand other;
  critical_section cs(on_host());
  ints done;
  auto body = noting(done, 1);
  auto handle = cs.submit(body, {.on = &d.s});
  sync_wait(handle.submitted());
  CHECK_FALSE(handle.ready());
  handle.wait_on(other.s);
  other.s.enqueue([&] { done.push_back(2); });
  other.lane.run();
  CHECK(done.empty());
  d.lane.run();
  other.lane.run();
  CHECK(done == ints{1, 2});
  sync_wait(handle);
}

TEST_CASE("submitted: a wait for it inside its section would never end, and is refused") {
  support::loop l;
  critical_section cs(on_host());
  std::optional<execution_handle<void>> handle;
  std::vector<std::size_t> paths;
  const auto asks = [&]() -> task<> {
    const section_guard g = co_await cs.lock();
    handle.emplace(cs.submit([](stream&) {}));
    for (int i = 0; i != 2; ++i) {
      try {
        co_await handle->submitted();
      } catch (const deadlock_error& e) {
        paths.push_back(e.path().size());
      }
    }
  };
  async_scope scope({.executor = l});
  scope.spawn(asks());
  l.run();
  CHECK(paths == std::vector<std::size_t>{2, 2});
  wait_running(l, [&] { return handle->ready(); });
  sync_wait(*handle);
  sync_wait(scope.join());
}

TEST_CASE("submitted: whoever holds its section and waits for us is found, whoever comes last") {
  for (const bool asks_last : {true, false}) {
    CAPTURE(asks_last);
    support::loop l;
    support::gate may_ask;
    support::gate may_enter;
    critical_section a(on_host("a"));
    critical_section b(on_host("b"));
    std::string asking;
    std::string entering;
    std::atomic<int> known{0};  // a gate opens on no executor: they go on anywhere
    const auto asks = [&]() -> task<> {
      const section_guard g = co_await a.lock();
      co_await may_ask;
      auto handle = b.submit([](stream&) {}, {.name = "submitted"});
      try {
        co_await handle.submitted();
        asking = "submitted";
      } catch (const deadlock_error& e) {
        asking = e.what();
      }
      ++known;
    };
    const auto enters = [&]() -> task<> {
      const section_guard g = co_await b.lock();
      co_await may_enter;
      auto body = [] {};
      try {
        co_await a.execute(body);
        entering = "ran";
      } catch (const deadlock_error& e) {
        entering = e.what();
      }
      ++known;
    };
    async_scope scope({.executor = l});
    scope.spawn(asks());
    scope.spawn(enters());
    l.run();
    (asks_last ? may_enter : may_ask).open();
    l.run();
    (asks_last ? may_ask : may_enter).open();
    l.run();
    wait_running(l, [&] { return known == 2; });
    const std::string& refused = asks_last ? asking : entering;
    CAPTURE(refused);
    CHECK(refused.find("would never end: ") != std::string::npos);
    CHECK((refused.find("b by submitted") != std::string::npos) == asks_last);
    CHECK((asks_last ? entering : asking) == (asks_last ? "ran" : "submitted"));
    wait_running(l, [&] { return !b.statistics().held; });  // the refused one's execution goes on
    sync_wait(scope.join());
  }
}

TEST_CASE("submitted: a stop ends the wait, and it can be awaited again") {
  manual_clock clock;
  support::loop l;
  critical_section cs(on_host());
  section_guard busy = support::hold(cs);
  auto handle = cs.submit([](stream&) {});
  std::string got;
  bool at_home = true;
  const auto asks = [&](std::chrono::nanoseconds within) -> task<> {
    try {
      co_await timeout(handle.submitted(), within);
      got += 's';
    } catch (const deadline_exceeded&) {
      got += 't';
    } catch (const operation_cancelled&) {
      got += 'c';
    }
    at_home &= l.here();
  };
  async_scope scope({.executor = l});
  async_scope stopped({.executor = l});
  scope.spawn(asks(1s));
  stopped.spawn(asks(10s));
  scope.spawn(asks(10s));
  l.run();
  CHECK(got.empty());
  clock.advance(2s);
  l.run();
  CHECK(got == "t");
  stopped.request_stop();
  l.run();
  CHECK(got == "tc");
  scope.spawn(asks(0s));  // nothing is waited for
  l.run();
  CHECK(got == "tct");
  busy.unlock();
  wait_running(l, [&] { return got.size() == 4; });
  CHECK(got == "tcts");
  CHECK(at_home);
  sync_wait(handle.submitted());
  sync_wait(handle);
  sync_wait(scope.join());
  sync_wait(stopped.join());
}

TEST_CASE("submitted: several may wait for it, and go on in the order in which they came") {
  support::loop l;
  critical_section cs(on_host());
  section_guard busy = support::hold(cs);
  auto handle = cs.submit([](stream&) {});
  ints order;
  const auto asks = [&](int id) -> task<> {
    co_await handle.submitted();
    order.push_back(id);
  };
  async_scope scope({.executor = l});
  for (int i = 0; i != 4; ++i) scope.spawn(asks(i));
  l.run();
  busy.unlock();
  wait_running(l, [&] { return order.size() == 4; });
  CHECK(order == ints{0, 1, 2, 3});
  sync_wait(scope.join());
  sync_wait(handle);
}

TEST_CASE("submitted: ends also if nothing is ever submitted") {
  SUBCASE("the body throws") {
    critical_section cs(on_host());
    auto handle = cs.submit([](stream&) { throw std::runtime_error("body"); });
    sync_wait(handle.submitted());
    CHECK_THROWS_AS(sync_wait(handle), std::runtime_error);
  }
  SUBCASE("its device is not there") {
    critical_section cs({.name = "s", .place = device::cuda(77)});
    auto handle = cs.submit([](stream&) {});
    sync_wait(handle.submitted());
    CHECK_THROWS_AS(sync_wait(handle), device_error);
  }
  SUBCASE("it is withdrawn in line") {
    critical_section cs(on_host());
    section_guard busy = support::hold(cs);
    std::stop_source stop;
    const std::stop_token token = stop.get_token();
    auto handle = cs.submit([](stream&) {}, {.stop = token});
    check_told_by(handle, [&] { stop.request_stop(); });
    CHECK_THROWS_AS(sync_wait(handle), operation_cancelled);
    busy.unlock();
  }
  SUBCASE("it is refused") {
    critical_section cs(on_host());
    sync_wait(cs.close());
    auto handle = cs.submit([](stream&) {});
    sync_wait(handle.submitted());
    CHECK_THROWS_AS(sync_wait(handle), section_closed);
  }
  SUBCASE("it is no device execution") {
    critical_section cs;
    section_guard busy = support::hold(cs);
    auto handle = cs.submit([] {});
    sync_wait(handle.submitted());
    CHECK_FALSE(handle.ready());
    busy.unlock();
    sync_wait(handle);
  }
}

TEST_CASE(
    "submitted: destroying a coroutine that waits for it aborts, and so does awaiting twice") {
  const auto is_destroyed = [] {
    support::loop l;
    critical_section cs(on_host());
    const section_guard busy = support::hold(cs);
    auto handle = cs.submit([](stream&) {});
    bool over = false;
    std::optional<support::foreign> f;
    support::run_on(l, [&] { f.emplace(support::await_in_foreign(handle.submitted(), over)); });
    f.reset();
  };
  support::check_dies(is_destroyed, "while it waits for a submission");
  const auto is_awaited_twice = [] {
    critical_section cs;
    auto handle = cs.submit([] {});
    support::await_twice(handle.submitted());
  };
  support::check_dies(is_awaited_twice, "a wait for a submission is");
}

TEST_CASE("submit and post: the section is handed on at submission") {
  by_hand d;
  critical_section cs(on_host());
  ints done;
  auto first = cs.submit(noting(done, 1), {.on = &d.s});
  cs.post(noting(done, 2), {.on = &d.s});
  auto last = cs.submit(noting(done, 3), {.on = &d.s});
  sync_wait(last.submitted());
  CHECK(cs.statistics().executions == 3);
  CHECK(done.empty());
  d.lane.run();
  CHECK(done == ints{1, 2, 3});
  sync_wait(first);
  sync_wait(last);
}

TEST_CASE("where the device is not available every way of asking is refused") {
  if (device::cuda(0).available()) return;
  critical_section cs({.name = "weights", .place = device::cuda(0)});
  bool ran = false;
  const auto body = [&ran](stream&) { ran = true; };
  CHECK_THROWS_AS(cs.post(body), device_error);
  CHECK_THROWS_AS(sync_wait(cs.submit(body)), device_error);
  CHECK_THROWS_AS(sync_wait(cs.execute(body)), device_error);
  CHECK_FALSE(ran);
  CHECK(cs.statistics().refused == 3);
  CHECK(cs.statistics().executions == 0);
}

TEST_CASE("submit: a stream that is to wait for what is not submitted yet is a contract break") {
  const auto child = [] {
    by_hand d;
    by_hand other;
    critical_section cs(on_host("weights"));
    ints done;
    const section_guard busy = support::hold(cs);
    auto handle = cs.submit(noting(done, 1), {.on = &d.s});
    handle.wait_on(other.s);
  };
  support::check_dies(child, "section \"weights\": a stream is to wait for work", "sections.cpp");
}

TEST_CASE("submit and post: a handle gives the value, an error nobody takes is told") {
  critical_section cs(on_host());
  auto gives = [](stream& s) {
    s.enqueue([] {});
    return std::string("value");
  };
  auto handle = cs.submit(gives);
  CHECK(sync_wait(handle) == "value");

  support::loop l;
  by_hand d;
  const support::unobserved errors;
  const auto posts = [&]() -> task<> {
    auto throws = [](stream& s) { s.enqueue([] { throw std::runtime_error("lost"); }); };
    cs.post(throws, {.on = &d.s});
    co_return;
  };
  async_scope scope({.executor = l});
  scope.spawn(posts());
  l.run();
  d.lane.run();
  while (errors.seen().empty()) std::this_thread::yield();
  REQUIRE(errors.seen().size() == 1);
  CHECK(errors.seen()[0].section == "s");
  sync_wait(scope.join());
}

TEST_CASE("submit and post: an error of the work is told, though the body's own comes back") {
  const support::unobserved errors;
  by_hand d;
  critical_section cs(on_host());
  const auto throws = [](stream& s) {
    s.enqueue([] { throw std::runtime_error("of the work"); });
    throw std::runtime_error("of the body");
  };
  {
    auto handle = cs.submit(throws, {.on = &d.s});
    sync_wait(handle.submitted());
    d.lane.run();
    CHECK_THROWS_WITH(sync_wait(handle), "of the body");
    sync_wait(cs.close());
  }
  REQUIRE(errors.seen().size() == 1);
  CHECK_THROWS_WITH(std::rethrow_exception(errors.seen()[0].error), "of the work");
}

TEST_CASE("submit and post: the executor that they were asked on is not needed any more") {
  by_hand d;
  critical_section cs(on_host());
  ints done;
  std::optional<execution_handle<void>> handle;
  {
    support::loop l;
    async_scope scope({.executor = l});
    const auto asks = [&]() -> task<> {
      handle = cs.submit(noting(done, 1), {.on = &d.s});
      cs.post(noting(done, 2), {.on = &d.s});
      co_return;
    };
    scope.spawn(asks());
    l.run();
    sync_wait(scope.join());
  }
  d.lane.run();
  sync_wait(*handle);
  sync_wait(cs.close());
  CHECK(done == ints{1, 2});
}

TEST_CASE("execute_blocking: on the only thread of an executor") {
  for (const bool is_busy : {false, true}) {
    CAPTURE(is_busy);
    thread_pool pool(1);
    critical_section cs(on_host());
    section_guard busy;
    if (is_busy) busy = support::hold(cs);
    ints done;
    async_scope scope({.executor = pool});
    const auto blocks = [&]() -> task<> {
      cs.execute_blocking(noting(done, 1));
      co_return;
    };
    scope.spawn(blocks());
    while (is_busy && cs.statistics().waiters == 0) std::this_thread::yield();
    busy.unlock();
    sync_wait(scope.join());
    CHECK(done == ints{1});
  }
}

TEST_CASE("synchronized, dependencies, execute_blocking: the stream comes behind the data") {
  synchronized<int> n(5, on_host());
  const auto go = [&]() -> task<int> {
    auto body = [](int& v, stream& s) {
      const int was = v;
      s.enqueue([&v] { ++v; });
      return was;
    };
    const int before = co_await n.execute(body);
    auto later = [](int& v, stream& s, int more) { s.enqueue([&v, more] { v += more; }); };
    auto ten = []() -> task<int> { co_return 10; };
    co_await n.execute(after(ten()), later);
    auto look = [](int& v) { return v; };
    const int now = co_await n.execute(look);
    co_return before * 100 + now;
  };
  CHECK(sync_wait(go()) == 516);
  CHECK(n.execute_blocking([](int& v, stream& s) {
    s.enqueue([&v] { v = 1; });
    return 3;
  }) == 3);
  CHECK(n.execute_blocking([](int& v) { return v; }) == 1);
}

TEST_CASE("dependencies: the stream is kept from the call on") {
  by_hand d;
  critical_section cs(on_host());
  ints done;
  auto body = noting(done, 1);
  auto nothing = []() -> task<> { co_return; };
  auto later = [&] {
    stream mine = std::move(d.s);
    return cs.execute(after(nothing()), body, {.on = &mine});
  }();
  async_scope scope;
  scope.spawn(std::move(later));
  CHECK(done.empty());  // it is this lane that has the work
  d.lane.run();
  sync_wait(scope.join());
  CHECK(done == ints{1});
}

TEST_CASE("a request that waits for its turn can be withdrawn, one that is submitted cannot") {
  support::loop l;
  by_hand d;
  critical_section cs({.name = "s", .place = device::host(), .max_in_flight = 1});
  ints done;
  std::stop_source stop;
  std::string got;
  const auto stoppable = [&](int id) -> task<> {
    const std::stop_token token = stop.get_token();
    auto body = noting(done, id);
    try {
      co_await cs.execute(body, {.stop = token, .on = &d.s});
      got += 'r';
    } catch (const operation_cancelled&) {
      got += 'c';
    }
  };
  async_scope scope({.executor = l});
  scope.spawn(stoppable(1));
  scope.spawn(stoppable(2));
  l.run();
  stop.request_stop();
  l.run();
  CHECK(got == "c");
  d.lane.run();
  l.run();
  CHECK(got == "cr");
  CHECK(done == ints{1});
  CHECK_FALSE(cs.statistics().held);
  sync_wait(scope.join());
}

TEST_CASE("a host execution that waits for the tail can be withdrawn") {
  support::loop l;
  by_hand d;
  critical_section cs(on_host());
  ints done;
  std::stop_source stop;
  std::string got;
  const auto stoppable = [&]() -> task<> {
    const std::stop_token token = stop.get_token();
    auto body = [&] { got += 'b'; };
    try {
      co_await cs.execute(body, {.stop = token});
    } catch (const operation_cancelled&) {
      got += 'c';
    }
  };
  async_scope scope({.executor = l});
  scope.spawn(run_noting(cs, d, done, 1));
  scope.spawn(stoppable());
  scope.spawn(run_noting(cs, d, done, 2));
  l.run();
  CHECK(cs.statistics().executions == 1);
  stop.request_stop();
  l.run();
  CHECK(got == "c");
  d.lane.run();
  l.run();
  d.lane.run();
  l.run();
  CHECK(done == ints{1, 2});
  CHECK_FALSE(cs.statistics().held);
  sync_wait(scope.join());
}

TEST_CASE("max_waiters: the place of one that was withdrawn, kept for the tail, is free once") {
  for (const when_full on_full : {when_full::refuse, when_full::wait_outside}) {
    support::loop l;
    by_hand d;
    critical_section cs(
        {.name = "s", .place = device::host(), .max_waiters = 1, .on_full = on_full});
    ints done;
    std::stop_source stop;
    const std::stop_token token = stop.get_token();
    bool withdrawn = false;
    const auto stoppable = [&]() -> task<> {
      auto body = [&] { done.push_back(0); };
      try {
        co_await cs.execute(body, {.stop = token});
      } catch (const operation_cancelled&) {
        withdrawn = true;
      }
    };
    async_scope scope({.executor = l});
    const auto submits = [&]() -> task<> {
      auto body = [&](stream& s) {
        noting(done, 1)(s);
        scope.spawn(stoppable());
        l.run();
        stop.request_stop();  // so nobody stands behind this one when its body ends
      };
      co_await cs.execute(body, {.on = &d.s});
    };
    scope.spawn(submits());
    l.run();
    CHECK(withdrawn);
    CHECK(cs.statistics().held);
    scope.spawn(run_noting(cs, d, done, 2));
    scope.spawn(run_host(cs, [&] { done.push_back(3); }));
    l.run();
    CHECK(cs.statistics().waiters == 1);  // for the tail, which only host executions wait for
    d.lane.run();
    l.run();
    d.lane.run();
    l.run();
    CHECK(done == ints{1, 2, 3});
    CHECK_FALSE(cs.statistics().held);
    // Idle, and with room for one that waits: neither more nor less.
    {
      const auto guard = support::hold(cs);
      scope.spawn(run_host(cs, [&] { done.push_back(4); }));
      l.run();
      CHECK(cs.statistics().waiters == 1);
      if (on_full == when_full::refuse) {
        expect_error(run_host(cs, [] {}), "is full");
      }
    }
    l.run();
    CHECK(done == ints{1, 2, 3, 4});
    sync_wait(scope.join());
  }
}

TEST_CASE("in a bound section all bodies run on its executor, whoever hands it on") {
  support::loop home;
  support::loop bodies;
  by_hand d;
  critical_section cs({.name = "s", .executor = bodies, .place = device::host()});
  int ran = 0;
  int ran_there = 0;
  int resumed_at_home = 0;
  const auto note = [&] {
    ++ran;
    ran_there += bodies.here() ? 1 : 0;
  };
  const auto client = [&](bool submits) -> task<> {
    auto device_body = [&](stream& s) {
      note();
      s.enqueue([] {});
    };
    auto host_body = [&] { note(); };
    if (submits) {
      co_await cs.execute(device_body, {.on = &d.s});
    } else {
      co_await cs.execute(host_body);
    }
    resumed_at_home += home.here() ? 1 : 0;
  };
  const auto all = [&](int clients) {
    async_scope scope({.executor = home});
    for (int i = 0; i != clients; ++i) scope.spawn(client(i % 3 != 2));
    const int before = resumed_at_home;
    while (resumed_at_home != before + clients) {
      const bool any = home.run() + bodies.run() != 0;
      if (!any && d.lane.run() == 0) break;
    }
    sync_wait(scope.join());
  };
  SUBCASE("idle") { all(1); }
  SUBCASE("with others in line") { all(9); }
  SUBCASE("with its tail pending, when more come") {
    async_scope scope({.executor = home});
    scope.spawn(client(true));
    home.run();
    bodies.run();
    CHECK(ran == 1);
    scope.spawn(client(false));
    scope.spawn(client(true));
    home.run();
    scope.spawn(client(true));
    d.lane.run();  // tells who is in line
    home.run();
    CHECK(ran == ran_there);
    while (bodies.run() + home.run() + d.lane.run() != 0) {
    }
    sync_wait(scope.join());
  }
  SUBCASE("while it waits for the tail, behind one that can follow") {
    async_scope scope({.executor = home});
    scope.spawn(client(true));
    home.run();
    bodies.run();
    scope.spawn(client(true));  // finds the section with its device, and announces itself
    home.run();
    CHECK(ran == 1);
    CHECK(bodies.pending() != 0);
    while (bodies.run() + home.run() + d.lane.run() != 0) {
    }
    CHECK(ran == 2);
    sync_wait(scope.join());
  }
  CHECK(ran != 0);
  CHECK(ran_there == ran);
  CHECK(resumed_at_home == ran);
}

TEST_CASE("resume_on says where the caller of a device execution goes on") {
  support::loop l;
  support::loop there;
  by_hand d;
  critical_section cs(on_host());
  std::string went_on;
  const auto asks = [&](executor_ref where) -> task<> {
    auto body = [](stream& s) { s.enqueue([] {}); };
    co_await cs.execute(body, {.resume_on = where, .on = &d.s});
    went_on += l.here() ? 'l' : there.here() ? 't' : '?';
  };
  async_scope scope({.executor = l});
  scope.spawn(asks(there));
  scope.spawn(asks({}));
  l.run();
  d.lane.run();
  l.run();
  CHECK(went_on == "l");
  there.run();
  CHECK(went_on == "lt");
  l.run();
  sync_wait(scope.join());
}

TEST_CASE("a cycle that a device execution closes is found") {
  support::loop l;
  support::gate may_enter;
  critical_section a(on_host("a"));
  critical_section b(on_host("b"));
  std::string got[2];
  std::atomic<int> known{0};  // as above: they go on anywhere
  const auto cross = [&](critical_section& mine, critical_section& other, int i) -> task<> {
    const section_guard g = co_await mine.lock();
    co_await may_enter;
    auto body = [](stream&) {};
    try {
      co_await other.execute(body);
      got[i] = "ran";
    } catch (const deadlock_error& e) {
      got[i] = e.what();
    }
    ++known;
  };
  async_scope scope({.executor = l});
  scope.spawn(cross(a, b, 0));
  scope.spawn(cross(b, a, 1));
  l.run();
  may_enter.open();
  wait_running(l, [&] { return known == 2; });
  CHECK(got[0] == "ran");
  CAPTURE(got[1]);
  CHECK(got[1].find("would never end: a (") != std::string::npos);
  CHECK(got[1].find("-> b (") != std::string::npos);
  sync_wait(scope.join());
}

TEST_CASE("nested re-entry is the usual error, also from a body that submits") {
  critical_section cs(on_host());
  const auto go = [&]() -> task<> {
    auto inner = [] {};
    auto body = [&](stream&) { sync_wait(cs.execute(inner)); };
    co_await cs.execute(body);
  };
  CHECK_THROWS_AS(sync_wait(go()), reentry_error);
}

TEST_CASE("what is in another place is refused before the body runs") {
  critical_section gpu({.name = "weights", .place = device::cuda(0)});
  critical_section host(on_host("counts"));
  stream s;
  bool ran = false;
  auto body = [&](stream&) { ran = true; };
  auto plain = [&] { ran = true; };

  SUBCASE("a stream") {
    try {
      sync_wait(gpu.execute(body, {.on = &s}));
      FAIL("nothing was thrown");
    } catch (const device_mismatch_error& e) {
      CHECK(e.expected() == device::cuda(0));
      CHECK(e.found() == device::host());
      CHECK(e.what_object() == "the stream for section \"weights\"");
    }
  }
  SUBCASE("a resource of a GPU in a section of the host") {
    const resource r("momentum", device::cuda(1));
    expect_error(host.execute(plain, {.uses = r}), "\"momentum\" is on cuda:1");
  }
  SUBCASE("a variable of a GPU in a section of the host, declared or touched") {
    variable<int> v(1, "momentum", device::cuda(1));
    expect_error(host.execute(plain, {.uses = v}), "\"momentum\" is on cuda:1");
    expect_error(host.execute([&] {
      v.assign(2);
      ran = true;
    }),
                 "\"momentum\" is on cuda:1");
    CHECK(*v.read() == 1);  // outside every section
    variable<int> anywhere(1, "anywhere");
    sync_wait(host.execute([&] { anywhere.assign(2); }));
    CHECK(*anywhere.read() == 2);
  }
  SUBCASE("a resource of another GPU") {
    const resource r("momentum", device::cuda(1));
    expect_error(gpu.execute(plain, {.uses = r}), "\"momentum\" is on cuda:1");
  }
  SUBCASE("a resource of the host, in what is submitted to a GPU") {
    const resource r("log", device::host());
    expect_error(gpu.execute(body, {.uses = r}), "\"log\" is on host");
  }
  SUBCASE("a buffer of the host is no business of a GPU's") {
    const device_buffer<float> b(s, 8);
    expect_error(gpu.execute(body, {.uses = b}), "is on host");
  }
  CHECK_FALSE(ran);
}

TEST_CASE("what is in the right place, or in none, is not refused") {
  critical_section gpu({.name = "weights", .place = device::cuda(0)});
  critical_section anywhere;
  const resource on_gpu("momentum", device::cuda(0));
  const resource log("log", device::host());
  const resource any("any");
  auto plain = [] { return 1; };
  CHECK(sync_wait(gpu.execute(plain, {.uses = {on_gpu, log, any}})) == 1);
  const resource elsewhere("elsewhere", device::cuda(1));
  CHECK(sync_wait(anywhere.execute(plain, {.uses = elsewhere})) == 1);
}

TEST_CASE("each execution that is refused for its place counts once as refused") {
  critical_section gpu({.name = "weights", .place = device::cuda(0)});
  const resource elsewhere("momentum", device::cuda(1));
  stream s;
  auto body = [](stream&) {};
  auto plain = [] {};
  std::uint64_t refused = 0;
  const auto check_refused = [&](auto f) {
    CHECK_THROWS_AS(f(), device_mismatch_error);
    CHECK(gpu.statistics().refused == ++refused);
  };
  check_refused([&] { sync_wait(gpu.execute(body, {.on = &s})); });
  check_refused([&] { sync_wait(gpu.execute(body, {.uses = elsewhere})); });
  check_refused([&] { sync_wait(gpu.execute(plain, {.uses = elsewhere})); });
  check_refused([&] { sync_wait(gpu.submit(body, {.on = &s})); });
  check_refused([&] { sync_wait(gpu.submit(body, {.uses = elsewhere})); });
  check_refused([&] { sync_wait(gpu.submit(plain, {.uses = elsewhere})); });
  check_refused([&] { gpu.post(body, {.on = &s}); });
  check_refused([&] { gpu.execute_blocking(body, {.on = &s}); });
  CHECK(gpu.statistics().executions == 0);
}

TEST_CASE("what is stopped already is cancelled, also if its stream is in another place") {
  critical_section gpu({.name = "weights", .place = device::cuda(0)});
  stream s;
  std::stop_source stop;
  stop.request_stop();
  const std::stop_token token = stop.get_token();
  const execute_options asks{.stop = token, .on = &s};
  auto body = [](stream&) {};
  CHECK_THROWS_AS(sync_wait(gpu.execute(body, asks)), operation_cancelled);
  CHECK_THROWS_AS(sync_wait(gpu.submit(body, asks)), operation_cancelled);
  CHECK_THROWS_AS(gpu.post(body, asks), operation_cancelled);
  CHECK_THROWS_AS(gpu.execute_blocking(body, asks), operation_cancelled);
  CHECK(gpu.statistics().refused == 0);
}

TEST_CASE("a device that is not there is told by who submits to it") {
  critical_section gpu({.name = "weights", .place = device::cuda(77)});
  auto body = [](stream&) {};
  try {
    sync_wait(gpu.execute(body));
    FAIL("nothing was thrown");
  } catch (const device_error& e) {
    CHECK(std::string(e.what()).size() > 20);
    CHECK_FALSE(e.lost());
  }
  CHECK(gpu.try_execute([] {}));
}

TEST_CASE("max_in_flight of 0 is refused") {
  CHECK_THROWS_AS(critical_section(section_options{.max_in_flight = 0}), std::invalid_argument);
}

TEST_CASE("one device variable, eight streams, one section: each value once, in order") {
  thread_pool pool(3);
  critical_section cs(on_host());
  std::array<stream, 8> streams;
  int variable = 0;
  ints seen;
  const auto client = [&](stream& mine) -> task<> {
    for (int i = 0; i != 125; ++i) {
      auto body = [&](stream& s) { s.enqueue([&] { seen.push_back(++variable); }); };
      co_await cs.execute(body, {.on = &mine});
    }
  };
  async_scope scope({.executor = pool});
  for (stream& s : streams) scope.spawn(client(s));
  sync_wait(scope.join());
  ints expected(1000);
  for (int i = 0; i != 1000; ++i) expected[static_cast<std::size_t>(i)] = i + 1;
  CHECK(seen == expected);
}

TEST_CASE("host and device executions mixed at random keep their order") {
  thread_pool pool(3);
  critical_section cs({.name = "s", .place = device::host(), .max_in_flight = 3});
  std::array<stream, 3> streams{stream{}, stream{device::host(), {.polled = true}}, stream{}};
  long given = 0;     // by bodies
  long variable = 0;  // what was given and is done
  long wrong = 0;
  const auto client = [&](unsigned id) -> task<> {
    unsigned dice = id * 2654435769u + 1;
    for (int i = 0; i != 300; ++i) {
      dice = dice * 1664525u + 1013904223u;
      stream& mine = streams[(dice >> 8) % 3];
      if ((dice >> 16) % 4 == 0) {
        auto body = [&] {
          if (variable != given) ++wrong;
          ++given;
          ++variable;
        };
        co_await cs.execute(body);
      } else {
        auto body = [&](stream& s) {
          ++given;
          s.enqueue([&] { ++variable; });
        };
        co_await cs.execute(body, {.on = &mine});
      }
    }
  };
  async_scope scope({.executor = pool});
  for (unsigned id = 0; id != 16; ++id) scope.spawn(client(id));
  sync_wait(scope.join());
  CHECK(variable == 16 * 300);
  CHECK(wrong == 0);
}

TEST_SUITE_END();
