// gate.hpp - who may wait in a section whose waiters are limited, and who waits outside.
//
// Shape     Under one lock: inside, the places in line that are not finished; aside, the requests
//           set aside; outside, stand-ins that wait to be let in, oldest first. A request may come
//           in while it would not wait, or fewer than `most` do and nobody is outside.
//           One thread at a time lets in: it takes the oldest out of the list, puts it into the
//           line without the lock, and looks again. Whoever makes room meanwhile leaves that to it.
//           So when nobody is in, nobody is outside either, withdrawn or not, once those who have
//           withdrawn have left; and of a section that is closed, each is let in, refused by its
//           word, and leaves.
//
// Progress  Blocks a thread for the length of a list operation. Only sections with max_waiters have
//           one.
//
// Dangers   Whoever lets in touches the section only while it has somebody who waits outside in its
//           hands: that is use enough, but for a close, which waits for places in line only and not
//           for who has been withdrawn and has yet to leave. So who comes to its end lets in all
//           who are outside, and afterwards there is nobody for whom anybody would touch the
//           section; or another thread lets in just then, and the rest of the close is left to that
//           one. The gate itself is shared (stand_in_counts).
//
// Proof     test/schedule (limits); test/section (max_waiters), test/stress (cancellation)
#pragma once

#include <turnstile/detail/fifo.hpp>
#include <turnstile/detail/stand_in.hpp>
#include <turnstile/detail/threads.hpp>

#include <cstddef>

namespace turnstile::detail {

class gate {
 public:
  gate(std::size_t most, bool may_wait) noexcept : most_(most), may_wait_(may_wait) {}

  std::size_t most() const noexcept { return most_; }
  bool may_wait() const noexcept { return may_wait_; }

  // True: the caller is in.
  [[nodiscard]] bool enter() noexcept;
  // Only if nobody is in.
  [[nodiscard]] bool enter_if_empty() noexcept;
  // True: it is in; else it is among those outside.
  [[nodiscard]] bool enter_or_wait(stand_in& s) noexcept;

  void leave() noexcept;
  // A place that has left is in line all the same for a while. Who has come in its stead stays.
  void come_back() noexcept;
  // By one that is in, alone perhaps: whoever finds nobody is let in, however many are set aside.
  [[nodiscard]] bool has_room_aside() const noexcept;
  void set_aside() noexcept;
  void leave_aside() noexcept;

  // Begins to let in. Null: there is nobody, or no room, or somebody else does it. Otherwise the
  // oldest, who is in; next_to_let_in follows, until it gives null.
  stand_in* first_to_let_in() noexcept;
  // `closes`: there is nobody any more, and the caller finishes the close of the section.
  stand_in* next_to_let_in(bool& closes) noexcept;
  // By who has got to the end of a section's line: whoever is outside is let in to be refused,
  // whether there is room or not. `left`: somebody lets in already, and finishes the close.
  stand_in* first_to_refuse(bool& left) noexcept;

 private:
  bool has_room() const noexcept {
    return is_closed_ || inside_ == 0 || inside_ - 1 + aside_ < most_;
  }
  bool is_free() const noexcept { return has_room() && outside_.empty() && !is_letting_in_; }
  stand_in* take_next() noexcept;
  void sweep() noexcept;

  static constexpr std::size_t spared_outside = 8;

  const std::size_t most_;
  const bool may_wait_;
  mutable mutex lock_;
  guarded<std::size_t> inside_{0};
  guarded<std::size_t> aside_{0};
  guarded<bool> is_letting_in_{false};
  guarded<bool> is_closed_{false};  // all that come are refused in the end
  guarded<bool> closes_{false};     // when that is over
  fifo<stand_in, &stand_in::younger> outside_;
  guarded<std::size_t> n_outside_{0};  // in there, withdrawn or not
  guarded<std::size_t> sweep_above_{spared_outside};
};

}  // namespace turnstile::detail
