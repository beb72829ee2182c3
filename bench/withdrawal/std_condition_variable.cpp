#include "support/crew.hpp"
#include "withdrawal/withdrawal.hpp"

#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <string_view>
#include <thread>

namespace {

using bench::withdrawal::ending;

// A section for threads that may be withdrawn: whether it is held stands behind a mutex, and who
// wants it waits on a condition variable of its own with a token, or until a time. With one for
// all, a stop would wake all.
class std_condition_variable {
 public:
  static constexpr std::string_view name = "std_condition_variable";
  static constexpr bool clients_are_threads = true;

  explicit std_condition_variable(const bench::shape& s) : crew_(s.threads + 1) {}

  void drive(bench::withdrawal::run& r) {
    crew_.run([&](std::size_t i) { i == 0 ? hold(r) : wait(r); });
  }

  std::size_t waiting() {
    const std::lock_guard locked(mutex_);
    return line_.size();
  }

 private:
  void hold(bench::withdrawal::run& r) {
    set_held(true);
    r.hold();
    set_held(false);
    const std::lock_guard locked(mutex_);
    for (std::condition_variable_any* idle : line_) idle->notify_all();
  }

  void set_held(bool held) {
    const std::lock_guard locked(mutex_);
    held_ = held;
  }

  void wait(bench::withdrawal::run& r) {
    while (!r.is_held()) std::this_thread::yield();
    std::condition_variable_any idle;
    std::unique_lock locked(mutex_);
    bench::withdrawal::waiter& w = r.next_in_line();
    const auto place = line_.insert(line_.end(), &idle);
    const auto is_idle = [this] { return !held_; };
    if (r.by() == bench::withdrawal::source::deadline) {
      w.ended(idle.wait_until(locked, w.deadline(), is_idle) ? ending::ran : ending::expired);
    } else {
      w.ended(idle.wait(locked, w.token(), is_idle) ? ending::ran : ending::stopped);
    }
    line_.erase(place);
  }

  std::mutex mutex_;
  bool held_ = false;                             // under mutex_
  std::list<std::condition_variable_any*> line_;  // under mutex_: who waits, first come first
  bench::crew crew_;
};

const bool asked = bench::withdrawal::ask<std_condition_variable>();

}  // namespace
