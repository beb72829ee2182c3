// ordered_scope.cpp - bodies that wait for what conflicts, and for nothing else.

#include "support/counted.hpp"
#include "support/dies.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/loop.hpp"
#include "support/unobserved.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace turnstile;
using support::counted;
using support::foreign;
using support::gate;
using support::loop;

namespace {

// Writes `name` down when it starts, and ends when the gate is opened.
auto wait_at(gate& g, std::string& log, char name) {
  return [&g, &log, name]() -> task<> {
    log += name;
    co_await g;
  };
}

auto note(std::string& log, char name) {
  return [&log, name] { log += name; };
}

// A variable or a resource.
template <class T>
T made() {
  if constexpr (std::is_same_v<T, resource>) {
    return T();
  } else {
    return T(0);
  }
}

[[noreturn]] void refuse() { throw std::runtime_error("as planned"); }

}  // namespace

TEST_SUITE("variable") {
  TEST_CASE_TEMPLATE("ordered_scope: a read waits for the last write, and reads run side by side",
                     T, variable<int>, resource) {
    T v = made<T>();
    gate written;
    gate read;
    std::string log;
    ordered_scope s;
    s.add(writes(v), wait_at(written, log, 'w'));
    s.add(reads(v), wait_at(read, log, 'a'));
    s.add(reads(v), wait_at(read, log, 'b'));
    CHECK(log == "w");
    written.open();
    CHECK(log == "wab");
    read.open();
    sync_wait(s.join());
  }

  TEST_CASE_TEMPLATE("ordered_scope: a write waits for the reads before it, and for the last write",
                     T, variable<int>, resource) {
    T v = made<T>();
    gate first;
    gate second;
    gate third;
    std::string log;
    ordered_scope s;
    s.add(reads(v), wait_at(first, log, 'a'));
    s.add(reads(v), wait_at(second, log, 'b'));
    s.add(writes(v), wait_at(third, log, 'w'));
    s.add(writes(v), note(log, 'x'));
    s.add(reads(v), note(log, 'c'));
    CHECK(log == "ab");
    second.open();
    CHECK(log == "ab");
    first.open();
    CHECK(log == "abw");
    third.open();
    CHECK(log == "abwxc");
    sync_wait(s.join());
  }

  TEST_CASE("ordered_scope: a buffer of a device, and an object without an identity of its own") {
    stream at(device::host());
    const device_buffer<int> buffer(at, 1);
    const int plain = 0;
    gate g;
    std::string log;
    ordered_scope s;
    s.add(writes(buffer, resource_of(plain)), wait_at(g, log, 'w'));
    s.add(reads(buffer), note(log, 'b'));
    s.add(reads(resource_of(plain)), note(log, 'p'));
    CHECK(log == "w");
    g.open();
    CHECK(log == "wbp");
    sync_wait(s.join());
  }

  TEST_CASE("ordered_scope: bodies that share nothing do not wait for each other") {
    variable<int> a(0);
    variable<std::string> b("");
    gate g;
    std::string log;
    ordered_scope s;
    s.add(writes(a), wait_at(g, log, 'a'));
    s.add(writes(b), note(log, 'b'));
    s.add(reads(b) | writes(b), note(log, 'c'));
    s.add(reads(a) | writes(b), note(log, 'd'));
    s.add(reads(b), note(log, 'e'));
    s.add(access_list(), note(log, 'f'));
    CHECK(log == "abcf");
    g.open();
    CHECK(log == "abcfde");
    sync_wait(s.join());
  }

  TEST_CASE("ordered_scope: resources are told apart, and from variables") {
    resource a;
    resource b;
    variable<int> v(0);
    gate g;
    std::string log;
    ordered_scope s;
    s.add(writes(a), wait_at(g, log, 'a'));
    s.add(writes(b, v), note(log, 'b'));
    s.add(reads(v) | reads(a), note(log, 'c'));
    s.add(writes(v), note(log, 'd'));
    CHECK(log == "ab");
    g.open();
    CHECK(log == "abcd");
    sync_wait(s.join());
  }

  TEST_CASE("ordered_scope: an empty list of accesses waits for nothing, nor anything for it") {
    resource r;
    gate first;
    gate second;
    std::string log;
    ordered_scope s;
    s.add(access_list() | writes(r) | access_list(), wait_at(first, log, 'w'));
    s.add(access_list() | access_list(), wait_at(second, log, 'a'));
    s.add({}, note(log, 'b'));
    s.add(reads(r), note(log, 'r'));
    CHECK(log == "wab");
    first.open();
    CHECK(log == "wabr");
    second.open();
    sync_wait(s.join());
  }

  TEST_CASE("ordered_scope: bodies that share nothing run at the same time on an executor") {
    thread_pool pool(2);
    variable<int> a(0);
    variable<int> b(0);
    std::latch both(2);
    ordered_scope s(pool);
    s.add(writes(a), [&] { both.arrive_and_wait(); });
    s.add(writes(b), [&] { both.arrive_and_wait(); });
    sync_wait(s.join());
  }

  TEST_CASE("ordered_scope: bodies start on its executor") {
    loop l;
    variable<int> v(0);
    std::vector<bool> there;
    ordered_scope s(l);
    s.add(writes(v), [&] { there.push_back(l.here()); });
    s.add(writes(v), [&] { there.push_back(l.here()); });
    CHECK(there.empty());
    l.run();
    CHECK(there == std::vector<bool>{true, true});
    sync_wait(s.join());
  }

  TEST_CASE("ordered_scope: what depends on a body that failed is skipped, the rest is not") {
    variable<int> a(0);
    variable<int> b(0);
    variable<int> c(0);
    gate g;
    std::string log;
    ordered_scope s;
    s.add(writes(a), [&]() -> task<> {
      co_await g;
      refuse();
    });
    s.add(reads(a) | writes(b), note(log, '1'));  // depends on it
    s.add(reads(b), note(log, '2'));              // depends on what was skipped
    s.add(writes(c), note(log, '3'));
    g.open();
    s.add(reads(a), note(log, '4'));  // added after it failed
    s.add(reads(b), note(log, '5'));
    s.add(reads(c), note(log, '6'));
    CHECK(log == "36");
    CHECK_THROWS_WITH(sync_wait(s.join()), "as planned");
    s.add(reads(a), note(log, '7'));  // what failed before the join is over
    sync_wait(s.join());
    CHECK(log == "367");
  }

  TEST_CASE("ordered_scope: a read that fails holds up later writes, not later reads") {
    variable<int> v(0);
    std::string log;
    ordered_scope s;
    s.add(reads(v), [] { refuse(); });
    s.add(reads(v), note(log, 'r'));
    s.add(writes(v), note(log, 'w'));
    s.add(reads(v), note(log, 's'));
    CHECK(log == "r");
    CHECK_THROWS_WITH(sync_wait(s.join()), "as planned");
  }

  TEST_CASE("ordered_scope: join throws the error that happened first") {
    variable<int> a(0);
    variable<int> b(0);
    gate g;
    ordered_scope s;
    s.add(writes(a), [&]() -> task<> {
      co_await g;
      throw std::runtime_error("later");
    });
    s.add(writes(b), [] { throw std::runtime_error("first"); });
    g.open();
    CHECK_THROWS_WITH(sync_wait(s.join()), "first");
    sync_wait(s.join());
  }

  TEST_CASE("ordered_scope: an error that no join took is reported") {
    const support::unobserved errors;
    {
      variable<int> v(0);
      ordered_scope s;
      s.add(writes(v), [] { refuse(); });
    }
    CHECK(errors.seen().size() == 1);
  }

  TEST_CASE("ordered_scope: naming a variable twice is naming it once, for writing if either is") {
    variable<int> v(0);
    gate g;
    std::string log;
    ordered_scope s;
    s.add(reads(v, v) | writes(v) | reads(v), wait_at(g, log, 'a'));
    s.add(reads(v), note(log, 'b'));
    CHECK(log == "a");
    g.open();
    CHECK(log == "ab");
    sync_wait(s.join());
  }

  TEST_CASE("ordered_scope: bodies are kept until they have ended, and no longer") {
    variable<int> v(0);
    gate g;
    int seen = 0;
    ordered_scope s;
    s.add(writes(v), [&]() -> task<> { co_await g; });
    {
      const counted three(3);
      s.add(reads(v), [three, &seen] { seen = three.value; });
    }
    CHECK(counted::alive() == 1);
    g.open();
    CHECK(seen == 3);
    CHECK(counted::alive() == 0);
    sync_wait(s.join());
    // Skipped ones too.
    s.add(writes(v), [] { refuse(); });
    s.add(reads(v), [three = counted(3), &seen] { seen = -three.value; });
    CHECK(counted::alive() == 0);
    CHECK(seen == 3);
    CHECK_THROWS(sync_wait(s.join()));
  }

  TEST_CASE("ordered_scope: a body may add others, and runs on a chain of its own") {
    critical_section cs;
    variable<int> v(0);
    int ran = 0;
    ordered_scope s;
    const auto inside = [&] {
      s.add(writes(v), [&] {
        ++ran;
        s.add(writes(v), [&]() -> task<> { co_await cs.execute([&] { ++ran; }); });
      });
    };
    sync_wait(cs.execute(inside));
    sync_wait(s.join());
    CHECK(ran == 2);
  }

  TEST_CASE("ordered_scope: who touches nothing waits for nobody") {
    variable<int> v(0);
    gate g;
    bool ran[2] = {};
    ordered_scope s;
    s.add(writes(v), [&]() -> task<> { co_await g; });
    s.add(reads() | writes(), [&] { ran[0] = true; });
    s.add({}, [&] { ran[1] = true; });
    CHECK(ran[0]);
    CHECK(ran[1]);
    g.open();
    sync_wait(s.join());
  }

  TEST_CASE("ordered_scope: the body that is added last may end it") {
    variable<int> v(0);
    variable<int> w(0);
    gate first_ends;
    bool joined = false;
    auto s = std::make_unique<ordered_scope>();
    s->add(writes(v), [&]() -> task<> { co_await first_ends; });
    const auto join = [&]() -> foreign {
      co_await s->join();
      s.reset();
      joined = true;
    };
    const foreign waits = join();
    s->add(writes(w), [&] { first_ends.open(); });
    CHECK(joined);
  }

  TEST_CASE("ordered_scope: a long chain of bodies takes no stack") {
    variable<int> v(0);
    gate g;
    int ran = 0;
    ordered_scope s;
    s.add(writes(v), [&]() -> task<> { co_await g; });
    for (int i = 0; i != 100000; ++i) s.add(writes(v), [&] { ++ran; });
    g.open();
    sync_wait(s.join());
    CHECK(ran == 100000);
  }

  TEST_CASE("ordered_scope: a join that was stopped leaves to the next one what has failed since") {
    loop here;
    variable<int> v(0);
    gate g;
    std::string log;
    ordered_scope s;
    async_scope outer{{.executor = here}};
    bool cancelled = false;
    s.add(writes(v), [&]() -> task<> {
      co_await g;
      throw std::runtime_error("of the write");
    });
    const auto joins = [&]() -> task<> {
      try {
        co_await s.join();
      } catch (const operation_cancelled&) {
        cancelled = true;
      }
    };
    outer.spawn(joins());
    here.run();
    outer.request_stop();
    g.open();  // it fails before the one that was stopped goes on
    here.run();
    CHECK(cancelled);
    s.add(reads(v), note(log, 'r'));
    CHECK_THROWS_WITH(sync_wait(s.join()), "of the write");
    CHECK(log.empty());
    s.add(reads(v), note(log, 'r'));
    sync_wait(s.join());
    CHECK(log == "r");
    sync_wait(outer.join());
  }

  TEST_CASE("ordered_scope: ending it while its bodies run is a broken contract") {
    const auto child = [] {
      variable<int> v(0);
      gate g;
      ordered_scope s;
      s.add(writes(v), [&]() -> task<> { co_await g; });
    };
    support::check_dies(child, "an ordered_scope is destroyed while its bodies have not ended");
  }
}
