// all_in_cu.cu - every public header also compiles in a .cu.
//
// Each is included on the command line. Coroutines belong into .cpp files: see the README. What is
// here is what a .cu may want of us.
#include <turnstile/cuda.hpp>

namespace {

__global__ void fill(float* to, float with, std::size_t n) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) to[i] = with;
}

void fill(turnstile::device_buffer<float>& to, float with, turnstile::stream& s) {
  fill<<<1, static_cast<unsigned>(to.size()), 0, s.native_handle()>>>(to.data(), with, to.size());
  turnstile::check(cudaPeekAtLastError());
}

}  // namespace

int main() {
  if (!turnstile::device::cuda(0).available()) return 0;
  turnstile::stream s{turnstile::device::cuda(0)};
  turnstile::device_buffer<float> numbers{s, 256};
  fill(numbers, 1, s);
}
