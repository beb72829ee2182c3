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
// The same, or the process ends.
inline bool is_final(int code) noexcept {
  return is_sticky(code) || code == gpu_errors::runtime_unloading;
}

// A thread's last error, if it stands for no failure that somebody has yet to find: there is none,
// or something was not ready, or it is sticky, which stays with its thread for good. It was told
// already, unless a body around this one has just met it on another device.
inline bool is_nobodys(int last_error) noexcept {
  return last_error == gpu_errors::success || last_error == gpu_errors::not_ready ||
         is_sticky(last_error);
}

// What fails in this scope is not the calling thread's last error afterwards, where a program looks
// whether its own launch has failed.
class no_last_error {
 public:
  explicit no_last_error(const gpu_api& api) noexcept
      : api_(api), before_(api.peek_at_last_error()) {}
  ~no_last_error() {
    if (is_nobodys(before_)) api_.get_last_error();
  }
  no_last_error(const no_last_error&) = delete;
  no_last_error& operator=(const no_last_error&) = delete;

 private:
  const gpu_api& api_;
  const int before_;
};

// `what` says where and what was tried: "cuda:0: cudaEventRecord".
device_error gpu_error(const gpu_api& api, int code, const std::string& what, bool lost = false);

// The same text, always at the same place.
std::string_view kept_for_good(std::string text);

}  // namespace turnstile::detail
