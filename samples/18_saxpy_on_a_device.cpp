// 18_saxpy_on_a_device - y = a * x + y on a GPU, or on the host where there is none.
//
// You learn  that a body which takes a stream only gives work to it: the section goes on to the
//            next body at once, and the caller goes on when its own work is done. Why there is no
//            GPU is said on stderr.
// Builds on  03_atomic_counter
// Prints     4 coroutines added 2x to y 8 times each
//            100000 of 100000 elements are right

#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <iostream>
#include <vector>

#ifdef WITH_KERNELS
#include "kernels/saxpy.hpp"

#include <turnstile/cuda.hpp>
#endif

constexpr std::size_t n = 100'000;
using floats = turnstile::device_buffer<float>;

// Gives the work to `s` and does not wait for it.
void saxpy(float a, const float* x, float* y, turnstile::stream& s) {
#ifdef WITH_KERNELS
  if (!s.where().is_host()) {
    turnstile::check(launch_saxpy(a, x, y, n, s.native_handle()));
    return;
  }
#endif
  s.enqueue([=] {
    for (std::size_t i = 0; i != n; ++i) y[i] += a * x[i];
  });
}

turnstile::task<> add_often(turnstile::critical_section& section, const floats& x, floats& y) {
  const auto add = [&](turnstile::stream& s) { saxpy(2, x.data(), y.data(), s); };
  for (int i = 0; i != 8; ++i) co_await section.execute(add);
}

turnstile::task<> add_and_look(turnstile::device where, std::vector<float>& numbers) {
  turnstile::stream stream{where};
  floats x{stream, n}, y{stream, n};
  stream.copy(x.data(), numbers.data(), n * sizeof(float));
  stream.copy(y.data(), numbers.data(), n * sizeof(float));
  co_await stream.completion();

  turnstile::critical_section section{{.name = "y", .place = where}};
  co_await turnstile::when_all(add_often(section, x, y), add_often(section, x, y),
                               add_often(section, x, y), add_often(section, x, y));

  const auto look = [&](turnstile::stream& s) {
    s.copy(numbers.data(), y.data(), n * sizeof(float));
  };
  co_await section.execute(look);
}

int main() {
  const turnstile::device gpu = turnstile::device::cuda(0);
  if (!gpu.available()) std::cerr << gpu.why_not() << '\n';

  std::vector<float> numbers(n);
  for (std::size_t i = 0; i != n; ++i) numbers[i] = static_cast<float>(i % 100);
  turnstile::sync_wait(add_and_look(turnstile::device::cuda_or_host(0), numbers));

  std::size_t right = 0;  // y was x, and 2x was added 32 times
  for (std::size_t i = 0; i != n; ++i) right += numbers[i] == 65 * static_cast<float>(i % 100);
  std::cout << "4 coroutines added 2x to y 8 times each\n"
            << right << " of " << n << " elements are right\n";
}
