// saxpy.hpp - y = a * x + y on a GPU: a plain function, so that who calls it is compiled without
// nvcc.
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>

// Only gives the work to `s`. What a kernel is refused for is known then.
cudaError_t launch_saxpy(float a, const float* x, float* y, std::size_t n, cudaStream_t s);
