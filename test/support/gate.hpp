// gate.hpp - an awaitable that knows nothing of the library: shut until it is opened.
#pragma once

#include <coroutine>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace support {

class gate {
 public:
  class awaiter {
   public:
    explicit awaiter(gate& g) noexcept : gate_(&g) {}
    bool await_ready() const { return gate_->is_open(); }
    bool await_suspend(std::coroutine_handle<> h) { return gate_->wait_here(h); }
    void await_resume() const noexcept {}

   private:
    gate* gate_;
  };

  awaiter operator co_await() noexcept { return awaiter(*this); }
  awaiter passed() noexcept { return awaiter(*this); }

  // Resumes whoever waits, one after the other, inside the call.
  void open() {
    std::vector<std::coroutine_handle<>> waiting;
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
      waiting.swap(waiting_);
    }
    for (const std::coroutine_handle<> h : waiting) h.resume();
  }

  std::size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }

 private:
  bool is_open() const {
    const std::lock_guard lock(mutex_);
    return open_;
  }
  bool wait_here(std::coroutine_handle<> h) {
    const std::lock_guard lock(mutex_);
    if (open_) return false;
    waiting_.push_back(h);
    return true;
  }

  mutable std::mutex mutex_;
  bool open_ = false;
  std::vector<std::coroutine_handle<>> waiting_;
};

}  // namespace support
