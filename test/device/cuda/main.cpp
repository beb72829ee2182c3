// main.cpp - runs tests on a real GPU.
//
// Ends with 77, which Meson shows as skipped, where there is none; with TURNSTILE_REQUIRE_GPU=1
// that is a failure, so that a broken driver cannot hide.
#include "device/device_under_test.hpp"

#include <turnstile/cuda.hpp>

#include <cstdio>
#include <doctest/doctest.h>
#include <string_view>

int main(int count, char** arguments) {
  if (const std::string_view why = turnstile::device::cuda(0).why_not(); !why.empty()) {
    std::printf("%.*s\n", static_cast<int>(why.size()), why.data());
    return support::gpu_is_required() ? 1 : 77;
  }
  return doctest::Context(count, arguments).run();
}
