// streams_on_gpu.cpp - streams, events, memory and sections on a real GPU, without kernels.

#include <turnstile/cuda.hpp>
#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <doctest/doctest.h>
#include <numeric>
#include <vector>

namespace {

using turnstile::device;

constexpr std::size_t n = 10'000;
constexpr std::size_t bytes = n * sizeof(int);

std::vector<int> counted_from(int first) {
  std::vector<int> numbers(n);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

turnstile::task<> wait_for(turnstile::stream& s) { co_await s.completion(); }

turnstile::task<> wait_for(turnstile::event e) { co_await e; }

}  // namespace

TEST_CASE("what is copied to a GPU and back is the same") {
  turnstile::stream s{device::cuda(0)};
  CHECK(s.native_handle() != nullptr);
  turnstile::device_buffer<int> there{s, n};
  const std::vector<int> before = counted_from(1);
  std::vector<int> after(n);
  s.copy(there.data(), before.data(), bytes);
  s.copy(after.data(), there.data(), bytes);
  turnstile::sync_wait(wait_for(s));
  CHECK(after == before);
}

TEST_CASE("a stream waits for the place in another one") {
  turnstile::stream first{device::cuda(0)}, second{device::cuda(0)};
  turnstile::device_buffer<int> there{first, n};
  const std::vector<int> before = counted_from(2);
  std::vector<int> after(n);
  first.copy(there.data(), before.data(), bytes);
  second.wait(first.record());
  second.copy(after.data(), there.data(), bytes);
  const turnstile::event last = second.record();
  turnstile::sync_wait(wait_for(last));
  CHECK(last.ready());
  CHECK(after == before);
}

TEST_CASE("a callable runs in the order of its stream, and what it throws comes to who waits") {
  turnstile::stream s{device::cuda(0)};
  std::vector<int> order;
  s.enqueue([&] { order.push_back(1); });
  s.enqueue([&] { order.push_back(2); });
  s.enqueue([] { throw 3; });
  CHECK_THROWS_AS(turnstile::sync_wait(wait_for(s)), int);
  CHECK(order == std::vector{1, 2});
  turnstile::sync_wait(wait_for(s));
}

TEST_CASE("a stream of somebody else's can be awaited") {
  cudaStream_t theirs = nullptr;
  turnstile::check(cudaStreamCreateWithFlags(&theirs, cudaStreamNonBlocking));
  {
    turnstile::stream s = turnstile::adopt(theirs);
    CHECK(s.where() == device::cuda(0));
    CHECK(s.native_handle() == theirs);
    turnstile::sync_wait(wait_for(s));
  }
  turnstile::check(cudaStreamDestroy(theirs));
}

TEST_CASE("device and host executions of one section see what the one before wrote") {
  turnstile::stream s{device::cuda(0)};
  turnstile::device_buffer<int> there{s, n};
  turnstile::sync_wait(wait_for(s));
  turnstile::critical_section section{{.name = "there", .place = device::cuda(0)}};

  constexpr int rounds = 50;
  int wrong = 0;
  const auto take_turns = [&](int offset) -> turnstile::task<> {
    std::vector<int> in, out(n);
    const auto there_and_back = [&](turnstile::stream& on) {
      on.copy(there.data(), in.data(), bytes);
      on.copy(out.data(), there.data(), bytes);
    };
    const auto look = [&] { wrong += in != out; };
    for (int i = 0; i != rounds; ++i) {
      in = counted_from(offset + i);
      co_await section.execute(there_and_back);
      co_await section.execute(look);
    }
  };
  turnstile::async_scope scope;
  for (int i = 0; i != 8; ++i) scope.spawn(take_turns(i * 1000));
  turnstile::sync_wait(scope.join());
  CHECK(wrong == 0);
}
