// variable.cpp - variables under many threads: each value once, nothing torn, everything freed.

#include "stress/crew.hpp"
#include "stress/dice.hpp"
#include "support/counted.hpp"

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using stress::dice;

namespace {

// Every number in it is the same, so that a torn one is seen.
template <std::size_t N>
struct filled {
  std::array<std::uint64_t, N> all{};

  filled& operator+=(std::uint64_t n) {
    for (std::uint64_t& x : all) x += n;
    return *this;
  }
  filled& operator+=(const filled& other) { return *this += other.all[0]; }
  bool whole() const {
    return std::all_of(all.begin(), all.end(), [this](std::uint64_t x) { return x == all[0]; });
  }
};
using kibibyte = filled<128>;

std::uint64_t number(std::uint64_t n) { return n; }
template <std::size_t N>
std::uint64_t number(const filled<N>& f) {
  return f.all[0];
}

// Each thread adds one so often: what they are given is 1 to n, each once, as its version is.
template <class T>
void add_on_8_threads(int times) {
  variable<T> v(T{});
  std::vector<std::vector<std::uint64_t>> got(8);
  std::atomic<int> odd{0};
  stress::together(8, [&](int who) {
    auto& mine = got[static_cast<std::size_t>(who)];
    for (int i = 0; i != times; ++i) {
      const snapshot<T> written = v.assign_add(std::uint64_t{1});
      mine.push_back(number(*written));
      if (written.version() != mine.back()) ++odd;
    }
  });
  std::vector<std::uint64_t> all;
  bool in_order = true;
  for (const auto& mine : got) {
    in_order = in_order && std::is_sorted(mine.begin(), mine.end());
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  CHECK(in_order);
  CHECK(odd == 0);
  REQUIRE(all.size() == static_cast<std::size_t>(8 * times));
  bool each_once = true;
  for (std::size_t i = 0; i != all.size(); ++i) each_once = each_once && all[i] == i + 1;
  CHECK(each_once);
  CHECK(v.version() == all.size());
}

// What a reader sees is whole, fits its version, and is never older than what it saw before.
template <class T>
void read_beside_writers(int times) {
  variable<T> v(T{});
  std::atomic<int> torn{0};
  std::atomic<int> older{0};
  stress::together(4, [&](int who) {
    dice d(static_cast<std::uint32_t>(who));
    snapshot<T> held = v.read();
    std::uint64_t last = 0;
    for (int i = 0; i != times; ++i) {
      if (who < 2) {
        v.assign_add(std::uint64_t{1});
        continue;
      }
      const std::uint64_t version = v.version();
      const snapshot<T> now = v.read();
      if constexpr (requires { now->whole(); }) {
        if (!now->whole()) ++torn;
      }
      if (number(*now) != now.version()) ++torn;
      if (now.version() < last || now.version() < version || v.version() < now.version()) ++older;
      last = now.version();
      if (d.one_in(3)) held = now;
      if (d.one_in(5)) held = v.read();
      if (number(*held) != held.version()) ++torn;
    }
  });
  CHECK(torn == 0);
  CHECK(older == 0);
  CHECK(v.version() == static_cast<std::uint64_t>(2 * times));
  CHECK(v.copies() <= v.version());
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("variable: assign_add gives each value once, over 8 threads") {
    const int times = stress::times_scale(stress::sanitized ? 5000 : 20000);
    add_on_8_threads<std::uint64_t>(times);
    add_on_8_threads<kibibyte>(times / 4);
  }

  TEST_CASE("variable: no snapshot is torn, or older than one before") {
    const int times = stress::times_scale(stress::sanitized ? 5000 : 30000);
    read_beside_writers<std::uint64_t>(times * 4);
    read_beside_writers<filled<2>>(times * 2);
    read_beside_writers<kibibyte>(times);
    read_beside_writers<filled<8192>>(times / 50);
  }

  TEST_CASE("variable: compare_assign loses no write") {
    const int times = stress::times_scale(stress::sanitized ? 2000 : 10000);
    const auto count = [&](auto zero) {
      variable<decltype(zero)> v(zero);
      stress::together(4, [&](int) {
        for (int i = 0; i != times; ++i) {
          for (;;) {
            const auto now = v.read();
            auto next = *now;
            next += 1;
            if (v.compare_assign(now.version(), next)) break;
          }
        }
      });
      CHECK(number(*v.read()) == static_cast<std::uint64_t>(4 * times));
    };
    count(std::uint64_t{0});
    count(filled<8>{});
  }

  TEST_CASE("variable: what was written before a write is seen by who reads it") {
    const int times = stress::times_scale(stress::sanitized ? 5000 : 50000);
    const auto pass = [&](auto zero) {
      variable<decltype(zero)> v(zero);
      std::vector<int> plain(static_cast<std::size_t>(times) + 1);
      int wrong = 0;
      stress::together(2, [&](int who) {
        for (int i = 1; who == 0 && i <= times; ++i) {
          plain[static_cast<std::size_t>(i)] = i;
          v.assign_add(std::uint64_t{1});
        }
        while (who == 1) {
          const std::uint64_t n = number(*v.read());
          if (plain[n] != static_cast<int>(n)) ++wrong;
          if (n == static_cast<std::uint64_t>(times)) break;
        }
      });
      CHECK(wrong == 0);
    };
    pass(std::uint64_t{0});
    pass(filled<3>{});
  }

  TEST_CASE("variable: snapshots are passed on and dropped anywhere, and all are freed") {
    const int times = stress::times_scale(stress::sanitized ? 3000 : 20000);
    {
      auto v = std::make_unique<variable<support::counted>>(support::counted(0));
      std::vector<std::optional<snapshot<support::counted>>> shelf(4);
      std::array<std::mutex, 4> locks;
      stress::together(4, [&](int who) {
        dice d(static_cast<std::uint32_t>(10 + who));
        for (int i = 0; i != times; ++i) {
          const unsigned place = d.below(4);
          std::optional<snapshot<support::counted>> mine;
          if (d.one_in(2)) mine = v->read();
          if (d.one_in(4)) mine = v->assign(support::counted(i));
          if (d.one_in(4)) mine = v->update([](support::counted& c) { ++c.value; });
          const std::lock_guard lock(locks[place]);
          std::swap(shelf[place], mine);
        }
      });
      v.reset();
    }
    CHECK(support::counted::alive() == 0);
  }

  TEST_CASE("mirrored: replicas on a pool write round after round") {
    const int rounds = stress::times_scale(stress::sanitized ? 1000 : 10000);
    thread_pool pool(3);
    mirrored<filled<4>> m(4, {}, aggregation::sum);
    std::atomic<int> odd{0};
    const auto write = [&](std::size_t replica) -> task<> {
      filled<4> one;
      one += 1;
      for (int i = 1; i <= rounds; ++i) {
        const auto written = co_await m.assign_add(replica, one);
        const auto n = static_cast<std::uint64_t>(i);
        if (!written->whole() || number(*written) != 4 * n || written.version() != n) ++odd;
        if (m.read(replica).version() < n) ++odd;
      }
    };
    async_scope scope({.executor = pool});
    for (std::size_t i = 0; i != 4; ++i) scope.spawn(write(i));
    sync_wait(scope.join());
    CHECK(odd == 0);
  }

  TEST_CASE("mirrored: ended by whoever goes on first") {
    const int rounds = stress::times_scale(stress::sanitized ? 500 : 5000);
    thread_pool pool(3);
    for (int i = 0; i != rounds; ++i) {
      auto m = std::make_unique<mirrored<long>>(3, 0, aggregation::sum);
      std::atomic<int> back{0};
      const auto write = [&](std::size_t replica) -> task<> {
        co_await m->assign(replica, 1);
        if (++back == 3) m.reset();
      };
      async_scope scope({.executor = pool});
      for (std::size_t k = 0; k != 3; ++k) scope.spawn(write(k));
      sync_wait(scope.join());
      REQUIRE(m == nullptr);
    }
  }

  // The same random bodies in order on one thread: whatever does not conflict may change places, so
  // each variable ends with the same value.
  TEST_CASE("ordered_scope: ends as if the bodies had run one after the other") {
    const int rounds = stress::times_scale(stress::sanitized ? 50 : 300);
    thread_pool pool(3);
    for (int round = 0; round != rounds; ++round) {
      std::array<std::uint64_t, 5> expected{};
      std::array<std::uint64_t, 5> plain{};  // not atomic: what conflicts has to be ordered
      std::array<variable<int>, 5> names{variable<int>(0), variable<int>(0), variable<int>(0),
                                         variable<int>(0), variable<int>(0)};
      dice d(static_cast<std::uint32_t>(100 + round));
      ordered_scope s(pool);
      for (int i = 0; i != 100; ++i) {
        const unsigned from = d.below(5);
        const unsigned to = d.below(5);
        const std::uint64_t n = d.below(1000);
        expected[to] = expected[to] * 31 + expected[from] + n;
        auto change = [&plain, from, to, n] { plain[to] = plain[to] * 31 + plain[from] + n; };
        if (d.one_in(3)) {
          s.add(reads(names[from]) | writes(names[to]), [change]() -> task<> {
            co_await yield();
            change();
          });
        } else {
          s.add(reads(names[from]) | writes(names[to]), change);
        }
      }
      sync_wait(s.join());
      REQUIRE(plain == expected);
    }
  }
}
