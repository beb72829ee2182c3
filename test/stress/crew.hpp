// crew.hpp - threads that begin together.
#pragma once

#include <latch>
#include <thread>
#include <vector>

namespace stress {

// Runs f(0) to f(n - 1), each on a thread of its own, and waits for them.
template <class F>
void together(int n, F f) {
  std::latch begin(n);
  std::vector<std::jthread> threads;
  for (int i = 0; i != n; ++i) {
    threads.emplace_back([&, i] {
      begin.arrive_and_wait();
      f(i);
    });
  }
}

}  // namespace stress
