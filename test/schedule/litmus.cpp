// litmus.cpp - the checker by itself: what the memory model allows is found, what it forbids is
// not.
//
// Names of the shapes as in the literature (Alglave, Maranget, Tautschnig, 2014).

#include "schedule/scenario.hpp"

using namespace schedule;
using enum std::memory_order;

namespace {

// Store buffering: can both miss the other's store?
template <std::memory_order Store, std::memory_order Load>
void store_buffering() {
  atomic<int> x{0};
  atomic<int> y{0};
  int seen_y = 1;
  int seen_x = 1;
  together({[&] { x.exchange(1, Store), seen_y = y.load(Load); },
            [&] { y.exchange(1, Store), seen_x = x.load(Load); }});
  require(seen_x == 1 || seen_y == 1, "both missed");
}

// Message passing: a flag says that plain data is there.
template <std::memory_order Store, std::memory_order Load>
void message_passing() {
  guarded<int> data{0};
  atomic<int> flag{0};
  together({[&] {
              data = 1;
              flag.store(1, Store);
            },
            [&] {
              if (flag.load(Load) == 1) require(data == 1, "an old value behind the flag");
            }});
}

}  // namespace

TEST_SUITE("the checker") {
  TEST_CASE("litmus: store buffering") {
    fails(store_buffering<acq_rel, acquire>, "both missed");
    fails(store_buffering<seq_cst, acquire>, "both missed");
    holds(store_buffering<seq_cst, seq_cst>);
  }

  TEST_CASE("litmus: message passing") {
    fails(message_passing<relaxed, acquire>, "data race");
    fails(message_passing<release, relaxed>, "data race");
    holds(message_passing<release, acquire>);
  }

  TEST_CASE("litmus: a relaxed flag shows its message, an atomic message shows its age") {
    const auto scenario = [](std::memory_order store, std::memory_order load) {
      return [=] {
        atomic<int> data{0};
        atomic<int> flag{0};
        together({[&] {
                    data.store(1, relaxed);
                    flag.store(1, store);
                  },
                  [&] {
                    if (flag.load(load) == 1) require(data.load(relaxed) == 1, "old data");
                  }});
      };
    };
    fails(scenario(relaxed, relaxed), "old data");
    fails(scenario(relaxed, acquire), "old data");
    fails(scenario(release, relaxed), "old data");
    holds(scenario(release, acquire));
  }

  TEST_CASE("litmus: a release sequence goes through read-modify-writes, not through stores") {
    const auto scenario = [](bool with_store) {
      return [=] {
        guarded<int> data{0};
        atomic<int> flag{0};
        together({[&] {
                    data = 1;
                    flag.store(1, release);
                  },
                  [&] {
                    if (flag.load(relaxed) != 1) return;
                    if (with_store) {
                      flag.store(2, relaxed);
                    } else {
                      flag.fetch_add(1, relaxed);
                    }
                  },
                  [&] {
                    if (flag.load(acquire) == 2) require(data == 1, "old data");
                  }});
      };
    };
    holds(scenario(false));
    fails(scenario(true), "data race");
  }

  TEST_CASE("litmus: one place is coherent") {
    holds([] {
      atomic<int> x{0};
      together({[&] { x.store(1, relaxed), x.store(2, relaxed); },
                [&] {
                  const int first = x.load(relaxed);
                  require(x.load(relaxed) >= first, "time ran backwards");
                }});
    });
  }

  TEST_CASE("litmus: causality is passed on") {
    holds([] {
      atomic<int> x{0};
      atomic<int> y{0};
      together({[&] { x.store(1, relaxed); },
                [&] {
                  if (x.load(relaxed) == 1) y.store(1, release);
                },
                [&] {
                  if (y.load(acquire) == 1) require(x.load(relaxed) == 1, "lost on the way");
                }});
    });
  }

  TEST_CASE("litmus: independent readers agree on seq_cst writes only") {
    const auto scenario = [](std::memory_order write, std::memory_order read) {
      return [=] {
        atomic<int> x{0};
        atomic<int> y{0};
        int a = 0;
        int b = 0;
        together({[&] { x.store(1, write); }, [&] { y.store(1, write); },
                  [&] { a = x.load(read) - y.load(read); },
                  [&] { b = y.load(read) - x.load(read); }});
        require(a != 1 || b != 1, "two orders");
      };
    };
    fails(scenario(release, acquire), "two orders");
    holds(scenario(seq_cst, seq_cst));
  }

  TEST_CASE("litmus: read-modify-writes see the newest value") {
    holds([] {
      atomic<int> x{0};
      together({[&] { x.fetch_add(1, relaxed); }, [&] { x.fetch_add(1, relaxed); },
                [&] { x.fetch_add(1, relaxed); }});
      require(x.load(relaxed) == 3, "an addition was lost");
    });
    fails(
        [] {
          atomic<int> x{0};
          const auto add = [&] { x.store(x.load(relaxed) + 1, relaxed); };
          together({add, add});
          require(x.load(relaxed) == 2, "an addition was lost");
        },
        "an addition was lost");
  }

  TEST_CASE("litmus: load buffering is not seen, as is said") {
    holds([] {
      atomic<int> x{0};
      atomic<int> y{0};
      int a = 0;
      int b = 0;
      together({[&] { a = x.load(relaxed), y.store(1, relaxed); },
                [&] { b = y.load(relaxed), x.store(1, relaxed); }});
      require(a == 0 || b == 0, "out of thin air, or nearly");
    });
  }

  TEST_CASE("a lost wake-up is found") {
    const auto scenario = [](std::memory_order o) {
      return [=] {
        atomic<int> word{0};
        together({[&] { word.wait(0, acquire); },
                  [&] {
                    word.fetch_add(1, o);
                    word.notify_one();
                  }});
      };
    };
    fails(scenario(release), "nobody can go on");
    holds(scenario(seq_cst));
  }

  TEST_CASE("a use after the end is found") {
    fails(
        [] {
          auto* const x = new atomic<int>{0};
          atomic<bool> freed{false};
          together({[&] {
                      delete x;
                      freed.store(true, release);
                    },
                    [&] {
                      if (freed.load(acquire)) x->load(relaxed);
                    }});
        },
        "use after end");
  }

  TEST_CASE("an end that nothing orders after the last use is found") {
    const auto scenario = [](std::memory_order o) {
      return [=] {
        auto* const users = new atomic<int>{2};
        const auto leave = [&] {
          if (users->fetch_sub(1, o) == 1) delete users;
        };
        together({leave, leave});
      };
    };
    fails(scenario(relaxed), "nothing orders that");
    holds(scenario(acq_rel));
  }

  TEST_CASE("two at once in what only one may enter are found") {
    const auto scenario = [](bool by_one_change) {
      return [=] {
        atomic<bool> taken{false};
        atomic<int> inside{0};
        const auto enter = [&] {
          if (by_one_change ? taken.exchange(true, acquire) : taken.load(acquire)) return;
          taken.store(true, relaxed);
          require(inside.fetch_add(1, relaxed) == 0, "two are inside");
          inside.fetch_sub(1, relaxed);
          taken.store(false, release);
        };
        together({enter, enter});
      };
    };
    fails(scenario(false), "two are inside");
    holds(scenario(true));
  }

  TEST_CASE("being overtaken is found") {
    const auto scenario = [](bool turned_round) {
      return [=] {
        struct entry {
          int ticket = 0;
          entry* older = nullptr;
        };
        atomic<entry*> newest{nullptr};
        std::array<entry, 2> all{};
        const auto push = [&](int ticket) {
          entry& e = all[static_cast<std::size_t>(ticket)];
          e = {ticket, newest.load(relaxed)};
          while (!newest.compare_exchange_weak(e.older, &e, release, relaxed)) {
          }
        };
        together({[&] { push(0), push(1); },
                  [&] {
                    std::vector<int> served;
                    for (entry* e = newest.exchange(nullptr, acquire); e != nullptr; e = e->older) {
                      served.insert(turned_round ? served.begin() : served.end(), e->ticket);
                    }
                    require(served != std::vector{1, 0}, "overtaken");
                  }});
      };
    };
    fails(scenario(false), "overtaken");
    holds(scenario(true));
  }

  TEST_CASE("memory that is never freed is found") {
    fails([] { static_cast<void>(new guarded<int>{0}); }, "never freed");
  }

  TEST_CASE("a deadlock of locks is found, an order of locks is not") {
    const auto scenario = [](bool same_order) {
      return [=] {
        turnstile::detail::mutex a;
        turnstile::detail::mutex b;
        const auto both = [](auto& first, auto& second) {
          first.lock();
          second.lock();
          second.unlock();
          first.unlock();
        };
        together({[&] { both(a, b); }, [&] { same_order ? both(a, b) : both(b, a); }});
      };
    };
    fails(scenario(false), "nobody can go on");
    holds(scenario(true));
  }

  TEST_CASE("endless waiting is found") {
    fails(
        [] {
          atomic<int> x{0};
          while (x.load(relaxed) == 0) turnstile::detail::pause();
        },
        "no end in sight");
  }

  TEST_CASE("the random strategies find what the search finds") {
    for (const char* const mode : {"random", "pct"}) {
      setenv("SCHEDULE_MODE", mode, 1);
      fails(store_buffering<acq_rel, acquire>, "both missed");
      fails(message_passing<relaxed, acquire>, "data race");
      holds(store_buffering<seq_cst, seq_cst>);
    }
    unsetenv("SCHEDULE_MODE");
  }

  TEST_CASE("a report is enough to repeat what it reports") {
    const verdict found = explore(store_buffering<acq_rel, acquire>, {});
    const std::string_view report = found.report;
    const std::string_view key = "SCHEDULE_REPLAY=";
    const std::size_t at = report.find(key) + key.size();
    const std::string again(report.substr(at, report.find('\n', at) - at));
    setenv("SCHEDULE_REPLAY", again.c_str(), 1);
    const verdict repeated = explore(store_buffering<acq_rel, acquire>, {});
    unsetenv("SCHEDULE_REPLAY");
    CHECK(repeated.executions == 0);
    CHECK(repeated.report == found.report);
  }
}
