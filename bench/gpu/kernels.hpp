// kernels.hpp - what the benchmarks launch, behind a plain function.
#pragma once

#include <chrono>
#include <cuda_runtime_api.h>

namespace bench::gpu {

using number = unsigned long long;

// Only gives the work to `s`: a kernel that keeps one multiprocessor busy for `time`, by the GPU's
// clock, and then does *answer = (*value)++. Two at once would give the same number twice.
cudaError_t launch_answer(number* value, number* answer, std::chrono::microseconds time,
                          cudaStream_t s);

}  // namespace bench::gpu
