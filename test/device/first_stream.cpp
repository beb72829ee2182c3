// first_stream.cpp - what the first stream of a process starts, it starts when it is made, and what
// must not fail takes no memory: later, work is being given, and whoever gives it has locks that a
// new thread may want.
//
// A program of its own: in any other one something has been started already.

#include "device/engine.hpp"
#include "device/fake_gpu.hpp"
#include "support/own_new.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <thread>

using namespace turnstile;

namespace {

std::atomic<long> allocations{0};

}  // namespace

void support::before_allocation() { ++allocations; }

namespace {

bool makes_engine_without_memory() {
  const long before = allocations;
  static_cast<void>(detail::engine::the());
  return allocations == before;
}

std::ptrdiff_t threads() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return std::distance(begin(all), end(all));
}

bool starts_nothing_when_recording() {
  detail::use_gpu_api(&fake::table());
  fake::go_by_itself(true);  // so that no thread has to block
  const stream s(device::cuda(0));
  const std::ptrdiff_t before = threads();
  const event e = stream(device::cuda(0)).record();
  while (!e.ready()) std::this_thread::yield();
  return threads() == before;
}

}  // namespace

int main() {
  return makes_engine_without_memory() && starts_nothing_when_recording() ? EXIT_SUCCESS
                                                                          : EXIT_FAILURE;
}
