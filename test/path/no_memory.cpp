// no_memory.cpp - whatever cannot be had for want of memory says so, and nothing else is lost with
// it.
//
// A program of its own, because it replaces the global operator new: each case is run again and
// again, and the first, the second, the third ... allocation of its thread fails, until it gets by
// with those that succeed. What could be had from frames that the thread has freed runs on a new
// one, which has none.

#include "support/child_process.hpp"
#include "support/elsewhere.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/own_new.hpp"

#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <doctest/doctest.h>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <tuple>
#include <utility>

using namespace turnstile;
using support::elsewhere;

namespace {

thread_local long left = -1;          // until one fails; less than 0: none does
thread_local bool stays_out = false;  // all that come after it fail, too

}  // namespace

void support::before_allocation() {
  if (left < 0) return;
  if (left > 0) {
    --left;
    return;
  }
  if (!stays_out) left = -1;
  throw std::bad_alloc();
}

namespace {

// In this scope the n-th allocation of the thread fails, from 0 on.
class failing {
 public:
  explicit failing(long n) noexcept { left = n; }
  ~failing() { left = -1; }
  failing(const failing&) = delete;
  failing& operator=(const failing&) = delete;

  static bool has_failed() noexcept { return left < 0; }
};

// `once(fail)` makes what it needs, and calls fail(f), in which an allocation fails. It checks that
// nothing is lost, whether f has thrown bad_alloc or not; anything else that is thrown is wrong.
// One at least has to fail.
template <class Once>
void each_fails(Once once) {
  for (long n = 0; n != 1000; ++n) {
    bool has_failed = false;
    once([&](auto f) {
      const failing now(n);
      try {
        f();
      } catch (const std::bad_alloc&) {
      }
      has_failed = failing::has_failed();
    });
    if (has_failed) continue;
    CHECK(n != 0);
    return;
  }
  FAIL("there is no end of allocations");
}

void check_usable(critical_section& cs) {
  CHECK(cs.statistics().waiters == 0);
  CHECK(sync_wait(cs.execute([] { return 7; })) == 7);
}

// What `c` waited for was done once, or it was told of why not.
void check_served(const std::optional<support::foreign>& c, const int& times) {
  if (!c) {
    CHECK(times == 0);
    return;
  }
  c->wait();
  bool threw = false;
  try {
    c->rethrow();
  } catch (const std::bad_alloc&) {
    threw = true;
  }
  CHECK(times + threw == 1);
}

}  // namespace

TEST_SUITE("path") {
  // First of all: nothing has been claimed or opened in this process.
  TEST_CASE("no memory: the first address that is claimed, and the first shared name") {
    for (int how = 0; how != 4; ++how) {
      for (long n = 0; n != 25; ++n) {
        const support::child_end end = support::in_child([how, n] {
          critical_section cs;
          const int plain = 0;
          const auto use = [&] { cs.execute_blocking([] {}, {.uses = resource_of(plain)}); };
          const auto open = [] { critical_section::open("shared")->execute_blocking([] {}); };
          stays_out = how % 2 == 1;
          left = n;
          try {
            how < 2 ? use() : open();
          } catch (const std::bad_alloc&) {
          }
          left = -1;
          use();
          open();
        });
        CHECK(end.status == 0);
      }
    }
  }

  TEST_CASE("no memory: an execution that waits and can be withdrawn") {
    each_fails([](auto fail) {
      critical_section cs;
      std::stop_source stop;
      section_guard busy = support::hold(cs);
      async_scope scope;
      int ran = 0;
      bool begun = false;
      fail([&] {
        scope.spawn([](critical_section& s, int& n, std::stop_token t) -> task<> {
          co_await s.execute([&n] { ++n; }, {.stop = t});
        }(cs, ran, stop.get_token()));
        begun = true;
      });
      busy.unlock();
      std::exception_ptr error;
      try {
        sync_wait(scope.join());
      } catch (...) {
        error = std::current_exception();
      }
      CHECK(ran + (error != nullptr) + !begun == 1);
      check_usable(cs);
    });
  }

  TEST_CASE("no memory: an error that nobody takes is told") {
    for (long n = 0; n != 12; ++n) {
      const support::child_end end = support::in_child([n] {
        manual_executor here;
        critical_section cs({.name = "ledger", .executor = here});
        try {
          cs.post([n] {
            left = n;
            throw std::bad_alloc();
          });
        } catch (const std::bad_alloc&) {
        }
        here.run();
      });
      CHECK(end.status == 0);
      CHECK(end.one_line());
      CHECK(end.says("an error nobody takes"));
    }
  }

  TEST_CASE("no memory: two sections, one of them full, while a guard is held") {
    each_fails([](auto fail) {
      critical_section held;
      critical_section a;
      critical_section b({.max_waiters = 1, .on_full = when_full::wait_outside});
      section_guard busy = support::hold(b);
      async_scope waiters;
      waiters.spawn([](critical_section& s) -> task<> { co_await s.execute([] {}); }(b));
      int ran = 0;
      async_scope asks;
      bool begun = false;
      fail([&] {
        asks.spawn([](critical_section& outer, critical_section& one, critical_section& other,
                      int& n) -> task<> {
          section_guard g = co_await outer.lock();
          co_await execute(std::tie(one, other), [&n] { ++n; });
        }(held, a, b, ran));
        begun = true;
      });
      busy.unlock();
      sync_wait(waiters.join());
      bool threw = false;
      try {
        sync_wait(asks.join());
      } catch (const std::bad_alloc&) {
        threw = true;
      }
      CHECK(ran + threw + !begun == 1);
      check_usable(held);
      check_usable(a);
      check_usable(b);
    });
  }

  TEST_CASE("no memory: when_all of a coroutine of another library that holds a guard") {
    each_fails([](auto fail) {
      critical_section held;
      critical_section a;
      critical_section b;
      section_guard busy_a = support::hold(a);
      section_guard busy_b = support::hold(b);
      int ran = 0;
      std::optional<support::foreign> asks;
      fail([&] {
        asks.emplace([](critical_section& outer, critical_section& one, critical_section& other,
                        int& n) -> support::foreign {
          section_guard g = co_await outer.lock();
          co_await when_all(one.execute([&n] { ++n; }), other.execute([&n] { ++n; }));
        }(held, a, b, ran));
      });
      busy_a.unlock();
      busy_b.unlock();
      if (asks) {
        REQUIRE(asks->done());
        bool threw = false;
        try {
          asks->rethrow();
        } catch (const std::bad_alloc&) {
          threw = true;
        }
        CHECK(threw == (ran != 2));
      }
      check_usable(held);
      check_usable(a);
      check_usable(b);
    });
  }

  TEST_CASE("no memory: a coroutine of another library that waits inside a body") {
    each_fails([](auto fail) {
      critical_section outer;
      critical_section inner;
      section_guard busy = support::hold(inner);
      int ran = 0;
      std::optional<support::foreign> asks;
      elsewhere([&] {
        outer.execute_blocking([&] {
          fail([&] {
            asks.emplace([](critical_section& cs, int& n) -> support::foreign {
              co_await cs.execute([&n] { ++n; });
            }(inner, ran));
          });
        });
      });
      busy.unlock();
      check_served(asks, ran);
      check_usable(outer);
      check_usable(inner);
    });
  }

  TEST_CASE("no memory: a coroutine of another library that waits for a device inside a body") {
    thread_pool::shared();  // where it goes on: its threads do not begin without memory
    each_fails([](auto fail) {
      critical_section cs;
      manual_executor device_runs_on;
      stream s(device::host(), {.executor = device_runs_on});
      s.enqueue([] {});
      const event done = s.record();
      int went_on = 0;
      std::optional<support::foreign> asks;
      elsewhere([&] {
        cs.execute_blocking([&] {
          fail([&] {
            asks.emplace([](event e, int& n) -> support::foreign {
              co_await e;
              ++n;
            }(done, went_on));
          });
        });
      });
      device_runs_on.run();
      check_served(asks, went_on);
      check_usable(cs);
    });
  }

  TEST_CASE("no memory: who leaves what it has entered for want of it waits for nothing more") {
    const section_options one_waits{.max_waiters = 1, .on_full = when_full::wait_outside};
    each_fails([&](auto fail) {
      critical_section a;
      critical_section b(one_waits);
      support::gate ask;
      bool asks = true;
      bool refused = false;
      const auto enter = [](critical_section& s) -> task<> { co_await s.execute([] {}); };
      const auto holds_b = [&]() -> task<> {
        const section_guard held = co_await b.lock();
        co_await ask;
        try {
          if (asks) co_await enter(a);
        } catch (const deadlock_error&) {
          refused = true;
        } catch (const std::bad_alloc&) {
        }
      };
      const auto both = [&]() -> task<> {
        try {
          co_await execute(std::tie(a, b), [] {});
        } catch (const std::bad_alloc&) {
        }
      };
      const auto opens = [&]() -> task<> {
        const auto body = [&ask] { ask.open(); };
        co_await a.execute(body);
      };
      async_scope scope;
      section_guard not_yet = support::hold(a);
      scope.spawn(holds_b());
      scope.spawn(enter(b));  // takes the only place there is
      scope.spawn(both());
      scope.spawn(opens());
      elsewhere([&] { fail([&] { not_yet.unlock(); }); });
      if (ask.waiting() != 0) {  // both are waited for
        asks = false;
        ask.open();
      }
      sync_wait(scope.join());
      CHECK_FALSE(refused);
      check_usable(a);
      check_usable(b);
    });
  }

  TEST_CASE("no memory: work that ends for want of it is told by join") {
    each_fails([](auto fail) {
      async_scope scope;
      bool begun = false;
      fail([&] {
        scope.spawn([]() -> task<> {
          static_cast<void>(std::make_unique<int>(1));
          throw std::bad_alloc();
          co_return;
        }());
        begun = true;
      });
      if (begun) {
        CHECK_THROWS_AS(sync_wait(scope.join()), std::bad_alloc);
      } else {
        sync_wait(scope.join());
      }
    });
  }

  TEST_CASE("no memory: a section that is shared by name is either there or not") {
    static_cast<void>(
        critical_section::open("libcds begins, which cannot be told that it has none"));
    each_fails([](auto fail) {
      const std::size_t before = registry::sections().size();
      std::shared_ptr<critical_section> cs;
      fail([&] { cs = critical_section::open("a name that no short string has room for"); });
      CHECK(registry::sections().size() == before + (cs != nullptr));
    });
  }

  TEST_CASE("no memory: what is withdrawn says that, counted or not") {
    long said_so_all_the_same = 0;
    each_fails([&](auto fail) {
      critical_section cs;
      section_guard busy = support::hold(cs);
      std::stop_source stop;
      stop.request_stop();
      bool said_so = false;
      bool any_failed = false;
      fail([&] {
        try {
          sync_wait(cs.execute([] {}, {.stop = stop.get_token()}));
        } catch (const operation_cancelled&) {
          said_so = true;
        }
        any_failed = failing::has_failed();
      });
      said_so_all_the_same += said_so && any_failed;
      busy.unlock();
      check_usable(cs);
    });
    CHECK(said_so_all_the_same != 0);
  }
}
