// momentum.cu - a step of gradient descent with momentum on a GPU.

#include "kernels/momentum.hpp"

namespace {

__global__ void momentum_step(float* weights, float* velocity, const float* gradient, std::size_t n,
                              float rate, float keep) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  velocity[i] = keep * velocity[i] - rate * gradient[i];
  weights[i] += velocity[i];
}

}  // namespace

cudaError_t launch_momentum_step(float* weights, float* velocity, const float* gradient,
                                 std::size_t n, float rate, float keep, cudaStream_t s) {
  constexpr unsigned threads = 256;
  momentum_step<<<static_cast<unsigned>((n + threads - 1) / threads), threads, 0, s>>>(
      weights, velocity, gradient, n, rate, keep);
  return cudaPeekAtLastError();
}
