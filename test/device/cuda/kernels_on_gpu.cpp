// kernels_on_gpu.cpp - sections whose bodies launch kernels: order, errors, launches far ahead,
// captures, and what it costs to wait.

#include "device/cuda/kernels.hpp"
#include "support/processor_time.hpp"

#include <turnstile/cuda.hpp>
#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <doctest/doctest.h>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using support::processor_time;

namespace {

// Memory of the host that a GPU writes, seen as soon as the kernel is complete.
class pinned_numbers {
 public:
  explicit pinned_numbers(std::size_t n) : size_(n) {
    check(cudaHostAlloc(reinterpret_cast<void**>(&first_), n * sizeof(int), cudaHostAllocMapped));
    std::ranges::fill(all(), -1);
  }
  ~pinned_numbers() { cudaFreeHost(first_); }
  pinned_numbers(const pinned_numbers&) = delete;
  pinned_numbers& operator=(const pinned_numbers&) = delete;

  int* at(std::size_t i) { return first_ + i; }
  std::span<int> all() { return {first_, size_}; }

 private:
  int* first_ = nullptr;
  std::size_t size_;
};

// A number in a GPU's memory that starts with 0.
device_buffer<int> zero(stream& s) {
  device_buffer<int> there{s, 1};
  const int none = 0;
  s.copy(there.data(), &none, sizeof none);
  sync_wait(s.completion());
  return there;
}

task<> take_numbers(critical_section& section, stream& on, int* next, std::span<int> mine,
                    unsigned nanoseconds) {
  for (int& number : mine) {
    const auto take = [&](stream& s) {
      check(launch_take_number(next, &number, nanoseconds, s.native_handle()));
    };
    co_await section.execute(take, {.on = &on});
    // The kernel of this execution is complete, so what it wrote is here.
    CHECK(number >= 0);
  }
}

// 32 coroutines take numbers on 4 streams.
void take_on_4_streams(release hand_on, unsigned nanoseconds) {
  constexpr std::size_t clients = 32, each = 40;
  std::deque<stream> streams;
  for (int i = 0; i != 4; ++i) streams.emplace_back(device::cuda(0));
  device_buffer<int> next = zero(streams.front());
  critical_section section{{.name = "next", .place = device::cuda(0), .hand_on = hand_on}};
  pinned_numbers taken(clients * each);
  thread_pool pool{2};
  async_scope scope{{.executor = pool}};
  for (std::size_t i = 0; i != clients; ++i) {
    scope.spawn(take_numbers(section, streams[i % streams.size()], next.data(),
                             taken.all().subspan(i * each, each), nanoseconds));
  }
  sync_wait(scope.join());
  for (std::size_t i = 0; i != clients; ++i) {
    CHECK(std::ranges::is_sorted(taken.all().subspan(i * each, each)));
  }
  std::ranges::sort(taken.all());
  std::vector<int> expected(clients * each);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(std::ranges::equal(taken.all(), expected));
}

std::string error_of(critical_section& section, auto body) {
  try {
    sync_wait(section.execute(body));
  } catch (const device_error& e) {
    CHECK_FALSE(e.lost());
    return e.name();
  }
  return "none";
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("kernels of one section run one at a time, also on several streams") {
    for (const release hand_on : {release::submission, release::completion}) {
      for (const unsigned nanoseconds : {0U, 5'000U}) {
        CAPTURE(nanoseconds);
        take_on_4_streams(hand_on, nanoseconds);
      }
    }
  }

  TEST_CASE("a launch that CUDA refuses is the error of its body, and the section goes on") {
    critical_section section{{.name = "kernels", .place = device::cuda(0)}};
    const auto fine = [](stream& s) { check(launch_spin(0, s.native_handle())); };
    const auto told = [](stream& s) { check(launch_too_wide(s.native_handle())); };
    // As who launches without a look at what came of it: it stays the thread's last error.
    const auto not_told = [](stream& s) { static_cast<void>(launch_too_wide(s.native_handle())); };
    const std::string refused = cudaGetErrorName(launch_too_wide(nullptr));
    cudaGetLastError();
    CHECK(refused != "cudaSuccess");
    CHECK(error_of(section, fine) == "none");
    CHECK(error_of(section, told) == refused);
    CHECK(error_of(section, fine) == "none");
    CHECK(error_of(section, not_told) == refused);
    CHECK(error_of(section, fine) == "none");
  }

  TEST_CASE("thousands of executions wait for a GPU that is behind, and none is lost") {
    constexpr std::size_t clients = 3000;
    stream s{device::cuda(0)};
    device_buffer<int> next = zero(s);
    critical_section section{{.place = device::cuda(0)}};
    pinned_numbers taken(clients);
    thread_pool pool{2};
    async_scope scope{{.executor = pool}};
    check(launch_spin(20'000'000, s.native_handle()));
    for (std::size_t i = 0; i != clients; ++i) {
      scope.spawn(take_numbers(section, s, next.data(), taken.all().subspan(i, 1), 0));
    }
    sync_wait(scope.join());
    std::vector<int> expected(clients);
    std::iota(expected.begin(), expected.end(), 0);
    std::ranges::sort(taken.all());
    CHECK(std::ranges::equal(taken.all(), expected));
  }

  TEST_CASE("while a stream is being captured it takes no body, and afterwards it does") {
    stream s{device::cuda(0)};
    critical_section section{{.place = device::cuda(0)}};
    bool ran = false;
    const auto body = [&ran](stream& on) {
      ran = true;
      check(launch_spin(0, on.native_handle()));
    };
    check(cudaStreamBeginCapture(s.native_handle(), cudaStreamCaptureModeThreadLocal));
    CHECK_THROWS_AS(s.enqueue([] {}), device_error);
    CHECK_THROWS_AS(sync_wait(section.execute(body, {.on = &s})), device_error);
    CHECK_FALSE(ran);
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(s.native_handle(), &graph));
    check(cudaGraphDestroy(graph));
    sync_wait(section.execute(body, {.on = &s}));
    CHECK(ran);
  }

  TEST_CASE("a graph may be launched by a body") {
    stream s{device::cuda(0)};
    device_buffer<int> next = zero(s);
    pinned_numbers taken(1);
    check(cudaStreamBeginCapture(s.native_handle(), cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i != 10; ++i) {
      check(launch_take_number(next.data(), taken.at(0), 0, s.native_handle()));
    }
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(s.native_handle(), &graph));
    cudaGraphExec_t ready = nullptr;
    check(cudaGraphInstantiate(&ready, graph, 0));
    critical_section section{{.place = device::cuda(0)}};
    const auto launch = [&](stream& on) { check(cudaGraphLaunch(ready, on.native_handle())); };
    for (int i = 0; i != 3; ++i) {
      sync_wait(section.execute(launch, {.on = &s}));
      CHECK(*taken.at(0) == 10 * i + 9);
    }
    check(cudaGraphExecDestroy(ready));
    check(cudaGraphDestroy(graph));
  }

  TEST_CASE("a stream of somebody else's that is being captured cannot be adopted") {
    cudaStream_t theirs = nullptr;
    check(cudaStreamCreateWithFlags(&theirs, cudaStreamNonBlocking));
    check(cudaStreamBeginCapture(theirs, cudaStreamCaptureModeThreadLocal));
    CHECK_THROWS_AS(adopt(theirs), std::invalid_argument);
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(theirs, &graph));
    check(cudaGraphDestroy(graph));
    check(cudaStreamDestroy(theirs));
    CHECK_THROWS_AS(adopt(cudaStreamLegacy), std::invalid_argument);
    CHECK_THROWS_AS(adopt(cudaStreamPerThread), std::invalid_argument);
  }

  TEST_CASE("awaits that are pending for 50 ms do not keep a core busy") {
    constexpr unsigned fifty_ms = 50'000'000;
    for (const std::size_t awaits : {1, 16}) {
      CAPTURE(awaits);
      thread_pool pool{2};
      std::deque<stream> streams;
      for (std::size_t i = 0; i != awaits; ++i) streams.emplace_back(device::cuda(0));
      const auto wait = [](stream& s) -> task<> { co_await s.completion(); };
      async_scope scope{{.executor = pool}};
      const auto begun = std::chrono::steady_clock::now();
      for (stream& s : streams) check(launch_spin(fifty_ms, s.native_handle()));
      const auto used_before = processor_time();
      for (stream& s : streams) scope.spawn(wait(s));
      sync_wait(scope.join());
      const std::chrono::duration<double, std::milli> used = processor_time() - used_before;
      const std::chrono::duration<double, std::milli> passed =
          std::chrono::steady_clock::now() - begun;
      MESSAGE(awaits, " awaits pending for ", passed.count(), " ms take ", used.count(),
              " ms of processor time");
      CHECK(passed > 45ms);
      CHECK(used < passed / 2);
    }
  }
}

// Each of these ends the use of the GPU, and so is a process of its own.
TEST_SUITE("lost") {
  TEST_CASE("a kernel that writes where nothing is: all who wait hear of it, and later ones") {
    static std::vector<device> lost;
    on_device_lost([](device d, const device_error& e) {
      CHECK(e.lost());
      lost.push_back(d);
    });
    critical_section weights{{.name = "weights", .place = device::cuda(0)}};
    critical_section host;
    stream kept{device::cuda(0)};
    const device_buffer<int> memory{kept, 1000};
    std::vector<std::string> ends;
    bool looked = false;
    const auto note = [&ends](auto request) -> task<> {
      try {
        co_await std::move(request);
        ends.emplace_back("done");
      } catch (const device_error& e) {
        ends.push_back((e.lost() ? "lost: " : "") + e.name());
      }
    };
    const auto spins = [](stream& s) { check(launch_spin(1'000'000, s.native_handle())); };
    const auto strays = [](stream& s) { check(launch_stray_write(s.native_handle())); };
    const auto looks = [&looked] { looked = true; };
    manual_executor one_thread;
    async_scope scope{{.executor = one_thread}};
    scope.spawn(note(weights.execute(spins)));
    scope.spawn(note(weights.execute(strays)));
    scope.spawn(note(weights.execute(spins)));
    scope.spawn(note(weights.execute(looks)));
    while (ends.size() != 4) {
      one_thread.run();
      std::this_thread::yield();
    }
    // The first may have been complete before anybody knew.
    for (std::size_t i = 1; i != 4; ++i) CHECK(ends[i] == "lost: cudaErrorIllegalAddress");
    CHECK(lost == std::vector{device::cuda(0)});
    CHECK_FALSE(looked);
    CHECK(device::cuda_or_host(0) == device::host());
    CHECK_FALSE(device::cuda(0).available());

    CHECK_THROWS_AS(weights.try_execute(looks), device_error);
    CHECK_THROWS_AS(sync_wait(weights.execute(spins)), device_error);
    CHECK_THROWS_AS(sync_wait(kept.completion()), device_error);
    CHECK_THROWS_AS(stream{device::cuda(0)}, device_error);
    sync_wait(host.execute(looks));
    CHECK(looked);
    sync_wait(weights.close());
    sync_wait(scope.join());
    on_device_lost(nullptr);
  }
}

TEST_SUITE("shut down") {
  TEST_CASE("shut_down_devices waits for kernels, names who is late, and ends it all") {
    stream s{device::cuda(0)};
    pinned_numbers taken(1);
    {
      device_buffer<int> next = zero(s);
      check(launch_take_number(next.data(), taken.at(0), 200'000'000, s.native_handle()));
      const std::vector<std::string> late = shut_down_devices(1ms);
      REQUIRE(late.size() == 1);
      CHECK(late[0].find("cuda:0") != std::string::npos);
      CHECK(*taken.at(0) == -1);
    }
    CHECK(shut_down_devices(30s).empty());
    CHECK(cudaStreamQuery(nullptr) == cudaSuccess);
    CHECK_THROWS_AS(stream{device::cuda(0)}, device_error);
  }
}

TEST_SUITE("exit") {
  TEST_CASE("a process may end while a kernel runs that somebody waits for") {
    static stream& s = *new stream{device::cuda(0)};
    static async_scope& scope = *new async_scope;
    check(launch_spin(100'000'000, s.native_handle()));
    scope.spawn([]() -> task<> { co_await s.completion(); }());
    s.enqueue([] {});
  }
}
