// device.cpp - whether devices are there.

#include "device/gpu/gpu_runtime.hpp"

#include <turnstile/device.hpp>

#include <stdexcept>

namespace turnstile {

device device::cuda(int index) {
  if (index < 0) {
    throw std::invalid_argument("turnstile: there is no device cuda:" + std::to_string(index));
  }
  return device(index);
}

device device::cuda_or_host(int index) {
  const device wanted = cuda(index);
  return wanted.available() ? wanted : host();
}

std::string_view device::why_not() const noexcept {
  return index_ < 0 ? std::string_view{} : detail::gpu_why_not(index_);
}

}  // namespace turnstile
