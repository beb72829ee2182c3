// lane.hpp - an executor with one thread of the checker's, for scenarios.
#pragma once

#include "schedule/scenario.hpp"

#include <turnstile/executor.hpp>

namespace schedule {

// Sleeps while it has nothing to do, for a thread that looks again and again is a large tree. What
// is posted has run when it ends.
class lane {
 public:
  lane() : runs_([this] { run(); }) {}
  ~lane() {
    signal();
    runs_.join();
  }
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  void post(turnstile::job& j) noexcept {
    jobs_.lock();
    j.next = nullptr;
    *(first_ == nullptr ? &first_ : &last_->next) = &j;
    last_ = &j;
    signal();  // under the lock: a job may end the lane as soon as it can be taken
    jobs_.unlock();
  }

 private:
  void signal() noexcept {
    signals_.fetch_add(1, turnstile::detail::seq_cst);
    signals_.notify_one();
  }

  turnstile::job* take() noexcept {
    jobs_.lock();
    turnstile::job* const j = first_;
    if (j != nullptr) first_ = j->next;
    jobs_.unlock();
    return j;
  }

  // One signal for each job, and one for the end.
  void run() {
    for (int got = 0;; ++got) {
      while (signals_.load(turnstile::detail::acquire) == got) {
        signals_.wait(got, turnstile::detail::acquire);
      }
      turnstile::job* const j = take();
      if (j == nullptr) return;
      j->run();
    }
  }

  turnstile::detail::mutex jobs_;
  guarded<turnstile::job*> first_{nullptr};
  guarded<turnstile::job*> last_{nullptr};
  atomic<int> signals_{0};
  thread runs_;
};

}  // namespace schedule
