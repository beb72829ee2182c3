// qcoro.cpp - coroutines of QCoro, on the thread of a Qt event loop, await what the library has.
//
// A QCoro::Task begins at once. It knows nothing of executors, so after a wait it goes on on the
// thread that served it. QCoro expects its tasks to end on the thread that awaits them, and Qt its
// objects to be used on theirs: say resume_on, with an executor that posts to the loop.

#include "qcoro/qt_executor.hpp"
#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <QCoreApplication>
#include <QCoroTask>
#include <QCoroTimer>
#include <chrono>
#include <doctest/doctest.h>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

using namespace turnstile;
using namespace std::chrono_literals;

namespace {

// One application for all the tests of the program.
QCoreApplication& application() {
  static int n = 1;
  static char name[] = "test_qcoro";
  static char* arguments[] = {name, nullptr};
  static QCoreApplication app(n, arguments);
  return app;
}

// Turns of the loop until the task has ended.
template <class T>
void run_loop(const QCoro::Task<T>& t) {
  while (!t.isReady()) {
    QCoreApplication::processEvents(QEventLoop::AllEvents);
    std::this_thread::yield();
  }
}

QCoro::Task<int> add(critical_section& cs, int& sum, int n) {
  co_return co_await cs.execute([&] { return sum += n; });
}

QCoro::Task<> add_in_loop(critical_section& cs, int& sum, int times, qt_executor& loop,
                          std::thread::id home, int& elsewhere) {
  const execute_options options{.resume_on = loop};
  for (int i = 0; i != times; ++i) {
    co_await cs.execute([&] { ++sum; }, options);
    if (std::this_thread::get_id() != home) ++elsewhere;
  }
}

QCoro::Task<> note_thread(critical_section& cs, execute_options how, std::thread::id& where) {
  co_await cs.execute([] {}, how);
  where = std::this_thread::get_id();
}

QCoro::Task<std::string> what_went_wrong(critical_section& cs, execute_options how) {
  try {
    co_await cs.execute([] { throw std::runtime_error("of the body"); }, how);
  } catch (const std::exception& e) {
    co_return e.what();
  }
  co_return "nothing";
}

QCoro::Task<bool> ask_again(critical_section& cs) {
  try {
    co_await cs.execute([] {});
  } catch (const reentry_error&) {
    co_return true;
  }
  co_return false;
}

QCoro::Task<bool> lock_and_ask_again(critical_section& cs) {
  const section_guard g = co_await cs.lock();
  co_return co_await ask_again(cs);
}

QCoro::Task<> keep_over_a_timer(critical_section& cs) {
  const section_guard g = co_await cs.lock();
  co_await QCoro::sleepFor(1ms);
}

QCoro::Task<bool> withdrawn(critical_section& cs, std::stop_token token, qt_executor& loop) {
  const execute_options options{.stop = token, .resume_on = loop};
  try {
    co_await cs.execute([] {}, options);
  } catch (const operation_cancelled&) {
    co_return true;
  }
  co_return false;
}

}  // namespace

TEST_SUITE("qcoro") {
  TEST_CASE("qcoro: a task goes on at once when the section is idle, with the value") {
    application();
    critical_section cs;
    int sum = 1;
    QCoro::Task<int> t = add(cs, sum, 2);
    REQUIRE(t.isReady());
    CHECK(QCoro::waitFor(t) == 3);
  }

  TEST_CASE("qcoro: after a wait a task goes on on the thread that served it") {
    application();
    critical_section cs;
    std::thread::id where;
    section_guard busy = support::hold(cs);
    QCoro::Task<> t = note_thread(cs, {}, where);
    CHECK_FALSE(t.isReady());
    std::jthread other([&] { busy.unlock(); });
    const std::thread::id server = other.get_id();
    other.join();
    CHECK(t.isReady());
    CHECK(where == server);
  }

  TEST_CASE("qcoro: with resume_on a task comes back to the loop, after a wait and without one") {
    application();
    qt_executor loop;
    critical_section cs;
    std::thread::id where;
    QCoro::Task<> idle = note_thread(cs, {.resume_on = loop}, where);
    CHECK_FALSE(idle.isReady());
    run_loop(idle);
    CHECK(std::exchange(where, {}) == std::this_thread::get_id());
    section_guard busy = support::hold(cs);
    QCoro::Task<> queued = note_thread(cs, {.resume_on = loop}, where);
    std::jthread([&] { busy.unlock(); }).join();
    CHECK_FALSE(queued.isReady());
    run_loop(queued);
    CHECK(where == std::this_thread::get_id());
  }

  TEST_CASE("qcoro: tasks of the loop and tasks of a pool share a section") {
    application();
    constexpr int times = 200;
    qt_executor loop;
    critical_section cs;
    int sum = 0;
    int elsewhere = 0;
    thread_pool pool{1};
    async_scope scope{{.executor = pool}};
    auto add_on_pool = [](critical_section& s, int& n) -> task<> {
      for (int i = 0; i != times; ++i) co_await s.execute([&n] { ++n; });
    };
    scope.spawn(add_on_pool(cs, sum));
    scope.spawn(add_on_pool(cs, sum));
    const std::thread::id home = std::this_thread::get_id();
    QCoro::Task<> a = add_in_loop(cs, sum, times, loop, home, elsewhere);
    QCoro::Task<> b = add_in_loop(cs, sum, times, loop, home, elsewhere);
    run_loop(a);
    run_loop(b);
    sync_wait(scope.join());
    CHECK(sum == 4 * times);
    CHECK(elsewhere == 0);
  }

  TEST_CASE("qcoro: bodies of a section bound to the loop run there") {
    application();
    qt_executor loop;
    critical_section widgets{section_options{.executor = loop}};
    std::thread::id body_on;
    thread_pool pool{1};
    async_scope scope{{.executor = pool}};
    auto change = [](critical_section& s, std::thread::id& on) -> task<> {
      co_await s.execute([&on] { on = std::this_thread::get_id(); });
    };
    scope.spawn(change(widgets, body_on));
    while (widgets.statistics().executions == 0) QCoreApplication::processEvents();
    sync_wait(scope.join());
    CHECK(body_on == std::this_thread::get_id());
  }

  TEST_CASE("qcoro: errors of a body and refusals reach the task") {
    application();
    qt_executor loop;
    critical_section cs;
    QCoro::Task<std::string> idle = what_went_wrong(cs, {});
    CHECK(QCoro::waitFor(idle) == "of the body");
    section_guard busy = support::hold(cs);
    QCoro::Task<std::string> queued = what_went_wrong(cs, {.resume_on = loop});
    busy.unlock();
    run_loop(queued);
    CHECK(QCoro::waitFor(queued) == "of the body");
    sync_wait(cs.close());
    QCoro::Task<std::string> refused = what_went_wrong(cs, {});
    CHECK(QCoro::waitFor(refused).find("closed") != std::string::npos);
  }

  TEST_CASE("qcoro: a task is refused the section that it holds or that its body has") {
    application();
    critical_section cs;
    QCoro::Task<bool> held = lock_and_ask_again(cs);
    REQUIRE(held.isReady());
    CHECK(QCoro::waitFor(held));
    auto body = [&] { return ask_again(cs); };
    CHECK(sync_wait(cs.execute(body)));
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("qcoro: what one task keeps over a timer, another one of the loop waits for") {
    application();
    critical_section cs;
    QCoro::Task<> keeps = keep_over_a_timer(cs);
    QCoro::Task<bool> waits = ask_again(cs);
    CHECK_FALSE(waits.isReady());
    run_loop(keeps);
    run_loop(waits);
    CHECK_FALSE(QCoro::waitFor(waits));
  }

  TEST_CASE("qcoro: a task of the library's awaits one of QCoro's, and the other way round") {
    application();
    critical_section cs;
    int sum = 0;
    auto ours = [](critical_section& s, int& n) -> task<int> {
      const int one = co_await add(s, n, 1);
      co_return one + co_await add(s, n, 1);
    };
    // QCoro asks whether an lvalue could be awaited, which a task cannot: so its awaiter is.
    auto theirs = [&]() -> QCoro::Task<int> {
      co_return co_await ours(cs, sum).operator co_await();
    };
    CHECK(sync_wait(ours(cs, sum)) == 3);
    QCoro::Task<int> t = theirs();
    CHECK(QCoro::waitFor(t) == 7);
  }

  TEST_CASE("qcoro: a task that waits is withdrawn by its token, and comes back to the loop") {
    application();
    qt_executor loop;
    critical_section cs;
    const section_guard busy = support::hold(cs);
    std::stop_source source;
    QCoro::Task<bool> t = withdrawn(cs, source.get_token(), loop);
    source.request_stop();
    CHECK_FALSE(t.isReady());
    run_loop(t);
    CHECK(QCoro::waitFor(t));
    CHECK(cs.statistics().withdrawn == 1);
  }
}
