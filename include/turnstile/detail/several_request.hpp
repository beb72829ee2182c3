// several_request.hpp - one request for several sections: entered in order, left together.
//
// Behind it: lib/strand/several.cpp.
//
// Shape     The request is in the line of one section at a time, and owns those before it.
//
//             entering k --arrive = owner----> entering k+1
//             entering k --arrive = queued---> in line at k    this may be gone after publishing
//             entering k --refused-----------> leaving         by enter
//             in line at k --its turn--------> entering k+1    by whoever serves k, by its batch
//             in line at k --withdrawn-------> leaving         on an executor (stand_in.hpp)
//             all entered --the body's end---> leaving --all left or passed on--> handed back
//
//           All requests enter in one order: sections bound to an executor last, else by number. So
//           no circle of waits is made of them alone.
//
// Edges     The owner of the sections moves with the request, by the ring's edges or by posting it.
//           S1 for a body that waits (body.hpp).
//
// Progress  As one section's: it waits for the bodies before it, in each.
//
// Dangers   A request that got a section goes on in a loop of whoever served it (batch::deliver),
//           not inside serve: a row of requests that release each other must not grow the stack.
//           Leaving serves others, so all that has ended is ended before any section is served on.
//           The highest goes first, because a body may block its thread for a section higher than
//           its own. On a thread without an executor the lower ones are still ours meanwhile: who
//           is next there waits for that body, and is not withdrawn before.
//
// Proof     test/schedule (strand: two ask for two sections); test/section (several), test/stress
//           (philosophers)
#pragma once

#include <turnstile/detail/section_request.hpp>

#include <cstddef>
#include <exception>
#include <source_location>
#include <utility>

namespace turnstile::detail {

// One of the sections of a request.
struct held_section {
  held_section() noexcept = default;
  held_section(const held_section& other) noexcept : section(other.section) {}
  held_section& operator=(const held_section& other) noexcept {
    section = other.section;
    return *this;
  }

  section_core* section = nullptr;
  bool recorded = false;            // there, by us
  resource_list claims{};           // made there by us, and not kept yet
  guarded<request*> next{nullptr};  // whose turn it is after us, while we leave
  body_frame frame{};
};

class several_request;
void give_away_owed(several_request& r, batch& done) noexcept;

class several_request : protected section_request {
 public:
  // Where the body runs, as waiting_body asks for it: as part of the section entered last.
  section_core& section() const noexcept { return *held_[count_ - 1].section; }
  const site& place() const noexcept { return at_; }
  void body_ended() noexcept;

 protected:
  using run = outcome (*)(several_request&) noexcept;

  several_request(section_core& any, run body, const execute_options& options,
                  const std::source_location& where)
      : section_request(any, options, where), run_body_(body) {
    if (!options.uses.empty()) keep(options.uses);  // whatever that one section has claimed
  }
  several_request(several_request&& other) noexcept
      : section_request(std::move(other)), run_body_(other.run_body_), count_(other.count_) {}

  // Sorts them, and leaves out what is there twice. Throws invalid_argument if they are bound to
  // different executors.
  void put_in_order(held_section* all, std::size_t n);

  // Before anything is claimed: as section_request::begin, for all of them.
  void begin(held_section* all);

  // The coroutine is suspended. True: the request was served by this call and is not handed back.
  bool enter_all() noexcept;

  // What the body runs as part of, but for the section entered last.
  chain_frame* requester() noexcept { return holds(count_ - 1); }

  void throw_refusal() {
    if (refusal_ != nullptr) [[unlikely]]
      std::rethrow_exception(refusal_);
  }

  static outcome granted(request& r) noexcept;

 private:
  friend void enter_next_sections(batch& done) noexcept;

  enum class [[nodiscard]] entry : unsigned char { owned, waiting, refused };

  // The chain once the first `n` are entered.
  chain_frame* holds(std::size_t n) noexcept { return n == 0 ? chain_ : &held_[n - 1].frame; }

  void count_entered() noexcept { entered_ = entered_ + 1; }
  bool take_own() noexcept {
    const bool own = is_own_;
    is_own_ = false;
    return own;
  }

  void go_on(batch& done) noexcept;
  entry enter(batch& done) noexcept;
  resource_list declared() const noexcept { return declares() ? uses_ : resource_list{}; }
  void claim_all();
  void keep_claimed() noexcept;
  void leave_claimed() noexcept;
  void withdraw_claimed() noexcept;
  void forget_recorded(std::size_t first_n) noexcept;
  entry refused_with(std::exception_ptr why, bool own) noexcept;
  entry ends_with(std::exception_ptr why, bool own) noexcept;
  // In the line of the next section.
  void note_accepted() noexcept {
    accepted_at = 0;
    if (!section_->watched()) [[likely]]
      return;
    held_[entered_].recorded = section_->recorded();
    accepted_at = section_->accept_watched(at_, declared());
  }
  bool tell_of_wait() noexcept;
  entry wait_by(stand_in& s, bool own) noexcept;
  void drop_stand_in() noexcept;
  static const stand_in::calls turn_comes_often;
  static void withdrawn(request& r) noexcept;
  static void never_in(request& r) noexcept;
  static void leave_posted(job& j) noexcept;
  void be_posted(work what) noexcept;
  void be_awaited_again() noexcept;
  void leave(batch& done) noexcept;
  bool has_next_below(std::size_t i) const noexcept;
  static void go_on_with(section_core& s, request& next, bool elsewhere, batch& done) noexcept;
  void give_away_owed(batch& done) noexcept;
  friend void give_away_owed(several_request&, batch&) noexcept;
  void hand_back(batch& done) noexcept;
  void go_on_elsewhere() noexcept;
  static void go_on_posted(job& j) noexcept;
  static void go_on_with_all(batch& done) noexcept;

  run run_body_;
  held_section* held_ = nullptr;  // from begin on
  std::size_t count_ = 0;
  guarded<std::size_t> entered_{0};
  bool hops_ = false;
  guarded<bool> is_own_{false};  // while the awaiting call on this thread has the request
  std::exception_ptr refusal_;
  // What the job is again when it was posted to go on elsewhere.
  work back_by_ = nullptr;
  executor_ref back_on_;
};

}  // namespace turnstile::detail
