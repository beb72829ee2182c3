// fuzz_target.cpp - libFuzzer's way in.

#include "fuzz/interpreter.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  fuzz::run_program({bytes, size});
  return 0;
}
