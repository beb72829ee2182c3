#include "tasks/tasks.hpp"

#include <array>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

namespace {

// The caller is one of the threads.
class tbb_task_group {
 public:
  static constexpr std::string_view name = "tbb_task_group";

  explicit tbb_task_group(const bench::shape& s) : threads_(static_cast<int>(s.threads)) {}

  long fib(unsigned n) {
    return threads_.execute([n] { return sum_of_two(n); });
  }
  long skynet(long leaves) {
    return threads_.execute([leaves] { return sum_below(0, leaves); });
  }

 private:
  static long sum_of_two(unsigned n) {
    if (n < 2) return n;
    long one = 0;
    tbb::task_group other;
    other.run([&one, n] { one = sum_of_two(n - 1); });
    const long two = sum_of_two(n - 2);
    other.wait();
    return one + two;
  }

  static long sum_below(long first, long leaves) {
    if (leaves == 1) return first;
    const long each = leaves / bench::tasks::children;
    std::array<long, bench::tasks::children> sums;
    tbb::task_group all;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      all.run([&sums, i, first, each] {
        sums[i] = sum_below(first + static_cast<long>(i) * each, each);
      });
    }
    all.wait();
    return std::accumulate(sums.begin(), sums.end(), 0L);
  }

  tbb::task_arena threads_;
};

const bool asked = bench::tasks::ask<tbb_task_group>();

}  // namespace
