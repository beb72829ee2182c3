// 20_mixed_pipeline - from a file through a host section and a device section to a sum on the host.
//
// You learn  how sections of both kinds make a pipeline without a thread for each stage: a
//            coroutine takes a block from stage to stage, and while one computes on the device
//            another reads.
// Builds on  18_saxpy_on_a_device
// Prints     3 coroutines squared 1 to 1000 in blocks of 64
//            the sum is 333833500, as it should be

#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <numeric>
#include <vector>

#ifdef WITH_KERNELS
#include "kernels/square.hpp"

#include <turnstile/cuda.hpp>
#endif

constexpr std::size_t block_size = 64;
constexpr long last = 1000;

// Gives the work to `s` and does not wait for it.
void square(float* numbers, std::size_t n, turnstile::stream& s) {
#ifdef WITH_KERNELS
  if (!s.where().is_host()) {
    turnstile::check(launch_square(numbers, n, s.native_handle()));
    return;
  }
#endif
  s.enqueue([=] {
    for (std::size_t i = 0; i != n; ++i) numbers[i] *= numbers[i];
  });
}

struct closer {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using file = std::unique_ptr<std::FILE, closer>;

file numbers_in_a_file() {
  file f(std::tmpfile());  // is gone when it is closed
  std::vector<float> numbers(last);
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  if (f == nullptr || std::fwrite(numbers.data(), sizeof(float), numbers.size(), f.get()) != last) {
    std::perror("20_mixed_pipeline");
    std::exit(1);
  }
  std::rewind(f.get());
  return f;
}

// What the stages share, each with the section that guards it.
struct pipeline {
  explicit pipeline(turnstile::device where)
      : stream(where),
        block(stream, block_size),
        input(numbers_in_a_file()),
        on_device{{.name = "block", .place = where}} {}

  turnstile::stream stream;
  turnstile::device_buffer<float> block;  // one, for all
  file input;
  double sum = 0;

  turnstile::critical_section on_input{{.name = "input", .place = turnstile::device::host()}};
  turnstile::critical_section on_device;
  turnstile::critical_section on_sum{{.name = "sum", .place = turnstile::device::host()}};
};

turnstile::task<> take_blocks(pipeline& p) {
  std::vector<float> numbers(block_size);
  const auto read = [&] {
    numbers.resize(std::fread(numbers.data(), sizeof(float), block_size, p.input.get()));
  };
  const auto compute = [&](turnstile::stream& s) {
    const std::size_t bytes = numbers.size() * sizeof(float);
    s.copy(p.block.data(), numbers.data(), bytes);
    square(p.block.data(), numbers.size(), s);
    s.copy(numbers.data(), p.block.data(), bytes);
  };
  const auto add = [&] { p.sum = std::accumulate(numbers.begin(), numbers.end(), p.sum); };

  for (;;) {
    numbers.resize(block_size);
    co_await p.on_input.execute(read);
    if (numbers.empty()) co_return;
    co_await p.on_device.execute(compute);
    co_await p.on_sum.execute(add);
  }
}

turnstile::task<> run(pipeline& p) {
  co_await p.stream.completion();
  co_await turnstile::when_all(take_blocks(p), take_blocks(p), take_blocks(p));
}

int main() {
  const turnstile::device gpu = turnstile::device::cuda(0);
  if (!gpu.available()) std::cerr << gpu.why_not() << '\n';

  pipeline p{turnstile::device::cuda_or_host(0)};
  turnstile::sync_wait(run(p));

  const long sum = static_cast<long>(p.sum);
  const long expected = last * (last + 1) * (2 * last + 1) / 6;
  std::cout << "3 coroutines squared 1 to " << last << " in blocks of " << block_size << '\n'
            << "the sum is " << sum
            << (sum == expected ? ", as it should be\n" : ", which is wrong\n");
}
