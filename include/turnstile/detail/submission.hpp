// submission.hpp - the part of a request whose body only submits work to a device.
//
// Behind it: lib/strand (submission.cpp; submissions.hpp: what that means for the section).
//
// Shape     accepted --its turn--> submitted --handed back--> armed --its work is complete--> sent
//           home
//
//           The section is handed on after the body; the requester goes on when its work is
//           complete, with the body's result or what went wrong. To the section this is the
//           executor that its request belongs to: what is handed back is posted here, and sent home
//           from here.
//           If the section is not to be handed on before that, it is held by the body meanwhile, as
//           by one that returned an awaitable; whoever notices the end passes it on, so it does not
//           wait for the requester's executor.
//           Who only waits until it is submitted is in a list of the mark's, and may be taken back
//           from there.
//
// Edges     the mark's lock: that the work is submitted, and where it ends
//
// Progress  telling, and waiting to be told, take a lock for a step of a list.
//
// Dangers   It is told of its work once, by whoever notices, and first lets the section go on: the
//           requester may end that.
//
// Proof     test/schedule (device), test/device
#pragma once

#include <turnstile/detail/lane.hpp>
#include <turnstile/detail/request.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/executor.hpp>
#include <turnstile/stream.hpp>

#include <cstdint>
#include <exception>
#include <mutex>
#include <source_location>
#include <utility>

namespace turnstile::detail {

class submissions;

inline lane_ref lane_of(const stream* s) noexcept {
  return s == nullptr ? lane_ref() : stream_access::lane_of(*s);
}

// Lives in what waits until an execution has submitted.
class submitted_waiter {
 public:
  // Called once, outside the lock: posts. This may be gone.
  virtual void go_on() noexcept = 0;

  guarded<submitted_waiter*> next{nullptr};  // under the lock, then by who tells

 protected:
  ~submitted_waiter() = default;
};

// Whether an execution has submitted its work, or never will, and who waits for that; for whoever
// has a handle on it. Belongs to what it is in, which may end once all that it told have gone on.
class submitted_mark {
 public:
  bool is_told() const noexcept {
    const std::lock_guard locked(lock_);
    return told_;
  }
  // Once.
  void tell() noexcept;

  // True: `w` is told, and may be gone. False: it has been told already.
  [[nodiscard]] bool add(submitted_waiter& w) noexcept;
  // True: it was there, and is not told any more.
  [[nodiscard]] bool take_back(submitted_waiter& w) noexcept;

 private:
  guarded<submitted_waiter*>& place_of(const submitted_waiter* w) noexcept;

  mutable mutex lock_;  // all below
  guarded<bool> told_{false};
  guarded<submitted_waiter*> first_{nullptr};  // in the order in which they came
};

class submission : private point_waiter {
 public:
  // `on` may be null: the section's own stream.
  submission(section_core& section, lane_ref on);
  submission(submission&& other) noexcept;
  ~submission();

  // Before the request arrives. Throws bad_alloc, or device_mismatch_error, and counts the refusal.
  void prepare(const resource_list& uses);
  // Its request is handed back to this, and goes home from here: `home` may be empty. Once it is
  // filled in.
  void stand_before(request& r, executor_ref home) noexcept;

  // Its turn: calls the body, which keeps what it throws.
  template <class F>
  outcome run(F&& body) noexcept {
    if (!begin()) return outcome::no_body;
    stream s = stream_access::on(lane_);
    std::forward<F>(body)(s);
    return submitted();
  }

  // Once it is sent home: what went wrong with the work, or before the body.
  std::exception_ptr error() const noexcept;
  // The same if the body has thrown `its_own`, which is what comes back: what its calls have failed
  // with is told, unless that is it. An error of the work, the place tells.
  void tell_error_beside(const std::exception_ptr& its_own,
                         std::source_location where) const noexcept;

  // As an executor.
  void post(job& j) noexcept;

  // Null: it is no request of this kind.
  static submission* of(const request& r) noexcept;
  executor_ref home() const noexcept { return home_of_request_; }
  bool can_follow(const point& tail) const noexcept;

  // For who waits until it is submitted only: this is told then, and knows then what to wait for.
  void tell(submitted_mark& m) noexcept { submitted_ = &m; }
  point_ref end() const noexcept { return end_; }

 private:
  void refuse_if_elsewhere(const resource_list& uses) const;
  bool begin() noexcept;
  void choose_lane();
  outcome submitted() noexcept;
  void tell_submitted() noexcept;
  void complete() noexcept;
  void go_home() noexcept;
  static void reached(point_waiter& w) noexcept;

  section_core* section_;
  counted_ref<submissions> all_;
  lane_ref lane_;
  point_ref end_;
  std::exception_ptr error_;
  executor_ref home_of_request_;
  submitted_mark* submitted_ = nullptr;
  guarded<request*> request_{nullptr};
  guarded<std::uint64_t> number_{0};  // of its end, while the section counts it; 0: it does not
  guarded<bool> holds_{false};
  int error_before_ = 0;  // of the thread that calls the body; see lane.hpp
};

}  // namespace turnstile::detail
