// turns.cpp - a coroutine that need not suspend lets others go on, also where no pool runs it.

#include "support/foreign.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <doctest/doctest.h>
#include <optional>
#include <thread>

using namespace turnstile;
using namespace std::chrono_literals;
using support::foreign;

namespace {

constexpr int turn = 32;
constexpr int longest_wait = 8 * turn;  // where it cannot be asked who waits
constexpr int many = 10 * longest_wait;
// In which the thread begins to keep the section: bodies before that are counted apart.
constexpr int longest_turn = 2 * turn - 1;

// Notes how many bodies have run before it does.
struct other_job : job {
  explicit other_job(const int& n) noexcept : job(&run_it), ran(n) {}
  static void run_it(job& j) noexcept {
    auto& self = static_cast<other_job&>(j);
    self.came_after = self.ran;
  }

  const int& ran;
  int came_after = -1;
};

task<> run_many(critical_section& cs, int& ran) {
  const auto body = [&ran] { ++ran; };
  for (int i = 0; i != many; ++i) co_await cs.execute(body);
}

// How many bodies run before another job does that waits on `loop`, which is given to `run`.
template <class Loop>
int others_wait_for(Loop& loop) {
  critical_section cs;
  int ran = 0;
  other_job other(ran);
  async_scope scope{{.executor = loop}};
  scope.spawn(run_many(cs, ran));
  executor_ref(loop).post(other);
  loop.run();
  CHECK(ran == many);
  sync_wait(scope.join());
  return other.came_after;
}

// In how many jobs one coroutine runs all its bodies on `loop`, where nobody else is.
template <class Loop>
std::size_t jobs_of_one(Loop& loop) {
  critical_section cs;
  int ran = 0;
  async_scope scope{{.executor = loop}};
  scope.spawn(run_many(cs, ran));
  const std::size_t jobs = loop.run();
  CHECK(ran == many);
  sync_wait(scope.join());
  return jobs;
}

// Asks until somebody says that it is enough, or for so long that nobody will.
foreign ask_often(critical_section& cs, std::atomic<bool>& enough, bool& in_vain) {
  const auto nothing = [] {};
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!enough && !in_vain) {
    co_await cs.execute(nothing);
    in_vain = std::chrono::steady_clock::now() > end;
  }
}

// While `call` runs its body here, somebody else's coroutine asks for the section; it goes on here.
template <class Call>
bool comes_back(Call call) {
  critical_section cs;
  std::atomic<bool> is_back = false;
  bool in_vain = false;
  std::optional<foreign> other;
  const auto body = [&] {
    const std::jthread asks([&] { other.emplace(ask_often(cs, is_back, in_vain)); });
    support::wait_for_waiters(cs, 1);
  };
  call(cs, body);
  is_back = true;
  other->wait();
  return !in_vain;
}

}  // namespace

TEST_SUITE("executor") {
  TEST_CASE("turns: on a manual_executor others wait for one turn at most") {
    manual_executor jobs;
    const int before = others_wait_for(jobs);
    CHECK(before > 0);
    CHECK(before <= longest_turn);
  }

  TEST_CASE("turns: on a manual_executor where nobody waits nothing is posted") {
    manual_executor jobs;
    CHECK(jobs_of_one(jobs) == 1);
  }

  TEST_CASE("turns: on an executor that cannot be asked others wait for eight turns at most") {
    support::loop jobs;
    const int before = others_wait_for(jobs);
    CHECK(before > 0);
    CHECK(before <= longest_wait - turn + longest_turn);
  }

  TEST_CASE("turns: on an executor that cannot be asked a lone coroutine posts itself seldom") {
    support::loop jobs;
    const std::size_t n = jobs_of_one(jobs);
    CHECK(n > 1);
    CHECK(n <= 1 + many / longest_wait);
  }

  // It takes half a second.
  TEST_CASE("turns: a call comes back although somebody else's coroutine goes on in it for ever") {
    bool waits = false;
    bool blocks = false;
    {
      const std::jthread beside([&] {
        waits = comes_back([](critical_section& cs, auto& body) { sync_wait(cs.execute(body)); });
      });
      blocks = comes_back([](critical_section& cs, auto& body) { cs.execute_blocking(body); });
    }
    CHECK(waits);
    CHECK(blocks);
  }
}
