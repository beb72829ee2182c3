// lost_sections.cpp - sections whose data was on a GPU that is lost: nobody waits for ever, nobody
// gets in.

#include "device/engine.hpp"
#include "device/fake_gpu.hpp"
#include "device/gpus.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"
#include "support/unobserved.hpp"

#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace turnstile;
using device_tests::gpus;
using device_tests::losses;
using device_tests::running_callable;
using device_tests::until;

namespace {

constexpr int illegal_address = 700;

template <class A>
task<> note_end(A a, std::vector<std::string>& ends) {
  try {
    co_await std::move(a);
    ends.emplace_back("done");
  } catch (const device_error& e) {
    ends.emplace_back(e.lost() ? "lost: " + e.name() : e.name());
  }
}

constexpr auto submits = [](stream& s) { fake::launch(s.native_handle(), [] {}); };

// Two GPUs of which one will be lost, and what is heard of that.
struct gpu_to_lose {
  template <class A>
  void spawn(A a) {
    scope.spawn(note_end(std::move(a), ends));
  }
  void run_until_ended(std::size_t n) {
    until([&] {
      l.run();
      return ends.size() == n;
    });
  }

  const losses devices;
  const gpus g{fake::table(), gpus::afterwards::lost};
  support::loop l;
  std::vector<std::string> ends;
  async_scope scope{{.executor = l}};
};

}  // namespace

TEST_SUITE("device") {
  TEST_CASE("lost: all who wait in a section of a lost device hear of it, and later ones at once") {
    gpu_to_lose t;
    critical_section cs({.name = "weights", .place = device::cuda(0)});
    bool ran = false;
    const auto looks = [&ran] { ran = true; };
    t.spawn(cs.execute(submits));
    t.spawn(cs.execute(submits));
    t.spawn(cs.execute(looks));
    t.spawn(cs.execute(submits));
    t.l.run();
    CHECK(cs.statistics().executions == 2);
    fake::lose(0, illegal_address);
    t.run_until_ended(4);
    for (const std::string& e : t.ends) CHECK(e.starts_with("lost: "));
    CHECK(t.devices.seen() == std::vector<device>{device::cuda(0)});
    CHECK_FALSE(ran);

    t.spawn(cs.execute(looks));
    t.spawn(cs.execute(submits));
    t.l.run();
    CHECK(t.ends.size() == 6);
    CHECK(t.ends[4].starts_with("lost: "));
    CHECK(t.ends[5].starts_with("lost: "));
    const std::uint64_t refused = cs.statistics().refused;
    CHECK_THROWS_AS(sync_wait(cs.execute(looks)), device_error);
    CHECK_THROWS_AS(cs.execute_blocking(looks), device_error);
    CHECK_THROWS_AS(cs.try_execute(looks), device_error);
    CHECK_THROWS_AS(cs.try_lock(), device_error);
    CHECK_THROWS_AS(sync_wait(cs.lock()), device_error);
    CHECK_THROWS_AS(cs.post(looks), device_error);
    CHECK(cs.statistics().refused == refused + 6);
    CHECK_FALSE(ran);
    sync_wait(cs.close());
    sync_wait(t.scope.join());
  }

  TEST_CASE("lost: a section that is handed on at completion is lost as well") {
    gpu_to_lose t;
    critical_section cs({.place = device::cuda(0), .hand_on = turnstile::release::completion});
    bool ran = false;
    const auto looks = [&ran] { ran = true; };
    t.spawn(cs.execute(submits));
    t.spawn(cs.execute(looks));
    t.l.run();
    fake::lose(0, illegal_address);
    t.run_until_ended(2);
    for (const std::string& e : t.ends) CHECK(e.starts_with("lost: "));
    CHECK_THROWS_AS(cs.try_execute(looks), device_error);
    CHECK_FALSE(ran);
    sync_wait(t.scope.join());
  }

  TEST_CASE("lost: a section is lost also if another device has followed the one that is") {
    gpu_to_lose t;
    critical_section cs;
    bool ran = false;
    const auto looks = [&ran] { ran = true; };
    stream on_lost(device::cuda(0));
    stream on_other(device::cuda(1));
    t.spawn(cs.execute(submits, {.on = &on_lost}));
    t.spawn(cs.execute(submits, {.on = &on_other}));
    t.l.run();
    CHECK(cs.statistics().executions == 2);
    fake::lose(0, illegal_address);
    t.run_until_ended(1);
    CHECK(t.ends[0].starts_with("lost: "));
    fake::go_by_itself(true);
    t.run_until_ended(2);
    CHECK(t.ends[1] == "done");
    CHECK_THROWS_AS(cs.execute_blocking(looks), device_error);
    CHECK_FALSE(ran);
    sync_wait(t.scope.join());
  }

  TEST_CASE("lost: a section is lost also if the loss is noticed after another error") {
    gpu_to_lose t;
    critical_section cs({.place = device::cuda(0)});
    bool ran = false;
    const auto looks = [&ran] { ran = true; };
    fake::fail(fake::call::event_record, 1, 400);
    fake::fail(fake::call::event_record, 2, illegal_address);
    t.spawn(cs.execute(submits));
    t.run_until_ended(1);
    CHECK(t.ends[0].starts_with("lost: "));
    CHECK(t.devices.seen() == std::vector<device>{device::cuda(0)});
    CHECK_THROWS_AS(cs.execute_blocking(looks), device_error);
    CHECK_FALSE(ran);
    sync_wait(t.scope.join());
  }

  TEST_CASE("lost: who waits for a condition hears of it, and the condition is not asked") {
    for (const bool is_aside : {false, true}) {
      CAPTURE(is_aside);
      gpu_to_lose t;
      critical_section cs({.name = "weights", .place = device::cuda(0)});
      bool lost = false;
      bool asked = false;
      bool ran = false;
      const auto never = [&] {
        asked = asked || lost;
        return false;
      };
      const auto when = [&] { return cs.execute_when(never, [&ran] { ran = true; }); };
      if (is_aside) t.spawn(when());
      t.spawn(cs.execute(submits));
      t.spawn(when());
      t.l.run();
      lost = true;
      fake::lose(0, illegal_address);
      t.run_until_ended(is_aside ? 3 : 2);
      for (const std::string& e : t.ends) CHECK(e.starts_with("lost: "));
      CHECK_FALSE(asked);
      CHECK_FALSE(ran);
      sync_wait(t.scope.join());
    }
  }

  TEST_CASE("lost: a section whose first body ends the device is lost") {
    gpu_to_lose t;
    critical_section cs({.name = "weights", .place = device::cuda(0)});
    bool ran = false;
    const auto looks = [&ran] { ran = true; };
    fake::fail(fake::call::event_record, 1, illegal_address);
    t.spawn(cs.execute(submits));
    t.run_until_ended(1);
    CHECK(t.ends[0].starts_with("lost: "));
    CHECK_THROWS_AS(cs.try_execute(looks), device_error);
    CHECK_FALSE(ran);
    sync_wait(t.scope.join());
  }

  TEST_CASE("lost: who asked for a body goes on once no callable of it runs any more") {
    for (const auto hand_on : {turnstile::release::submission, turnstile::release::completion}) {
      for (const bool is_heard_within : {false, true}) {
        CAPTURE(is_heard_within);
        gpu_to_lose t;
        const support::unobserved none;
        std::optional<critical_section> cs(
            std::in_place, section_options{.place = device::cuda(0), .hand_on = hand_on});
        stream on(device::cuda(0));
        stream other(device::cuda(0));
        running_callable callable;
        const auto body = [&](stream& s) {
          callable.give_to(s);
          callable.begin();
          fake::lose(0, illegal_address);
          if (is_heard_within) CHECK_THROWS_AS(other.record(), device_error);
        };
        t.spawn(cs->execute(body, {.on = &on}));
        for (int i = 0; i != 10; ++i) {
          t.l.run();
          detail::engine::the().poll();
          CHECK(t.ends.empty());
        }
        callable.end();
        t.run_until_ended(1);
        CHECK(t.ends[0].starts_with("lost: "));
        const auto looks = [] {};
        CHECK_THROWS_AS(cs->execute_blocking(looks), device_error);
        sync_wait(t.scope.join());
        cs.reset();
        CHECK(none.seen().empty());
      }
    }
  }

  TEST_CASE("lost: who is to wait for a body on a lost device hears of the loss") {
    gpu_to_lose t;
    critical_section cs({.place = device::cuda(0)});
    stream on(device::cuda(0));
    stream other(device::cuda(0));
    stream elsewhere(device::cuda(1));
    running_callable callable;
    const auto body = [&](stream& s) {
      callable.give_to(s);
      callable.begin();
      fake::lose(0, illegal_address);
    };
    auto handle = cs.submit(body, {.on = &on});
    sync_wait(handle.submitted());
    for (stream* const s : {&other, &elsewhere}) {
      bool lost = false;
      try {
        handle.wait_on(*s);
      } catch (const device_error& e) {
        lost = e.lost();
      }
      CHECK(lost);
    }
    callable.end();
    CHECK_THROWS_AS(sync_wait(handle), device_error);
    sync_wait(t.scope.join());
  }

  TEST_CASE("lost: a callable of a body that the device calls late does not run") {
    gpu_to_lose t;
    critical_section cs;
    stream on(device::cuda(0));
    bool ran = false;
    const auto body = [&ran](stream& s) {
      s.enqueue([&ran] { ran = true; });
      fake::lose(0, illegal_address);
    };
    t.spawn(cs.execute(body, {.on = &on}));
    t.run_until_ended(1);
    CHECK(t.ends[0].starts_with("lost: "));
    CHECK(fake::call_late() == 1);
    CHECK_FALSE(ran);
    sync_wait(t.scope.join());
  }

  TEST_CASE("not begun: who waits for that inside the section hears why, and of no deadlock") {
    const gpus g;
    support::loop l;
    critical_section cs({.name = "weights", .place = device::cuda(0)});
    fake::fail(fake::call::stream_create, 1, 2);
    section_guard busy = support::hold(cs);
    std::optional<execution_handle<void>> handle;
    std::vector<std::string> ends;
    async_scope scope{{.executor = l}};
    scope.spawn([](auto& section, auto& h) -> task<> {
      h.emplace(section.submit(submits));
      co_return;
    }(cs, handle));
    const auto waits = [&handle]() -> task<> { co_await *handle; };
    scope.spawn(note_end(cs.execute(waits), ends));
    l.run();
    busy.unlock();
    l.run();
    sync_wait(scope.join());
    CHECK(ends == std::vector<std::string>{"cudaErrorMemoryAllocation"});
  }

  TEST_CASE("lost: a section of the host goes on, and one of the other GPU") {
    gpu_to_lose t;
    critical_section lost({.name = "lost", .place = device::cuda(0)});
    critical_section other({.name = "other", .place = device::cuda(1)});
    critical_section host;
    const auto looks = [] {};
    t.spawn(lost.execute(submits));
    t.l.run();
    fake::lose(0, illegal_address);
    t.run_until_ended(1);
    fake::go_by_itself(true);
    t.spawn(host.execute(looks));
    t.spawn(other.execute(submits));
    t.run_until_ended(3);
    CHECK(t.ends[1] == "done");
    CHECK(t.ends[2] == "done");
    sync_wait(t.scope.join());
  }
}
