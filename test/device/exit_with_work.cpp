// exit_with_work.cpp - a process ends while a thread of the library's is blocked in the driver,
// whose work is done only when the shared pool has ended.
//
// A program of its own: what has to go well is its end.

#include "device/fake_gpu.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <cstdlib>
#include <thread>

using namespace turnstile;

namespace {

constinit std::atomic<bool> is_blocked{false};
constinit std::atomic<bool> is_let_go{false};

detail::gpu_api table;

void look_who_comes() {
  const int looks = fake::count(fake::call::event_query);
  fake::finish_all();
  is_let_go.wait(false);
  for (int i = 0; i != 1000; ++i) std::this_thread::yield();
  // Whoever looks now tells somebody, on an executor that is gone.
  if (fake::count(fake::call::event_query) != looks) std::_Exit(EXIT_FAILURE);
}

}  // namespace

int main() {
  std::atexit(&look_who_comes);  // before the pool is made, so it is called after that has ended
  table = fake::table();
  table.event_synchronize = [](CUevent_st* e) {
    is_blocked = true;
    is_blocked.notify_one();
    const int code = fake::table().event_synchronize(e);
    is_let_go = true;
    is_let_go.notify_one();
    return code;
  };
  detail::use_gpu_api(&table);
  stream(device::cuda(0)).enqueue([] {});
  is_blocked.wait(false);
}
