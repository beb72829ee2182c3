// square.cu - squares numbers in place on a GPU.

#include "kernels/square.hpp"

namespace {

__global__ void square(float* numbers, std::size_t n) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) numbers[i] *= numbers[i];
}

}  // namespace

cudaError_t launch_square(float* numbers, std::size_t n, cudaStream_t s) {
  constexpr unsigned threads = 256;
  square<<<static_cast<unsigned>((n + threads - 1) / threads), threads, 0, s>>>(numbers, n);
  return cudaPeekAtLastError();
}
