// gpu_call.hpp - a callable that a GPU's stream calls on the host when it gets there.
//
// Shape     word = waiting | running | done | dropped
//
//             waiting --run---> running --> done      by the driver's thread, if it comes
//             waiting --drop--> dropped               by who polls, once the stream cannot come
//                                                     any more
//
//           After a failure the driver may or may not call, or call later: whoever changes the word
//           first has the work. A dropped call stays in memory for good, for the driver still has
//           its address.
//
// Edges     H1  store(release) done -> load(acquire) in is_settled: the error, and what the work
//           did
//           H2  CAS(acq_rel) waiting -> running | dropped: who has the work
//
// Progress  run is as long as the work, the rest is wait-free.
//
// Dangers   After done is stored the driver's thread does not touch the call any more.
//
// Proof     test/device
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/fifo.hpp>
#include <turnstile/detail/lane.hpp>
#include <turnstile/executor.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

namespace turnstile::detail {

class gpu_call : private job {
 public:
  // `frees` destroys the work in the end, for it may run code of users; none: whoever disposes.
  gpu_call(std::unique_ptr<lane_work> work, executor_ref frees) noexcept
      : job(&free), work_of_user_(std::move(work)), frees_(frees) {}

  // What the driver calls.
  static void run(void* call) noexcept { static_cast<gpu_call*>(call)->run_once(); }

  // Once nothing is waited for: true if it is over, or will never begin.
  bool is_settled() noexcept;
  // Once it is settled: what the work threw.
  std::exception_ptr error() const noexcept { return error_; }
  // Once it is settled, the last thing done with it here.
  void dispose() noexcept;

  // The driver refused it, with an error that leaves no doubt if `sure`. On the thread that gave
  // it, which it blocks while the work runs all the same.
  static void refuse(std::unique_ptr<gpu_call> call, bool sure) noexcept;

 private:
  friend class gpu_calls;

  enum class stage : std::uint8_t { waiting, running, done, dropped };

  void run_once() noexcept;
  static void free(job& j) noexcept;
  void keep_for_good() noexcept;

  std::unique_ptr<lane_work> work_of_user_;
  std::exception_ptr error_;  // H1
  atomic<stage> stage_{stage::waiting};
  const executor_ref frees_;
  guarded<gpu_call*> next_{nullptr};
};

// In the order they were given.
class gpu_calls {
 public:
  bool empty() const noexcept { return calls_.empty(); }
  int size() const noexcept { return size_; }
  void add(gpu_call* owned) noexcept {
    calls_.push(*owned);
    ++size_;
  }
  gpu_calls take() noexcept { return std::exchange(*this, gpu_calls()); }

  bool are_settled() noexcept;
  // Once they are: calls `f(error)` for what they threw, and lets go of them.
  template <class F>
  void dispose(F f) noexcept {
    while (gpu_call* const c = calls_.pop()) {
      if (std::exception_ptr e = c->error()) f(std::move(e));
      c->dispose();  // c may be gone
    }
    size_ = 0;
  }

 private:
  fifo<gpu_call, &gpu_call::next_> calls_;
  int size_ = 0;
};

}  // namespace turnstile::detail
