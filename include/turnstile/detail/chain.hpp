// chain.hpp - which sections a logical chain of awaits holds.
//
// Ownership follows the chain of awaits, not the thread. A chain is a list of frames, innermost
// first; a frame says "this section is held, and below it whatever my parent says". Frames never
// change once they are visible, except that a guard's frame can be marked as let go, is put onto
// another chain with the guard when the chain that took it ends, and loses what is gone below it
// while nobody else can look at it: guards that take turns would pile up otherwise (without_gone).
//
// Kinds of frame:
//   body    lives in the awaiting coroutine's frame (or on the stack) while a body runs. Not
//           counted: everything of the library's that can see it ends before it does.
//   member  the root of spawned work's chain (wait_graph.hpp): holds nothing. Not counted either.
//   stop    on top of what a child of when_any or timeout inherits: holds nothing, and waits below
//           it end when its token is stopped. Not counted either. A member has its scope's token.
//   hold    belongs to a section_guard, which may move, outlive the coroutine and be unlocked on
//           any thread. Counted: whoever keeps a pointer to it as the top of a chain has a share.
//   copy    of any of these, counted, for somebody else's coroutine: that may be detached and
//           outlive the body it was started in, or wait while a guard is given to another chain,
//           whose frame then has another parent. Marked as let go when the original ends or is let
//           go.
//
// A guard's frame is moved onto another chain when the coroutine that took it ends (adopt_holds),
// so what somebody else's coroutine keeps is copies throughout.
//
// What stops a wait is asked in two ways. Waits in a section's line are many, so they look for a
// token only if a bit of the mask says that there is one: below a when_any or timeout, and in work
// that was spawned when its scope was stoppable already, which a scope is from the first time that
// anybody asked for its token. All other waits walk down to the root, and find every scope's token.
//
// So every pointer to the top of a chain is taken with share() and given up with drop(), which cost
// one test when the top is not a hold. The thread's own pointer is in thread_state.hpp.
//
// Edges  E1  drop    shares.fetch_sub(acq_rel) in drop_hold -> the last one frees, or who finds by
//                    a load(acquire) that all shares are its own
//        E2  let go  let_go is relaxed: who finds a hold let go has still to ask for the section,
//            and gets what its owner did from there (W1 of ticket_word.hpp)
//        E3  copy    made under the lock, by one of the chain's threads; no lock in end_frame: all
//            that was done in the chain comes before the end of what the frame stands for. So the
//            frame of a body that calls nothing unknown is never stored at all (bench/tried.md)
//
// Proof  test/schedule (strand: a guard); test/registry, test/fuzz
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/recycled.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <stop_token>
#include <string>
#include <string_view>

namespace turnstile::detail {

class keeper;
class scope_members;
class section_core;
struct held_step;

// Where an execution was asked for, what it calls itself, and whether what it touches is claimed as
// exclusive.
// The name's two words are kept apart: together they would be copied as one vector right after they
// were written as two words, which the store buffer cannot forward (bench/tried.md).
class site {
 public:
  constexpr site() noexcept : data_(nullptr) {}
  constexpr site(std::string_view name, const std::source_location& w,
                 bool exclusive = true) noexcept
      : where(w), size_(length_of(name) << 1 | (exclusive ? 0 : 1)) {
    if (!name.empty()) data_ = name.data();
  }
  // Of one that was just written. The name's address and the place would be copied like that, too:
  // so the address is copied only where there is a name.
  void copy_fresh(const site& other) noexcept {
    where = other.where;
    size_ = other.size_;
    if (other.has_name()) data_ = other.data_;
  }

  constexpr std::string_view name() const noexcept {
    return has_name() ? std::string_view{data_, size_ >> 1} : std::string_view{};
  }
  constexpr bool exclusive() const noexcept { return (size_ & 1) == 0; }

 private:
  union {
    const char* data_;  // if it has a name
  };

 public:
  std::source_location where;

 private:
  constexpr bool has_name() const noexcept { return size_ >= 2; }
  // Of longer names the beginning is kept.
  static constexpr std::uint32_t length_of(std::string_view name) noexcept {
    return static_cast<std::uint32_t>((std::min)(name.size(), std::size_t{0x7fffffff}));
  }

  // The name's, and a bit: shared. What a request says of itself lies behind it.
  std::uint32_t size_ = 0;
};

// One bit of each section held from here down, which spares most walks; and above 2^32 what else is
// said from here down.
using chain_mask = std::uint64_t;
inline constexpr chain_mask stoppable = chain_mask{1} << 32;  // waits end when a stop is asked for
inline constexpr chain_mask alternative = chain_mask{1} << 33;  // waits need not end: no edges

struct chain_frame {
  const section_core* section;  // null in a member's, and in a stop frame
  chain_frame* parent;          // owned share if it is a hold
  const site* at;
  chain_mask mask;
};

struct hold_frame;

struct uncounted_frame : chain_frame {
  guarded<hold_frame*> copy{nullptr};  // made by the chain's own threads; owned share
};

struct alignas(16) stop_frame : uncounted_frame {
  const std::stop_token* stop = nullptr;
};

// Aligned so that a frame's kind can be told from its address: see is_hold.
struct alignas(16) body_frame : uncounted_frame {};

struct hold_counts {
  atomic<std::uint32_t> shares{1};  // the guard's own
  atomic<bool> let_go{false};       // guard unlocked or detached; any thread, once
};

struct alignas(16) hold_frame : recycled, hold_counts, chain_frame {
  site place;
  // How its guard came by the section, which is how it leaves it.
  enum class way : std::uint8_t {
    in_line,  // the queue knows that it is held
    first,    // nothing else knows who owns it: arrive gave `line`
    kept      // the thread of `inside` kept it, and is inside
  };
  way came = way::in_line;
  std::uint64_t line = 0;
  keeper* inside = nullptr;
  std::string name;       // the section's, and so are these:
  std::string container;  // it may end as soon as the guard is let go
  std::uint32_t number = 0;
  scope_members* scope = nullptr;           // of a member's copy
  std::string_view called = "async_scope";  // the same: what errors call that, a literal
  std::stop_token stop;                     // of a copy of what has one
  hold_frame* follows = nullptr;            // of a hold's copy: the original; owned share
  bool is_copy = false;
};

// A body's frame may be gone by the time a thread gives up a pointer to it, so the kind must not be
// read from the frame: bodies' frames lie on multiples of 16, holds 8 behind one.
inline bool is_hold(const chain_frame* f) noexcept {
  return (reinterpret_cast<std::uintptr_t>(f) & 8) != 0;
}

static_assert(sizeof(hold_counts) == 8 && alignof(chain_frame) == 8);

void share_hold(chain_frame& top) noexcept;
void drop_hold(chain_frame& top) noexcept;

inline chain_frame* share(chain_frame* top) noexcept {
  if (is_hold(top)) share_hold(*top);
  return top;
}

inline void drop(chain_frame* top) noexcept {
  if (is_hold(top)) drop_hold(*top);
}

// One bit out of 32, from the section's address.
inline chain_mask mask_of(const section_core* s) noexcept {
  return chain_mask{1} << ((reinterpret_cast<std::uintptr_t>(s) >> 8) & 31);
}

// What a frame of `s` says that lies on `below`.
inline chain_frame frame_on(chain_frame* below, const section_core* s, const site* at) noexcept {
  return {s, below, at, mask_of(s) | (below == nullptr ? 0 : below->mask)};
}

// What `below` is when waits below it end with `stop`; they need not end otherwise. `stop` outlives
// it.
inline stop_frame stop_on(chain_frame* below, const std::stop_token& stop,
                          const site* at) noexcept {
  const chain_mask mask = stoppable | alternative | (below == nullptr ? 0 : below->mask);
  return {{{nullptr, below, at, mask}}, &stop};
}

// Or have held some, by guards that were let go.
inline bool may_hold_sections(const chain_frame* top) noexcept {
  return top != nullptr && (top->mask & (stoppable - 1)) != 0;
}
inline bool can_be_stopped(const chain_frame* top) noexcept {
  return top != nullptr && (top->mask & stoppable) != 0;
}
inline bool need_not_end(const chain_frame* top) noexcept {
  return top != nullptr && (top->mask & alternative) != 0;
}
// Of the innermost when_any, timeout or scope around; one that never stops if there is none.
std::stop_token any_surrounding_stop(const chain_frame* top) noexcept;
// The same, and a scope that is found is stoppable from now on.
std::stop_token ask_for_surrounding_stop(const chain_frame* top) noexcept;
// Whether that was asked to stop.
bool is_stopped_around(const chain_frame* top) noexcept;
// The token of a wait in a section's line: without a walk if no token was known when `top` was
// made.
inline std::stop_token surrounding_stop(const chain_frame* top) noexcept {
  return can_be_stopped(top) ? any_surrounding_stop(top) : std::stop_token();
}

// Of a guard that was let go, or of a body that has ended.
bool gone(const chain_frame& f) noexcept;

// It holds a section, still: it is no member's, and nothing that is gone.
inline bool holds_section(const chain_frame& f) noexcept {
  return f.section != nullptr && !gone(f);
}

// What a frame's section is called. A body's section is there as long as the body; a guard may be
// let go meanwhile, by any thread, so its section is not asked.
struct section_name {
  std::string_view name;
  std::string_view container;
  std::uint32_t number;
};
section_name name_of(const chain_frame& f) noexcept;
// What errors call the scope of a frame without a section.
std::string_view scope_called(const chain_frame& f) noexcept;
// What errors call the section, or the scope.
std::string label_of(const chain_frame& f);

// A step of the way that an error shows.
held_step step_of(std::string label, const site& at);

// The calling chain without what is gone from its top; null if it has nothing.
chain_frame* innermost_frame() noexcept;
// The same, and what is gone further down is taken out, as far as nobody else can look at it.
chain_frame* without_gone() noexcept;
// `f` is the base, or what is left of it where its top was let go.
bool belongs_to(const chain_frame* f, const chain_frame* base) noexcept;

// Copies of all its frames, for somebody else's coroutine; a share. When an original ends, end_copy
// says so.
chain_frame* keep(chain_frame* top);
// Null if there is no memory for them.
chain_frame* try_keep(chain_frame* top) noexcept;
void end_copy(uncounted_frame& f) noexcept;

inline void end_frame(uncounted_frame& f) noexcept {
  if (f.copy != nullptr) [[unlikely]]  // E3
    end_copy(f);
}

// The calling chain's innermost hold (guards let go do not count). Null: it holds nothing.
const chain_frame* innermost_held() noexcept;

// Throws reentry_error if the calling chain holds `s` (guards let go do not count); `at` is the
// request that asks.
void refuse_if_held(const section_core& s, const site& at);

// Throws deadlock_error if the calling chain holds `s`: what waits in line there would wait for
// ever.
void refuse_wait_if_held(const section_core& s, const site& at);

// A new hold of `s`, with the shares that it has when it is pushed: its guard's, and its chain's.
// hold.hpp makes it of the last one.
hold_frame* new_hold(const section_core& s);
// One that is not pushed.
void drop_unused(hold_frame& h) noexcept;

// The guard gives up the section: the chain no longer holds it. Drops the guard's share. hold.hpp
// does what is common.
void let_go_anywhere(hold_frame& h) noexcept;

// The holds that a chain which started on `base` leaves behind at its end, cut off from it; null if
// none. Holds of the base that were let go meanwhile do not count as part of it. Takes over the
// share that `top` stands for.
chain_frame* cut_holds(chain_frame* top, const chain_frame* base) noexcept;

// Puts what cut_holds gave on top of the calling chain.
void adopt_holds(chain_frame& top) noexcept;

}  // namespace turnstile::detail
