// order.cpp - one FIFO order of accepted requests, whatever kind they are.

#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <deque>
#include <doctest/doctest.h>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using support::foreign;
using support::gate;

namespace {

struct journal {
  critical_section cs;
  std::vector<int> order;
  std::deque<gate> gates;
};

foreign plain(journal& j, int id) {
  co_await j.cs.execute([&j, id] { j.order.push_back(id); });
}

foreign waiting(journal& j, int id, gate& g) {
  auto body = [&j, id, &g]() -> task<> {
    j.order.push_back(id);
    co_await g;
  };
  co_await j.cs.execute(body);
}

foreign locking(journal& j, int id, gate& g) {
  section_guard guard = co_await j.cs.lock();
  j.order.push_back(id);
  co_await g;
  guard.unlock();
}

// Requests of every kind, one of each after the other.
std::vector<foreign> queue_up(journal& j, int n) {
  std::vector<foreign> all;
  for (int id = 0; id != n; ++id) {
    gate& g = j.gates.emplace_back();
    switch (id % 5) {
      case 0: all.push_back(plain(j, id)); break;
      case 1: all.push_back(waiting(j, id, g)); break;
      case 2: all.push_back(locking(j, id, g)); break;
      case 3: j.cs.post([&j, id] { j.order.push_back(id); }); break;
      case 4: static_cast<void>(j.cs.submit([&j, id] { j.order.push_back(id); })); break;
    }
  }
  return all;
}

std::vector<int> first_numbers(int n) {
  std::vector<int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("order: requests run in the order they were accepted, whatever they wait for") {
    journal j;
    section_guard busy = support::hold(j.cs);
    const std::vector<foreign> all = queue_up(j, 25);
    CHECK(j.cs.statistics().waiters == 25);
    support::serve_here([&] {
      busy.unlock();
      for (gate& g : j.gates) g.open();
    });
    CHECK_FALSE(j.cs.statistics().held);
    CHECK(j.order == first_numbers(25));
  }

  TEST_CASE("order: it does not matter in which order their waits end") {
    journal j;
    section_guard busy = support::hold(j.cs);
    const std::vector<foreign> all = queue_up(j, 25);
    support::serve_here([&] {
      busy.unlock();
      for (auto g = j.gates.rbegin(); g != j.gates.rend(); ++g) g->open();
    });
    CHECK_FALSE(j.cs.statistics().held);
    CHECK(j.order == first_numbers(25));
  }

  TEST_CASE("order: more requests than cells, laps and laps of them") {
    for (const std::size_t cells : {1, 2, 4, 64}) {
      critical_section cs{section_options{.ring_capacity = cells}};
      std::vector<int> order;
      for (int lap = 0; lap != 5; ++lap) {
        section_guard busy = support::hold(cs);
        for (int i = 0; i != 20; ++i) cs.post([&order, id = lap * 20 + i] { order.push_back(id); });
        busy.unlock();
        while (cs.statistics().held) std::this_thread::yield();
      }
      sync_wait(cs.close());
      CHECK(order == first_numbers(100));
    }
  }

  TEST_CASE("order: nobody barges in while the section is handed over") {
    journal j;
    section_guard busy = support::hold(j.cs);
    auto ask_again = [](journal& all) -> foreign {
      co_await all.cs.execute([&all] { all.order.push_back(0); });
      co_await all.cs.execute([&all] { all.order.push_back(2); });
    };
    const foreign greedy = ask_again(j);
    const foreign patient = plain(j, 1);
    support::serve_here([&] { busy.unlock(); });
    CHECK(j.order == std::vector<int>{0, 1, 2});
    CHECK(greedy.done());
    CHECK(patient.done());
  }

  TEST_CASE("order: each thread's requests keep their order") {
    critical_section cs;
    constexpr int threads = 4;
    constexpr int each = 500;
    std::vector<std::pair<int, int>> ran;
    {
      std::vector<std::jthread> all;
      for (int t = 0; t != threads; ++t) {
        all.emplace_back([&, t] {
          for (int i = 0; i != each; ++i) cs.post([&ran, t, i] { ran.emplace_back(t, i); });
        });
      }
    }
    sync_wait(cs.close());
    CHECK(ran.size() == threads * each);
    for (int t = 0; t != threads; ++t) {
      std::vector<int> of_this_thread;
      for (const auto& [who, which] : ran) {
        if (who == t) of_this_thread.push_back(which);
      }
      CHECK(of_this_thread == first_numbers(each));
    }
  }

  TEST_CASE("order: bodies never overlap, asked for from several threads") {
    critical_section cs;
    long plain_counter = 0;
    auto count = [](critical_section& s, long& n, int times) -> task<> {
      for (int i = 0; i != times; ++i) co_await s.execute([&n] { ++n; });
    };
    {
      std::vector<std::jthread> all;
      for (int t = 0; t != 4; ++t) {
        all.emplace_back([&] { sync_wait(count(cs, plain_counter, 2000)); });
      }
    }
    CHECK(plain_counter == 8000);
    CHECK(cs.statistics().executions == 8000);
  }
}
