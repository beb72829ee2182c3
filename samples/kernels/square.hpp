// square.hpp - squares numbers in place on a GPU, behind a plain function.
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>

// Only gives the work to `s`.
cudaError_t launch_square(float* numbers, std::size_t n, cudaStream_t s);
