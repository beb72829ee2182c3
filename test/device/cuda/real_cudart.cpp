// real_cudart.cpp - what the library says of a GPU, against what CUDA's runtime says here.
//
//   real_cudart           with the driver that there is, or none
//   real_cudart CODE      the runtime has to come to this error; the environment is set up for it
//
// Links turnstile-cuda and calls nothing of it before it asks: linking has to be enough.
#include <turnstile/cuda.hpp>
#include <turnstile/turnstile.hpp>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

using turnstile::device;

void expect(bool holds, std::string_view what) {
  if (holds) return;
  std::printf("not so: %.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(1);
}

struct answer {
  int driver_version = 0;
  int devices = 0;
  cudaError_t error;
};

answer ask_the_runtime() {
  answer is;
  expect(cudaDriverGetVersion(&is.driver_version) == cudaSuccess, "the driver's version is known");
  is.error = cudaGetDeviceCount(&is.devices);
  return is;
}

std::string as_text(int version) {
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

// Words that have to be in the sentence.
std::string_view reason(const answer& is) {
  switch (is.error) {
    case cudaErrorInsufficientDriver: return is.driver_version == 0 ? "no CUDA driver" : "too old";
    case cudaErrorStubLibrary: return "stub library";
    case cudaErrorNoDevice: return "CUDA_VISIBLE_DEVICES";
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice: return "restart the machine";
    default: return cudaGetErrorName(is.error);
  }
}

bool is_one_sentence(std::string_view s) {
  return s.starts_with("cuda:0 is not available: ") && s.find('\n') == s.npos &&
         s.find(". ") == s.npos;
}

void expect_a_reason(const answer& is, std::string_view said) {
  expect(is_one_sentence(said), "it is one sentence");
  expect(said.find(reason(is)) != said.npos, reason(is));
  if (is.error == cudaErrorInsufficientDriver && is.driver_version != 0) {
    expect(said.find(as_text(is.driver_version)) != said.npos, "the version that there is");
    expect(said.find(as_text(CUDART_VERSION / 1000 * 1000)) != said.npos,
           "the version that is needed");
  }
}

void expect_a_stream_to_say_so(const answer& is, std::string_view said) {
  try {
    turnstile::stream never{device::cuda(0)};
    expect(false, "a stream on it is refused");
  } catch (const turnstile::device_error& e) {
    expect(e.code() == is.error, "the error has the runtime's number");
    expect(e.name() == cudaGetErrorName(is.error), "and its name");
    expect(std::string_view(e.what()).find(said) != std::string_view::npos, "and the sentence");
  }
}

void expect_check_to_throw() {
  turnstile::check(cudaSuccess);
  try {
    turnstile::check(cudaErrorInvalidValue);
    expect(false, "check throws");
  } catch (const turnstile::device_error& e) {
    expect(e.code() == cudaErrorInvalidValue, "what check throws has the code");
    expect(e.name() == "cudaErrorInvalidValue", "and the name");
    expect(!e.lost(), "and does not say that the device is lost");
  }
}

void expect_refusal(cudaStream_t s) {
  try {
    turnstile::adopt(s);
    expect(false, "a default stream is refused");
  } catch (const std::invalid_argument& e) {
    std::printf("%s\n", e.what());
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view said = device::cuda(0).why_not();
  std::printf("%.*s\n", static_cast<int>(said.size()), said.data());

  const answer is = ask_the_runtime();
  if (count > 1) expect(is.error == std::atoi(arguments[1]), "the environment is set up for that");

  expect(device::cuda(0).available() == (is.devices > 0), "it is available where there is one");
  expect(device::cuda_or_host(0).is_host() == (is.devices == 0), "else there is the host");
  if (is.devices == 0) {
    expect_a_reason(is, said);
    expect_a_stream_to_say_so(is, said);
  }
  expect_check_to_throw();
  expect_refusal(nullptr);
  expect_refusal(cudaStreamLegacy);
  expect_refusal(cudaStreamPerThread);
}
