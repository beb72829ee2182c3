// 12_barrier - five workers make a triangle of numbers, row by row, each its own column.
//
// You learn  how to wait for one another again and again: the condition asks for the number of the
//            phase, which only goes up, so nobody mistakes one phase for the next.
// Builds on  10_bounded_buffer
// Prints     1 0 0 0 0
//            1 1 0 0 0
//            1 2 1 0 0
//            1 3 3 1 0
//            1 4 6 4 1

#include <turnstile/turnstile.hpp>

#include <array>
#include <cstddef>
#include <iostream>

class barrier {
 public:
  explicit barrier(std::size_t workers) : workers_(workers) {}

  // Everything that was done before the last one arrives is seen by all after it.
  turnstile::task<> arrive_and_wait() {
    const std::size_t mine = co_await state_.execute([this](state& s) {
      const std::size_t phase = s.phase;
      if (++s.arrived == workers_) s = {.arrived = 0, .phase = phase + 1};
      return phase;
    });
    // A condition on `arrived` would be wrong: the quick ones arrive for the next phase before the
    // slow ones have left this one.
    co_await state_.execute_when([mine](const state& s) { return s.phase != mine; }, [](state&) {});
  }

 private:
  struct state {
    std::size_t arrived = 0;
    std::size_t phase = 0;
  };

  const std::size_t workers_;
  turnstile::synchronized<state> state_;
};

constexpr std::size_t size = 5;
std::array<std::array<int, size>, size> rows{{{1}}};

// Each number is the sum of the two above it, which may be another worker's.
turnstile::task<> fill(std::size_t column, barrier& row_done) {
  for (std::size_t row = 1; row != size; ++row) {
    const auto& above = rows[row - 1];
    rows[row][column] = above[column] + (column == 0 ? 0 : above[column - 1]);
    co_await row_done.arrive_and_wait();
  }
}

int main() {
  barrier row_done{size};
  turnstile::thread_pool pool{2};  // enough for five who wait for one another
  turnstile::async_scope scope{{.executor = pool}};
  for (std::size_t column = 0; column != size; ++column) scope.spawn(fill(column, row_done));
  turnstile::sync_wait(scope.join());

  for (const auto& row : rows) {
    const char* gap = "";
    for (const int n : row) {
      std::cout << gap << n;
      gap = " ";
    }
    std::cout << '\n';
  }
}
