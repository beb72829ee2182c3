// submissions.hpp - a section and the device that still works on what its bodies submitted.
//
// A body that only submits is over when its work is not. Then the section goes on to the next such
// body at once, for the device keeps the order; everybody else, and the section's end, waits for
// the tail: the last work submitted. So a section whose tail is pending is never left idle. If
// nobody comes who may run, it is held: its owner is gone, and it waits for an owner.
//
// Shape     word = n (61 bits) | room (1 bit) | came (1 bit) | held (1 bit)
//             n = the number of the tail, room = the request at the front waits for room
//
//             0     --hold----> held   by the owner, who is it no more
//             came  --hold----> 0      it looks at the ring again before
//             held  --announce> 0      by who published a submission, and owns the section then
//             0     --announce> came   somebody owns the section, and sees it
//             held  --claim n-> 0      by who was told that the tail is reached, or by who held it,
//                                      and sees that now; owns the section then
//             held  --claim---> 0      with room: by who was told that any of the work is complete
//             any   --hold_in_any_case--> held   by the owner who has put a request back that waits
//                                      for the device: who has come stands behind that one
//
//           What is held is the place of the last body, not finished yet, or a request put back
//           that has to wait. While a tail is pending nobody waits apart (aside.cpp): with some who
//           do, a section is held by its body until the work is complete.
//
// Edges     T1  CAS(acq_rel) of hold -> of announce and claim: the private side, what all bodies
//           wrote
//           T2  announce, then hold: who announces has arrived, and hold finds `came`, and then
//               what arrived; or announce finds `held`
//           T3  the point's exchange in reach, then claim's RMW; hold's RMW, then is_reached: one
//               of them sees the other. The same for in_flight, which goes down before the claim;
//               it is relaxed, for the RMWs of the word order it
//           T4  fetch_or(seq_cst, as K4 of keeper.hpp needs it) of is_lost_with_device ->
//               load(acquire) in lost_with: the error, which the first loss writes, and nobody
//               afterwards. Under a lock, for any work's loss may be heard of first; and the
//               section takes it before it ends: earlier work may be complete later
//
// Progress  hold, announce and claim are wait-free but for changes by others.
//
// Dangers   After hold the section may be somebody else's, and gone when that says so: what is
//           looked at then is this, of which the looker has a share, and a point.
//           Who announces has published, so its request and the section may be gone: the same.
//           Who claims what it has held itself may find another place held than it left: others
//           were owners in between.
//           The tail's requester, the last one perhaps, may end the section as soon as it goes on.
//           So nobody may own it then for nothing: who is told of earlier work leaves it alone, for
//           the tail comes later, unless somebody waits whom that lets go on.
//
// Proof     test/schedule (device), test/device
#pragma once

#include <turnstile/detail/lane.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/device.hpp>
#include <turnstile/errors.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>

namespace turnstile::detail {

class section_core;
struct request;

// What `said` gives of a device's error; of any other 0, or false.
template <class T>
T of_device_error(const std::exception_ptr& error,
                  T (device_error::*said)() const noexcept) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const device_error& e) {
    return (e.*said)();
  } catch (...) {
    return T{};
  }
}

// Shared by the section and its submissions.
class submissions {
 public:
  submissions(section_core& of, std::size_t most_in_flight) noexcept
      : most_(most_in_flight), section_(&of) {}

  // What a held section waits for.
  enum class wait : std::uint8_t { nobody, tail, room };

  // False: somebody came, and the ring is to be looked at again.
  [[nodiscard]] bool hold() noexcept;
  // Whoever came finds that it has to wait.
  void hold_in_any_case() noexcept;
  // True: the caller owns the section.
  [[nodiscard]] bool announce() noexcept;
  // `n`: what the caller knows to be reached.
  [[nodiscard]] bool claim(std::uint64_t n) noexcept;

  void begin_one() noexcept { in_flight_.fetch_add(1, relaxed); }
  void end_one() noexcept { in_flight_.fetch_sub(1, relaxed); }
  bool has_room() const noexcept { return in_flight_.load(relaxed) < most_; }
  // By the owner, while a tail is pending: whether `who`, whose turn it is, has to wait.
  wait keeps_waiting(const request& who) const noexcept;
  // Whether what waits at the front may try again.
  bool may_go_on(wait why, const point& tail) const noexcept {
    return tail.is_reached() || (why == wait::room && has_room());
  }

  // By whoever is told of it: how work has ended, though it may not be the last. If it is lost with
  // its device, so is the section, unless that has ended.
  void note_loss(const std::exception_ptr& with) noexcept;
  void note_loss(const point& end) noexcept {
    if (end.failed()) [[unlikely]]
      note_loss(end.peek());
  }
  std::exception_ptr lost_with() const noexcept { return lost_with_; }  // T4
  void section_ends() noexcept;

  void keep() noexcept { shares_.fetch_add(1, relaxed); }
  void drop() noexcept {
    if (shares_.fetch_sub(1, acq_rel) == 1) delete this;
  }

  // The section's own stream, made by the first that needs it. Only the owner, as all below, or
  // before anybody else knows this.
  lane& own_lane(device place);

  lane_ref own;
  point_ref tail;
  lane* tail_lane = nullptr;  // whose it is; only to be compared
  std::uint64_t tail_number = 0;
  wait front = wait::nobody;  // the request put back, if any

 private:
  ~submissions() = default;

  static constexpr std::uint64_t held = 1;
  static constexpr std::uint64_t came = 2;
  static constexpr std::uint64_t room = 4;
  static constexpr int flags = 3;

  std::uint64_t held_now() const noexcept {
    return tail_number << flags | (front == wait::room ? room : 0) | held;
  }
  static bool is_held(std::uint64_t word) noexcept { return (word & held) != 0; }

  const std::size_t most_;
  atomic<std::uint64_t> word_{0};
  atomic<std::uint32_t> in_flight_{0};
  atomic<std::uint32_t> shares_{1};
  mutex losing_;
  guarded<section_core*> section_;                  // losing_; null once it has ended
  guarded<std::exception_ptr> lost_with_{nullptr};  // losing_, and T4
};

using submissions_ref = counted_ref<submissions>;

}  // namespace turnstile::detail
