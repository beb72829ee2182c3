// gpu_error.hpp - errors of a GPU's runtime: which of them end a device, and how they are told.
#pragma once

#include "device/gpu_api.hpp"

#include <turnstile/errors.hpp>

#include <string>
#include <string_view>

namespace turnstile::detail {

// What one call gave.
struct gpu_outcome {
  int code = gpu_errors::success;
  const char* call = "";

  bool failed() const noexcept { return code != gpu_errors::success; }
};

// No later work on that device can succeed in this process.
bool is_sticky(int code) noexcept;

// `what` says where and what was tried: "cuda:0: cudaEventRecord".
device_error gpu_error(const gpu_api& api, int code, const std::string& what, bool lost = false);

// The same text, always at the same place.
std::string_view kept_for_good(std::string text);

}  // namespace turnstile::detail
