// cuda.cpp - a program that links turnstile-cuda and calls nothing of it: GPUs are there all the
// same.
#include <turnstile/cuda.hpp>
#include <turnstile/turnstile.hpp>

#include <cstdio>
#include <string_view>

namespace {

turnstile::task<> compute(turnstile::device where, long& sum) {
  turnstile::stream s{where};
  s.enqueue([&] { sum += 20; });
  s.enqueue([&] { sum += 22; });
  co_await s.completion();
}

}  // namespace

int main() {
  const turnstile::device gpu = turnstile::device::cuda(0);
  const std::string_view why = gpu.available() ? "there is a GPU" : gpu.why_not();
  std::printf("%.*s\n", static_cast<int>(why.size()), why.data());
  const bool is_linked = why.find("not linked") == why.npos;

  int version = 0;  // CUDA itself can be called, too
  const bool has_runtime = cudaRuntimeGetVersion(&version) == cudaSuccess && version >= 12000;

  long sum = 0;
  turnstile::sync_wait(compute(turnstile::device::cuda_or_host(0), sum));
  return is_linked && has_runtime && sum == 42 ? 0 : 1;
}
