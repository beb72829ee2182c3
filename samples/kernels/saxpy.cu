// saxpy.cu - y = a * x + y on a GPU.

#include "kernels/saxpy.hpp"

namespace {

__global__ void saxpy(float a, const float* x, float* y, std::size_t n) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}

}  // namespace

cudaError_t launch_saxpy(float a, const float* x, float* y, std::size_t n, cudaStream_t s) {
  constexpr unsigned threads = 256;
  saxpy<<<static_cast<unsigned>((n + threads - 1) / threads), threads, 0, s>>>(a, x, y, n);
  return cudaPeekAtLastError();
}
