// budget.cpp - nobody serves others for long: after 32 bodies or 50 us the section goes to an
// executor.

#include "support/foreign.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <chrono>
#include <doctest/doctest.h>
#include <thread>
#include <vector>

using namespace turnstile;
using support::foreign;
using support::loop;

namespace {

constexpr int most_bodies = 32;

task<> count(critical_section& cs, int& n) {
  co_await cs.execute([&n] { ++n; });
}

task<> count_for(critical_section& cs, int& n, std::chrono::steady_clock::duration time) {
  auto body = [&n, time] {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
    }
    ++n;
  };
  co_await cs.execute(body);
}

}  // namespace

TEST_SUITE("path") {
  TEST_CASE("budget: a caller that unlocks serves at most 32 others, the rest run on an executor") {
    loop home;
    critical_section cs;
    int ran = 0;
    section_guard busy = support::hold(cs);
    async_scope scope{{.executor = home}};
    for (int i = 0; i != 200; ++i) scope.spawn(count(cs, ran));
    home.run();
    CHECK(cs.statistics().waiters == 200);
    busy.unlock();
    CHECK(ran >= 1);
    CHECK(ran <= most_bodies);
    home.run();
    CHECK(ran == 200);
    sync_wait(scope.join());
  }

  TEST_CASE("budget: the section's turn on an executor ends too, and others run in between") {
    loop home;
    critical_section cs;
    int ran = 0;
    section_guard busy = support::hold(cs);
    async_scope scope{{.executor = home}};
    for (int i = 0; i != 20; ++i) scope.spawn(count_for(cs, ran, std::chrono::microseconds(60)));
    home.run();
    busy.unlock();
    CHECK(ran == 1);
    int most_in_a_turn = 0;
    for (int before = ran; home.run_one(); before = ran) {
      most_in_a_turn = std::max(most_in_a_turn, ran - before);
    }
    CHECK(ran == 20);
    CHECK(most_in_a_turn == 1);
    sync_wait(scope.join());
  }

  TEST_CASE("budget: a caller on an executor serves at most 32 others after its own body") {
    loop home;
    critical_section cs;
    int ran = 0;
    int ran_before_the_caller_went_on = -1;
    async_scope scope{{.executor = home}};
    auto queue_others = [&] {
      for (int i = 0; i != 100; ++i) cs.post([&ran] { ++ran; });
    };
    scope.spawn([](critical_section& s, auto& body, int& n, int& out) -> task<> {
      co_await s.execute(body);
      out = n;
    }(cs, queue_others, ran, ran_before_the_caller_went_on));
    CHECK(home.run_one());
    CHECK(ran_before_the_caller_went_on >= 0);
    CHECK(ran_before_the_caller_went_on <= most_bodies);
    home.run();
    CHECK(ran == 100);
    sync_wait(scope.join());
  }

  TEST_CASE("budget: long bodies are passed on sooner") {
    loop home;
    critical_section cs;
    int ran = 0;
    section_guard busy = support::hold(cs);
    async_scope scope{{.executor = home}};
    for (int i = 0; i != 10; ++i) scope.spawn(count_for(cs, ran, std::chrono::milliseconds(1)));
    home.run();
    busy.unlock();
    CHECK(ran == 1);
    home.run();
    CHECK(ran == 10);
    sync_wait(scope.join());
  }

  TEST_CASE("budget: without any executor the rest goes to the shared pool") {
    critical_section cs;
    std::vector<std::thread::id> ran_on;
    section_guard busy = support::hold(cs);
    std::vector<foreign> all;
    for (int i = 0; i != 200; ++i) {
      all.push_back([](critical_section& s, std::vector<std::thread::id>& list) -> foreign {
        co_await s.execute([&list] { list.push_back(std::this_thread::get_id()); });
      }(cs, ran_on));
    }
    busy.unlock();
    sync_wait(cs.close());
    for (const foreign& f : all) f.wait();
    REQUIRE(ran_on.size() == 200);
    CHECK(std::ranges::count(ran_on, std::this_thread::get_id()) <= most_bodies + 1);
  }
}
