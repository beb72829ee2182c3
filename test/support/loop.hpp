// loop.hpp - an executor of our own that runs when told, and knows whether it does.
#pragma once

#include <turnstile/executor.hpp>
#include <turnstile/manual_executor.hpp>

#include <cstddef>
#include <utility>

namespace support {

class loop {
 public:
  void post(turnstile::job& j) noexcept { jobs_.post(j); }

  std::size_t run() {
    std::size_t ran = 0;
    while (run_one()) ++ran;
    return ran;
  }
  bool run_one() {
    const loop* const before = running_;
    running_ = this;
    const bool ran = jobs_.run_one();
    running_ = before;
    return ran;
  }
  std::size_t pending() const { return jobs_.pending(); }

  // This thread is inside run().
  bool here() const { return running_ == this; }

 private:
  static inline thread_local const loop* running_ = nullptr;

  turnstile::manual_executor jobs_;
};

// Runs `f` as a job, so that what it begins counts as running on the loop.
template <class F>
void run_on(loop& l, F f) {
  struct call : turnstile::job {
    explicit call(F& g) noexcept : job(&run_it), function(&g) {}
    static void run_it(turnstile::job& j) noexcept { (*static_cast<call&>(j).function)(); }
    F* function;
  };
  call first(f);
  turnstile::executor_ref(l).post(first);
  l.run();
}

// Calls `f` so that this thread serves all that it sets in motion, before this returns. Elsewhere a
// thread without an executor passes a section on to the shared pool when its budget is spent.
template <class F>
void serve_here(F f) {
  loop here;
  run_on(here, std::move(f));
}

}  // namespace support
