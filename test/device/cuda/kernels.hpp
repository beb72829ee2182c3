// kernels.hpp - kernels for tests, behind plain functions that only give the work to `s`.
#pragma once

#include <cuda_runtime_api.h>

// Keeps one multiprocessor busy for so many ns, by the GPU's clock.
cudaError_t launch_spin(unsigned nanoseconds, cudaStream_t s);

// Spins, and then: *mine = (*next)++. Two at once would give the same number twice.
cudaError_t launch_take_number(int* next, int* mine, unsigned nanoseconds, cudaStream_t s);

// Writes where nothing is, after which the GPU is of no use to the process any more.
cudaError_t launch_stray_write(cudaStream_t s);

// More threads in a block than there can be, which CUDA refuses; with which error depends on its
// version.
cudaError_t launch_too_wide(cudaStream_t s);
