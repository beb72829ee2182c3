// mirrored.cpp - replicas that write together.

#include "support/dies.hpp"
#include "support/foreign.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace turnstile;
using support::foreign;
using support::loop;

namespace {

// One replica's write, awaited by a coroutine that knows nothing of the library.
template <class T, class Write>
foreign await_write(Write w, std::optional<snapshot<T>>& got) {
  got = co_await std::move(w);
}

template <class T>
task<T> assign_and_take(mirrored<T>& m, std::size_t replica, T value) {
  const snapshot<T> written = co_await m.assign(replica, std::move(value));
  co_return *written;
}

// A number that refuses to become more than 100.
struct limited {
  std::vector<int> n;

  limited& operator+=(const limited& other) {
    if (n[0] + other.n[0] > 100) throw std::overflow_error("more than 100");
    n[0] += other.n[0];
    return *this;
  }
};

template <class T>
std::vector<T> write_all(mirrored<T>& m, std::vector<T> values) {
  std::vector<task<T>> all;
  for (std::size_t i = 0; i != values.size(); ++i) all.push_back(assign_and_take(m, i, values[i]));
  return sync_wait(when_all(std::move(all)));
}

}  // namespace

TEST_SUITE("variable") {
  TEST_CASE("mirrored: a write waits for all replicas, and all get the same") {
    mirrored<long> m(3, 1, aggregation::sum);
    std::optional<snapshot<long>> got[3];
    const foreign a = await_write(m.assign(2, 4), got[2]);
    const foreign b = await_write(m.assign(0, 2), got[0]);
    CHECK_FALSE(a.done());
    CHECK_FALSE(b.done());
    CHECK(*m.read(0) == 1);
    const foreign c = await_write(m.assign(1, 3), got[1]);
    CHECK(a.done());
    CHECK(b.done());
    CHECK(c.done());
    for (std::size_t i = 0; i != 3; ++i) {
      CHECK(**got[i] == 9);
      CHECK(got[i]->version() == 1);
      CHECK(*m.read(i) == 9);
    }
  }

  TEST_CASE("mirrored: combines as was asked") {
    mirrored<double> mean(2, 0, aggregation::mean);
    CHECK(write_all<double>(mean, {1, 2}) == std::vector<double>{1.5, 1.5});
    mirrored<std::string> first(2, "", aggregation::first_replica);
    CHECK(write_all<std::string>(first, {"a", "b"}) == std::vector<std::string>{"a", "a"});
    mirrored<std::string> sum(2, "", aggregation::sum);
    CHECK(write_all<std::string>(sum, {"a", "b"}) == std::vector<std::string>{"ab", "ab"});
  }

  TEST_CASE("mirrored: a mean of numbers that do not fit together into their type") {
    mirrored<int> m(2, 0, aggregation::mean);
    CHECK(write_all(m, {2'000'000'000, 2'000'000'000}) ==
          std::vector{2'000'000'000, 2'000'000'000});
    CHECK(write_all(m, {-2'000'000'000, -2'000'000'000}) ==
          std::vector{-2'000'000'000, -2'000'000'000});
  }

  TEST_CASE("mirrored: adding and subtracting change every copy by what was combined") {
    mirrored<long> m(2, 10, aggregation::sum);
    std::optional<snapshot<long>> got[2];
    const foreign a = await_write(m.assign_add(0, 1), got[0]);
    const foreign b = await_write(m.assign_add(1, 2), got[1]);
    CHECK(**got[0] == 13);
    CHECK(*m.read(1) == 13);
    const foreign c = await_write(m.assign_sub(0, 3), got[0]);
    const foreign d = await_write(m.assign_sub(1, 5), got[1]);
    CHECK(**got[1] == 5);
    CHECK(got[1]->version() == 2);
    CHECK(*m.read(0) == 5);
  }

  TEST_CASE("mirrored: the writes of all replicas may be awaited together") {
    mirrored<long> m(2, 1, aggregation::sum);
    const auto [a, b] = sync_wait(when_all(m.assign(0, 3), m.assign(1, 4)));
    CHECK(*a == 7);
    CHECK(*b == 7);
    CHECK(b.version() == 1);
  }

  TEST_CASE("mirrored: the n-th writes of all replicas belong together") {
    mirrored<long> m(2, 0, aggregation::sum);
    std::optional<snapshot<long>> got[4];
    const foreign a = await_write(m.assign(0, 1), got[0]);
    const foreign b = await_write(m.assign(0, 10), got[1]);
    CHECK_FALSE(a.done());
    const foreign c = await_write(m.assign(1, 2), got[2]);
    CHECK(a.done());
    CHECK_FALSE(b.done());
    CHECK(**got[0] == 3);
    const foreign d = await_write(m.assign(1, 20), got[3]);
    CHECK(**got[1] == 30);
    CHECK(**got[3] == 30);
  }

  TEST_CASE("mirrored: one replica is a variable with another name") {
    mirrored<int> m(1, 1, aggregation::mean);
    CHECK(*sync_wait(m.assign_add(0, 2)) == 3);
    CHECK(*m.read(0) == 3);
  }

  TEST_CASE("mirrored: without an aggregation nothing can be written") {
    mirrored<int> m(2, 1, aggregation::none);
    CHECK_THROWS_AS(sync_wait(m.assign(0, 2)), std::logic_error);
    CHECK_THROWS_AS(sync_wait(m.assign_add(0, 2)), std::logic_error);
    CHECK_THROWS_AS(sync_wait(m.assign_sub(0, 2)), std::logic_error);
    CHECK(*m.read(1) == 1);
  }

  TEST_CASE("mirrored: what is wrong with its arguments is said") {
    CHECK_THROWS_AS(mirrored<int>(0, 1, aggregation::sum), std::invalid_argument);
    CHECK_THROWS_AS(mirrored<std::string>(2, "", aggregation::mean), std::invalid_argument);
    mirrored<int> m(2, 1, aggregation::sum);
    CHECK_THROWS_AS(m.read(2), std::out_of_range);
    CHECK_THROWS_AS(sync_wait(m.assign(2, 1)), std::out_of_range);
  }

  TEST_CASE("mirrored: writes of different kinds fail for all, and nothing is written") {
    mirrored<int> m(2, 1, aggregation::sum);
    std::optional<snapshot<int>> got[2];
    const foreign a = await_write(m.assign(0, 5), got[0]);
    const foreign b = await_write(m.assign_add(1, 5), got[1]);
    CHECK(a.done());
    CHECK_THROWS_AS(a.rethrow(), std::logic_error);
    CHECK_THROWS_AS(b.rethrow(), std::logic_error);
    CHECK(*m.read(0) == 1);
    CHECK(m.read(1).version() == 0);
    const foreign c = await_write(m.assign(0, 5), got[0]);
    const foreign d = await_write(m.assign(1, 6), got[1]);
    CHECK(**got[0] == 11);
  }

  TEST_CASE("mirrored: an operator that throws fails the round for all, and nothing is written") {
    mirrored<limited> m(2, limited{{90}}, aggregation::sum);
    std::optional<snapshot<limited>> got[2];
    const limited six{{6}};
    const foreign a = await_write(m.assign_add(0, six), got[0]);
    const foreign b = await_write(m.assign_add(1, six), got[1]);
    CHECK_THROWS_AS(a.rethrow(), std::overflow_error);
    CHECK_THROWS_AS(b.rethrow(), std::overflow_error);
    CHECK(m.read(0)->n[0] == 90);
    CHECK(m.read(1)->n[0] == 90);
    CHECK(m.read(0).version() == 0);
  }

  TEST_CASE("mirrored: each replica's section claims that replica's value, whoever comes last") {
    mirrored<long> m(2, 0, aggregation::sum);
    critical_section s[2]{critical_section("first"), critical_section("second")};
    auto add = [&](std::size_t replica) -> task<> {
      co_await s[replica].execute([&m, replica]() -> task<> {
        const snapshot<long> written = co_await m.assign_add(replica, 1);
        CHECK(*written == *m.read(replica));
      });
    };
    for (const std::size_t last : {1u, 0u, 1u}) {
      std::vector<task<>> both;
      both.push_back(add(1 - last));
      both.push_back(add(last));
      sync_wait(when_all(std::move(both)));
    }
    CHECK(*m.read(0) == 6);
    auto write_of_another = [&]() -> task<> {
      co_await s[0].execute([&m] { static_cast<void>(m.assign_add(1, 1)); });
    };
    CHECK_THROWS_AS(sync_wait(write_of_another()), exclusive_access_error);
    CHECK(*m.read(1) == 6);
  }

  TEST_CASE("mirrored: each coroutine comes back on the executor it left") {
    loop here;
    loop there;
    mirrored<int> m(2, 0, aggregation::sum);
    bool back = false;
    const auto wait = [&]() -> task<> {
      co_await m.assign(0, 1);
      back = here.here();
    };
    const auto come = [&]() -> task<> { co_await m.assign(1, 1); };
    async_scope first({.executor = here});
    async_scope second({.executor = there});
    first.spawn(wait());
    second.spawn(come());
    here.run();
    there.run();
    CHECK_FALSE(back);
    CHECK(here.pending() == 1);
    here.run();
    CHECK(back);
    CHECK(*m.read(0) == 2);
  }

  TEST_CASE("mirrored: the first coroutine that goes on may end it") {
    auto m = std::make_unique<mirrored<int>>(2, 0, aggregation::sum);
    const auto write_and_end = [&]() -> task<> {
      co_await m->assign(0, 1);
      m.reset();
    };
    std::optional<snapshot<int>> got;
    async_scope scope;
    scope.spawn(write_and_end());
    const foreign last = await_write(m->assign(1, 2), got);
    CHECK(m == nullptr);
    CHECK(**got == 3);
    sync_wait(scope.join());
  }

  TEST_CASE(
      "mirrored: a write that waits for others goes when it is to, and the next one takes its "
      "place") {
    loop home;
    mirrored<int> m(2, 0, aggregation::sum);
    std::vector<std::string> order;
    const auto write = [&](int n) -> task<> {
      try {
        const snapshot<int> written = co_await m.assign(0, n);
        order.push_back(std::to_string(*written));
      } catch (const operation_cancelled&) {
        order.emplace_back("withdrawn");
      }
    };
    async_scope stopped{{.executor = home}};
    async_scope stays{{.executor = home}};
    SUBCASE("the first in its line") {
      stopped.spawn(write(1));
      stays.spawn(write(2));
      stays.spawn(write(3));
    }
    SUBCASE("one between") {
      stays.spawn(write(2));
      stopped.spawn(write(1));
      stays.spawn(write(3));
    }
    SUBCASE("the last one") {
      stays.spawn(write(2));
      stays.spawn(write(3));
      stopped.spawn(write(1));
    }
    home.run();
    CHECK(order.empty());
    stopped.request_stop();
    home.run();
    CHECK(order == std::vector<std::string>{"withdrawn"});
    std::optional<snapshot<int>> got;
    const foreign first = await_write(m.assign(1, 10), got);
    CHECK(**got == 12);
    const foreign second = await_write(m.assign(1, 10), got);
    CHECK(**got == 13);
    home.run();
    CHECK(order == std::vector<std::string>{"withdrawn", "12", "13"});
    sync_wait(when_all(stopped.join(), stays.join()));
  }

  TEST_CASE("mirrored: the only one that waits goes, and nobody is in that line any more") {
    mirrored<int> m(2, 0, aggregation::sum);
    CHECK_THROWS_AS(sync_wait(timeout(m.assign(0, 1), std::chrono::milliseconds(1))),
                    deadline_exceeded);
    std::optional<snapshot<int>> got;
    const foreign one = await_write(m.assign(1, 10), got);
    CHECK_FALSE(one.done());
    const foreign other = await_write(m.assign(0, 5), got);
    CHECK(one.done());
    CHECK(*m.read(0) == 15);
  }

  TEST_CASE("mirrored: a stop and the last replica come at the same time") {
    for (int i = 0; i != 200; ++i) {
      mirrored<int> m(2, 0, aggregation::sum);
      thread_pool pool{2};
      bool written = false;
      const auto write = [&]() -> task<> {
        try {
          co_await m.assign(0, 1);
          written = true;
        } catch (const operation_cancelled&) {
        }
      };
      async_scope scope{{.executor = pool}};
      scope.spawn(write());
      std::thread stops([&] { scope.request_stop(); });
      std::optional<snapshot<int>> got;
      const foreign last = await_write(m.assign(1, 2), got);
      sync_wait(scope.join());
      stops.join();
      std::optional<snapshot<int>> instead;
      std::optional<foreign> makes_up;
      if (!written) {
        CHECK_FALSE(last.done());
        makes_up = await_write(m.assign(0, 1), instead);
      }
      last.wait();  // it may go on after the other one, on the pool's thread
      CHECK(*m.read(1) == 3);
    }
  }

  TEST_CASE("mirrored: ending it while a replica waits is a broken contract") {
    const auto child = [] {
      std::optional<snapshot<int>> got;
      auto m = std::make_unique<mirrored<int>>(2, 0, aggregation::sum);
      const foreign waits = await_write(m->assign(0, 1), got);
      m.reset();
    };
    support::check_dies(child, "a mirrored value is destroyed while a replica waits for others");
  }
}
