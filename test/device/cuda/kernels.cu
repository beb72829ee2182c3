// kernels.cu - what the tests' kernels do on a GPU.

#include "device/cuda/kernels.hpp"

namespace {

__device__ unsigned long long now() {
  unsigned long long t = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

__device__ void spin_for(unsigned nanoseconds) {
  const unsigned long long begun = now();
  while (now() - begun < nanoseconds) {
  }
}

__global__ void spin(unsigned nanoseconds) { spin_for(nanoseconds); }

__global__ void take_number(volatile int* next, volatile int* mine, unsigned nanoseconds) {
  const int number = *next;
  spin_for(nanoseconds);
  *mine = number;
  *next = number + 1;
}

__global__ void write(volatile int* where) { *where = 1; }

}  // namespace

cudaError_t launch_spin(unsigned nanoseconds, cudaStream_t s) {
  spin<<<1, 1, 0, s>>>(nanoseconds);
  return cudaPeekAtLastError();
}

cudaError_t launch_take_number(int* next, int* mine, unsigned nanoseconds, cudaStream_t s) {
  take_number<<<1, 1, 0, s>>>(next, mine, nanoseconds);
  return cudaPeekAtLastError();
}

cudaError_t launch_stray_write(cudaStream_t s) {
  write<<<1, 1, 0, s>>>(nullptr);
  return cudaPeekAtLastError();
}

cudaError_t launch_too_wide(cudaStream_t s) {
  constexpr unsigned more_than_there_can_be = 2048;
  spin<<<1, more_than_there_can_be, 0, s>>>(0);
  return cudaPeekAtLastError();
}
