// no_memory.cpp - streams of GPUs for want of memory: awaiting a place takes none, and what has to
// go on without it does.
//
// A program of its own, because it replaces the global operator new. The runtime of the tests takes
// what it wants.

#include "base/captured.hpp"
#include "device/fake_gpu.hpp"
#include "device/gpus.hpp"
#include "support/child_process.hpp"
#include "support/counted.hpp"
#include "support/device_awaits.hpp"
#include "support/own_new.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using detail::gpu_api;
using device_tests::gpus;
using device_tests::until;
using support::counted;

namespace {

constexpr long all_succeed = -1;

std::atomic<long> allocations{0};
thread_local long left = all_succeed;  // until they fail, all or only one
thread_local bool only_one = false;
thread_local bool is_runtime = false;  // its memory is its own
thread_local bool stops = false;       // at the next one, until it may go on
std::atomic<bool> has_stopped{false};
std::atomic<bool> may_go_on{false};

}  // namespace

void support::before_allocation() {
  if (is_runtime) return;
  if (std::exchange(stops, false)) {
    has_stopped = true;
    until([] { return may_go_on.load(); });
  }
  ++allocations;
  if (left == all_succeed) return;
  if (left > 0) {
    --left;
    return;
  }
  if (only_one) left = all_succeed;
  throw std::bad_alloc();
}

namespace {

// In this scope the thread has no memory; or only its n-th allocation, from 0 on, fails.
class no_memory {
 public:
  no_memory() noexcept {
    left = 0;
    only_one = false;
  }
  explicit no_memory(long n) noexcept {
    left = n;
    only_one = true;
  }
  ~no_memory() { left = all_succeed; }
  no_memory(const no_memory&) = delete;
  no_memory& operator=(const no_memory&) = delete;

  static bool has_failed() noexcept { return left == all_succeed; }
};

// A function of the runtime, in which nothing is counted and nothing fails.
template <auto Function>
struct apart;
template <class... A, int (*gpu_api::*Function)(A...)>
struct apart<Function> {
  static int call(A... a) {
    const bool before = std::exchange(is_runtime, true);
    const int code = (fake::table().*Function)(a...);
    is_runtime = before;
    return code;
  }
};

template <auto... Functions>
gpu_api table_with() {
  gpu_api api = fake::table();
  ((api.*Functions = &apart<Functions>::call), ...);
  return api;
}

// Those that keep work, or do it.
const gpu_api& table() {
  static const gpu_api it =
      table_with<&gpu_api::stream_create, &gpu_api::stream_query, &gpu_api::stream_synchronize,
                 &gpu_api::stream_wait_event, &gpu_api::event_create, &gpu_api::event_record,
                 &gpu_api::event_query, &gpu_api::event_synchronize, &gpu_api::memcpy_async,
                 &gpu_api::malloc_async, &gpu_api::free_async, &gpu_api::launch_host_func>();
  return it;
}

// Makes `n` places at once and waits for them: afterwards there are as many to be used again.
void prepare_places(stream& s, int n) {
  std::vector<event> all;
  for (int i = 0; i != n; ++i) all.push_back(s.record());
  fake::finish_all();
  for (const event& e : all) sync_wait(e);
}

// Of those that are lost while it lives, how many were told of. Takes no memory.
class losses {
 public:
  losses() {
    told_ = 0;
    on_device_lost([](device, const device_error& e) { told_ += e.lost() ? 1 : 0; });
  }
  ~losses() { on_device_lost(nullptr); }
  losses(const losses&) = delete;
  losses& operator=(const losses&) = delete;

  int told() const { return told_; }

 private:
  static inline std::atomic<int> told_{0};
};

struct loss {
  bool has_failed = false;  // an allocation
  std::string text;
};

// Loses a device while `none` of its thread's allocations succeed, or one does not.
template <class... N>
loss lose_without_memory(N... n) {
  const losses heard;
  const gpus g(table(), gpus::afterwards::lost);
  stream s(device::cuda(0));
  const device_buffer<int> there(s, 1);
  prepare_places(s, 1);
  loss seen;
  fake::fail(fake::call::memcpy_async, 1, 719);
  std::exception_ptr error;
  {
    const no_memory from_here(n...);
    try {
      s.copy(there.data(), there.data(), sizeof(int));
    } catch (...) {
      error = std::current_exception();
    }
    seen.has_failed = no_memory::has_failed();
  }
  CHECK(heard.told() == 1);
  // Those who come later hear the same.
  for (const std::exception_ptr& e : {error, detail::captured([&] { s.record(); })}) {
    try {
      REQUIRE(e != nullptr);
      std::rethrow_exception(e);
    } catch (const device_error& why) {
      CHECK(why.lost());
      seen.text = why.what();
    } catch (const std::exception& other) {
      FAIL_CHECK(other.what());
    }
  }
  CHECK(seen.text == "turnstile: " + std::string(device::cuda(0).why_not()));
  return seen;
}

}  // namespace

TEST_SUITE("device") {
  TEST_CASE("no memory: awaiting a place of a GPU, and executions that only submit, take none") {
    constexpr int each = 300;
    const gpus g(table());
    thread_pool pool{2};
    critical_section cs({.place = device::cuda(0)});
    stream s(device::cuda(0));
    prepare_places(s, 16);  // more than anybody has at once
    // The threads that look, and the one that blocks, are there from here on.
    const event kept_back = s.record();
    until([] { return fake::count(fake::call::event_synchronize) != 0; });
    fake::finish_all();
    until([&] { return kept_back.ready(); });
    fake::go_by_itself(true);
    CHECK(support::grown_by_awaits(pool, cs, s, each, allocations) == 0);
  }

  TEST_CASE("no memory: a stream ends, and so does the callable behind its last place") {
    const gpus g(table());
    const int before = counted::alive();
    int ran = 0;
    stream s(device::cuda(0));
    prepare_places(s, 1);
    const event only_place = s.record();  // there is no other one
    s.enqueue([&ran, it = counted()] { ++ran; });
    {
      const no_memory from_here;
      const stream gone = std::move(s);
    }
    CHECK(counted::alive() == before + 1);
    CHECK(fake::living().streams == 1);
    fake::finish_all();
    until([&] { return counted::alive() == before && fake::living().streams == 0; });
    CHECK(ran == 1);
    CHECK(only_place.ready());
  }

  TEST_CASE("no memory: what a body's call has failed with") {
    const gpus g(table());
    stream s(device::cuda(0));
    prepare_places(s, 1);
    const detail::lane_ref l = detail::stream_access::lane_of(s);
    const int before = l->begin_submission();
    fake::launch(s.native_handle(), [] {}, 98);
    detail::lane::submitted all;
    {
      const no_memory from_here;
      all = l->end_submission(before);
    }
    REQUIRE(all.error != nullptr);
    CHECK_THROWS_AS(std::rethrow_exception(all.error), std::bad_alloc);
    REQUIRE(all.end);  // what is behind the body waits all the same
    CHECK_FALSE(all.end->is_reached());
    fake::finish_all();
    until([&] { return all.end->is_reached(); });
    CHECK(fake::table().peek_at_last_error() == 0);
  }

  TEST_CASE("no memory: a callable of a body on a lost device is called late and does not run") {
    const losses heard;
    const gpus g(table(), gpus::afterwards::lost);
    stream s(device::cuda(0));
    prepare_places(s, 1);
    const event only_place = s.record();  // there is no other one
    const detail::lane_ref l = detail::stream_access::lane_of(s);
    const int before = l->begin_submission();
    bool ran = false;
    s.enqueue([&ran] { ran = true; });
    fake::lose(0, 719);
    detail::lane::submitted all;
    {
      const no_memory from_here;
      all = l->end_submission(before);
    }
    CHECK_FALSE(all.end);
    REQUIRE(all.error != nullptr);
    CHECK_THROWS_AS(std::rethrow_exception(all.error), device_error);
    CHECK(fake::call_late() == 1);
    CHECK_FALSE(ran);
  }

  TEST_CASE("no memory: memory that cannot be freed") {
    const gpus g(table(), gpus::afterwards::memory_is_left);
    fake::go_by_itself(true);
    stream s(device::cuda(0));
    std::optional<device_buffer<int>> b(std::in_place, s, 1);
    fake::fail(fake::call::free_async, 1, 400);
    {
      const no_memory from_here;
      b.reset();
    }
    CHECK_THROWS_AS(sync_wait(s.completion()), std::bad_alloc);
    sync_wait(s.completion());
  }

  TEST_CASE("no memory: a child gives an event back though a thread of its parent's takes one") {
    const gpus g(table());
    stream s(device::cuda(0));
    std::optional<event> e = s.record();
    fake::finish_all();
    until([&] { return e->ready(); });
    std::thread takes([&s] {
      stops = true;  // for there is no event that could be used again
      static_cast<void>(s.record());
    });
    until([] { return has_stopped.load(); });
    const auto end = support::in_child([&e] { e.reset(); });
    CHECK(end.status == 0);
    may_go_on = true;
    takes.join();
  }

  TEST_CASE("no memory: a device is lost, and all hear of it, though not why") {
    CHECK(lose_without_memory().text ==
          "turnstile: cuda:0 (fake 0) has failed, and there is no memory to say how");
  }

  TEST_CASE("no memory: whichever allocation fails, that a device is lost is heard") {
    constexpr long too_many = 100;
    long n = 0;
    while (n != too_many && lose_without_memory(n).has_failed) ++n;
    CHECK(n != 0);
    CHECK(n != too_many);
  }
}
