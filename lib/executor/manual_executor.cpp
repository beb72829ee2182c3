// manual_executor.cpp - a locked list.

#include <turnstile/detail/contract.hpp>
#include <turnstile/manual_executor.hpp>

#include <mutex>

namespace turnstile {

manual_executor::~manual_executor() {
  if (n_ != 0) {
    detail::contract_break("", "a manual_executor is destroyed with jobs that never ran", {});
  }
}

void manual_executor::post(job& j) noexcept { post(&j, &j, 1); }

void manual_executor::post(job* first, job* last, std::size_t n) noexcept {
  const std::lock_guard lock(mutex_);
  jobs_.append(*first, *last);
  n_ = n_ + n;
}

bool manual_executor::run_one() {
  job* j;
  {
    const std::lock_guard lock(mutex_);
    j = jobs_.pop();
    if (j == nullptr) return false;
    n_ = n_ - 1;
  }
  j->run();  // j may be gone
  return true;
}

std::size_t manual_executor::run() {
  std::size_t ran = 0;
  while (run_one()) ++ran;
  return ran;
}

std::size_t manual_executor::pending() const {
  const std::lock_guard lock(mutex_);
  return n_;
}

}  // namespace turnstile
