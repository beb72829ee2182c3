// faults.cpp - every call of the runtime fails once, at every place: nobody waits for ever, nothing
// is left, and who is concerned hears of it once.

#include "device/fake_gpu.hpp"
#include "device/gpu/gpu_error.hpp"
#include "device/gpu/gpu_runtime.hpp"
#include "device/gpus.hpp"
#include "support/counted.hpp"
#include "support/unobserved.hpp"

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <doctest/doctest.h>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using device_tests::gpus;
using device_tests::losses;
using device_tests::until;
using support::counted;

namespace {

constexpr int rounds = 8;
constexpr int most = 20;  // calls of one function, of which each fails once

// What the program heard, from all its coroutines.
class heard {
 public:
  void note(const device_error& e) {
    const std::lock_guard lock(lock_);
    (e.lost() ? losses_ : errors_).push_back(e.what());
  }
  int errors() const { return static_cast<int>(errors_.size()); }
  const std::vector<std::string>& lost() const { return losses_; }

 private:
  std::mutex lock_;
  std::vector<std::string> errors_;
  std::vector<std::string> losses_;
};

// Runs `f`, and notes how it fails. True: it did not.
template <class F>
bool tries(heard& all, F f) {
  try {
    f();
    return true;
  } catch (const device_error& e) {
    all.note(e);
    return false;
  }
}

// Awaits `a`, and notes how it fails.
template <class A>
task<> tries_to_wait(heard& all, A a) {
  const counted frame;
  try {
    co_await std::move(a);
  } catch (const device_error& e) {
    all.note(e);
  }
}

// A section whose work is on both streams, one behind the other, and then on the host.
task<> enter(heard& all, critical_section& cs, stream& a, stream& b) {
  const counted frame;
  const auto submits = [](stream& s) { fake::launch(s.native_handle(), [] {}); };
  const auto looks = [] {};
  auto first = cs.submit(submits, {.on = &a});
  auto second = cs.submit(submits, {.on = &b});
  co_await tries_to_wait(all, cs.execute(looks));
  co_await tries_to_wait(all, std::move(first));
  co_await tries_to_wait(all, std::move(second));
}

// One round on two streams: copies, a callable, a buffer, a body, a wait for each other.
task<> round_of(heard& all, critical_section& cs, stream& a, stream& b) {
  const counted frame;
  auto from = std::make_unique<int>(1);
  auto to = std::make_unique<int>(0);
  std::optional<device_buffer<int>> buffer;
  tries(all, [&] { buffer.emplace(a, 16); });
  if (buffer) tries(all, [&] { a.copy(buffer->data(), from.get(), sizeof(int)); });
  if (buffer) tries(all, [&] { a.copy(to.get(), buffer->data(), sizeof(int)); });
  tries(all, [&] { a.copy(to.get(), from.get(), sizeof(int)); });
  tries(all, [&] { a.enqueue([it = counted()] {}); });
  event between;
  tries(all, [&] { between = a.record(); });
  tries(all, [&] { b.wait(between); });
  const detail::lane_ref lane = detail::stream_access::lane_of(b);
  detail::lane::submitted body;
  int error_before = 0;
  if (tries(all, [&] { error_before = lane->begin_submission(); })) {
    fake::launch(lane->native(), [] {});
    body = lane->end_submission(error_before);
    if (body.error != nullptr) tries(all, [&] { std::rethrow_exception(body.error); });
  }
  buffer.reset();
  co_await enter(all, cs, a, b);
  co_await tries_to_wait(all, between);
  co_await tries_to_wait(all, b.completion());
  co_await tries_to_wait(all, a.completion());
  co_await tries_to_wait(all, detail::completion_awaiter(body.end));
}

task<> rounds_of(heard& all, stream& a, stream& b) {
  const counted frame;
  critical_section cs;
  for (int i = 0; i != rounds; ++i) co_await round_of(all, cs, a, b);
}

std::optional<stream> made(heard& all, device where) {
  std::optional<stream> s;
  tries(all, [&] { s.emplace(where); });
  return s;
}

std::optional<stream> adopted(heard& all, CUstream_st* handle) {
  std::optional<stream> s;
  tries(all, [&] { s.emplace(detail::stream_access::on(detail::adopt_gpu_stream(handle))); });
  return s;
}

// What a program does with devices, each step in spite of the failures before.
task<> everything(heard& all, CUstream_st* foreign) {
  const counted frame;
  std::optional<stream> a = made(all, device::cuda(0));
  std::optional<stream> b = made(all, device::cuda(1));
  std::optional<stream> c = adopted(all, foreign);
  if (a && b) co_await rounds_of(all, *a, *b);
  if (a && c) co_await rounds_of(all, *a, *c);
  if (b) tries(all, [&] { b->enqueue([it = counted()] {}); });  // with nothing behind it
  static_cast<void>(detail::gpu_device_of_pointer(foreign));
}

// How often somebody has to hear of it.
enum class told { once, by_each, at_most_once };

told told_of(fake::call c) {
  switch (c) {
    case fake::call::get_device_count:
    case fake::call::get_device_name: return told::by_each;  // who wants a stream there
    case fake::call::driver_get_version:  // whose answer only one sentence is about
    case fake::call::set_device:          // nobody, if it was for a look, which goes on without
    case fake::call::exchange_capture_mode:
    case fake::call::peek_at_last_error:  // before a body it is an old error, of somebody else
    case fake::call::get_last_error:      // nobody, for what was the last error has been told
    case fake::call::stream_destroy:
    case fake::call::event_destroy:
    case fake::call::device_of_pointer: return told::at_most_once;
    default: return told::once;
  }
}

// Whether an error of it tells that a device is lost, wherever it comes: not that of an adopted
// stream whose device is asked for.
bool ends_a_device(fake::call c) {
  return told_of(c) == told::once && c != fake::call::stream_get_device;
}

struct outcome {
  int errors = 0;
  int unobserved = 0;
  int losses = 0;
  std::vector<std::string> lost;
  bool came = false;  // all calls that were to fail
};

struct fault {
  fake::call call;
  int k;
  int error;
};

gpus::afterwards left_after(const std::vector<fault>& faults) {
  auto left = gpus::afterwards::nothing_is_left;
  for (const fault& f : faults) {
    if (detail::is_sticky(f.error)) return gpus::afterwards::lost;
    if (f.call == fake::call::free_async) left = gpus::afterwards::memory_is_left;
  }
  return left;
}

outcome run_with(const std::vector<fault>& faults) {
  const losses devices;
  const support::unobserved nobody;
  heard all;
  outcome o;
  const int before = counted::alive();
  {
    const gpus g(fake::table(), left_after(faults));
    fake::go_by_itself(true);
    CUstream_st* const foreign = fake::new_stream(0);
    for (const fault& f : faults) fake::fail(f.call, f.k, f.error);
    sync_wait(everything(all, foreign));
    CHECK(shut_down_devices(30s).empty());
    until([&] { return counted::alive() == before; });
    o.came = true;
    for (const fault& f : faults) o.came &= fake::count(f.call) >= f.k;
    fake::table().stream_destroy(foreign);
  }
  o.errors = all.errors();
  o.lost = all.lost();
  o.losses = static_cast<int>(devices.seen().size());
  o.unobserved = static_cast<int>(nobody.seen().size());
  return o;
}

}  // namespace

TEST_SUITE("device") {
  TEST_CASE("faults: without any, nothing is heard") {
    const outcome o = run_with({});
    CHECK(o.errors == 0);
    CHECK(o.lost.empty());
    CHECK(o.losses == 0);
    CHECK(o.unobserved == 0);
  }

  TEST_CASE("faults: whichever call fails, somebody hears of it once, and all goes on") {
    for (int i = 0; i != fake::calls; ++i) {
      const auto c = static_cast<fake::call>(i);
      for (const int error : {2, 400}) {
        for (int k = 1; k <= most; ++k) {
          CAPTURE(fake::name(c));
          CAPTURE(k);
          CAPTURE(error);
          const outcome o = run_with({{c, k, error}});
          CHECK(o.lost.empty());
          CHECK(o.losses == 0);
          const int times = o.errors + o.unobserved;
          const told due = told_of(c);
          if (due != told::by_each) CHECK(times <= 1);
          if (due != told::at_most_once && o.came) CHECK(times >= 1);
        }
      }
    }
  }

  TEST_CASE(
      "faults: whichever call ends a device, all who wait there hear the same, the hook once") {
    for (int i = 0; i != fake::calls; ++i) {
      const auto c = static_cast<fake::call>(i);
      for (int k = 1; k <= most; ++k) {
        CAPTURE(fake::name(c));
        CAPTURE(k);
        const outcome o = run_with({{c, k, 719}});
        if (o.came && ends_a_device(c)) CHECK(o.losses == 1);
        CHECK(o.losses <= 1);
        if (told_of(c) != told::by_each) CHECK(o.errors + o.unobserved <= 1);
        CHECK(std::set<std::string>(o.lost.begin(), o.lost.end()).size() <= 1);
      }
    }
  }

  TEST_CASE("faults: a body behind which nothing can be recorded") {
    for (int k = 1; k <= most; ++k) {
      CAPTURE(k);
      const fault first{fake::call::event_record, k, 400};
      const fault second{fake::call::event_record, k + 1, 400};
      const outcome two = run_with({first, second});
      CHECK(two.lost.empty());
      CHECK(two.errors >= 1);
      CHECK(two.errors <= 2);
      const outcome three = run_with({first, second, {fake::call::stream_synchronize, 1, 400}});
      CHECK(three.lost.empty());
      CHECK(three.errors >= 1);
      CHECK(three.errors <= 2);
      const outcome lost = run_with({first, second, {fake::call::stream_synchronize, 1, 719}});
      CHECK(lost.losses <= 1);
    }
  }

  TEST_CASE("faults: a place that cannot be asked for, in a stream that cannot be either") {
    for (const int error : {2, 719}) {
      for (int k = 1; k <= most; ++k) {
        CAPTURE(k);
        CAPTURE(error);
        const outcome o =
            run_with({{fake::call::event_query, k, 400}, {fake::call::stream_query, 1, error}});
        // A copy asks the stream, too, and says what came of it.
        CHECK(o.errors + o.unobserved <= 2);
        CHECK(o.losses <= 1);
      }
    }
  }
}
