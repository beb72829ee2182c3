// meanwhile.cpp - what others do between two steps: of a request that begins to wait, and of a look
// at a section that ends.
//
// A program of its own, because it replaces the global operator new: each case is run again and
// again, and within the first, the second, the third ... allocation of its thread another thread
// does something.

#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/own_new.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

using namespace turnstile;

namespace {

thread_local long left = -1;  // until the other thread acts; less than 0: it does not
thread_local const std::function<void()>* act = nullptr;

}  // namespace

void support::before_allocation() {
  if (left >= 0 && left-- == 0) std::thread(*act).join();
}

namespace {

// Calls `f` on a thread of its own, during whose n-th allocation, from 0 on, `other` is called on
// another one. False: there were not so many.
template <class F>
bool during(long n, const std::function<void()>& other, F f) {
  bool has_acted = false;
  std::thread([&] {
    act = &other;
    left = n;
    f();
    has_acted = left < 0;
    left = -1;
  }).join();
  return has_acted;
}

// `once(n)` acts during the n-th, and says whether there was one.
template <class Once>
void at_each_allocation(Once once) {
  long n = 0;
  while (once(n)) {
    REQUIRE(n != 1000);
    ++n;
  }
  CHECK(n != 0);
}

// Says how it ended.
support::foreign run(task<> t, std::string& how) {
  try {
    co_await std::move(t);
    how = "well";
  } catch (const deadlock_error& e) {
    how = e.what();
  } catch (const operation_cancelled&) {
    how = "cancelled";
  }
}

task<> enter(critical_section& s, const std::stop_token* stop = nullptr) {
  execute_options how;
  if (stop != nullptr) how.stop = *stop;
  co_await s.execute([] {}, how);
}

}  // namespace

TEST_SUITE("path") {
  TEST_CASE("meanwhile: who stops the work that begins to wait for us may join it") {
    at_each_allocation([](long n) {
      critical_section a{"a"};
      async_scope scope;
      static_cast<void>(scope.stop_token());
      support::gate join;
      std::string how;
      const auto joins = [&]() -> task<> {
        const section_guard held = co_await a.lock();
        co_await join;
        co_await scope.join();
      };
      const support::foreign x = run(joins(), how);
      const auto stop = [&] {
        scope.request_stop();
        join.open();
      };
      bool refused = false;
      const auto work = [&]() -> task<> {
        try {
          co_await enter(a);
        } catch (const deadlock_error&) {
          refused = true;
        } catch (const operation_cancelled&) {
        }
      };
      const bool acted = during(n, stop, [&] { scope.spawn(work()); });
      if (!acted) stop();
      x.wait();
      sync_wait(scope.join());
      CHECK_FALSE(refused);
      CHECK(how == "well");
      return acted;
    });
  }

  TEST_CASE("meanwhile: who stops a request that begins to wait for us may wait for who asked it") {
    at_each_allocation([](long n) {
      critical_section a{"a"};
      critical_section b{"b"};
      std::stop_source source;
      const std::stop_token token = source.get_token();
      support::gate ask;
      std::string ours;
      std::string theirs;
      const auto asks = [&]() -> task<> {
        const section_guard held = co_await a.lock();
        co_await ask;
        co_await enter(b);
      };
      const auto holds_b = [&]() -> task<> {
        const section_guard held = co_await b.lock();
        co_await enter(a, &token);
      };
      const support::foreign x = run(asks(), ours);
      const auto stop = [&] {
        source.request_stop();
        ask.open();
      };
      std::unique_ptr<support::foreign> y;
      const bool acted =
          during(n, stop, [&] { y = std::make_unique<support::foreign>(run(holds_b(), theirs)); });
      if (!acted) stop();
      x.wait();
      y->wait();
      CHECK(ours == "well");
      CHECK((theirs == "cancelled" || theirs == "well"));
      return acted;
    });
  }

  TEST_CASE("meanwhile: who opens a name while its last section ends may use what that one did") {
    at_each_allocation([](long n) {
      const resource r;
      const auto use = [&r] {
        auto cs = critical_section::open("ends while it is looked at");
        cs->execute_blocking([] {}, {.uses = r});
        return cs;
      };
      std::shared_ptr<critical_section> last = use();
      const std::weak_ptr<critical_section> is_shared = last;
      std::thread drops;
      bool refused = false;
      const auto reopen = [&] {
        drops = std::thread([&] { last.reset(); });  // until the look at it has ended
        while (!is_shared.expired()) std::this_thread::yield();
        try {
          use();
        } catch (const exclusive_access_error&) {
          refused = true;
        }
      };
      const bool acted = during(n, reopen, [] { static_cast<void>(registry::sections()); });
      if (!acted) reopen();
      drops.join();
      CHECK_FALSE(refused);
      return acted;
    });
  }
}
