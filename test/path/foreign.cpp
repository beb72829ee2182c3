// foreign.cpp - coroutines that know nothing of the library, on threads that know nothing of it.

#include "support/foreign.hpp"

#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"
#include "support/stack_meter.hpp"

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <coroutine>
#include <doctest/doctest.h>
#include <exception>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

using namespace turnstile;
using support::foreign;
using support::gate;

namespace {

// The least that is a coroutine: it keeps nothing, and nobody can ask it anything.
struct least {
  struct promise_type {
    least get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };
};

least everything(critical_section& cs, std::vector<int>& list, std::binary_semaphore& over) {
  co_await cs.execute([&] { list.push_back(1); });
  list.push_back(co_await cs.execute([] { return 2; }));
  section_guard g = co_await cs.lock();
  g.unlock();
  auto child = [](std::vector<int>& l) -> task<int> {
    l.push_back(3);
    co_return 4;
  };
  list.push_back(co_await child(list));
  auto h = cs.submit([] { return 5; });
  list.push_back(co_await h);
  over.release();
}

}  // namespace

TEST_SUITE("path") {
  TEST_CASE("foreign: the least that is a coroutine may await everything") {
    critical_section cs;
    std::vector<int> list;
    std::binary_semaphore over{0};
    section_guard busy = support::hold(cs);
    everything(cs, list, over);
    CHECK(list.empty());
    busy.unlock();
    over.acquire();
    CHECK(list == std::vector<int>{1, 2, 3, 4, 5});
  }

  TEST_CASE("foreign: goes on at once when the section is idle") {
    critical_section cs;
    bool over = false;
    const foreign f = support::await_in_foreign(cs.execute([] {}), over);
    CHECK(over);
  }

  TEST_CASE("foreign: without an executor, goes on on the thread that served it") {
    critical_section cs;
    section_guard busy = support::hold(cs);
    std::thread::id body_on;
    std::thread::id resumed_on;
    const foreign f = [](critical_section& s, std::thread::id& body,
                         std::thread::id& after) -> foreign {
      co_await s.execute([&body] { body = std::this_thread::get_id(); });
      after = std::this_thread::get_id();
    }(cs, body_on, resumed_on);
    std::thread other([&] { busy.unlock(); });
    const std::thread::id drainer = other.get_id();
    other.join();
    CHECK(body_on == drainer);
    CHECK(resumed_on == drainer);
  }

  TEST_CASE("foreign: a resumption is never nested in another one") {
    critical_section first;
    critical_section second;
    section_guard first_busy = support::hold(first);
    section_guard second_busy = support::hold(second);
    std::vector<char> order;
    const foreign outer = [](critical_section& s, section_guard& g,
                             std::vector<char>& list) -> foreign {
      co_await s.execute([] {});
      list.push_back('(');
      g.unlock();
      list.push_back(')');
    }(first, second_busy, order);
    const foreign inner = [](critical_section& s, std::vector<char>& list) -> foreign {
      co_await s.execute([&list] { list.push_back('b'); });
      list.push_back('i');
    }(second, order);
    first_busy.unlock();
    CHECK(order == std::vector<char>{'(', 'b', ')', 'i'});
  }

  TEST_CASE("foreign: a resumption inside sync_wait is not nested in the coroutine that unlocks") {
    critical_section cs;
    std::vector<char> order;
    section_guard busy = support::hold(cs);
    const foreign waiter = [](critical_section& s, std::vector<char>& list) -> foreign {
      co_await s.execute([] {});
      list.push_back('i');
    }(cs, order);
    sync_wait([](section_guard& g, std::vector<char>& list) -> task<> {
      list.push_back('(');
      g.unlock();
      list.push_back(')');
      co_return;
    }(busy, order));
    CHECK(order == std::vector<char>{'(', ')', 'i'});
  }

  TEST_CASE("foreign: goes on although the coroutine that served it keeps entering sections") {
    critical_section cs;
    bool went_on = false;
    section_guard busy = support::hold(cs);
    const foreign waiter = [](critical_section& s, bool& flag) -> foreign {
      co_await s.execute([] {});
      flag = true;
    }(cs, went_on);
    int entered = 0;
    sync_wait([](critical_section& s, section_guard& g, bool& flag, int& n) -> task<> {
      g.unlock();
      while (!flag && n != 1000000) co_await s.execute([&n] { ++n; });
    }(cs, busy, went_on, entered));
    CHECK(went_on);
    CHECK(entered < 1000000);
  }

  TEST_CASE("foreign: goes on although the coroutine that served it keeps locking and entering") {
    critical_section cs;
    bool went_on = false;
    section_guard busy = support::hold(cs);
    const foreign waiter = [](critical_section& s, bool& flag) -> foreign {
      co_await s.execute([] {});
      flag = true;
    }(cs, went_on);
    int locked = 0;
    sync_wait([](critical_section& s, section_guard& g, bool& flag, int& n) -> task<> {
      g.unlock();
      while (!flag && n != 1000000) {
        co_await s.execute([&n] { ++n; });
        const section_guard again = co_await s.lock();
      }
    }(cs, busy, went_on, locked));
    CHECK(went_on);
    CHECK(locked < 1000000);
  }

  TEST_CASE("foreign: a chain of coroutines that wake one another does not grow the stack") {
    constexpr std::size_t links = 10000;
    std::vector<std::unique_ptr<critical_section>> sections;
    std::vector<section_guard> guards;
    for (std::size_t i = 0; i != links; ++i) {
      sections.push_back(std::make_unique<critical_section>());
      guards.push_back(support::hold(*sections.back()));
    }
    support::stack_meter m;
    std::vector<foreign> all;
    for (std::size_t i = 0; i + 1 != links; ++i) {
      all.push_back(
          [](critical_section& s, section_guard& next, support::stack_meter& meter) -> foreign {
            co_await s.execute([] {});
            meter.look();
            next.unlock();
          }(*sections[i], guards[i + 1], m));
    }
    guards[0].unlock();
    CHECK(all.back().done());
    CHECK(m.used() < 64 * 1024);
  }

  TEST_CASE("foreign: many that wait in one section all resume, in order, in a flat stack") {
    critical_section cs;
    section_guard busy = support::hold(cs);
    support::stack_meter m;
    std::vector<int> order;
    std::vector<foreign> all;
    for (int i = 0; i != 5000; ++i) {
      all.push_back([](critical_section& s, std::vector<int>& list, int id,
                       support::stack_meter& meter) -> foreign {
        co_await s.execute([] {});
        meter.look();
        list.push_back(id);
      }(cs, order, i, m));
    }
    support::serve_here([&] { busy.unlock(); });
    CHECK(order.size() == 5000);
    CHECK(std::ranges::is_sorted(order));
    CHECK(m.used() < 64 * 1024);
  }

  TEST_CASE("foreign: a foreign awaitable inside a task gives the chain back when it resumes") {
    critical_section cs;
    gate g;
    bool refused = false;
    bool over = false;
    const foreign f = support::await_in_foreign(
        [](critical_section& s, gate& at, bool& r) -> task<> {
          const section_guard guard = co_await s.lock();
          co_await at;
          try {
            co_await s.execute([] {});
          } catch (const reentry_error&) {
            r = true;
          }
        }(cs, g, refused),
        over);
    g.open();
    CHECK(over);
    CHECK(refused);
  }
}
