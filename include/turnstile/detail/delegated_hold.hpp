// delegated_hold.hpp - what a fiber does between lock and unlock of a delegated_mutex, as a body.
//
// Shape     A fiber that finds the section idle runs on, and owns it as a guard does. One that has
//           to wait is served as a request whose body is the code up to unlock: whoever serves the
//           section resumes the fiber's coroutine in its loop, on its own thread, and unlock ends
//           the body by leaving the fiber's stack. If that code waits for something else in
//           between, the body is one that waits: it keeps the section, and the loop ends.
//
//             start --the code leaves the stack--> returned_from    a body that waits
//                   --unlock---------------------> over             then the loop goes on, and
//                                                                   sends the fiber home
//             returned_from --unlock-------------> over             then unlock serves on
//
// Edges     S1  stage_.exchange(acq_rel) by the loop when start returns, and by unlock: the second
//               one goes on with the section, and sees all the first one did
//
// Progress  as an awaitable body's
//
// Dangers   unlock ends the body off the fiber's stack: after its exchange the fiber may go on
//           elsewhere, and end the hold.
//
// Proof     test/schedule (fiber), model handshake; test/fiber, test/stress (fibers)
//
// Source    running the waiter's own code on the holder's thread: TCLocks (Gupta et al., OSDI
//           2023), with kernel threads. With fibers the waiter's stack need not be borrowed from a
//           thread that spins.
#pragma once

#include <turnstile/detail/fiber_core.hpp>
#include <turnstile/detail/section_request.hpp>

#include <cstdint>
#include <exception>
#include <source_location>
#include <string_view>

namespace turnstile {

class delegated_mutex;

namespace detail {

class delegated_hold : private section_request {
 public:
  delegated_hold(delegated_mutex& mutex, section_core& section, const std::source_location& where,
                 delegated_hold* outer);

  // Waits for the section, by the fiber's own code. Throws what refuses the request.
  void acquire(fiber_core& f);
  // After the section was found idle, and is owned since.
  void acquired(section_core::place line) noexcept;
  void release(fiber_core& f) noexcept;

  const delegated_mutex& mutex() const noexcept { return *mutex_; }
  delegated_hold* outer() const noexcept { return outer_; }
  bool is_of(const chain_frame& f) const noexcept { return &f == &frame_; }
  [[noreturn]] void misused(std::string_view what) const noexcept;

 private:
  struct beginning;
  struct ending;
  enum stage : std::uint8_t { start, returned_from, over };

  static outcome run_body(request& r) noexcept;
  bool is_owned_at_once();
  bool wait_for_turn();
  void end_body() noexcept;
  void hold() noexcept;
  void let_go() noexcept;

  delegated_mutex* const mutex_;
  delegated_hold* const outer_;
  body_frame frame_{};
  chain_frame* below_ = nullptr;  // the fiber's chain without the hold; owned share
  std::exception_ptr refusal_;
  bool is_body_ = false;  // of whoever serves the section
  atomic<std::uint8_t> stage_{start};
};

}  // namespace detail
}  // namespace turnstile
