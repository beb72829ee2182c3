// conformance.cpp - streams, events and buffers, the same on every kind of device.
//
// What is enqueued is a host function on a GPU, so it calls nothing of CUDA's.

#include "device/device_under_test.hpp"
#include "support/coroutine_types.hpp"
#include "support/dies.hpp"
#include "support/foreign.hpp"
#include "support/loop.hpp"
#include "support/unobserved.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <doctest/doctest.h>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using support::await_in_foreign;
using support::await_moved_from;
using support::await_twice;
using support::brake;
using support::device_under_test;
using support::foreign;
using support::lazy;
using support::loop;
using support::on_each_device;
using support::own_loop;
using support::run_on;
using support::unobserved;
using support::wait_until;

namespace {

using support::first_numbers;
using support::ids;

template <class Predicate>
void run_until(loop& l, Predicate is_so) {
  wait_until([&] {
    l.run();
    return is_so();
  });
}

task<> await_and_note(const event& e, ids& list, int id) {
  co_await e;
  list.push_back(id);
}

task<> await_often(stream& s, long& count, long times) {
  for (long i = 0; i != times; ++i) {
    s.enqueue([&count] { ++count; });
    co_await s.completion();
    if (count != i + 1) throw std::logic_error("resumed too soon");
  }
}

// Lets the brake go as soon as the coroutine is suspended.
class lets_go_then {
 public:
  lets_go_then(brake& b, stream& s) : brake_(&b), inner_(s.completion()) {}

  bool await_ready() { return inner_.await_ready(); }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    brake& held = *brake_;  // this is gone when the coroutine is, and that may be soon
    const bool suspended = inner_.await_suspend(h);
    held.let_go();
    return suspended;
  }
  void await_resume() { inner_.await_resume(); }

 private:
  brake* brake_;
  detail::completion_awaiter inner_;
};

bool is_on_shared() { return detail::here().runs_on == executor_ref(thread_pool::shared()); }

task<bool> is_on_shared_after_all(brake& b, stream& s) {
  co_await lets_go_then(b, s);
  co_return is_on_shared();
}

foreign see_where(stream& s, bool& was_shared) {
  co_await s.completion();
  was_shared = is_on_shared();
}

template <class How>
lazy<How> await_in_every_way(own_loop&, stream& s, const event& e, int& ways) {
  co_await s.completion();
  ++ways;
  auto completion = s.completion();
  co_await std::move(completion);
  ++ways;
  co_await e;
  ++ways;
  co_await event();
  ++ways;
  co_await when_all(s.completion(), e);
  ++ways;
}

// They go on on a thread of the pool, or in their own loop.
template <class How>
int ways_of(stream& s) {
  own_loop home;
  int ways = 0;
  const event e = s.record();
  const lazy<How> all = await_in_every_way<How>(home, s, e, ways);
  all.start();
  wait_until([&] {
    home.run();
    return all.done();
  });
  all.rethrow();
  return ways;
}

struct lets_down : std::runtime_error {
  lets_down() : std::runtime_error("let down") {}
};

void give_what_throws(stream& s) {
  s.enqueue([] { throw lets_down(); });
}

}  // namespace

TEST_SUITE("device") {
  TEST_CASE("conformance: a GPU is there if one is required") {
    const std::string why_not(device::cuda(0).why_not());
    if (why_not.empty()) return;
    MESSAGE("a real GPU is left out: ", why_not);
    CHECK_FALSE(support::gpu_is_required());
  }

  // --- names -------------------------------------------------------------------------------------

  TEST_CASE("device: names") {
    CHECK(device::any().name() == "any");
    CHECK(device::host().name() == "host");
    CHECK(device::cuda(3).name() == "cuda:3");
    CHECK(device::cuda(3).index() == 3);
    CHECK(device::cuda(3) == device::cuda(3));
    CHECK(device::cuda(3) != device::cuda(2));
    CHECK(device::host() != device::any());
    CHECK(device::any().is_any());
    CHECK(device::host().is_host());
    CHECK_FALSE(device::cuda(0).is_host());
    CHECK(device::host().available());
    CHECK(device::host().why_not().empty());
    CHECK_THROWS_AS(device::cuda(-1), std::invalid_argument);
    CHECK_THROWS_AS(device::cuda_or_host(-1), std::invalid_argument);
  }

  TEST_CASE("device: one that is not there says why in one sentence") {
    const device nowhere = device::cuda(1000);
    CHECK_FALSE(nowhere.available());
    CHECK_FALSE(nowhere.why_not().empty());
    CHECK(device::cuda_or_host(1000) == device::host());
    try {
      const stream s(nowhere);
      FAIL("there is a stream");
    } catch (const device_error& e) {
      const std::string said = e.what();
      INFO(said);
      CHECK(said.find(nowhere.why_not()) != std::string::npos);
      CHECK(said.find("cuda:1000") != std::string::npos);
      CHECK(said.find('\n') == std::string::npos);
      CHECK_FALSE(e.lost());
    }
  }

  TEST_CASE("stream: on no device in particular there is none") {
    CHECK_THROWS_AS(stream{device::any()}, std::invalid_argument);
  }

  TEST_CASE("stream: says where it is") {
    on_each_device([](const device_under_test& d) {
      const stream s = d.make_stream();
      CHECK(s.where() == d.where());
      CHECK((s.native_handle() == nullptr) == d.is_host());
    });
  }

  // --- order -------------------------------------------------------------------------------------

  TEST_CASE("stream: does callables in the order in which they were given") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      ids list;
      for (int i = 0; i != 1000; ++i) s.enqueue([&list, i] { list.push_back(i); });
      sync_wait(s.completion());
      CHECK(list == first_numbers(1000));
    });
  }

  TEST_CASE("stream: does copies and callables in one order") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      device_buffer<int> cell(s, 1);
      int from = 0;
      std::array<int, 100> to{};
      for (int& t : to) {
        s.enqueue([&from] { ++from; });
        s.copy(cell.data(), &from, sizeof from);
        s.copy(&t, cell.data(), sizeof t);
      }
      s.copy(cell.data(), &from, 0);
      sync_wait(s.completion());
      bool is_right = true;
      for (std::size_t i = 0; i != to.size(); ++i) is_right &= to[i] == static_cast<int>(i) + 1;
      CHECK(is_right);
    });
  }

  TEST_CASE("stream: what is enqueued may be something that cannot be copied") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      int seen = 0;
      s.enqueue([&seen, mine = std::make_unique<int>(3)] { seen = *mine; });
      sync_wait(s.completion());
      CHECK(seen == 3);
    });
  }

  TEST_CASE("stream: waits for an event of another one, and sees what that one did") {
    on_each_device([](const device_under_test& d) {
      stream first = d.make_stream();
      stream second = d.make_stream();
      int written = 0;
      int seen = 0;
      {
        brake held(d, first);
        first.enqueue([&written] { written = 7; });
        second.wait(first.record());
        second.enqueue([&] { seen = written; });
        CHECK_FALSE(second.record().ready());
      }
      sync_wait(second.completion());
      CHECK(seen == 7);
    });
  }

  TEST_CASE("stream: waits for events that are reached, or of itself, and goes on") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      stream other = d.make_stream();
      s.wait(event());
      s.wait(s.record());
      const event reached = other.record();
      sync_wait(reached);
      s.wait(reached);
      int ran = 0;
      s.enqueue([&ran] { ++ran; });
      s.wait(s.record());
      sync_wait(s.completion());
      CHECK(ran == 1);
    });
  }

  TEST_CASE("stream: a chain over many streams is one order") {
    on_each_device([](const device_under_test& d) {
      constexpr int rounds = 20;
      std::deque<stream> all;
      for (int i = 0; i != 16; ++i) all.push_back(d.make_stream());
      ids list;
      event last;
      for (int i = 0; i != rounds * 16; ++i) {
        stream& s = all[static_cast<std::size_t>(i) % all.size()];
        s.wait(last);
        s.enqueue([&list, i] { list.push_back(i); });
        last = s.record();
      }
      sync_wait(last);
      CHECK(list == first_numbers(rounds * 16));
    });
  }

  TEST_CASE("stream: several threads may give to one, each keeps its order") {
    on_each_device([](const device_under_test& d) {
      constexpr int each = 500;
      stream s = d.make_stream();
      std::array<ids, 2> lists;
      const auto give = [&](std::size_t who) {
        for (int i = 0; i != each; ++i) {
          s.enqueue([&list = lists[who], i] { list.push_back(i); });
        }
      };
      std::thread other(give, 1);
      give(0);
      other.join();
      sync_wait(s.completion());
      CHECK(lists[0] == first_numbers(each));
      CHECK(lists[1] == first_numbers(each));
    });
  }

  // --- events ------------------------------------------------------------------------------------

  TEST_CASE("event: one that is made by default is reached") {
    const event e;
    CHECK(e.ready());
    sync_wait(e);
    bool over = false;
    const foreign f = await_in_foreign(event(), over);
    CHECK(over);
  }

  TEST_CASE("event: is ready when what was given before it is done, and its copies too") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      int ran = 0;
      brake held(d, s);
      s.enqueue([&ran] { ++ran; });
      const event e = s.record();
      const event copy = e;  // NOLINT(performance-unnecessary-copy-initialization)
      event assigned;
      assigned = copy;
      CHECK_FALSE(e.ready());
      CHECK_FALSE(copy.ready());
      CHECK_FALSE(assigned.ready());
      held.let_go();
      wait_until([&] { return e.ready(); });
      CHECK(ran == 1);
      CHECK(copy.ready());
      CHECK(assigned.ready());
    });
  }

  TEST_CASE("event: several coroutines await one, and again when it is reached") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      loop l;
      ids list;
      async_scope scope{{.executor = l}};
      std::optional<brake> held(std::in_place, d, s);
      const event e = s.record();
      for (int i = 0; i != 10; ++i) scope.spawn(await_and_note(e, list, i));
      l.run();
      CHECK(list.empty());
      held->let_go();
      run_until(l, [&] { return list.size() == 10; });
      CHECK(list == first_numbers(10));
      scope.spawn(await_and_note(e, list, 10));
      l.run();
      CHECK(list == first_numbers(11));
      sync_wait(scope.join());
      sync_wait(e);
      sync_wait(e);
    });
  }

  TEST_CASE("event: those that wait for one stream go on in the order of their places") {
    on_each_device([](const device_under_test& d) {
      constexpr int places = 20;
      stream s = d.make_stream();
      loop l;
      ids list;
      async_scope scope{{.executor = l}};
      std::optional<brake> held(std::in_place, d, s);
      std::vector<event> all;
      for (int i = 0; i != places; ++i) {
        s.enqueue([] {});
        all.push_back(s.record());
      }
      for (int i = places; i-- != 0;) {
        scope.spawn(await_and_note(all[static_cast<std::size_t>(i)], list, i));
      }
      l.run();
      CHECK(list.empty());
      held->let_go();
      run_until(l, [&] { return list.size() == places; });
      CHECK(list == first_numbers(places));
      sync_wait(scope.join());
    });
  }

  TEST_CASE("event: outlives its stream") {
    on_each_device([](const device_under_test& d) {
      int ran = 0;
      event e;
      {
        stream s = d.make_stream();
        brake held(d, s);
        s.enqueue([&ran] { ++ran; });
        e = s.record();
        stream gone = std::move(s);
      }
      sync_wait(e);
      CHECK(ran == 1);
      CHECK(e.ready());
    });
  }

  TEST_CASE("event: one that nobody waits for may end before it is reached") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      int ran = 0;
      for (int i = 0; i != 100; ++i) {
        s.enqueue([&ran] { ++ran; });
        static_cast<void>(s.record());
      }
      sync_wait(s.completion());
      CHECK(ran == 100);
    });
  }

  // --- completion --------------------------------------------------------------------------------

  TEST_CASE("completion: of a stream that was given nothing") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      sync_wait(s.completion());
      sync_wait(s.completion());
    });
  }

  TEST_CASE("completion: awaited thousands of times, by a thread and by coroutines of a pool") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      long count = 0;
      sync_wait(await_often(s, count, 2000));
      CHECK(count == 2000);
      thread_pool pool{2};
      std::array<long, 4> counts{};
      std::deque<stream> streams;
      async_scope scope{{.executor = pool}};
      for (long& each : counts) {
        scope.spawn(await_often(streams.emplace_back(d.make_stream()), each, 1000));
      }
      sync_wait(scope.join());
      CHECK(counts == std::array<long, 4>{1000, 1000, 1000, 1000});
    });
  }

  TEST_CASE("completion: goes on on the executor it left") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      loop l;
      bool was_here = false;
      async_scope scope{{.executor = l}};
      std::optional<brake> held(std::in_place, d, s);
      scope.spawn([](stream& on, loop& home, bool& out) -> task<> {
        co_await on.completion();
        out = home.here();
      }(s, l, was_here));
      l.run();
      held->let_go();
      wait_until([&] { return l.run() != 0; });
      CHECK(was_here);
      sync_wait(scope.join());
    });
  }

  TEST_CASE("completion: without an executor goes on on the shared pool") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      {
        brake held(d, s);
        CHECK(sync_wait(is_on_shared_after_all(held, s)));
      }
      bool was_shared = false;
      brake held(d, s);
      const foreign f = see_where(s, was_shared);
      CHECK_FALSE(f.done());
      held.let_go();
      f.wait();
      f.rethrow();
      CHECK(was_shared);
    });
  }

  TEST_CASE("completion: every coroutine type may await it") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      CHECK(ways_of<support::as_it_is>(s) == 5);
      CHECK(ways_of<support::by_value>(s) == 5);
      CHECK(ways_of<support::by_reference>(s) == 5);
      CHECK(ways_of<support::type_erased>(s) == 5);
      CHECK(ways_of<support::at_home>(s) == 5);
    });
  }

  TEST_CASE("completion: inside when_all, of several streams") {
    on_each_device([](const device_under_test& d) {
      stream first = d.make_stream();
      stream second = d.make_stream();
      std::array<int, 2> ran{};
      first.enqueue([&ran] { ++ran[0]; });
      second.enqueue([&ran] { ++ran[1]; });
      sync_wait(when_all(first.completion(), second.completion(), second.record()));
      CHECK(ran == std::array{1, 1});
    });
  }

  TEST_CASE("completion: a stop is not looked at, it ends when the work is done") {
    on_each_device([](const device_under_test& d) {
      manual_clock clock;
      stream s = d.make_stream();
      loop l;
      int ran = 0;
      bool over = false;
      async_scope scope{{.executor = l}};
      std::optional<brake> held(std::in_place, d, s);
      s.enqueue([&ran] { ++ran; });
      scope.spawn([](stream& on, bool& out) -> task<> {
        co_await timeout(on.completion(), 1s);
        out = true;
      }(s, over));
      l.run();
      clock.advance(2s);
      l.run();
      scope.request_stop();
      l.run();
      CHECK_FALSE(over);
      held->let_go();
      run_until(l, [&] { return over; });
      CHECK(ran == 1);
      sync_wait(scope.join());
    });
  }

  // --- errors ------------------------------------------------------------------------------------

  TEST_CASE("enqueue: what a callable throws goes to the next place, and only there") {
    on_each_device([](const device_under_test& d) {
      const unobserved nobody;
      stream s = d.make_stream();
      bool went_on = false;
      const event before = s.record();
      give_what_throws(s);
      s.enqueue([&went_on] { went_on = true; });
      const event next = s.record();
      const event after = s.record();
      sync_wait(before);
      CHECK_THROWS_AS(sync_wait(next), lets_down);
      CHECK_THROWS_AS(sync_wait(next), lets_down);
      sync_wait(after);
      sync_wait(s.completion());
      CHECK(went_on);
      CHECK(next.ready());
      CHECK(nobody.seen().empty());
    });
  }

  TEST_CASE("enqueue: completion throws it, too") {
    on_each_device([](const device_under_test& d) {
      const unobserved nobody;
      stream s = d.make_stream();
      give_what_throws(s);
      CHECK_THROWS_AS(sync_wait(s.completion()), lets_down);
      sync_wait(s.completion());
      CHECK(nobody.seen().empty());
    });
  }

  TEST_CASE(
      "enqueue: of several errors before one place the first is thrown, the others are told") {
    on_each_device([](const device_under_test& d) {
      const unobserved nobody;
      stream s = d.make_stream();
      give_what_throws(s);
      s.enqueue([] { throw std::logic_error("later"); });
      CHECK_THROWS_AS(sync_wait(s.completion()), lets_down);
      sync_wait(s.completion());
      REQUIRE(nobody.seen().size() == 1);
      CHECK_THROWS_AS(std::rethrow_exception(nobody.seen().front().error), std::logic_error);
    });
  }

  TEST_CASE("enqueue: an error that nobody waits for is told once") {
    on_each_device([](const device_under_test& d) {
      const unobserved nobody;
      stream s = d.make_stream();
      give_what_throws(s);
      static_cast<void>(s.record());
      sync_wait(s.completion());
      wait_until([&] { return !nobody.seen().empty(); });
      CHECK(nobody.seen().size() == 1);
      CHECK_THROWS_AS(std::rethrow_exception(nobody.seen().front().error), lets_down);
    });
  }

  TEST_CASE("enqueue: an error with no place behind it is told once") {
    on_each_device([](const device_under_test& d) {
      const unobserved nobody;
      {
        stream s = d.make_stream();
        give_what_throws(s);
      }
      wait_until([&] { return !nobody.seen().empty(); });
      stream other = d.make_stream();
      sync_wait(other.completion());
      CHECK(nobody.seen().size() == 1);
    });
  }

  // --- the life of streams -----------------------------------------------------------------------

  TEST_CASE("stream: moved, it goes on") {
    on_each_device([](const device_under_test& d) {
      ids list;
      stream s = d.make_stream();
      s.enqueue([&list] { list.push_back(0); });
      stream moved = std::move(s);
      moved.enqueue([&list] { list.push_back(1); });
      sync_wait(moved.completion());
      CHECK(list == ids{0, 1});
      std::atomic<bool> ran = false;
      stream other = d.make_stream();
      other.enqueue([&ran] { ran = true; });
      other = std::move(moved);
      other.enqueue([&list] { list.push_back(2); });
      sync_wait(other.completion());
      CHECK(list == ids{0, 1, 2});
      wait_until([&] { return ran.load(); });
    });
  }

  TEST_CASE("stream: what was given is still done after its end") {
    on_each_device([](const device_under_test& d) {
      std::atomic<int> ran = 0;
      std::optional<stream> s(d.make_stream());
      brake held(d, *s);
      for (int i = 0; i != 200; ++i) s->enqueue([&ran] { ++ran; });
      s.reset();
      CHECK(ran == 0);
      held.let_go();
      wait_until([&] { return ran == 200; });
    });
  }

  TEST_CASE("stream: many short ones") {
    on_each_device([](const device_under_test& d) {
      std::atomic<int> ran = 0;
      for (int i = 0; i != 200; ++i) {
        stream s = d.make_stream();
        s.enqueue([&ran] { ++ran; });
        if (i % 2 == 0) sync_wait(s.completion());
      }
      wait_until([&] { return ran == 200; });
    });
  }

  // --- buffers -----------------------------------------------------------------------------------

  TEST_CASE("device_buffer: sizes") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      const device_buffer<double> some(s, 100);
      CHECK(some.size() == 100);
      CHECK(some.data() != nullptr);
      CHECK(some.where() == d.where());
      CHECK(reinterpret_cast<std::uintptr_t>(some.data()) % alignof(std::max_align_t) == 0);
      const device_buffer<double> none(s, 0);
      CHECK(none.size() == 0);
      CHECK(none.data() == nullptr);
      constexpr std::size_t too_many = std::numeric_limits<std::size_t>::max() / 2;
      CHECK_THROWS_AS(device_buffer<double>(s, too_many), std::bad_alloc);
      sync_wait(s.completion());
    });
  }

  TEST_CASE("device_buffer: assigned to itself it keeps what it has") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      device_buffer<int> b(s, 10);
      const int* const before = b.data();
      device_buffer<int>& same = b;
      b = std::move(same);
      CHECK(b.data() == before);
      CHECK(b.size() == 10);
      sync_wait(s.completion());
    });
  }

  TEST_CASE("device_buffer: copies there and back") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      const ids from = first_numbers(1000);
      ids to(1000);
      device_buffer<int> first(s, 1000);
      device_buffer<int> second(s, 1000);
      s.copy(first.data(), from.data(), 1000 * sizeof(int));
      s.copy(second.data(), first.data(), 1000 * sizeof(int));
      s.copy(to.data(), second.data(), 1000 * sizeof(int));
      sync_wait(s.completion());
      CHECK(to == from);
    });
  }

  TEST_CASE("device_buffer: moved and assigned") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      device_buffer<int> a(s, 10);
      int* const at = a.data();
      device_buffer<int> b = std::move(a);
      CHECK(b.data() == at);
      CHECK(b.size() == 10);
      device_buffer<int> c(s, 20);
      c = std::move(b);
      CHECK(c.data() == at);
      CHECK(c.size() == 10);
      CHECK(c.where() == d.where());
      const int three = 3;
      int seen = 0;
      s.copy(c.data(), &three, sizeof three);
      s.copy(&seen, c.data(), sizeof seen);
      sync_wait(s.completion());
      CHECK(seen == 3);
    });
  }

  TEST_CASE("device_buffer: is freed after what its stream was given before its end") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      const int five = 5;
      int seen = 0;
      {
        device_buffer<int> b(s, 100);
        s.copy(b.data() + 99, &five, sizeof five);
        s.copy(&seen, b.data() + 99, sizeof seen);
      }
      sync_wait(s.completion());
      CHECK(seen == 5);
    });
  }

  TEST_CASE("device_buffer: another stream uses it after an event, and frees nothing too soon") {
    on_each_device([](const device_under_test& d) {
      stream mine = d.make_stream();
      stream other = d.make_stream();
      const ids from = first_numbers(500);
      ids to(500);
      {
        device_buffer<int> b(mine, 500);
        mine.copy(b.data(), from.data(), 500 * sizeof(int));
        other.wait(mine.record());
        other.copy(to.data(), b.data(), 500 * sizeof(int));
        mine.wait(other.record());
      }
      sync_wait(other.completion());
      CHECK(to == from);
      sync_wait(mine.completion());
    });
  }

  TEST_CASE("device_buffer: is used and freed in order though nothing has run yet") {
    on_each_device([](const device_under_test& d) {
      if (!d.is_host()) return;
      manual_executor m;
      const int five = 5;
      int seen = 0;
      event e;
      {
        stream s = d.make_stream(m);
        const device_buffer<int> b(s, 100);
        s.copy(b.data() + 99, &five, sizeof five);
        s.copy(&seen, b.data() + 99, sizeof seen);
        e = s.record();
      }
      CHECK(seen == 0);
      m.run();
      CHECK(seen == 5);
      wait_until([&] { return e.ready(); });
    });
  }

  // --- the host device, step by step -------------------------------------------------------------

  TEST_CASE("host: the executor does the work, and nobody else") {
    on_each_device([](const device_under_test& d) {
      if (!d.is_host()) return;
      manual_executor m;
      stream s = d.make_stream(m);
      ids list;
      s.enqueue([&list] { list.push_back(0); });
      s.enqueue([&list] { list.push_back(1); });
      const event e = s.record();
      CHECK(m.pending() == 1);  // the stream, and not each piece
      CHECK(list.empty());
      CHECK_FALSE(e.ready());
      m.run();
      CHECK(list == ids{0, 1});
      wait_until([&] { return e.ready(); });
      CHECK(m.pending() == 0);
    });
  }

  TEST_CASE("host: a stream that waits for another one leaves its executor alone") {
    on_each_device([](const device_under_test& d) {
      if (!d.is_host()) return;
      manual_executor first_runs;
      manual_executor second_runs;
      stream first = d.make_stream(first_runs);
      stream second = d.make_stream(second_runs);
      bool ran = false;
      const event e = first.record();
      second.wait(e);
      second.enqueue([&ran] { ran = true; });
      second_runs.run();
      CHECK_FALSE(ran);
      CHECK(second_runs.pending() == 0);
      first_runs.run();
      wait_until([&] { return e.ready(); });
      wait_until([&] { return second_runs.run() != 0; });
      CHECK(ran);
    });
  }

  TEST_CASE("host: a long stream lets other jobs of its executor have their turn") {
    manual_executor m;
    stream long_one(device::host(), {.executor = m});
    stream other(device::host(), {.executor = m});
    int done = 0;
    int done_before_other = 0;
    for (int i = 0; i != 1000; ++i) long_one.enqueue([&done] { ++done; });
    other.enqueue([&] { done_before_other = done; });
    m.run();
    CHECK(done == 1000);
    CHECK(done_before_other < 1000);
  }

  TEST_CASE("host: a buffer is as aligned as its type, as on a GPU") {
    struct alignas(256) wide {
      std::byte bytes[256];
    };
    stream s;
    int misaligned = 0;
    for (int i = 0; i != 16; ++i) {
      const device_buffer<wide> b(s, 1);
      misaligned += reinterpret_cast<std::uintptr_t>(b.data()) % alignof(wide) != 0;
    }
    CHECK(misaligned == 0);
    sync_wait(s.completion());
  }

  TEST_CASE("host: an enqueued callable may give more to its stream") {
    on_each_device([](const device_under_test& d) {
      if (!d.is_host()) return;
      stream s = d.make_stream();
      ids list;
      event second;
      s.enqueue([&] {
        list.push_back(0);
        s.enqueue([&list] { list.push_back(1); });
        second = s.record();
      });
      sync_wait(s.completion());
      sync_wait(second);
      CHECK(list == ids{0, 1});
    });
  }

  TEST_CASE("host: a polled stream and one that is not wait for each other") {
    stream pushed(device::host());
    stream polled(device::host(), {.polled = true});
    ids list;
    for (int i = 0; i != 100; ++i) {
      pushed.enqueue([&list, i] { list.push_back(2 * i); });
      polled.wait(pushed.record());
      polled.enqueue([&list, i] { list.push_back(2 * i + 1); });
      pushed.wait(polled.record());
    }
    sync_wait(pushed.completion());
    CHECK(list == first_numbers(200));
  }

  // --- contract breaks: on the host, where no thread is needed for them, but every device has
  // these awaiters --

  TEST_CASE("completion: awaiting one twice, or one that was moved from, aborts") {
    const auto check_dies = [](auto f) { support::check_dies(f, "a wait for a device is"); };
    check_dies([] { await_twice(event().operator co_await()); });
    check_dies([] { await_moved_from(event().operator co_await()); });
    check_dies([] {
      manual_executor m;
      stream s(device::host(), {.executor = m});
      loop l;
      std::optional<foreign> f;
      run_on(l, [&] { f.emplace(await_twice(s.completion())); });
      m.run();
      l.run();
    });
    check_dies([] {
      manual_executor m;
      stream s(device::host(), {.executor = m});
      await_moved_from(s.completion());
    });
  }

  TEST_CASE("completion: destroying a coroutine that waits for a device aborts") {
    const auto child = [] {
      manual_executor m;
      stream s(device::host(), {.executor = m});
      bool over = false;
      loop l;
      std::optional<foreign> f;
      run_on(l, [&] { f.emplace(await_in_foreign(s.completion(), over)); });
      f.reset();
    };
    support::check_dies(child, "while it waits for a device");
  }

  TEST_CASE("completion: its awaiter is movable and no copy") {
    static_assert(std::is_move_constructible_v<detail::completion_awaiter>);
    static_assert(!std::is_copy_constructible_v<detail::completion_awaiter>);
    static_assert(std::is_nothrow_move_constructible_v<stream>);
    static_assert(!std::is_copy_constructible_v<stream>);
    static_assert(std::is_nothrow_copy_constructible_v<event>);
  }
}
