// crew.hpp - plain threads that outlive a round, so that no round pays for making them.
#pragma once

#include <barrier>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace bench {

class crew {
 public:
  using work = std::function<void(std::size_t)>;

  // `on_thread(i, rounds)` is what thread i does for its whole life; it calls `rounds` once. That
  // is the place for what a library wants done at the start and the end of each thread.
  using life = std::function<void(std::size_t, const std::function<void()>& rounds)>;

  explicit crew(std::size_t threads, life on_thread = nullptr);
  ~crew();
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;

  // Calls `w(i)` on every thread i at once and waits for all.
  void run(work w);

 private:
  void serve(std::size_t index);

  std::barrier<> gate_;  // the threads and the caller of run, before and after each round
  work work_;            // written outside the gates, read between them; empty: go home
  std::vector<std::thread> threads_;
};

}  // namespace bench
