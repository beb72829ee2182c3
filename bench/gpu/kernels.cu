// kernels.cu - the kernel that the benchmarks launch.

#include "gpu/kernels.hpp"

namespace bench::gpu {
namespace {

__device__ number now() {
  number t = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

__global__ void give_answer(volatile number* value, volatile number* answer, number nanoseconds) {
  const number before = *value;
  if (nanoseconds != 0) {
    const number begun = now();
    while (now() - begun < nanoseconds) {
    }
  }
  *answer = before;
  *value = before + 1;
}

}  // namespace

cudaError_t launch_answer(number* value, number* answer, std::chrono::microseconds time,
                          cudaStream_t s) {
  give_answer<<<1, 1, 0, s>>>(value, answer, static_cast<number>(time.count()) * 1000);
  return cudaPeekAtLastError();
}

}  // namespace bench::gpu
