// 19_optimizer_on_weights - eight coroutines train one model whose weights stay on a GPU.
//
// You learn  how host work and a device share a section: each coroutine copies the weights back,
//            computes a gradient from them on its own thread, and gives the step to the section.
//            What is copied back is never a mixture of two steps.
// Builds on  18_saxpy_on_a_device
// Prints     8 coroutines took 400 steps
//            0 of 400 snapshots were torn
//            each weight is within 0.001 of where it should be

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iostream>
#include <vector>

#ifdef WITH_KERNELS
#include "kernels/momentum.hpp"

#include <turnstile/cuda.hpp>
#endif

constexpr std::size_t n = 4096;
constexpr std::size_t bytes = n * sizeof(float);
constexpr float target = 3;  // of every weight, so that they stay equal if each step is whole
constexpr float rate = 0.02F;
constexpr float keep = 0.5F;

using floats = turnstile::device_buffer<float>;

// Weights and velocity change together: that is what the section is for.
struct model {
  explicit model(turnstile::stream& s) : weights(s, n), velocity(s, n) {
    s.copy(weights.data(), zeros.data(), bytes);
    s.copy(velocity.data(), zeros.data(), bytes);
  }

  // Gives the work to `s` and does not wait for it.
  void step(const floats& gradient, turnstile::stream& s) {
    float* const w = weights.data();
    float* const v = velocity.data();
    const float* const g = gradient.data();
#ifdef WITH_KERNELS
    if (!s.where().is_host()) {
      turnstile::check(launch_momentum_step(w, v, g, n, rate, keep, s.native_handle()));
      return;
    }
#endif
    s.enqueue([=] {
      for (std::size_t i = 0; i != n; ++i) {
        v[i] = keep * v[i] - rate * g[i];
        w[i] += v[i];
      }
    });
  }

  const std::vector<float> zeros = std::vector<float>(n);
  floats weights, velocity;
};

std::atomic<int> steps = 0;
std::atomic<int> torn = 0;

turnstile::task<> train(turnstile::critical_section& section, model& shared,
                        turnstile::device where) {
  turnstile::stream own{where};
  floats gradient_there{own, n};
  std::vector<float> snapshot(n), gradient(n);
  co_await own.completion();

  const auto look = [&](turnstile::stream& s) {
    s.copy(snapshot.data(), shared.weights.data(), bytes);
  };
  const auto step = [&](turnstile::stream& s) {
    s.copy(gradient_there.data(), gradient.data(), bytes);
    shared.step(gradient_there, s);
  };
  for (int i = 0; i != 50; ++i) {
    co_await section.execute(look);
    if (std::ranges::adjacent_find(snapshot, std::not_equal_to{}) != snapshot.end()) ++torn;
    std::ranges::transform(snapshot, gradient.begin(), [](float w) { return w - target; });
    co_await section.execute(step);
    ++steps;
  }
}

turnstile::task<> train_together(turnstile::device where, std::vector<float>& result) {
  turnstile::stream stream{where};
  model shared{stream};
  co_await stream.completion();

  turnstile::critical_section weights{{.name = "weights", .place = where}};
  turnstile::async_scope scope;
  for (int i = 0; i != 8; ++i) scope.spawn(train(weights, shared, where));
  co_await scope.join();

  const auto look = [&](turnstile::stream& s) {
    s.copy(result.data(), shared.weights.data(), bytes);
  };
  co_await weights.execute(look);
}

int main() {
  const turnstile::device gpu = turnstile::device::cuda(0);
  if (!gpu.available()) std::cerr << gpu.why_not() << '\n';

  std::vector<float> result(n);
  turnstile::sync_wait(train_together(turnstile::device::cuda_or_host(0), result));

  const bool learned =
      std::ranges::all_of(result, [](float w) { return std::abs(w - target) < 0.001F; });
  std::cout << "8 coroutines took " << steps << " steps\n"
            << torn << " of " << steps << " snapshots were torn\n"
            << (learned ? "each weight is" : "not each weight is")
            << " within 0.001 of where it should be\n";
}
