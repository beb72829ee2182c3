// manual_executor.cpp - jobs run when their owner says so.

#include "support/dies.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <thread>
#include <type_traits>
#include <vector>

using namespace turnstile;

namespace {

task<> append(std::vector<int>& list, int id) {
  list.push_back(id);
  co_return;
}

task<> append_twice(std::vector<int>& list, int id) {
  list.push_back(id);
  co_await yield();
  list.push_back(id);
}

}  // namespace

TEST_SUITE("executor") {
  TEST_CASE("manual_executor: runs nothing by itself") {
    manual_executor jobs;
    std::vector<int> ran;
    async_scope scope{{.executor = jobs}};
    CHECK_FALSE(jobs.run_one());
    CHECK(jobs.run() == 0);
    scope.spawn(append(ran, 1));
    scope.spawn(append(ran, 2));
    CHECK(jobs.pending() == 2);
    CHECK(ran.empty());
    CHECK(jobs.run_one());
    CHECK(jobs.pending() == 1);
    CHECK(ran == std::vector<int>{1});
    CHECK(jobs.run() == 1);
    CHECK(ran == std::vector<int>{1, 2});
    CHECK_FALSE(jobs.run_one());
    sync_wait(scope.join());
    static_assert(!std::is_copy_constructible_v<manual_executor>);
  }

  TEST_CASE("manual_executor: run goes on with what its jobs post, in the order posted") {
    manual_executor jobs;
    std::vector<int> ran;
    async_scope scope{{.executor = jobs}};
    scope.spawn(append_twice(ran, 1));
    scope.spawn(append_twice(ran, 2));
    CHECK(jobs.run() == 4);
    CHECK(ran == std::vector<int>{1, 2, 1, 2});
    CHECK(jobs.pending() == 0);
    sync_wait(scope.join());
  }

  TEST_CASE("manual_executor: takes jobs from other threads") {
    manual_executor jobs;
    std::vector<int> ran;
    async_scope scope{{.executor = jobs}};
    {
      std::vector<std::jthread> all;
      for (int t = 0; t != 4; ++t) {
        all.emplace_back([&, t] {
          for (int i = 0; i != 100; ++i) scope.spawn(append(ran, t));
        });
      }
    }
    CHECK(jobs.pending() == 400);
    CHECK(jobs.run() == 400);
    sync_wait(scope.join());
    CHECK(ran.size() == 400);
  }

  TEST_CASE("manual_executor: destroying it with jobs that never ran aborts") {
    const auto child = [] {
      async_scope scope;
      manual_executor jobs;
      std::vector<int> ran;
      async_scope on_jobs{{.executor = jobs}};
      on_jobs.spawn(append(ran, 1));
      jobs.~manual_executor();
    };
    support::check_dies(child, "a manual_executor is destroyed with jobs that never ran");
  }
}
