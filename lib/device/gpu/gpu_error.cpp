// gpu_error.cpp - which errors end a device, and how they are told.

#include "device/gpu/gpu_error.hpp"

#include <turnstile/detail/threads.hpp>

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <utility>

namespace turnstile::detail {

namespace {

// Those that the runtime's documentation answers with the end of the process, and two of the
// hardware.
constexpr std::array sticky_codes{214, 220, 226, 700, 702, 710, 714, 715,
                                  716, 717, 718, 719, 721, 810, 911};

struct kept_texts {
  mutex lock;
  std::set<std::string, std::less<>> all;
};

// Never destroyed: others may still read them at the end of the process.
kept_texts& texts() {
  static kept_texts& it = *new kept_texts;
  return it;
}

}  // namespace

bool is_sticky(int code) noexcept {
  return std::binary_search(sticky_codes.begin(), sticky_codes.end(), code);
}

device_error gpu_error(const gpu_api& api, int code, const std::string& what, bool lost) {
  const std::string name = api.error_name(code);
  return device_error(code, name, what + " failed: " + name + ": " + api.error_text(code), lost);
}

std::string_view kept_for_good(std::string text) {
  kept_texts& kept = texts();
  const std::lock_guard locked(kept.lock);
  return *kept.all.insert(std::move(text)).first;
}

}  // namespace turnstile::detail
