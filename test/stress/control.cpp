// control.cpp - random trees of when_any, when_all and timeout whose leaves give a value, fail or
// wait for what never comes. Whatever was started ends, once; and no cancellation comes out of what
// nobody has stopped from outside: its cause does.

#include "stress/crew.hpp"
#include "stress/dice.hpp"
#include "support/gate.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <doctest/doctest.h>
#include <stop_token>
#include <utility>
#include <vector>

using namespace turnstile;
using stress::dice;

namespace {

constexpr int rounds = stress::sanitized ? 300 : 3'000;
constexpr unsigned deepest = 4;

enum class kind : std::uint8_t { any, all, limited, value, fails, joins, awaits, executes };

// A node has the numbers from `first` on, as many as it has nodes.
struct node {
  kind what;
  bool elsewhere;
  int first;
  int end;
  std::vector<node> children;
};

struct planned {
  int leaf;
};

// What must end does so without being stopped; what need not may wait for what never comes.
class planter {
 public:
  explicit planter(dice& d) : dice_(d) {}

  node plant(bool must_end, unsigned depth = 0) {
    node n{pick(must_end, depth), dice_.one_in(2), count_++, 0, {}};
    switch (n.what) {
      case kind::any: {
        const unsigned children = 1 + dice_.below(4);
        const unsigned ends = dice_.below(children);
        for (unsigned i = 0; i != children; ++i) {
          n.children.push_back(plant(must_end && i == ends, depth + 1));
        }
        break;
      }
      case kind::all:
        for (unsigned i = 1 + dice_.below(3); i != 0; --i) {
          n.children.push_back(plant(must_end, depth + 1));
        }
        break;
      case kind::limited: n.children.push_back(plant(false, depth + 1)); break;
      default: break;
    }
    n.end = count_;
    return n;
  }

 private:
  kind pick(bool must_end, unsigned depth) {
    if (depth < deepest && !dice_.one_in(4)) return static_cast<kind>(dice_.below(3));
    constexpr kind ends[] = {kind::value, kind::fails, kind::executes};
    constexpr kind any[] = {kind::value, kind::joins, kind::awaits, kind::fails, kind::executes};
    return must_end ? ends[dice_.below(3)] : any[dice_.below(5)];
  }

  dice& dice_;
  int count_ = 0;
};

struct world {
  thread_pool pool{2};
  critical_section busy;  // until the gate is opened
  critical_section short_;
  async_scope endless;
  support::gate end;
  std::atomic<long> started{0};
  std::atomic<long> ended{0};
  std::atomic<long> withdrawn{0};
  std::atomic<long> late{0};
  std::atomic<long> wrong{0};  // a cancellation without a stop, or somebody else's error
  // Of scopes: what came out, and how often it had to be chosen.
  std::atomic<long> causes{0};
  std::atomic<long> cancellations{0};
  std::atomic<long> both{0};

  world() {
    endless.spawn([](support::gate& g) -> task<> { co_await g; }(end));
    busy.post([this]() -> task<> { co_await end; });
  }
  ~world() {
    end.open();
    sync_wait(endless.join());
    sync_wait(busy.close());
  }
};

task<int> grow(world& w, const node& n);

task<int> there(world& w, const node& n) {
  if (n.elsewhere) co_return co_await schedule_on(w.pool, grow(w, n));
  co_return co_await grow(w, n);
}

std::vector<task<int>> children_of(world& w, const node& n) {
  std::vector<task<int>> all;
  for (const node& c : n.children) all.push_back(there(w, c));
  return all;
}

task<> do_any(world& w, const node& n) {
  const auto got = co_await when_any(children_of(w, n));
  if (got.value != n.children[got.index].first) ++w.wrong;
}

task<> do_it(world& w, const node& n) {
  switch (n.what) {
    case kind::any: co_await do_any(w, n); break;
    case kind::all: static_cast<void>(co_await when_all(children_of(w, n))); break;
    case kind::limited:
      static_cast<void>(co_await timeout(there(w, n.children[0]), std::chrono::seconds(0)));
      break;
    case kind::value: break;
    case kind::fails: throw planned{n.first};
    case kind::joins: co_await w.endless.join(); break;
    case kind::awaits: co_await w.busy.submit([] {}); break;
    case kind::executes: {
      auto nothing = [] {};
      co_await w.short_.execute(nothing);
      break;
    }
  }
}

task<int> grow(world& w, const node& n) {
  const std::stop_token stop = co_await current_stop_token();
  ++w.started;
  try {
    co_await do_it(w, n);
  } catch (const planned& error) {
    ++w.ended;
    if (error.leaf < n.first || error.leaf >= n.end) ++w.wrong;
    throw;
  } catch (const deadline_exceeded&) {
    ++w.ended;
    ++w.late;
    throw;
  } catch (const operation_cancelled&) {
    ++w.ended;
    ++w.withdrawn;
    if (!stop.stop_requested()) ++w.wrong;
    throw;
  }
  ++w.ended;
  co_return n.first;
}

void alone(world& w, const node& n) {
  try {
    if (sync_wait(there(w, n)) != 0) ++w.wrong;
  } catch (const operation_cancelled&) {
    ++w.wrong;
  } catch (const planned&) {
  } catch (const deadline_exceeded&) {
  }
}

// How the trees of a scope ended.
struct endings {
  std::atomic<int> failed{0};
  std::atomic<int> cancelled{0};
};

task<> counted(world& w, const node& n, endings& all) {
  try {
    co_await there(w, n);
  } catch (const operation_cancelled&) {
    ++all.cancelled;
    throw;
  } catch (...) {
    ++all.failed;
    throw;
  }
}

// Somebody stops them from outside meanwhile, or the first error does. A cancellation comes out
// only if nothing else does, and nothing at all only if no tree threw.
void in_a_scope(world& w, dice& d, std::vector<node>& trees) {
  endings all;
  async_scope scope{{.fail_fast = d.one_in(2), .executor = w.pool}};
  for (const node& n : trees) scope.spawn(counted(w, n, all));
  scope.request_stop();
  const auto note = [&w](bool right, std::atomic<long>& came_out) {
    ++(right ? came_out : w.wrong);
  };
  try {
    sync_wait(scope.join());
    if (all.failed != 0 || all.cancelled != 0) ++w.wrong;
  } catch (const operation_cancelled&) {
    note(all.failed == 0 && all.cancelled != 0, w.cancellations);
  } catch (const planned&) {
    note(all.failed != 0, w.causes);
  } catch (const deadline_exceeded&) {
    note(all.failed != 0, w.causes);
  }
  if (all.failed != 0 && all.cancelled != 0) ++w.both;
}

void work(world& w, std::uint32_t who) {
  dice d(who);
  for (int i = stress::times_scale(rounds); i != 0; --i) {
    if (!d.one_in(4)) {
      alone(w, planter(d).plant(true));
      continue;
    }
    std::vector<node> trees;
    for (int t = 0; t != 3; ++t) trees.push_back(planter(d).plant(false));
    in_a_scope(w, d, trees);
  }
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("control: trees end, every node once, and the cause comes out") {
    world w;
    stress::together(3, [&w](int who) { work(w, static_cast<std::uint32_t>(who)); });
    std::printf(
        "%ld nodes, %ld withdrawn, %ld late; of scopes %ld causes, %ld cancellations, %ld both\n",
        w.started.load(), w.withdrawn.load(), w.late.load(), w.causes.load(),
        w.cancellations.load(), w.both.load());
    CHECK(w.started == w.ended);
    CHECK(w.wrong == 0);
    CHECK(w.withdrawn > 0);
    CHECK(w.late > 0);
    CHECK(w.causes > 0);
    CHECK(w.cancellations > 0);
    CHECK(w.both > 0);
  }
}
