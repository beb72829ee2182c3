// device_name.cpp - what a device is called: errors say it, wherever it is.

#include <turnstile/device.hpp>

namespace turnstile {

std::string device::name() const {
  if (is_any()) return "any";
  return is_host() ? "host" : "cuda:" + std::to_string(index_);
}

}  // namespace turnstile
