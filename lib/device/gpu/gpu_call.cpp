// gpu_call.cpp - who runs a callable, and who frees it.

#include "device/gpu/gpu_call.hpp"

#include <turnstile/detail/threads.hpp>

#include <chrono>

namespace turnstile::detail {

namespace {

// The newest of those that the driver may still call.
constinit atomic<void*> dropped_calls{nullptr};

}  // namespace

void gpu_call::run_once() noexcept {
  stage seen = stage::waiting;
  if (!stage_.compare_exchange_strong(seen, stage::running, acq_rel, relaxed)) return;  // H2
  try {
    work_of_user_->run();
  } catch (...) {
    error_ = std::current_exception();
  }
  stage_.store(stage::done, release);  // H1; this may be gone
}

bool gpu_call::is_settled() noexcept {
  stage seen = stage::waiting;
  if (stage_.compare_exchange_strong(seen, stage::dropped, acq_rel, acquire)) return true;  // H2
  return seen != stage::running;
}

void gpu_call::dispose() noexcept {
  if (frees_) {
    frees_.post(*this);
  } else {
    free(*this);
  }
}

void gpu_call::free(job& j) noexcept {
  auto& self = static_cast<gpu_call&>(j);
  self.work_of_user_.reset();
  if (self.stage_.load(relaxed) == stage::dropped) {
    self.keep_for_good();
  } else {
    delete &self;
  }
}

void gpu_call::keep_for_good() noexcept {
  void* newest = dropped_calls.load(relaxed);
  do {
    next_ = static_cast<gpu_call*>(newest);
  } while (!dropped_calls.compare_exchange_weak(newest, this, release, relaxed));
}

// The driver may have begun it all the same. What it uses may end once the caller hears of that.
void gpu_call::refuse(std::unique_ptr<gpu_call> call, bool sure) noexcept {
  if (sure) return;
  gpu_call& it = *call.release();
  while (!it.is_settled()) sleep_for(std::chrono::microseconds(50));
  it.work_of_user_.reset();
  it.keep_for_good();
}

bool gpu_calls::are_settled() noexcept {
  for (gpu_call* c = calls_.front(); c != nullptr; c = c->next_) {
    if (!c->is_settled()) return false;
  }
  return true;
}

}  // namespace turnstile::detail
