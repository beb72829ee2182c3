// check.cpp - what programs that call CUDA themselves need of the library.

#include "device/gpu/gpu_error.hpp"
#include "device/gpu/gpu_runtime.hpp"

#include <turnstile/cuda.hpp>
#include <turnstile/errors.hpp>

#include <string>

namespace turnstile {

stream adopt(cudaStream_t s) { return detail::stream_access::on(detail::adopt_gpu_stream(s)); }

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  const std::string name = cudaGetErrorName(error);
  throw device_error(error, name, name + ": " + cudaGetErrorString(error),
                     detail::is_sticky(error));
}

}  // namespace turnstile
