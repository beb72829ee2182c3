// section_conformance.cpp - sections whose bodies only submit, the same on every kind of device.
//
// Everything step by step, on the host device: sections.cpp.

#include "device/device_under_test.hpp"
#include "support/loop.hpp"
#include "support/unobserved.hpp"

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <doctest/doctest.h>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace turnstile;
using support::brake;
using support::device_under_test;
using support::loop;
using support::on_each_device;
using support::unobserved;
using support::wait_until;

namespace {

using support::first_numbers;
using support::ids;

// What bodies and the work they submit leave behind, in the order in which it happened.
struct trace {
  ids bodies;   // by the section
  ids work;     // by the device
  ids resumed;  // on the loop
};

template <class Predicate>
void run_until(loop& l, Predicate is_so) {
  wait_until([&] {
    l.run();
    return is_so();
  });
}

// The work of others may still be under way when this goes on.
task<> submit_and_note(critical_section& cs, stream& on, trace& all, int id) {
  bool is_done = false;
  auto body = [&all, &is_done, id](stream& s) {
    all.bodies.push_back(id);
    s.enqueue([&all, &is_done, id] {
      all.work.push_back(id);
      is_done = true;
    });
    return id;
  };
  const int got = co_await cs.execute(body, {.on = &on});
  all.resumed.push_back(id);
  if (got != id) throw std::logic_error("the answer of another one");
  if (!is_done) throw std::logic_error("resumed too soon");
}

task<> note_on_host(critical_section& cs, trace& all, int id, std::size_t& seen) {
  auto body = [&all, &seen, id] {
    all.bodies.push_back(id);
    seen = all.work.size();
  };
  co_await cs.execute(body);
  all.resumed.push_back(id);
}

// A number on the device, that one execution after the other adds one to. On a GPU what adds runs
// on the host, for kernels need another compiler.
class device_number {
 public:
  explicit device_number(stream& s) : there_(s, 1) {
    const long zero = 0;
    s.copy(there_.data(), &zero, sizeof zero);
    sync_wait(s.completion());
  }

  // `before` has to outlive the work.
  void add_one(stream& s, long& before) {
    s.copy(&before, there_.data(), sizeof before);
    s.enqueue([this, &before] { sum_ = before + 1; });
    s.copy(there_.data(), &sum_, sizeof sum_);
  }
  // On the host, which may look at it between executions only.
  long read(stream& s) {
    long now = -1;
    s.copy(&now, there_.data(), sizeof now);
    sync_wait(s.completion());
    return now;
  }

  device_buffer<long>& buffer() { return there_; }

 private:
  device_buffer<long> there_;
  long sum_ = 0;  // of the execution whose turn it is on the device
};

task<> add_often(critical_section& cs, device_number& n, stream& on, long times, ids& values) {
  for (long i = 0; i != times; ++i) {
    long before = -1;
    auto body = [&](stream& s) { n.add_one(s, before); };
    co_await cs.execute(body, {.on = &on});
    values.push_back(static_cast<int>(before));
  }
}

task<> look_often(critical_section& cs, device_number& n, stream& by, int times, ids& values) {
  for (int i = 0; i != times; ++i) {
    auto body = [&] { values.push_back(static_cast<int>(n.read(by))); };
    co_await cs.execute(body);
    co_await yield();
  }
}

// Each of 8 streams sees its own values rise, and all together see each value once.
void add_from_8_streams(const device_under_test& d, const section_options& options, int lookers) {
  constexpr int each = 125;
  stream first = d.make_stream();
  stream looks = d.make_stream();
  device_number n(first);
  critical_section cs(options);
  thread_pool pool{2};
  std::deque<stream> streams;
  std::array<ids, 8> values;
  ids looked;
  async_scope scope{{.executor = pool}};
  for (ids& v : values) {
    stream& on = streams.emplace_back(d.make_stream());
    scope.spawn(add_often(cs, n, on, each, v));
  }
  for (int i = 0; i != lookers; ++i) scope.spawn(look_often(cs, n, looks, 20, looked));
  sync_wait(scope.join());
  ids all;
  for (const ids& v : values) {
    CHECK(std::ranges::is_sorted(v));
    all.insert(all.end(), v.begin(), v.end());
  }
  std::ranges::sort(all);
  CHECK(all == first_numbers(8 * each));
  CHECK(n.read(first) == 8 * each);
  CHECK(std::ranges::is_sorted(looked));
  CHECK(looked.size() == static_cast<std::size_t>(20 * lookers));
}

void says_when_submitted(const device_under_test& d, turnstile::release hand_on) {
  stream s = d.make_stream();
  stream other = d.make_stream();
  critical_section cs(section_options{.place = d.where(), .hand_on = hand_on});
  int written = 0;
  int seen = 0;
  auto body = [&written](stream& on) {
    on.enqueue([&written] { written = 4; });
    return 6;
  };
  brake held(d, s);
  auto handle = cs.submit(body, {.on = &s});
  sync_wait(handle.submitted());
  handle.wait_on(other);
  other.enqueue([&] { seen = written; });
  CHECK_FALSE(handle.ready());
  held.let_go();
  CHECK(sync_wait(handle) == 6);
  sync_wait(other.completion());
  CHECK(seen == 4);
}

}  // namespace

TEST_SUITE("device") {
  TEST_CASE(
      "section: is handed on at submission, and each caller goes on when its work is complete") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      critical_section cs(section_options{.place = d.where()});
      loop l;
      trace all;
      async_scope scope{{.executor = l}};
      {
        brake held(d, s);
        for (int i = 0; i != 30; ++i) scope.spawn(submit_and_note(cs, s, all, i));
        l.run();
        CHECK(all.bodies == first_numbers(30));
        CHECK(all.resumed.empty());
      }
      run_until(l, [&] { return all.resumed.size() == 30; });
      CHECK(all.work == first_numbers(30));
      CHECK(all.resumed == first_numbers(30));
      sync_wait(scope.join());
    });
  }

  TEST_CASE("section: the work of several streams is done in the order of the bodies") {
    on_each_device([](const device_under_test& d) {
      std::deque<stream> streams;
      for (int i = 0; i != 4; ++i) streams.push_back(d.make_stream());
      critical_section cs(section_options{.place = d.where()});
      loop l;
      trace all;
      async_scope scope{{.executor = l}};
      {
        brake held(d, streams[0]);
        for (int i = 0; i != 40; ++i) {
          scope.spawn(submit_and_note(cs, streams[static_cast<std::size_t>(i) % 4], all, i));
        }
        l.run();
        CHECK(all.bodies == first_numbers(40));
        CHECK(all.resumed.empty());
      }
      run_until(l, [&] { return all.resumed.size() == 40; });
      CHECK(all.work == first_numbers(40));
      sync_wait(scope.join());
    });
  }

  TEST_CASE(
      "section: a host execution sees what the device was given before, and is not overtaken") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      critical_section cs(section_options{.place = d.where()});
      loop l;
      trace all;
      std::size_t seen = 0;
      async_scope scope{{.executor = l}};
      {
        brake held(d, s);
        scope.spawn(submit_and_note(cs, s, all, 0));
        scope.spawn(submit_and_note(cs, s, all, 1));
        scope.spawn(note_on_host(cs, all, 2, seen));
        scope.spawn(submit_and_note(cs, s, all, 3));
        l.run();
        CHECK(all.bodies == ids{0, 1});
      }
      run_until(l, [&] { return all.resumed.size() == 4; });
      CHECK(seen == 2);
      CHECK(all.bodies == first_numbers(4));
      CHECK(all.work == ids{0, 1, 3});
      sync_wait(scope.join());
    });
  }

  TEST_CASE("section: released at completion, the next body sees what the one before left") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      critical_section cs(section_options{.place = d.where(), .hand_on = release::completion});
      loop l;
      trace all;
      bool in_turn = true;
      const auto ask = [&](int id) -> task<> {
        auto body = [&, id](stream& on) {
          in_turn &= all.work.size() == static_cast<std::size_t>(id);
          all.bodies.push_back(id);
          on.enqueue([&, id] { all.work.push_back(id); });
        };
        co_await cs.execute(body, {.on = &s});
        all.resumed.push_back(id);
      };
      async_scope scope{{.executor = l}};
      {
        brake held(d, s);
        for (int i = 0; i != 20; ++i) scope.spawn(ask(i));
        l.run();
        CHECK(all.bodies == ids{0});
      }
      run_until(l, [&] { return all.resumed.size() == 20; });
      CHECK(in_turn);
      CHECK(all.work == first_numbers(20));
      CHECK(all.resumed == first_numbers(20));
      sync_wait(scope.join());
    });
  }

  TEST_CASE("section: no more than max_in_flight are submitted and not complete") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      critical_section cs(section_options{.place = d.where(), .max_in_flight = 3});
      loop l;
      trace all;
      async_scope scope{{.executor = l}};
      {
        brake held(d, s);
        for (int i = 0; i != 10; ++i) scope.spawn(submit_and_note(cs, s, all, i));
        l.run();
        CHECK(all.bodies == first_numbers(3));
      }
      run_until(l, [&] { return all.resumed.size() == 10; });
      CHECK(all.work == first_numbers(10));
      sync_wait(scope.join());
    });
  }

  TEST_CASE("section: has a stream of its own where it is placed") {
    on_each_device([](const device_under_test& d) {
      critical_section cs(section_options{.place = d.where()});
      device where = device::any();
      int ran = 0;
      auto body = [&](stream& s) {
        where = s.where();
        s.enqueue([&ran] { ++ran; });
        return 5;
      };
      CHECK(sync_wait(cs.execute(body)) == 5);
      CHECK(where == d.where());
      CHECK(ran == 1);
    });
  }

  TEST_CASE("section: what a body or its work throws comes at completion, to its own caller") {
    on_each_device([](const device_under_test& d) {
      const unobserved nobody;
      stream s = d.make_stream();
      critical_section cs(section_options{.place = d.where()});
      int ran = 0;
      auto body_throws = [&ran](stream& on) {
        on.enqueue([&ran] { ++ran; });
        throw std::domain_error("the body");
      };
      auto work_throws = [](stream& on) { on.enqueue([] { throw std::range_error("the work"); }); };
      auto neither = [&ran](stream& on) { on.enqueue([&ran] { ++ran; }); };
      CHECK_THROWS_AS(sync_wait(cs.execute(body_throws, {.on = &s})), std::domain_error);
      CHECK(ran == 1);
      CHECK_THROWS_AS(sync_wait(cs.execute(work_throws, {.on = &s})), std::range_error);
      sync_wait(cs.execute(neither, {.on = &s}));
      CHECK(ran == 2);
      CHECK(nobody.seen().empty());
    });
  }

  TEST_CASE("section: submit says when the work has its place, and streams wait for it") {
    on_each_device([](const device_under_test& d) {
      says_when_submitted(d, release::submission);
      says_when_submitted(d, release::completion);
    });
  }

  TEST_CASE("section: a device variable, 8 streams, each value once and in order") {
    on_each_device(
        [](const device_under_test& d) { add_from_8_streams(d, {.place = d.where()}, 0); });
  }

  TEST_CASE("section: a device variable, 8 streams, and host executions in between") {
    on_each_device(
        [](const device_under_test& d) { add_from_8_streams(d, {.place = d.where()}, 2); });
  }

  TEST_CASE("section: a device variable, 8 streams, released at completion") {
    on_each_device([](const device_under_test& d) {
      add_from_8_streams(d, {.place = d.where(), .hand_on = release::completion}, 2);
    });
  }

  TEST_CASE("section: a buffer of its device may be used, one of another device is refused") {
    on_each_device([](const device_under_test& d) {
      stream s = d.make_stream();
      stream host;
      device_number n(s);
      critical_section cs(section_options{.place = d.where()});
      critical_section elsewhere(section_options{.place = device::cuda(7)});
      long before = -1;
      auto body = [&](stream& on) { n.add_one(on, before); };
      sync_wait(cs.execute(body, {.uses = n.buffer(), .on = &s}));
      CHECK(before == 0);
      bool ran = false;
      auto not_to_run = [&ran](stream&) { ran = true; };
      CHECK_THROWS_AS(sync_wait(elsewhere.execute(not_to_run, {.on = &s})), device_mismatch_error);
      CHECK_THROWS_AS(sync_wait(elsewhere.execute(not_to_run, {.uses = n.buffer(), .on = &host})),
                      device_mismatch_error);
      CHECK_FALSE(ran);
      CHECK(n.read(s) == 1);
    });
  }
}
