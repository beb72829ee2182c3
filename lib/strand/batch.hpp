// batch.hpp - finished requests on their way back, handed over in one go per executor.
#pragma once

#include <turnstile/detail/request.hpp>
#include <turnstile/detail/thread_state.hpp>

#include <cstddef>

namespace turnstile::detail {

class batch {
 public:
  batch() noexcept = default;
  batch(const batch&) = delete;
  batch& operator=(const batch&) = delete;

  void add(request& r) noexcept {
    const executor_ref home = job_access::home(r);
    if (!home) {
      append(homeless_, r);
      return;
    }
    if (home != to_) flush();
    to_ = home;
    append(posted_, r);
    ++n_;
  }

  // Gives everything that has an executor to it. Allowed while another request is pending, or after
  // the section was left.
  void flush() noexcept {
    if (n_ == 0) return;
    to_.post(posted_.first, posted_.last, n_);  // they may be gone
    posted_ = {};
    n_ = 0;
  }

  // Only after the section was left or passed on, or when it closes: runs what has no executor on
  // this thread.
  void deliver() noexcept {
    flush();
    if (homeless_.first == nullptr) return;
    // The thread's chain may be one of those just handed back, and none of it is theirs.
    const chain_scope nothing_held{nullptr};
    while (homeless_.first != nullptr) {
      job& j = *homeless_.first;
      homeless_.first = j.next;
      job_access::work_here(j);  // j may be gone
    }
  }

 private:
  struct list {
    job* first = nullptr;
    job* last = nullptr;
  };

  static void append(list& to, job& j) noexcept {
    j.next = nullptr;
    *(to.first == nullptr ? &to.first : &to.last->next) = &j;
    to.last = &j;
  }

  executor_ref to_;
  list posted_;
  list homeless_;
  std::size_t n_ = 0;
};

}  // namespace turnstile::detail
