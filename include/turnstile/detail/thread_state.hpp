// thread_state.hpp - what a thread is doing for the library at this moment.
#pragma once

#include <turnstile/detail/chain.hpp>
#include <turnstile/detail/keeper.hpp>
#include <turnstile/detail/recycled.hpp>
#include <turnstile/executor.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace turnstile::detail {

class fiber_core;
struct exceptions_here;
class trampoline;
class blocked_thread;
class batch;
class relay;
class timer;
struct token_pin;
struct worker;

// How many bodies may run on a thread, at most, before coroutines that need not suspend give others
// a turn, if others wait (else executor/turn_length.hpp): the same as a drain's budget.
inline constexpr std::uint32_t bodies_in_a_turn = 32;

// A stack that belongs to a fiber and not to the thread.
struct borrowed_stack {
  using call = void (*)(void*) noexcept;
  // Calls it on the stack below, and comes back, by who is on this stack.
  void (*call_off)(borrowed_stack&, call, void*) noexcept;
};

// A variable that this thread is writing, on the stack of who writes it.
struct written_here {
  void* place;
  written_here* outer;
};

// Of a type of its own, because clang takes all pointers for one kind that may alias: as one of
// them, a body that reads a pointer would have its frame written to memory, though nobody looks at
// it (bench/uncontended).
class chain_top {
 public:
  constexpr chain_top() noexcept = default;
  chain_top(chain_frame* f) noexcept : address_(address{reinterpret_cast<std::uintptr_t>(f)}) {}
  operator chain_frame*() const noexcept { return reinterpret_cast<chain_frame*>(address_); }
  chain_frame* operator->() const noexcept { return *this; }

 private:
  enum class address : std::uintptr_t {};
  address address_{};
};

extern constinit keeper keeps_nothing;

struct alignas(cache_line) thread_state {
  // Where these three lie in a cache line matters to keeper.hpp.
  chain_top chain;                 // innermost section held by what runs here; owned share
  keeper* keeps = &keeps_nothing;  // the section that stays with it; see keeper.hpp
  // When others get a turn here: what the keeper's number is then, and how many bodies elsewhere
  // are left before the last one, which may wrap; below 0 the turn is over. Each is told by what
  // counts the body anyway, so that a turn that has both may be up to twice as long.
  std::uint64_t end_of_turn = bodies_in_a_turn * keeper::one_body;
  std::uint32_t left_in_turn = bodies_in_a_turn - 1;
  std::uint32_t last_in_turn =
      bodies_in_a_turn - 1;       // as many elsewhere, ever, when none is left; wraps
  executor_ref runs_on;           // whose job runs here; empty on a foreign thread
  executor_ref pool;              // whose worker this thread is, for good; empty on others
  worker* as_worker = nullptr;    // of that pool
  trampoline* bounce = nullptr;   // innermost loop that resumes coroutines without an executor here
  batch* hands_back = nullptr;    // innermost drain's: results of bodies that have run here
  relay* transfers = nullptr;     // innermost loop that stands in for tail calls; see transfer.hpp
  const void* resumed = nullptr;  // what the library's innermost resumption stands behind; the same
  written_here* writes = nullptr;  // innermost variable whose change runs here; see value_cell.hpp
  written_here* writes_below = nullptr;  // the same below the job that runs here: as below_holds
  const timer* calls = nullptr;          // whose call is made here; see timer_queue.hpp
  token_pin* kept_token = nullptr;       // the stop token it asked with last; see kept_token.hpp
  borrowed_stack* stack = nullptr;       // that this thread is on; null: on its own
  fiber_core* fiber = nullptr;           // the same, if it is the fiber's own code and may await
  std::uint64_t number = 0;              // of this thread, once it was asked for: see thread_number
  std::uint32_t to_be_served = 0;        // requests made here that a drain serves, wherever; wraps
  std::uint32_t served = 0;              // bodies that drains have run here, whoever asked; wraps
  std::uint64_t serving_ns = 0;  // that drains have taken here, as far as they looked at a clock
  std::uint64_t brisk_serving_ns = 0;     // the same, of those that were brisk: pace.hpp
  std::int64_t tries_until_ns = 0;        // to be brisk; of the steady clock
  exceptions_here* exceptions = nullptr;  // those of this thread, once it has run a fiber
  // Bodies in what it kept before, less those of the keeper before that, and what counts once more;
  // wraps.
  std::uint32_t before_keeper = 0;
  std::uint8_t contended = 0;     // turns in which its absence is measured: short_wait.cpp
  bool is_timed = false;          // from its last body to the next arrival
  bool keeps_spare_hold = false;  // it may have one, which is freed in the end
  bool below_holds = false;       // what waits below for what runs here, and holds: rests_on_held
  std::uint8_t turns_in_job =
      0;  // that are over, on an executor that is not asked who waits; wraps
  std::uint8_t turn = bodies_in_a_turn;  // bodies that one has here; fewer where they take long
  bool (*crowded)() noexcept = nullptr;  // others wait for this worker; null on others: see job.cpp
  blocked_thread* in_line = nullptr;     // innermost one that has a request in line: its scopes
  hold_frame* spare_hold = nullptr;      // of the last guard that ended here: registry/chain.cpp
  spare_frames frames;                   // that this thread has freed

  // So that what others do does not belong on top of it.
  bool changes_a_variable() const noexcept { return writes != writes_below; }

  // Of sections, run on this thread ever, and what counts once more; wraps.
  std::uint32_t bodies() const noexcept {
    return before_keeper + bodies_elsewhere() + kept_bodies();
  }
  // Those that were not in what it keeps. They are counted down, so that the same instruction says
  // whether the turn is over.
  std::uint32_t bodies_elsewhere() const noexcept { return last_in_turn - left_in_turn; }
  void count_body_elsewhere() noexcept { --left_in_turn; }
  // What is worth two of them: executor/pace.hpp.
  void count_once_more() noexcept { ++before_keeper; }
  bool turn_has_ended() const noexcept { return static_cast<std::int32_t>(left_in_turn) < 0; }
  // The same after a body in what it keeps, whose keeper says `now`.
  bool turn_has_ended(std::uint64_t now) const noexcept {
    return static_cast<std::int64_t>(end_of_turn) <= static_cast<std::int64_t>(now);
  }

  // After `length` bodies others get a turn.
  void begin_turn(std::uint32_t length) noexcept {
    const std::uint32_t left = length - 1;
    last_in_turn = bodies_elsewhere() + left;
    left_in_turn = left;
    end_of_turn = keeps->ended_bodies() + length * keeper::one_body;
  }
  void turn_to(keeper& k) noexcept {
    before_keeper += kept_bodies();
    end_of_turn -= keeps->ended_bodies();
    keeps = &k;
    before_keeper -= kept_bodies();
    end_of_turn += k.ended_bodies();
  }

 private:
  std::uint32_t kept_bodies() const noexcept {
    return static_cast<std::uint32_t>(keeps->ended_bodies() / keeper::one_body);
  }
};

// Of a type of its own, so that only a call may, and no store.
enum class moment : unsigned {};
extern moment any_call_may_change_this;
thread_state& here_by_a_call() noexcept;

// A name that an instruction can say: see here.
extern constinit thread_local thread_state this_thread_state asm("turnstile_this_thread_state");

// Compilers take it for granted that a function stays on its thread, and keep the address of what
// is thread_local across calls. A fiber may come back from a call on another thread. So the address
// is asked for in a way that a call, which may change any memory, makes outdated.
inline thread_state& here() noexcept {
#if defined(TURNSTILE_THREAD_SEAM)
  return this_thread_state;  // a checker's threads are one
#elif defined(__x86_64__) && defined(__ELF__)
  thread_state* at;
  asm("movq turnstile_this_thread_state@gottpoff(%%rip), %0\n\taddq %%fs:0, %0"
      : "=r"(at)
      : "m"(any_call_may_change_this)
      : "cc");
  return *at;
#else
  return here_by_a_call();
#endif
}

// This thread's, and no other one's ever.
TURNSTILE_COLD std::uint64_t first_number() noexcept;
inline std::uint64_t thread_number() noexcept {
  const std::uint64_t n = here().number;
  return n != 0 ? n : first_number();
}

#if TURNSTILE_RECYCLES_FRAMES
inline void* recycled::operator new(std::size_t n) { return here().frames.take(n); }
inline void recycled::operator delete(void* p, std::size_t n) noexcept { here().frames.give(p, n); }
#endif

// What runs in this scope, on whatever stack, is not a fiber's own code: a body, or a coroutine.
class not_in_fiber {
 public:
  not_in_fiber() noexcept : before_(std::exchange(here().fiber, nullptr)) {}
  ~not_in_fiber() { here().fiber = before_; }
  not_in_fiber(const not_in_fiber&) = delete;
  not_in_fiber& operator=(const not_in_fiber&) = delete;

 private:
  fiber_core* const before_;
};

// A fiber's stack is for the fiber's own code: on the thread's own, then.
template <class F>
void off_this_stack(F f) noexcept {
  borrowed_stack* const s = here().stack;
  if (s == nullptr) return f();
  s->call_off(*s, [](void* with) noexcept { (*static_cast<F*>(with))(); }, &f);
}

// Puts another chain in place for a scope, and the old one back.
class chain_scope {
 public:
  // Takes over the share that `chain` stands for.
  explicit chain_scope(chain_frame* chain) noexcept : before_(here().chain) {
    here().chain = chain;
  }
  ~chain_scope() {
    drop(here().chain);
    here().chain = before_;
  }
  chain_scope(const chain_scope&) = delete;
  chain_scope& operator=(const chain_scope&) = delete;

 private:
  chain_frame* before_;
};

// What runs here now returns to somebody who holds sections and can do nothing until then. A body
// of others may block the thread for one of those, so it had better not run here. By whose chain is
// whole: what has been handed back may be gone, and the thread's chain with it.
inline bool rests_on_held() noexcept {
  const thread_state& t = here();
  return t.below_holds || may_hold_sections(t.chain);
}

// What runs in this scope has chains of its own, on top of the calling one.
class on_top {
 public:
  on_top() noexcept : on_top(rests_on_held()) {}
  // The same where that chain is put away already; `holds` is what it was asked then.
  explicit on_top(bool holds) noexcept
      : before_(std::exchange(here().below_holds, here().below_holds || holds)) {}
  ~on_top() { here().below_holds = before_; }
  on_top(const on_top&) = delete;
  on_top& operator=(const on_top&) = delete;

 private:
  const bool before_;
};

// So long after it has found a section in use, or kept: `contended`.
inline constexpr std::uint8_t turns_after_contention = 4;

// By a thread that is_timed, before it arrives: short_wait.cpp.
void note_absence(thread_state& t) noexcept;

inline void begin_turn() noexcept {
  thread_state& t = here();
  t.begin_turn(t.turn);
}

// The worker that what runs here should come back to, if there is one.
inline worker* home_worker() noexcept {
  const thread_state& t = here();
  return t.as_worker != nullptr && t.runs_on == t.pool ? t.as_worker : nullptr;
}

}  // namespace turnstile::detail
