// momentum.hpp - a step of gradient descent with momentum on a GPU, behind a plain function.
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>

// velocity = keep * velocity - rate * gradient; weights += velocity. Only gives the work to `s`.
cudaError_t launch_momentum_step(float* weights, float* velocity, const float* gradient,
                                 std::size_t n, float rate, float keep, cudaStream_t s);
