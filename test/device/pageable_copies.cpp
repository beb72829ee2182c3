// pageable_copies.cpp - copies from and to memory of the host that no driver has pinned.
//
// Told to copy such memory CUDA reads it at once, whatever the stream has to do before, and blocks
// the thread until it has written it. Streams of ours do neither: the fake GPU counts such a copy
// as misuse.

#include "device/fake_gpu.hpp"
#include "device/gpu/gpu_error.hpp"
#include "device/gpu/gpu_runtime.hpp"
#include "device/gpus.hpp"

#include <turnstile/turnstile.hpp>

#include <chrono>
#include <cstddef>
#include <doctest/doctest.h>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using detail::gpu_api;
using device_tests::gpus;
using device_tests::losses;
using device_tests::until;

namespace {

// More than goes through a block of 1 MiB at once, and no multiple of it.
constexpr std::size_t many = 1'000'003;
constexpr std::size_t many_bytes = many * sizeof(int);
constexpr int pieces = 4;

std::vector<int> counted_from(int first) {
  std::vector<int> numbers(many);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

int copies() { return fake::count(fake::call::memcpy_async); }
int host_functions() { return fake::count(fake::call::launch_host_func); }

task<> wait_for(stream& s) { co_await s.completion(); }

// The k-th call of a kind from the beginning of the copy on fails, if there are as many. What would
// use the memory after that is for the address sanitizer to see.
void copy_that_may_fail(fake::call c, int k, int error, bool is_to_device) {
  const bool is_lost = detail::is_sticky(error);
  const losses heard;
  const gpus g(fake::table(), is_lost ? gpus::afterwards::lost : gpus::afterwards::nothing_is_left);
  stream s(device::cuda(0));
  device_buffer<int> there(s, many);
  auto here = std::make_unique<std::vector<int>>(many);
  fake::go_by_itself(true);
  fake::fail(c, k, error);
  const int before = fake::count(c);
  const int waits_before = fake::count(fake::call::stream_synchronize);
  bool failed = false;
  try {
    if (is_to_device) {
      s.copy(there.data(), here->data(), many_bytes);
    } else {
      s.copy(here->data(), there.data(), many_bytes);
    }
  } catch (const device_error& e) {
    failed = true;
    CHECK(e.lost() == is_lost);
    // What the driver was given of it may write into memory that is the caller's, too.
    const bool may_go_on = c == fake::call::memcpy_async || c == fake::call::launch_host_func;
    if (may_go_on && !is_lost) {
      CHECK(fake::count(fake::call::stream_synchronize) == waits_before + 1);
    }
    here.reset();
  }
  // Whoever looks at the stream makes it current, too.
  if (c != fake::call::set_device) CHECK(failed == (fake::count(c) - before >= k));
  if (failed && is_lost) {
    CHECK_THROWS_AS(sync_wait(wait_for(s)), device_error);
    fake::call_late();
  } else {
    sync_wait(wait_for(s));
  }
}

}  // namespace

TEST_SUITE("device") {
  TEST_CASE("pageable: nothing is read or written before its turn") {
    const gpus g;
    stream s(device::cuda(0));
    device_buffer<int> there(s, 1);
    int from = 1;
    int to = 0;
    s.enqueue([&from] { from = 2; });
    s.copy(there.data(), &from, sizeof from);
    s.copy(&to, there.data(), sizeof to);
    s.enqueue([&to] { to *= 10; });
    CHECK(from == 1);
    CHECK(to == 0);
    fake::go_by_itself(true);
    sync_wait(wait_for(s));
    CHECK(to == 20);
  }

  TEST_CASE("pageable: from the host to the host, too") {
    const gpus g;
    stream s(device::cuda(0));
    int from = 1;
    int to = 0;
    s.enqueue([&from] { from = 2; });
    s.copy(&to, &from, sizeof from);
    CHECK(to == 0);
    fake::go_by_itself(true);
    sync_wait(wait_for(s));
    CHECK(to == 2);
    CHECK(copies() == 0);
  }

  TEST_CASE("pageable: more than goes through a block at once, there and back") {
    const gpus g;
    fake::go_by_itself(true);
    stream s(device::cuda(0));
    device_buffer<int> there(s, many);
    std::vector<int> before = counted_from(1);
    std::vector<int> after(many);
    std::vector<int> again(many);
    s.copy(there.data(), before.data(), many_bytes);
    s.copy(after.data(), there.data(), many_bytes);
    s.enqueue([&before] { std::iota(before.begin(), before.end(), 2); });
    s.copy(there.data(), before.data(), many_bytes);
    s.copy(again.data(), there.data(), many_bytes);
    sync_wait(wait_for(s));
    CHECK(after == counted_from(1));
    CHECK(again == counted_from(2));
    CHECK(copies() == 4 * pieces);
    CHECK(fake::count(fake::call::host_alloc) == 1);
  }

  TEST_CASE("pageable: a block is used by one stream after the other") {
    const gpus g;
    fake::go_by_itself(true);
    for (int i = 0; i != 3; ++i) {
      CUstream_st* native = nullptr;
      {
        stream s(device::cuda(0));
        native = s.native_handle();
        device_buffer<int> there(s, many);
        const std::vector<int> from = counted_from(i);
        std::vector<int> to(many);
        s.copy(there.data(), from.data(), many_bytes);
        s.copy(to.data(), there.data(), many_bytes);
        sync_wait(wait_for(s));
        CHECK(to == from);
      }
      until([native] { return fake::is_destroyed(native); });
    }
    CHECK(fake::count(fake::call::host_alloc) == 1);
  }

  TEST_CASE("pageable: a short copy in a stream that has nothing to do is left to the driver") {
    const gpus g;
    fake::go_by_itself(true);
    stream s(device::cuda(0));
    device_buffer<int> there(s, 1);
    sync_wait(wait_for(s));
    const int from = 1;
    s.copy(there.data(), &from, sizeof from);
    CHECK(copies() == 1);
    CHECK(host_functions() == 0);
    sync_wait(wait_for(s));
  }

  TEST_CASE("pageable: in an adopted stream, which may wait for others, a short one is not") {
    const gpus g;
    fake::go_by_itself(true);
    CUstream_st* const handle = fake::new_stream(0);
    {
      stream s = detail::stream_access::on(detail::adopt_gpu_stream(handle));
      device_buffer<int> there(s, 1);
      const int from = 1;
      s.copy(there.data(), &from, sizeof from);
      CHECK(copies() == 1);
      CHECK(host_functions() == 1);
      sync_wait(wait_for(s));
    }
    CHECK(fake::table().stream_destroy(handle) == 0);
  }

  TEST_CASE("pageable: memory that is pinned, or a device's, is left to the driver") {
    const gpus g;
    fake::go_by_itself(true);
    stream s(device::cuda(0));
    device_buffer<int> a(s, 4), b(s, 4);
    s.copy(a.data(), b.data(), 16);
    s.copy(b.data(), a.data(), 0);
    CHECK(copies() == 2);
    CHECK(host_functions() == 0);
    sync_wait(wait_for(s));
  }

  TEST_CASE("pageable: what is nowhere is refused by the driver") {
    const gpus g;
    fake::go_by_itself(true);
    stream s(device::cuda(0));
    device_buffer<int> there(s, 1);
    int here = 1;
    CHECK_THROWS_AS(s.copy(there.data(), nullptr, sizeof here), device_error);
    CHECK_THROWS_AS(s.copy(nullptr, there.data(), sizeof here), device_error);
    CHECK_THROWS_AS(s.copy(&here, nullptr, 1 << 20), device_error);
    sync_wait(wait_for(s));
  }

  TEST_CASE("pageable: a capture gets what it would get without the library") {
    const gpus g(fake::table(), gpus::afterwards::memory_is_left);
    stream s(device::cuda(0));
    device_buffer<int> there(s, 1);
    const int from = 1;
    fake::begin_capture(s.native_handle());
    s.copy(there.data(), &from, sizeof from);
    CHECK(copies() == 1);
    CHECK(host_functions() == 0);
  }

  TEST_CASE("pageable: after a copy that failed nothing uses the memory any more") {
    for (const fake::call c :
         {fake::call::memcpy_async, fake::call::launch_host_func, fake::call::host_alloc,
          fake::call::is_pageable, fake::call::stream_is_capturing, fake::call::set_device}) {
      for (const int error : {2, 719}) {
        for (const bool is_to_device : {true, false}) {
          // A copy does these once; the next call is that of the wait.
          const bool is_once = c == fake::call::set_device || c == fake::call::stream_is_capturing;
          const int last = is_once ? 1 : pieces;
          for (int k = 1; k <= last; ++k) {
            CAPTURE(fake::name(c));
            CAPTURE(error);
            CAPTURE(is_to_device);
            CAPTURE(k);
            copy_that_may_fail(c, k, error, is_to_device);
          }
        }
      }
    }
  }

  TEST_CASE("pageable: a copy that failed is waited for though its stream is closed meanwhile") {
    static thread_local bool closes = false;
    gpu_api api = fake::table();
    api.get_last_error = [] {  // when the copy has failed, and nobody has the stream's turn
      if (std::exchange(closes, false)) CHECK_FALSE(shut_down_devices(0ns).empty());
      return fake::table().get_last_error();
    };
    api.stream_synchronize = [](CUstream_st* s) {
      fake::go_by_itself(true);
      return fake::table().stream_synchronize(s);
    };
    const gpus g(api, gpus::afterwards::memory_is_left);
    stream s(device::cuda(0));
    const device_buffer<int> there(s, many);
    auto here = std::make_unique<std::vector<int>>(many);
    fake::fail(fake::call::memcpy_async, 2, 46);
    closes = true;
    CHECK_THROWS_AS(s.copy(here->data(), there.data(), many_bytes), device_error);
    CHECK_FALSE(closes);
    CHECK(fake::count(fake::call::stream_synchronize) == 1);
    CHECK(fake::pending() == 0);
  }

  TEST_CASE("pageable: a copy that failed leaves an adopted stream its block if it is waited for") {
    const gpus g;
    fake::go_by_itself(true);
    CUstream_st* const handle = fake::new_stream(0);
    {
      stream s = detail::stream_access::on(detail::adopt_gpu_stream(handle));
      device_buffer<int> there(s, many);
      const std::vector<int> here(many);
      const auto copy_in_vain = [&] {
        fake::fail(fake::call::memcpy_async, 2, 46);
        CHECK_THROWS_AS(s.copy(there.data(), here.data(), many_bytes), device_error);
      };
      for (int i = 0; i != 3; ++i) copy_in_vain();
      CHECK(fake::count(fake::call::host_alloc) == 1);
      fake::fail(fake::call::stream_synchronize, 1, 46);
      copy_in_vain();
      s.copy(there.data(), here.data(), many_bytes);
      CHECK(fake::count(fake::call::host_alloc) == 2);
      sync_wait(wait_for(s));
    }
    CHECK(fake::table().stream_destroy(handle) == 0);
  }

  TEST_CASE("pageable: the end of an adopted stream does not touch what may be gone") {
    const gpus g;
    fake::go_by_itself(true);
    CUstream_st* const handle = fake::new_stream(0);
    {
      stream s = detail::stream_access::on(detail::adopt_gpu_stream(handle));
      stream ours(device::cuda(0));
      device_buffer<int> there(ours, many);
      std::vector<int> here(many);
      s.enqueue([] {});
      s.copy(here.data(), there.data(), many_bytes);
      CHECK(fake::table().stream_synchronize(handle) == 0);
      CHECK(fake::table().stream_destroy(handle) == 0);
    }
  }
}
