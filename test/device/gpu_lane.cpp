// gpu_lane.cpp - streams of GPUs, on a runtime that does what the test says.

#include "device/gpu/gpu_lane.hpp"

#include "device/fake_gpu.hpp"
#include "device/gpu/gpu_device.hpp"
#include "device/gpu/gpu_runtime.hpp"
#include "device/gpus.hpp"
#include "support/child_process.hpp"
#include "support/counted.hpp"
#include "support/loop.hpp"
#include "support/unobserved.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <exception>
#include <latch>
#include <memory>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using detail::gpu_api;
using device_tests::gpus;
using device_tests::losses;
using device_tests::message_of;
using device_tests::running_callable;
using device_tests::until;
using support::counted;
using support::loop;

namespace {

detail::lane_ref lane_of(const stream& s) { return detail::stream_access::lane_of(s); }

// A table whose device cannot be used, and why.
gpu_api that_says(int version, int code) {
  static int v;
  static int c;
  v = version;
  c = code;
  gpu_api api = fake::table();
  api.driver_get_version = [](int* to) {
    *to = v;
    return 0;
  };
  api.get_device_count = [](int*) { return c; };
  return api;
}

// The first event that is destroyed is so only when the body's thread is about to record, and that
// one records only when all events are destroyed.
struct last_record {
  last_record() {
    the = this;
    table.event_destroy = [](CUevent_st* e) {
      if (!the->has_begun.exchange(true)) {
        the->events_end.count_down();
        the->recording.wait();
      }
      return fake::table().event_destroy(e);
    };
    table.event_record = [](CUevent_st* e, CUstream_st* s) {
      if (is_body) {
        the->recording.count_down();
        the->events_ended.wait();
      }
      return fake::table().event_record(e, s);
    };
  }

  static inline thread_local bool is_body = false;

  gpu_api table = fake::table();
  std::latch events_end{1};
  std::latch recording{1};
  std::latch events_ended{1};

 private:
  static inline last_record* the = nullptr;

  std::atomic<bool> has_begun{false};
};

// The first stream or event that is destroyed is so only when it may.
struct held_end {
  held_end() { the = this; }
  void hold_stream() {
    table.stream_destroy = [](CUstream_st* s) {
      the->wait_if_first();
      return fake::table().stream_destroy(s);
    };
  }
  void hold_event() {
    table.event_destroy = [](CUevent_st* e) {
      the->wait_if_first();
      return fake::table().event_destroy(e);
    };
  }

  gpu_api table = fake::table();
  std::latch has_begun{1};
  std::latch may_end{1};

 private:
  static inline held_end* the = nullptr;

  void wait_if_first() {
    if (is_held.exchange(true)) return;
    has_begun.count_down();
    may_end.wait();
  }

  std::atomic<bool> is_held{false};
};

std::string why_not(const gpu_api& api, int index = 0) {
  const gpus g(api);
  const std::string why(device::cuda(index).why_not());
  CHECK(message_of([&] { stream{device::cuda(index)}; }) == "turnstile: " + why);
  return why;
}

task<> note_completion(stream& s, std::vector<int>& list, int id) {
  co_await s.completion();
  list.push_back(id);
}

template <class A>
task<> note_error(A a, std::string& text) {
  try {
    co_await std::move(a);
  } catch (const std::exception& error) {
    text = error.what();
  }
}

bool is_ready(const event& e) {
  detail::engine::the().poll();
  return e.ready();
}

// Finishes all, and waits until the library has seen that.
void see_all_done() {
  fake::finish_all();
  until([] { return !detail::engine::the().has_pending(); });
}

}  // namespace

TEST_SUITE("device") {
  TEST_CASE("gpu: without a table the program is not linked with turnstile-cuda") {
    CHECK(device::cuda(0).why_not() ==
          "cuda:0 is not available: this program is not linked with turnstile-cuda");
    CHECK(device::cuda_or_host(0) == device::host());
    CHECK_THROWS_AS(stream{device::cuda(0)}, device_error);
    CHECK(detail::gpu_device_of_pointer("x") < 0);
  }

  TEST_CASE("gpu: why one is not available is one sentence") {
    CHECK(why_not(that_says(0, 35)) ==
          "cuda:0 is not available: there is no CUDA driver (libcuda.so.1) on this machine");
    CHECK(why_not(that_says(12040, 35)) ==
          "cuda:0 is not available: the CUDA driver is too old: it is for CUDA 12.4, and CUDA 13.0 "
          "or "
          "newer is needed");
    CHECK(why_not(that_says(0, 34)) ==
          "cuda:0 is not available: the library path leads to the CUDA toolkit's stub library "
          "instead of "
          "the driver");
    CHECK(why_not(that_says(13000, 100)) ==
          "cuda:0 is not available: there is no CUDA device, or CUDA_VISIBLE_DEVICES hides it");
    CHECK(why_not(that_says(13000, 0)) == why_not(that_says(13000, 100)));  // the count untouched
    CHECK(why_not(that_says(13000, 803)) ==
          "cuda:0 is not available: the CUDA driver and its library do not match: restart the "
          "machine or "
          "reload the driver");
    CHECK(why_not(that_says(13000, 800)) ==
          "cuda:0 is not available: cudaErrorNotPermitted: as the test wants it");
    CHECK(why_not(fake::table(), 2) == "cuda:2 is not available: there are only 2 CUDA devices");
  }

  TEST_CASE("gpu: whether one is available is found out once") {
    const gpus g;
    for (int i = 0; i != 3; ++i) {
      CHECK(device::cuda(0).available());
      CHECK(device::cuda_or_host(1) == device::cuda(1));
    }
    CHECK(fake::count(fake::call::get_device_name) == 2);
  }

  TEST_CASE("gpu: another table is taken only after shut_down_devices") {
    const gpus g;
    gpu_api other = fake::table();
    other.get_device_count = [](int*) { return 100; };
    {
      stream s(device::cuda(0));
      detail::use_gpu_api(&other);
      CHECK(device::cuda(1).available());
    }
    CHECK(shut_down_devices(10s).empty());
    CHECK(
        device::cuda(0).why_not() ==
        "cuda:0 is not available: the use of GPUs in this process has ended: shut_down_devices was "
        "called");
    detail::use_gpu_api(&other);
    CHECK_FALSE(device::cuda(0).available());
  }

  TEST_CASE("gpu: a place is reached when what is before it is done, and not sooner") {
    const gpus g;
    stream s(device::cuda(1));
    int from = 7;
    int to = 0;
    s.copy(&to, &from, sizeof to);
    const event first = s.record();
    const event second = s.record();
    CHECK_FALSE(is_ready(first));
    CHECK(fake::step(s.native_handle()));
    CHECK_FALSE(is_ready(first));
    CHECK(fake::step(s.native_handle()));
    until([&] { return is_ready(first); });
    CHECK(to == 7);
    CHECK_FALSE(is_ready(second));
    CHECK(fake::step(s.native_handle()));
    until([&] { return is_ready(second); });
  }

  TEST_CASE("gpu: coroutines that wait for a stream go on in the order of their places") {
    const gpus g;
    loop l;
    stream s(device::cuda(0));
    std::vector<int> list;
    async_scope scope{{.executor = l}};
    for (int i = 0; i != 5; ++i) scope.spawn(note_completion(s, list, i));
    l.run();
    CHECK(list.empty());
    see_all_done();
    l.run();
    CHECK(list == std::vector<int>{0, 1, 2, 3, 4});
  }

  TEST_CASE("gpu: a stream waits for one of another device") {
    const gpus g;
    stream a(device::cuda(0));
    stream b(device::cuda(1));
    const event before = a.record();
    b.wait(before);
    const event after = b.record();
    CHECK_FALSE(fake::step(b.native_handle()));
    CHECK(fake::step(a.native_handle()));
    CHECK(fake::step(b.native_handle()));
    CHECK(fake::step(b.native_handle()));
    until([&] { return is_ready(after); });
    const int waits = fake::count(fake::call::stream_wait_event);
    b.wait(before);  // reached: nothing to wait for
    b.wait(event());
    CHECK(fake::count(fake::call::stream_wait_event) == waits);
  }

  TEST_CASE("gpu: a stream cannot wait for the host device, and says so") {
    const gpus g;
    loop l;
    stream host(device::host(), {.executor = l});
    stream s(device::cuda(0));
    host.enqueue([] {});
    const event e = host.record();
    CHECK(message_of([&] { s.wait(e); }) ==
          "turnstile: event is on host and is to be used on cuda:0");
    l.run();
    s.wait(e);
  }

  TEST_CASE("gpu: events are used again, by their own device") {
    const gpus g;
    fake::go_by_itself(true);
    stream a(device::cuda(0));
    stream b(device::cuda(1));
    for (int i = 0; i != 50; ++i) {
      sync_wait(a.completion());
      sync_wait(b.completion());
    }
    CHECK(fake::count(fake::call::event_record) == 100);
    CHECK(fake::count(fake::call::event_create) <= 4);
  }

  TEST_CASE("gpu: an event is not recorded again while somebody has it") {
    const gpus g;
    fake::go_by_itself(true);
    stream s(device::cuda(0));
    std::vector<event> kept;
    for (int i = 0; i != 5; ++i) {
      kept.push_back(s.record());
      sync_wait(kept.back());
    }
    CHECK(fake::count(fake::call::event_create) == 5);
    kept.clear();
    sync_wait(s.completion());
    CHECK(fake::count(fake::call::event_create) == 5);
  }

  TEST_CASE("gpu: a callable runs once, and is kept until a place behind it is reached") {
    const gpus g;
    stream s(device::cuda(0));
    int ran = 0;
    const int before = counted::alive();
    s.enqueue([&ran, it = counted()] { ++ran; });
    const event e = s.record();
    CHECK(fake::step(s.native_handle()));
    CHECK(ran == 1);
    CHECK(counted::alive() == before + 1);
    CHECK(fake::step(s.native_handle()));
    until([&] { return is_ready(e) && counted::alive() == before; });
    CHECK(ran == 1);
  }

  TEST_CASE("gpu: what a callable throws goes to the next place, once") {
    const gpus g;
    fake::go_by_itself(true);
    const support::unobserved none;
    stream s(device::cuda(0));
    const event before = s.record();
    s.enqueue([] { throw std::runtime_error("it"); });
    CHECK(message_of([&] { sync_wait(before); }).empty());
    CHECK(message_of([&] { sync_wait(s.completion()); }) == "it");
    CHECK(message_of([&] { sync_wait(s.completion()); }).empty());
    CHECK(none.seen().empty());
  }

  TEST_CASE(
      "gpu: of many callables without a place behind them few are kept, and the error is not "
      "lost") {
    const gpus g;
    fake::go_by_itself(true);
    const int before = counted::alive();
    stream s(device::cuda(0));
    s.enqueue([] { throw std::runtime_error("the first"); });
    for (int i = 0; i != 1000; ++i) s.enqueue([it = counted()] {});
    until([&] { return counted::alive() < before + 300; });
    CHECK(message_of([&] { sync_wait(s.completion()); }) == "the first");
    until([&] { return counted::alive() == before; });
  }

  TEST_CASE("gpu: a stream's end waits for nothing, and what it was given is done") {
    const gpus g;
    const int before = counted::alive();
    int ran = 0;
    CUstream_st* handle = nullptr;
    {
      stream s(device::cuda(0));
      handle = s.native_handle();
      s.enqueue([&ran, it = counted()] { ++ran; });
    }
    CHECK(counted::alive() == before + 1);
    CHECK(fake::living().streams == 1);
    fake::step(handle);
    fake::step(handle);
    until([&] { return counted::alive() == before && fake::living().streams == 0; });
    CHECK(ran == 1);
  }

  TEST_CASE("gpu: an error that nobody waits for any more is reported") {
    const gpus g;
    fake::go_by_itself(true);
    const support::unobserved errors;
    stream(device::cuda(0)).enqueue([] { throw std::runtime_error("it"); });
    until([&] { return errors.seen().size() == 1; });
  }

  TEST_CASE("gpu: a record that fails throws, leaves nothing pending, and its event is destroyed") {
    const gpus g;
    stream s(device::cuda(0));
    fake::fail(fake::call::event_record, 1, 400);
    CHECK(message_of([&] { s.record(); }) ==
          "turnstile: cuda:0 stream #1: cudaEventRecord failed: cudaErrorInvalidResourceHandle: as "
          "the "
          "test wants it");
    CHECK_FALSE(detail::engine::the().has_pending());
    CHECK(fake::count(fake::call::event_destroy) == 1);
    const event e = s.record();
    see_all_done();
    CHECK(e.ready());
  }

  TEST_CASE("gpu: a question that fails is the error of its place, once the stream has got there") {
    const gpus g;
    loop l;
    stream s(device::cuda(0));
    std::string first = "nothing";
    std::string second = "nothing";
    async_scope scope{{.executor = l}};
    fake::fail(fake::call::event_query, 1, 2);
    scope.spawn(note_error(s.record(), first));
    until([] { return fake::count(fake::call::stream_query) != 0; });
    scope.spawn(note_error(s.record(), second));
    l.run();
    CHECK(first == "nothing");
    CHECK(fake::count(fake::call::event_destroy) == 0);  // its place is still there
    see_all_done();
    l.run();
    CHECK(first.find("cudaEventQuery failed: cudaErrorMemoryAllocation") != std::string::npos);
    CHECK(second == "nothing");
    until([] { return fake::count(fake::call::event_destroy) == 1; });
  }

  TEST_CASE("gpu: if the stream cannot be asked either, it is asked again until all is done") {
    const gpus g;
    stream s(device::cuda(0));
    fake::fail(fake::call::event_query, 1, 2);
    for (int k = 1; k != 4; ++k) fake::fail(fake::call::stream_query, k, 400);
    const event e = s.record();
    until([] { return fake::count(fake::call::stream_query) > 4; });
    CHECK_FALSE(e.ready());
    see_all_done();
    until([&] { return is_ready(e); });
    CHECK(message_of([&] {
            sync_wait(e);
          }).find("cudaEventQuery failed: cudaErrorMemoryAllocation") != std::string::npos);
  }

  TEST_CASE("gpu: of a stream that never answers the place ends with the first error") {
    const gpus g;
    stream s(device::cuda(0));
    fake::fail(fake::call::event_query, 1, 2);
    for (int k = 1; k != 1000; ++k) fake::fail(fake::call::stream_query, k, 400);
    const event e = s.record();
    until([&] { return is_ready(e); });
    CHECK(message_of([&] {
            sync_wait(e);
          }).find("cudaEventQuery failed: cudaErrorMemoryAllocation") != std::string::npos);
  }

  TEST_CASE(
      "gpu: after a sticky error everything on that device ends with it, and the hook hears once") {
    const losses heard;
    const gpus g(fake::table(), gpus::afterwards::lost);
    stream a(device::cuda(0));
    stream b(device::cuda(0));
    stream other(device::cuda(1));
    const std::vector<event> all{a.record(), b.record(), a.record(), b.record()};
    const event fine = other.record();
    fake::fail(fake::call::event_query, 1, 719, 0);
    std::vector<std::string> texts;
    for (const event& e : all) {
      until([&] { return is_ready(e); });
      texts.push_back(message_of([&] { sync_wait(e); }));
    }
    REQUIRE(heard.seen().size() == 1);
    const device lost = heard.seen()[0];
    CHECK(lost.index() == 0);
    for (const std::string& t : texts) CHECK(t == texts[0]);
    CHECK(texts[0].starts_with("turnstile: cuda:0 stream #"));
    CHECK(texts[0].ends_with(
        " (fake 0): cudaEventQuery failed: cudaErrorLaunchFailure: unspecified launch failure"));
    CHECK_FALSE(fine.ready());
    fake::finish_all();
    until([&] { return is_ready(fine); });
  }

  TEST_CASE("gpu: a lost device refuses later work without a call of the driver") {
    const losses heard;
    const gpus g(fake::table(), gpus::afterwards::lost);
    stream s(device::cuda(0));
    stream other(device::cuda(1));
    const event there = other.record();
    device_buffer<int> kept(s, 4);
    fake::fail(fake::call::memcpy_async, 1, 719);
    const auto copies = [&] { s.copy(kept.data(), kept.data(), sizeof(int)); };
    CHECK_THROWS_AS(copies(), device_error);
    CHECK(heard.seen().size() == 1);
    const auto calls = [] {
      return fake::count(fake::call::set_device, 0) + fake::count(fake::call::stream_create);
    };
    const int before = calls();
    const std::string why(device::cuda(0).why_not());
    CHECK(why.find("cudaMemcpyAsync failed: cudaErrorLaunchFailure") != std::string::npos);
    CHECK(message_of([&] { s.record(); }) == "turnstile: " + why);
    CHECK(message_of(copies) == "turnstile: " + why);
    CHECK(message_of([&] { s.enqueue([] {}); }) == "turnstile: " + why);
    CHECK(message_of([&] { s.wait(there); }) == "turnstile: " + why);
    CHECK(message_of([&] { stream{device::cuda(0)}; }) == "turnstile: " + why);
    CHECK(message_of([&] { lane_of(s)->begin_submission(); }) == "turnstile: " + why);
    CHECK(calls() == before);
    CHECK(device::cuda(1).available());
    CHECK(heard.seen().size() == 1);
    see_all_done();
  }

  TEST_CASE("gpu: a lost device calls a callable late or never: it does not run, and ends once") {
    const losses heard;
    const gpus g(fake::table(), gpus::afterwards::lost);
    const int before = counted::alive();
    int ran = 0;
    {
      stream s(device::cuda(0));
      s.enqueue([&ran, it = counted()] { ++ran; });
      const event e = s.record();
      s.enqueue([&ran, it = counted()] { ++ran; });
      fake::fail(fake::call::event_query, 1, 719);
      until([&] { return is_ready(e); });
      CHECK_THROWS_AS(sync_wait(e), device_error);
    }
    until([&] { return counted::alive() == before; });
    CHECK(fake::call_late() == 2);
    CHECK(ran == 0);
    CHECK(counted::alive() == before);
  }

  TEST_CASE("gpu: nobody is told of a loss while a callable still runs") {
    const losses heard;
    const gpus g(fake::table(), gpus::afterwards::lost);
    stream s(device::cuda(0));
    running_callable callable;
    callable.give_to(s);
    const event e = s.record();
    callable.begin();
    fake::fail(fake::call::event_query, 1, 719);
    until([&] { return is_ready(e) || !heard.seen().empty(); });
    for (int i = 0; i != 10; ++i) CHECK_FALSE(is_ready(e));
    callable.end();
    until([&] { return is_ready(e); });
    CHECK_THROWS_AS(sync_wait(e), device_error);
  }

  TEST_CASE("gpu: a callable that the driver refuses is destroyed at once") {
    const gpus g;
    stream s(device::cuda(0));
    const int before = counted::alive();
    fake::fail(fake::call::launch_host_func, 1, 2);
    CHECK_THROWS_AS(s.enqueue([it = counted()] {}), device_error);
    CHECK(counted::alive() == before);
  }

  TEST_CASE("gpu: memory comes and goes in the order of a stream") {
    const gpus g;
    stream s(device::cuda(1));
    {
      device_buffer<int> b(s, 100);
      CHECK(fake::living().allocations == 1);
      CHECK(detail::gpu_device_of_pointer(b.data() + 99) == 1);
      CHECK(detail::gpu_device_of_pointer(&s) < 0);
    }
    CHECK(fake::living().allocations == 1);
    fake::finish_all();
    CHECK(fake::living().allocations == 0);
    fake::fail(fake::call::malloc_async, 1, 2);
    CHECK_THROWS_AS(device_buffer<int>(s, 1), device_error);
  }

  TEST_CASE("gpu: memory that cannot be freed is the error of the next place") {
    const gpus g(fake::table(), gpus::afterwards::memory_is_left);
    fake::go_by_itself(true);
    stream s(device::cuda(0));
    fake::fail(fake::call::free_async, 1, 400);
    {
      const device_buffer<int> b(s, 1);
    }
    CHECK(message_of([&] { sync_wait(s.completion()); }).find("cudaFreeAsync") !=
          std::string::npos);
    CHECK(message_of([&] { sync_wait(s.completion()); }).empty());
  }

  TEST_CASE("gpu: a body's error is found, and an old one is not blamed on it") {
    const gpus g;
    stream s(device::cuda(1));
    const detail::lane_ref l = lane_of(s);
    fake::set_last_error(9);
    int before = l->begin_submission();
    CHECK(fake::current_device() == 1);
    fake::launch(s.native_handle(), [] {});
    auto all = l->end_submission(before);
    CHECK(all.error == nullptr);
    CHECK(all.end);
    before = l->begin_submission();
    fake::launch(s.native_handle(), [] {}, 98);
    all = l->end_submission(before);
    CHECK(all.error != nullptr);
    CHECK(all.end);
    see_all_done();
    CHECK(all.end->is_reached());
    fake::set_last_error(0);
  }

  TEST_CASE("gpu: that something a body asked for is not ready is no error of the body") {
    const gpus g;
    stream s(device::cuda(0));
    stream other(device::cuda(0));
    fake::launch(other.native_handle(), [] {});
    int relaxed = 2;
    fake::table().exchange_capture_mode(&relaxed);
    const detail::lane_ref l = lane_of(s);
    for (const int error_before : {0, 9}) {
      CAPTURE(error_before);
      fake::set_last_error(error_before);
      const int before = l->begin_submission();
      CHECK(fake::table().stream_query(other.native_handle()) == detail::gpu_errors::not_ready);
      CHECK(l->end_submission(before).error == nullptr);
      CHECK((fake::table().peek_at_last_error() == 0) == (error_before == 0));
    }
    fake::set_last_error(0);
    see_all_done();
  }

  TEST_CASE("gpu: an error in a body is not lost on a copy of a few bytes behind it") {
    const gpus g;
    stream s(device::cuda(0));
    const detail::lane_ref l = lane_of(s);
    const int from = 7;
    int to = 0;
    const int before = l->begin_submission();
    fake::launch(s.native_handle(), [] {});  // or the copy finds that the stream has nothing to do
    fake::launch(s.native_handle(), [] {}, 9);
    s.copy(&to, &from, sizeof to);
    CHECK(l->end_submission(before).error != nullptr);
    see_all_done();
    CHECK(to == 7);
  }

  TEST_CASE("gpu: a body behind which nothing can be recorded, nor waited, ends with its work") {
    const gpus g;
    loop l;
    critical_section cs({.place = device::cuda(0)});
    bool kernel_ran = false;
    bool next_saw_that = false;
    const auto submits = [&](stream& s) {
      fake::launch(s.native_handle(), [&] { kernel_ran = true; });
    };
    const auto looks = [&] { next_saw_that = kernel_ran; };
    std::string first = "nothing";
    bool second = false;
    async_scope scope{{.executor = l}};
    for (int k = 1; k != 3; ++k) fake::fail(fake::call::event_record, k, 400);
    fake::fail(fake::call::stream_synchronize, 1, 900);
    scope.spawn(note_error(cs.execute(submits), first));
    scope.spawn([](auto body, bool& over) -> task<> {
      co_await std::move(body);
      over = true;
    }(cs.execute(looks), second));
    l.run();
    REQUIRE(fake::count(fake::call::stream_synchronize) == 1);
    // Somebody has looked since then, and the work was not done.
    const int looked = fake::count(fake::call::stream_query);
    until([&] {
      l.run();
      return second || fake::count(fake::call::stream_query) > looked;
    });
    l.run();
    CHECK(first == "nothing");
    CHECK_FALSE(second);
    see_all_done();
    until([&] {
      l.run();
      return second;
    });
    CHECK(first.find("cudaEventRecord failed: cudaErrorInvalidResourceHandle") !=
          std::string::npos);
    CHECK(next_saw_that);
  }

  TEST_CASE("gpu: on another stream, what follows work that has no event waits until it is done") {
    for (const bool has_own : {false, true}) {
      CAPTURE(has_own);
      const gpus g;
      critical_section cs({.place = device::cuda(0)});
      stream other(device::cuda(0));
      bool first_ran = false;
      bool second_saw_that = false;
      const auto launches = [](stream& s) { fake::launch(s.native_handle(), [] {}); };
      const auto runs = [&](stream& s) {
        fake::launch(s.native_handle(), [&] { first_ran = true; });
        fake::fail(fake::call::event_record, 1, 400);
        fake::fail(fake::call::event_record, 2, 400);
        fake::fail(fake::call::stream_synchronize, 1, 400);
      };
      const auto sees = [&](stream& s) {
        fake::launch(s.native_handle(), [&] { second_saw_that = first_ran; });
      };
      if (has_own) {
        auto h = cs.submit(launches);
        sync_wait(h.submitted());
        see_all_done();
        sync_wait(h);
      }
      auto first = cs.submit(runs, {.on = &other});
      sync_wait(first.submitted());
      auto second = cs.submit(sees);
      fake::go_by_itself(true);
      CHECK(message_of([&] { sync_wait(first); }).find("cudaEventRecord") != std::string::npos);
      CHECK(message_of([&] { sync_wait(second); }).empty());
      CHECK(second_saw_that);
      sync_wait(cs.close());
    }
  }

  TEST_CASE("gpu: a stream cannot wait for work that has no event, and says so") {
    const gpus g;
    critical_section cs({.place = device::cuda(0)});
    stream other(device::cuda(0));
    const auto runs = [](stream& s) {
      fake::launch(s.native_handle(), [] {});
      fake::fail(fake::call::event_record, 1, 400);
      fake::fail(fake::call::event_record, 2, 400);
      fake::fail(fake::call::stream_synchronize, 1, 400);
    };
    auto h = cs.submit(runs);
    sync_wait(h.submitted());
    CHECK(message_of([&] { h.wait_on(other); }) ==
          "turnstile: cuda:0 stream #1 cannot wait for work behind which no event could be "
          "recorded: co_await it instead");
    fake::go_by_itself(true);
    CHECK(message_of([&] { sync_wait(h); }).find("cudaEventRecord") != std::string::npos);
  }

  TEST_CASE("gpu: a place that cannot be recorded has no event from the time before") {
    gpu_api api = fake::table();
    static std::optional<event> old;  // its point is given back while nothing can be recorded
    api.stream_synchronize = [](CUstream_st* s) {
      old.reset();
      return fake::table().stream_synchronize(s);
    };
    const gpus g(api);
    stream s(device::cuda(0));
    stream before(device::cuda(0));
    old = before.record();
    see_all_done();
    for (int k = 1; k != 3; ++k) fake::fail(fake::call::event_record, k, 400);
    fake::fail(fake::call::stream_synchronize, 1, 900);
    const detail::lane_ref l = lane_of(s);
    l->begin_submission();
    fake::launch(s.native_handle(), [] {});
    const auto all = l->end_submission(0);
    REQUIRE(all.end);
    CHECK_FALSE(old);
    CHECK(all.end->native() == nullptr);
    CHECK_FALSE(all.end->is_reached());
    see_all_done();
  }

  TEST_CASE("gpu: what fails and is told, or is nobody's concern, is not the thread's last error") {
    const gpus g;
    int relaxed = 2;  // as this thread looks, even if it cannot change that now
    fake::table().exchange_capture_mode(&relaxed);
    constexpr int out_of_memory = 2;
    const auto check_none = [](auto f) {
      for (const int before : {0, 9, detail::gpu_errors::not_ready}) {
        CAPTURE(before);
        fake::set_last_error(before);
        f();
        CHECK((fake::table().peek_at_last_error() != 0) == (before == 9));
        see_all_done();  // or who looks at streams that have ended meets what is to fail next
      }
      fake::set_last_error(0);
    };
    int from = 7;
    int to = 0;
    const auto copy = [&](stream& s) { s.copy(&to, &from, sizeof to); };  // this thread looks
    SUBCASE("looking, on another device than before") {
      check_none([&] {
        stream first(device::cuda(1));
        copy(first);
        stream s(device::cuda(0));
        fake::fail(fake::call::set_device, 2, out_of_memory);
        copy(s);
      });
      check_none([&] {
        stream first(device::cuda(1));
        copy(first);
        stream s(device::cuda(0));
        fake::fail(fake::call::exchange_capture_mode, 1, out_of_memory);
        copy(s);
      });
    }
    SUBCASE("closing a stream that was given something") {
      check_none([&] {
        std::optional<stream> s(std::in_place, device::cuda(0));
        device_buffer<int>(*s, 1);
        fake::fail(fake::call::set_device, 1, out_of_memory);
        s.reset();
      });
    }
    SUBCASE("destroying a stream") {
      check_none([&] {
        std::optional<stream> s(std::in_place, device::cuda(0));
        fake::fail(fake::call::stream_destroy, 1, out_of_memory);
        s.reset();
      });
    }
    SUBCASE("destroying an event") {
      stream s(device::cuda(0));
      check_none([&] {
        static_cast<void>(s.record());
        see_all_done();
        fake::fail(fake::call::event_destroy, 1, out_of_memory);
        const stream takes_its_place(device::cuda(0));
      });
    }
    SUBCASE("finding out whether a GPU is there") {
      int index = 0;
      check_none([&] {
        fake::fail(fake::call::get_device_name, 1, out_of_memory);
        CHECK_FALSE(device::cuda(index++).available());
      });
    }
    SUBCASE("asking whose memory it is") {
      const stream s(device::cuda(0));
      check_none([&] {
        fake::fail(fake::call::device_of_pointer, 1, out_of_memory);
        CHECK(detail::gpu_device_of_pointer(&s) < 0);
      });
    }
    see_all_done();
  }

  TEST_CASE("gpu: the same error in two bodies, one after the other, is found in both") {
    const gpus g;
    stream s(device::cuda(0));
    const detail::lane_ref l = lane_of(s);
    for (int i = 0; i != 2; ++i) {
      const int before = l->begin_submission();
      fake::launch(s.native_handle(), [] {}, 9);
      CHECK(l->end_submission(before).error != nullptr);
    }
    const device_buffer<int> there(s, 1);
    fake::fail(fake::call::memcpy_async, 1, 9);
    CHECK_THROWS_AS(s.copy(there.data(), there.data(), 1), device_error);
    int before = l->begin_submission();
    fake::launch(s.native_handle(), [] {}, 9);
    CHECK(l->end_submission(before).error != nullptr);
    fake::fail(fake::call::stream_create, 1, 9);
    CHECK_THROWS_AS(stream(device::cuda(0)), device_error);
    fake::fail(fake::call::stream_get_device, 1, 9);
    CHECK_THROWS_AS(detail::stream_access::on(detail::adopt_gpu_stream(s.native_handle())),
                    device_error);
    before = l->begin_submission();
    fake::launch(s.native_handle(), [] {}, 9);
    CHECK(l->end_submission(before).error != nullptr);
    see_all_done();
  }

  TEST_CASE("gpu: the same error in two bodies is found in both where something was not ready") {
    const gpus g;
    stream s(device::cuda(0));
    const detail::lane_ref l = lane_of(s);
    fake::set_last_error(detail::gpu_errors::not_ready);
    for (int i = 0; i != 2; ++i) {
      CAPTURE(i);
      const int before = l->begin_submission();
      fake::launch(s.native_handle(), [] {}, 9);
      CHECK(l->end_submission(before).error != nullptr);
    }
    CHECK(fake::table().peek_at_last_error() == 0);
    see_all_done();
  }

  TEST_CASE("gpu: an error of a body's launch is told, though the body's own comes back") {
    const support::unobserved errors;
    const gpus g;
    fake::go_by_itself(true);
    critical_section cs;
    stream s(device::cuda(0));
    const auto throws = [](stream& on) {
      fake::launch(on.native_handle(), [] {}, 9);
      throw std::runtime_error("of the body");
    };
    SUBCASE("execute") {
      CHECK_THROWS_WITH(sync_wait(cs.execute(throws, {.on = &s})), "of the body");
    }
    SUBCASE("submit") {
      CHECK_THROWS_WITH(sync_wait(cs.submit(throws, {.on = &s})), "of the body");
    }
    REQUIRE(errors.seen().size() == 1);
    const std::string text =
        message_of([&] { std::rethrow_exception(errors.seen().front().error); });
    CHECK(text.find("a call of the body failed") != std::string::npos);
  }

  TEST_CASE("gpu: an error of a body's launch that the body throws itself is not told again") {
    const support::unobserved errors;
    const gpus g;
    fake::go_by_itself(true);
    critical_section cs;
    stream s(device::cuda(0));
    const auto throws = [](stream& on) {
      fake::launch(on.native_handle(), [] {}, 9);
      throw device_error(9, "cudaErrorOfTheFake", "of the body");
    };
    CHECK_THROWS_WITH(sync_wait(cs.execute(throws, {.on = &s})), "turnstile: of the body");
    CHECK(errors.seen().empty());
  }

  TEST_CASE("gpu: after a loss the same error in several bodies elsewhere is found in each") {
    const losses heard;
    const gpus g(fake::table(), gpus::afterwards::lost);
    stream a(device::cuda(0));
    stream b(device::cuda(1));
    const event lost = a.record();
    fake::lose(0, 719);
    until([&] { return is_ready(lost); });
    CHECK_THROWS_AS(sync_wait(lost), device_error);
    fake::set_last_error(719);  // as it is where the loss was noticed
    const detail::lane_ref l = lane_of(b);
    for (int i = 0; i != 3; ++i) {
      CAPTURE(i);
      const int before = l->begin_submission();
      fake::launch(b.native_handle(), [] {}, 9);
      CHECK(l->end_submission(before).error != nullptr);
    }
    see_all_done();
  }

  TEST_CASE("gpu: a question that fails is not taken for an error of the next body") {
    const gpus g;
    stream s(device::cuda(0));
    const detail::lane_ref l = lane_of(s);
    fake::launch(s.native_handle(), [] {});
    const event asked = s.record();
    fake::fail(fake::call::event_query, 1, 9);
    CHECK_FALSE(asked.ready());
    const int before = l->begin_submission();
    fake::launch(s.native_handle(), [] {}, 9);
    CHECK(l->end_submission(before).error != nullptr);
    see_all_done();
  }

  TEST_CASE("gpu: whose memory it is, is known to who only adopts a stream") {
    detail::device_of_address.store(nullptr, detail::relaxed);
    const gpus g;
    CUstream_st* const somebodys = fake::new_stream(1);
    {
      const stream s = detail::stream_access::on(detail::adopt_gpu_stream(somebodys));
    }
    const bool is_known = detail::device_of_address.load(detail::relaxed) != nullptr;
    CHECK(is_known);
    CHECK(shut_down_devices(10s).empty());
    CHECK(fake::table().stream_destroy(somebodys) == 0);
  }

  TEST_CASE("gpu: an error in a body is not lost on a body within it") {
    const gpus g;
    stream s(device::cuda(0));
    stream other(device::cuda(0));
    const detail::lane_ref outer = lane_of(s);
    const detail::lane_ref inner = lane_of(other);
    for (const int error_within : {0, 9, 98}) {
      CAPTURE(error_within);
      const int before = outer->begin_submission();
      fake::launch(s.native_handle(), [] {}, 9);
      const int within = inner->begin_submission();
      fake::launch(other.native_handle(), [] {}, error_within);
      const bool told = inner->end_submission(within).error != nullptr;
      CHECK(told == (error_within == 98));  // one of the same number is not seen
      CHECK(outer->end_submission(before).error != nullptr);
      fake::set_last_error(0);
    }
    see_all_done();
  }

  TEST_CASE("gpu: that something is not ready is no error that a body could find") {
    const gpus g;
    stream s(device::cuda(0));
    const event e = s.record();
    CHECK_FALSE(e.ready());
    CHECK(fake::count(fake::call::event_query) != 0);
    CHECK(fake::table().peek_at_last_error() == 0);
    see_all_done();
  }

  TEST_CASE("gpu: if the place behind a body cannot be recorded, another event is tried") {
    const gpus g;
    stream s(device::cuda(0));
    const detail::lane_ref l = lane_of(s);
    fake::fail(fake::call::event_record, 1, 400);
    l->begin_submission();
    const auto all = l->end_submission(0);
    CHECK(all.end);
    CHECK(all.error != nullptr);
    CHECK(fake::count(fake::call::event_record) == 2);
    CHECK(fake::count(fake::call::event_create) == 2);
    see_all_done();
  }

  TEST_CASE("gpu: the second try to record behind a body makes its device current, too") {
    const gpus g;
    stream s(device::cuda(0));
    const detail::lane_ref l = lane_of(s);
    l->begin_submission();
    fake::table().set_device(1);
    fake::fail(fake::call::set_device, 1, 2);
    const auto all = l->end_submission(0);
    CHECK(all.end);
    CHECK(all.error != nullptr);
    CHECK(fake::current_device() == 0);
    CHECK(fake::misused().all() == 0);
    see_all_done();
  }

  TEST_CASE(
      "gpu: if nothing can be recorded behind a body, all of it is done when the error comes") {
    const gpus g;
    stream s(device::cuda(0));
    fake::go_by_itself(true);
    const detail::lane_ref l = lane_of(s);
    fake::fail(fake::call::event_record, 1, 400);
    fake::fail(fake::call::event_record, 2, 400);
    bool ran = false;
    l->begin_submission();
    fake::launch(s.native_handle(), [&] { ran = true; });
    const auto all = l->end_submission(0);
    CHECK_FALSE(all.end);
    CHECK(all.error != nullptr);
    CHECK(ran);
  }

  TEST_CASE("gpu: a thread that has never looked does not spoil others' captures when it waits") {
    const gpus g;
    stream s(device::cuda(0));
    fake::go_by_itself(true);
    fake::fail(fake::call::event_record, 1, 400);
    fake::fail(fake::call::event_record, 2, 400);
    std::thread body([&s] {
      lane_of(s)->begin_submission();
      CHECK(lane_of(s)->end_submission(0).error != nullptr);
    });
    body.join();
    CHECK(fake::count(fake::call::stream_synchronize) == 1);
    CHECK(fake::misused().strict_look == 0);
  }

  TEST_CASE("gpu: a stream that is being captured takes no body") {
    const gpus g;
    stream s(device::cuda(0));
    CUstream_st* const mine = s.native_handle();
    fake::begin_capture(mine);
    CHECK_THROWS_AS(lane_of(s)->begin_submission(), device_error);
    CHECK(fake::living().streams == 1);
  }

  TEST_CASE("gpu: a stream that is being captured takes no callable") {
    const gpus g;
    stream s(device::cuda(0));
    fake::begin_capture(s.native_handle());
    const int before = counted::alive();
    CHECK(message_of([&] { s.enqueue([it = counted()] {}); }).find("is being captured") !=
          std::string::npos);
    CHECK(counted::alive() == before);
    CHECK(fake::pending() == 0);
  }

  TEST_CASE("gpu: a stream that is being captured makes no place and waits for none") {
    const gpus g;
    stream one(device::cuda(0));
    stream captured(device::cuda(0));
    const event before = one.record();
    fake::begin_capture(captured.native_handle());
    // What the driver refuses would end the capture.
    CHECK(message_of([&] { captured.wait(before); }).find("is being captured") !=
          std::string::npos);
    CHECK(message_of([&] { captured.record(); }).find("is being captured") != std::string::npos);
    CHECK(message_of([&] { sync_wait(captured.completion()); }).find("is being captured") !=
          std::string::npos);
    CHECK(fake::count(fake::call::stream_wait_event) == 0);
    CHECK(fake::count(fake::call::event_record) == 1);
    see_all_done();
    captured.wait(before);  // reached: nothing to wait for
  }

  TEST_CASE("gpu: a body behind work on another stream is not given one that is being captured") {
    const gpus g;
    stream one(device::cuda(0));
    stream captured(device::cuda(0));
    critical_section cs({.place = device::cuda(0)});
    const auto submits = [](stream& s) { fake::launch(s.native_handle(), [] {}); };
    auto first = cs.submit(submits, {.on = &one});
    sync_wait(first.submitted());
    fake::begin_capture(captured.native_handle());
    auto second = cs.submit(submits, {.on = &captured});
    sync_wait(second.submitted());
    fake::go_by_itself(true);
    sync_wait(first);
    CHECK(message_of([&] { sync_wait(second); }).find("is being captured") != std::string::npos);
    CHECK(fake::count(fake::call::stream_wait_event) == 0);
  }

  TEST_CASE("gpu: somebody else's stream is used on its device, and left alone") {
    const gpus g;
    CUstream_st* const handle = fake::new_stream(1);
    {
      stream s = detail::stream_access::on(detail::adopt_gpu_stream(handle));
      CHECK(s.where() == device::cuda(1));
      CHECK(s.native_handle() == handle);
      const event e = s.record();
      see_all_done();
      CHECK(e.ready());
    }
    CHECK(shut_down_devices(10s).empty());
    CHECK(fake::living().streams == 1);
    CHECK(fake::count(fake::call::stream_destroy) == 0);
    CHECK(fake::table().stream_destroy(handle) == 0);
  }

  TEST_CASE("gpu: the end of an adopted stream does not touch what may be gone") {
    const gpus g(fake::table(), gpus::afterwards::memory_is_left);
    CUstream_st* const handle = fake::new_stream(1);
    void* there = nullptr;
    fake::table().malloc_async(&there, sizeof(int), handle);
    {
      stream s = detail::stream_access::on(detail::adopt_gpu_stream(handle));
      s.copy(there, there, sizeof(int));
      see_all_done();
      CHECK(fake::table().stream_destroy(handle) == 0);
      CHECK(fake::count(fake::call::stream_is_capturing) == 1);  // when it was adopted
    }
    CHECK(fake::count(fake::call::stream_is_capturing) == 1);
    CHECK(fake::count(fake::call::event_record) == 0);
    CHECK(shut_down_devices(10s).empty());
  }

  TEST_CASE("gpu: where a stream's device cannot be asked for, it is the current one") {
    gpu_api old = fake::table();
    old.stream_get_device = nullptr;
    const gpus g(old);
    fake::table().set_device(1);
    CUstream_st* const handle = fake::new_stream(1);
    CHECK(detail::adopt_gpu_stream(handle)->where() == device::cuda(1));
    fake::table().set_device(0);
    fake::table().stream_destroy(handle);
  }

  TEST_CASE("gpu: streams that cannot be waited for are not adopted, and it is said why") {
    const gpus g;
    const auto refusal = [](CUstream_st* s) {
      try {
        detail::adopt_gpu_stream(s);
      } catch (const std::invalid_argument& e) {
        return std::string(e.what());
      }
      return std::string();
    };
    const auto handle = [](std::uintptr_t n) { return reinterpret_cast<CUstream_st*>(n); };
    CHECK(refusal(nullptr).find("legacy default stream") != std::string::npos);
    CHECK(refusal(handle(1)).find("legacy default stream") != std::string::npos);
    CHECK(refusal(handle(2)).find("per-thread default stream") != std::string::npos);
    CUstream_st* const captured = fake::new_stream(0);
    fake::begin_capture(captured);
    CHECK(refusal(captured).find("captured") != std::string::npos);
    fake::table().stream_destroy(captured);
  }

  TEST_CASE("gpu: that the runtime unloads is no loss") {
    const losses heard;
    const gpus g(fake::table(), gpus::afterwards::lost);
    stream s(device::cuda(0));
    const event e = s.record();
    fake::fail(fake::call::event_query, 1, 4);
    until([&] { return is_ready(e); });
    CHECK_THROWS_AS(sync_wait(e), device_error);
    CHECK(heard.seen().empty());
  }

  TEST_CASE("gpu: a thread blocks in the driver for a stream that takes long") {
    const gpus g;
    stream s(device::cuda(0));
    const event e = s.record();
    until([] { return fake::count(fake::call::event_synchronize) == 1; });
    fake::finish_all();
    until([&] { return e.ready(); });
  }

  TEST_CASE("gpu: a second stream is looked at while a thread is blocked for the first") {
    const gpus g;
    stream a(device::cuda(0));
    const event long_one = a.record();
    until([] { return fake::count(fake::call::event_synchronize) == 1; });
    stream b(device::cuda(0));
    const event short_one = b.record();
    fake::step(b.native_handle());
    sync_wait(short_one);  // this thread does not look
    see_all_done();
    CHECK(long_one.ready());
  }

  TEST_CASE("gpu: a section knows whose memory an address is") {
    const gpus g;
    stream s(device::cuda(0));
    const device_buffer<int> b(s, 4);
    critical_section there({.name = "there", .place = device::cuda(0)});
    critical_section elsewhere({.name = "elsewhere", .place = device::cuda(1)});
    bool ran = false;
    auto body = [&] { ran = true; };
    const std::string why =
        message_of([&] { sync_wait(elsewhere.execute(body, {.uses = resource_of(*b.data())})); });
    CAPTURE(why);
    CHECK(why.find("is on cuda:0 and is to be used on cuda:1") != std::string::npos);
    CHECK_FALSE(ran);
    sync_wait(there.execute(body, {.uses = resource_of(*b.data())}));
    CHECK(ran);
    see_all_done();
  }

  TEST_CASE("gpu: a blocked thread's error is that of the place") {
    const gpus g;
    stream s(device::cuda(0));
    fake::fail(fake::call::event_synchronize, 1, 2);
    const event e = s.record();
    until([] { return fake::count(fake::call::stream_query) != 0; });
    fake::finish_all();
    until([&] { return e.ready(); });
    CHECK(message_of([&] { sync_wait(e); }).find("cudaEventSynchronize") != std::string::npos);
  }

  TEST_CASE("gpu: shut_down_devices waits, and names who has not ended in time") {
    gpu_api api = fake::table();
    api.event_record = [](CUevent_st* e, CUstream_st* s) {  // the first GPU is always done
      const int code = fake::table().event_record(e, s);
      if (fake::device_of(s) == 0) fake::step(s);
      return code;
    };
    const gpus g(api);
    stream a(device::cuda(0));
    stream b(device::cuda(1));
    const event kept = a.record();
    std::optional<event> late = b.record();
    CHECK(shut_down_devices(500ms) == std::vector<std::string>{"cuda:1 stream #1"});
    CHECK(kept.ready());
    CHECK_THROWS_AS(a.record(), device_error);
    CHECK_THROWS_AS(stream{device::cuda(0)}, device_error);
    fake::finish_all();
    until([&] { return late->ready() && fake::living().streams == 0; });
    late.reset();
    // Who was blocked on it may give it back last.
    until([] { return fake::living().events == 0; });
  }

  TEST_CASE("gpu: shut_down_devices may wait for ever") {
    const gpus g;
    stream s(device::cuda(0));
    const event e = s.record();
    std::thread device([] {
      // Others may have looked, and block now; and what the shutting down adds may come later.
      until([] {
        return fake::count(fake::call::event_query) > 3 ||
               fake::count(fake::call::event_synchronize) > 0;
      });
      fake::go_by_itself(true);
    });
    CHECK(shut_down_devices(std::chrono::nanoseconds::max()).empty());
    device.join();
    CHECK(e.ready());
  }

  TEST_CASE("gpu: shut_down_devices called again waits for what is left") {
    const gpus g;
    stream s(device::cuda(0));
    int ran = 0;
    s.enqueue([&ran] { ++ran; });
    const std::vector<std::string> busy{"cuda:0 stream #1"};
    CHECK(shut_down_devices(0s) == busy);
    CHECK(shut_down_devices(0s) == busy);
    CHECK(ran == 0);
    fake::go_by_itself(true);
    std::vector<std::string> left[2];
    std::thread also([&] { left[1] = shut_down_devices(30s); });
    left[0] = shut_down_devices(30s);
    CHECK(ran == 1);
    also.join();
    CHECK(left[0].empty());
    CHECK(left[1].empty());
    CHECK(s.native_handle() == nullptr);
    until([] { return fake::living() == fake::alive{}; });
  }

  TEST_CASE("gpu: who waits until all is done waits no longer if every look finds something") {
    loop l;
    stream busy(device::host(), {.executor = l, .polled = true});
    int looks = 0;
    const auto gets_on = [&] {
      static_cast<void>(busy.record());
      l.run();
      return ++looks == 100;
    };
    CHECK_FALSE(detail::engine::the().drain(gets_on, std::chrono::steady_clock::now()));
    CHECK(looks == 1);
    until([] { return !detail::engine::the().has_pending(); });
  }

  TEST_CASE("gpu: shut_down_devices waits for a body that submits work") {
    const gpus g;
    stream s(device::cuda(0));
    const detail::lane_ref l = lane_of(s);
    fake::go_by_itself(true);
    const int before = l->begin_submission();
    const auto began = std::chrono::steady_clock::now();
    CHECK(shut_down_devices(50ms) == std::vector<std::string>{"cuda:0 stream #1"});
    CHECK(std::chrono::steady_clock::now() - began >= 50ms);
    std::exception_ptr error;
    std::thread body([&] { error = l->end_submission(before).error; });
    CHECK(shut_down_devices(30s).empty());
    body.join();
    CHECK(error == nullptr);
  }

  TEST_CASE("gpu: shut_down_devices waits for another one that gives something back") {
    held_end hold;
    SUBCASE("a stream") { hold.hold_stream(); }
    SUBCASE("an event") { hold.hold_event(); }
    const gpus g(hold.table);
    stream s(device::cuda(0));
    fake::go_by_itself(true);
    sync_wait(s.record());
    fake::begin_capture(s.native_handle());  // so it ends without a place, and the event is idle
    std::thread other([] { shut_down_devices(30s); });
    hold.has_begun.wait();
    const auto began = std::chrono::steady_clock::now();
    CHECK(shut_down_devices(50ms).empty());
    CHECK(std::chrono::steady_clock::now() - began >= 50ms);
    // It is still waited for, and no other table is taken.
    CHECK(shut_down_devices(50ms).empty());
    CHECK(std::chrono::steady_clock::now() - began >= 100ms);
    detail::use_gpu_api(&fake::table());
    CHECK_FALSE(device::cuda(0).available());
    hold.may_end.count_down();
    other.join();
  }

  TEST_CASE("gpu: after shut_down_devices streams, events and buffers end without the driver") {
    const auto calls = [] {
      int all = 0;
      for (int i = 0; i != fake::calls; ++i) all += fake::count(static_cast<fake::call>(i));
      return all;
    };
    const gpus g(fake::table(), gpus::afterwards::memory_is_left);
    fake::go_by_itself(true);
    int before = 0;
    {
      stream s(device::cuda(0));
      const device_buffer<int> there(s, 1);
      const event e = s.record();
      CHECK(shut_down_devices(30s).empty());
      before = calls();
    }
    CHECK(calls() == before);
  }

  TEST_CASE("gpu: who shuts down waits for who takes a place and destroys its event") {
    static detail::gpu_device* on = nullptr;
    static int ends = 0;
    static bool waits = false;
    gpu_api api = fake::table();
    api.event_destroy = [](CUevent_st* e) {
      ++ends;
      waits = !on->destroy_events(std::chrono::steady_clock::now());
      return fake::table().event_destroy(e);
    };
    fake::reset();
    detail::gpu_device d(api, 0, "fake");
    on = &d;
    ends = 0;
    detail::gpu_outcome o;
    detail::gpu_point* const p = d.take_point(o);
    REQUIRE(p != nullptr);
    d.give_back(*p);
    CHECK(d.take_bare_point() == p);
    CHECK(ends == 1);
    CHECK(waits);
    CHECK(d.destroy_events(std::chrono::steady_clock::now()));
    d.give_back(*p);
  }

  TEST_CASE("gpu: shut_down_devices called again destroys what a blocked thread kept it from") {
    static std::atomic<bool> is_blocked = false;
    static std::atomic<bool> may_go_on = false;
    is_blocked = false;
    may_go_on = false;
    gpu_api api = fake::table();
    api.event_synchronize = [](CUevent_st* e) {
      is_blocked = true;
      const int code = fake::table().event_synchronize(e);
      until([] { return may_go_on.load(); });
      return code;
    };
    const gpus g(api);
    stream s(device::cuda(0));
    std::vector<event> all;
    all.push_back(s.record());
    until([] { return is_blocked.load(); });
    all.push_back(s.record());
    fake::go_by_itself(true);
    for (const event& e : all) until([&] { return is_ready(e); });
    all.clear();
    until([] { return shut_down_devices(0s).empty(); });
    CHECK(fake::living().events != 0);
    may_go_on = true;
    CHECK(shut_down_devices(30s).empty());
    CHECK(fake::living().events == 0);
  }

  TEST_CASE("gpu: who shuts down finds a stream that just ends until the driver has it back") {
    static detail::gpu_device* on = nullptr;
    static std::size_t found = 0;
    gpu_api api = fake::table();
    api.stream_destroy = [](CUstream_st* s) {
      found = on->retire().size();
      return fake::table().stream_destroy(s);
    };
    fake::reset();
    detail::gpu_device d(api, 0, "fake");
    on = &d;
    found = 0;
    {
      const stream s = detail::stream_access::on(
          detail::lane_ref(new detail::gpu_lane(d.where(), detail::gpu_stream::make(d))));
    }
    CHECK(found == 1);
    CHECK(d.retire().empty());
    CHECK(fake::living().streams == 0);
  }

  TEST_CASE("gpu: awaiting a stream fails only when what was given is done") {
    const gpus g;
    loop l;
    stream s(device::cuda(0));
    fake::launch(s.native_handle(), [] {});
    std::string expected;
    SUBCASE("no place can be recorded at first") {
      fake::fail(fake::call::event_record, 1, 400);
      expected = "cudaEventRecord failed";
    }
    SUBCASE("nor at the second try") {
      for (int k = 1; k != 3; ++k) fake::fail(fake::call::event_record, k, 400);
      expected = "cudaEventRecord failed";
    }
    SUBCASE("there is no event for it") {
      for (int k = 1; k != 3; ++k) fake::fail(fake::call::event_create, k, 2);
      expected = "cudaEventCreateWithFlags failed";
    }
    SUBCASE("its device cannot be made current") {
      for (int k = 1; k != 3; ++k) fake::fail(fake::call::set_device, k, 2);
      expected = "cudaSetDevice failed";
    }
    SUBCASE("whether it is being captured is not known") {
      fake::fail(fake::call::stream_is_capturing, 1, 2);
      expected = "cudaStreamIsCapturing failed";
    }
    SUBCASE("all has been shut down in between") {
      CHECK_FALSE(shut_down_devices(0s).empty());
      expected = "shut_down_devices was called";
    }
    std::string text = "nothing";
    async_scope scope{{.executor = l}};
    scope.spawn(note_error(s.completion(), text));
    l.run();
    CHECK(text == "nothing");
    see_all_done();
    until([&] {
      l.run();
      return text != "nothing";
    });
    CHECK(text.find(expected) != std::string::npos);
    CHECK(fake::table().peek_at_last_error() == 0);
  }

  TEST_CASE("gpu: who hears of an error behind another one may use the stream") {
    static stream* used = nullptr;
    static std::atomic<int> told = 0;
    told = 0;
    const gpus g(fake::table(), gpus::afterwards::memory_is_left);
    loop l;
    stream s(device::cuda(0));
    used = &s;
    on_unobserved_error([](std::exception_ptr, std::string_view, std::source_location) {
      ++told;
      message_of([] { used->record(); });
    });
    std::optional<device_buffer<int>> first(std::in_place, s, 1);
    std::optional<device_buffer<int>> second(std::in_place, s, 1);
    const auto free_in_vain = [](auto& memory) {
      fake::fail(fake::call::free_async, 1, 9);
      memory.reset();
    };
    free_in_vain(first);
    const auto await_in_vain = [&](int expected) {
      fake::fail(fake::call::event_record, 1, 400);
      std::string text = "nothing";
      async_scope scope{{.executor = l}};
      scope.spawn(note_error(s.completion(), text));
      l.run();
      CHECK(told == expected);
      fake::go_by_itself(true);
      until([&] {
        l.run();
        return text != "nothing";
      });
      CHECK(text.find("cudaFreeAsync failed") != std::string::npos);
    };
    SUBCASE("of memory that cannot be freed") {
      free_in_vain(second);
      CHECK(told == 1);
    }
    SUBCASE("of a place that cannot be recorded") { await_in_vain(1); }
    SUBCASE("of that in a stream that is closed") {
      CHECK_FALSE(shut_down_devices(0s).empty());
      free_in_vain(second);
      await_in_vain(2);
    }
    fake::go_by_itself(true);  // also what is recorded meanwhile
    until([] { return !detail::engine::the().has_pending(); });
    on_unobserved_error(nullptr);
  }

  TEST_CASE("gpu: awaiting a stream of a lost device fails once no callable runs there any more") {
    const losses heard;
    const gpus g(fake::table(), gpus::afterwards::lost);
    loop l;
    stream s(device::cuda(0));
    stream other(device::cuda(0));
    const event lost = other.record();
    running_callable callable;
    callable.give_to(s);
    callable.begin();
    fake::lose(0, 719);
    until([&] { return is_ready(lost); });
    std::string text = "nothing";
    async_scope scope{{.executor = l}};
    scope.spawn(note_error(s.completion(), text));
    for (int i = 0; i != 10; ++i) {
      detail::engine::the().poll();
      l.run();
      CHECK(text == "nothing");
    }
    callable.end();
    until([&] {
      l.run();
      return text != "nothing";
    });
    CHECK(text.find("unspecified launch failure") != std::string::npos);
    CHECK_THROWS_AS(sync_wait(s.completion()), device_error);
  }

  // Should the caller come too early, the callable is still there to see it.
  TEST_CASE("gpu: who is refused a callable that has begun hears of it when that has ended") {
    static std::thread driver;
    static std::atomic<bool> has_begun = false;
    has_begun = false;
    gpu_api api = fake::table();
    api.launch_host_func = [](CUstream_st*, void (*f)(void*), void* with) {
      driver = std::thread([f, with] { f(with); });
      until([] { return has_begun.load(); });
      fake::lose(0, 719);
      return 719;
    };
    const losses heard;
    const gpus g(api, gpus::afterwards::lost);
    stream s(device::cuda(0));
    std::atomic<bool> has_ended = false;
    std::atomic<bool> is_refused = false;
    const auto takes_long = [&] {
      has_begun = true;
      for (int i = 0; i != 10'000 && !is_refused; ++i) std::this_thread::yield();
      has_ended = true;
    };
    CHECK_THROWS_AS(s.enqueue(takes_long), device_error);
    CHECK(has_ended);
    is_refused = true;
    driver.join();
  }

  // Of three events the stream's end takes one. The first of the others is being destroyed when a
  // body takes the second one, and all are destroyed before it records.
  TEST_CASE("gpu: who is about to record at the end keeps its event") {
    last_record hold;
    const gpus g(hold.table);
    stream s(device::cuda(0));
    const detail::lane_ref l = lane_of(s);
    fake::go_by_itself(true);
    event first = s.record();
    event second = s.record();
    event third = s.record();
    sync_wait(third);
    for (event* const e : {&first, &second, &third})
      *e = event();  // the last one is used again first
    fake::go_by_itself(false);
    const int before = l->begin_submission();
    detail::lane::submitted all;
    std::thread body([&] {
      last_record::is_body = true;
      hold.events_end.wait();
      all = l->end_submission(before);
    });
    CHECK(shut_down_devices(0s) == std::vector<std::string>{"cuda:0 stream #1"});
    hold.events_ended.count_down();
    body.join();
    fake::go_by_itself(true);
    CHECK(all.error == nullptr);
    CHECK(all.end);
    until([&] { return all.end->is_reached(); });
  }

  TEST_CASE("gpu: shut_down_devices waits for what has no place behind it") {
    const gpus g;
    stream s(device::cuda(0));
    int to = 0;
    int from = 3;
    s.copy(&to, &from, sizeof to);
    fake::go_by_itself(true);
    CHECK(shut_down_devices(10s).empty());
    CHECK(to == 3);
    CHECK(s.native_handle() == nullptr);
  }

  TEST_CASE("gpu: shut_down_devices waits for work of a stream that has ended") {
    const gpus g;
    int to = 0;
    int from = 3;
    const auto give = [&] {
      stream s(device::cuda(0));
      SUBCASE("a copy and nothing else") {}
      SUBCASE("a copy behind the last place") { static_cast<void>(s.record()); }
      s.copy(&to, &from, sizeof to);
    };
    give();
    CHECK(shut_down_devices(1ms) == std::vector<std::string>{"cuda:0 stream #1"});
    CHECK(fake::living().streams == 1);
    see_all_done();
    CHECK(to == 3);
    until([] { return fake::living() == fake::alive{}; });
  }

  TEST_CASE("gpu: shut_down_devices names an ended stream whose last place is just being told") {
    static std::atomic<bool> tells = false;
    static std::atomic<bool> may_go_on = false;
    tells = false;
    may_go_on = false;
    const gpus g;
    on_unobserved_error([](std::exception_ptr, std::string_view, std::source_location) {
      tells = true;
      until([] { return may_go_on.load(); });
    });
    event last;
    {
      stream s(device::cuda(0));
      for (int i = 0; i != 2; ++i) s.enqueue([] { throw 1; });
      last = s.record();
    }
    fake::finish_all();
    until([] { return tells.load(); });
    CHECK(shut_down_devices(0s) == std::vector<std::string>{"cuda:0 stream #1"});
    CHECK_FALSE(last.ready());
    may_go_on = true;
    CHECK(shut_down_devices(30s).empty());
    CHECK(last.ready());
    CHECK_THROWS_AS(sync_wait(last), int);
    on_unobserved_error(nullptr);
  }

  TEST_CASE("gpu: who is told of an ended stream's last place finds nothing left of it") {
    struct runs_within_post {
      void post(job& j) noexcept { j.run(); }
    } at_once;
    const gpus g;
    event last;
    std::vector<std::string> left{"not asked"};
    {
      stream s(device::cuda(0));
      last = s.record();
    }
    async_scope scope{{.executor = at_once}};
    const auto asks = [&]() -> task<> {
      co_await last;
      left = shut_down_devices(0s);
    };
    scope.spawn(asks());
    fake::finish_all();
    sync_wait(scope.join());
    CHECK(left == std::vector<std::string>{});
    CHECK(shut_down_devices(30s) == std::vector<std::string>{});
  }

  TEST_CASE("gpu: a stream that ends with nothing behind its last place makes no place") {
    const gpus g;
    CUstream_st* const handle = [] {
      stream s(device::cuda(0));
      int to = 0;
      const int from = 3;
      s.copy(&to, &from, sizeof to);
      static_cast<void>(s.record());
      fake::finish_all();
      return s.native_handle();
    }();
    CHECK(fake::count(fake::call::event_record) == 1);
    see_all_done();
    CHECK_FALSE(fake::step(handle));
  }

  TEST_CASE("gpu: a stream that ends while it is being captured makes no place") {
    const gpus g;
    int to = 0;
    const int from = 3;
    {
      stream s(device::cuda(0));
      fake::begin_capture(s.native_handle());
      s.copy(&to, &from, sizeof to);
    }
    CHECK(fake::count(fake::call::event_record) == 0);
    CHECK(shut_down_devices(10s).empty());
  }

  TEST_CASE("gpu: shut_down_devices does not wait for a stream of the host") {
    const gpus g;
    fake::go_by_itself(true);
    loop l;
    stream host(device::host(), {.executor = l, .polled = true});
    const event later = host.record();
    stream s(device::cuda(0));
    const event e = s.record();
    CHECK(shut_down_devices(std::chrono::nanoseconds::max()).empty());
    CHECK(e.ready());
    CHECK_FALSE(later.ready());
    l.run();
    until([&] { return is_ready(later); });
  }

  TEST_CASE("gpu: a process that was forked cannot use them, and is told so") {
    const gpus g;
    stream s(device::cuda(0));
    const auto end = support::in_child([&] {
      std::fprintf(stderr, "%s\n", message_of([&] { s.record(); }).c_str());
      if (device::cuda(0).available()) std::abort();
    });
    CHECK_FALSE(end.aborted);
    CHECK(end.says("turnstile: this process was forked after its parent had used CUDA"));
    CHECK(device::cuda(0).available());
  }

  TEST_CASE("gpu: what was not reached when a process was forked is not reached in the child") {
    const gpus g;
    stream s(device::cuda(0));
    const event e = s.record();
    const auto end = support::in_child([&] {
      for (int i = 0; i != 10; ++i) {
        if (e.ready()) std::abort();
      }
    });
    CHECK(end.status == 0);
    see_all_done();
    CHECK(e.ready());
  }

  TEST_CASE("gpu: shut_down_devices does not wait in a child for a thread of the parent's") {
    static std::atomic<bool> asks = false;
    static std::atomic<bool> may_answer = true;
    asks = false;
    gpu_api api = fake::table();
    api.get_device_name = [](int index, char* to, std::size_t size) {
      asks = true;
      until([] { return may_answer.load(); });
      return fake::table().get_device_name(index, to, size);
    };
    const gpus g(api);
    const stream s(device::cuda(0));
    asks = false;
    may_answer = false;
    std::thread who_asks([] { static_cast<void>(device::cuda(1).available()); });
    until([] { return asks.load(); });
    const auto end = support::in_child([] {
      if (!shut_down_devices(0s).empty()) std::abort();
    });
    CHECK(end.status == 0);
    may_answer = true;
    who_asks.join();
  }
}
