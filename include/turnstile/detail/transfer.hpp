// transfer.hpp - resuming coroutines without growing the stack.
//
// A coroutine that suspends in favour of another returns that one's handle (symmetric transfer).
// Where the compiler does not make that a tail call (config.hpp), the handle goes to the loop that
// resumed the first one instead, so chains of any length run in constant stack in every build.
//
// Whoever resumes a coroutine in the library puts the thread's chain right when that suspends. So
// one that awaits another library's coroutine, and transfers to it, may leave its own chain there,
// which that one then has. But only if the library's resumption stands behind it directly, and not
// somebody's own code, which would go on with a chain that is not its own. What it transfers to
// otherwise, as a scheduler's awaiter does, has nothing to do with it and finds an empty chain.
// thread_state::resumed says what it stands behind:
//
//   the address of a coroutine that runs
//   that address and 1 while its await_suspend is called, in which somebody may resume it as well
//   that address and 2 meanwhile, if somebody's own code has resumed it
//   in_place from then on in which it was resumed within that: its frame may be gone
//   what stands for it, while another library's coroutine runs in its stead
//   null: nothing that is known, as while the end of a coroutine is told, whose frame may be gone
//
// Limits: an await_suspend runs on the chain of the coroutine that waits, until it resumes that. If
// that is resumed on another thread, or by the library within the await_suspend (on an executor
// that runs jobs within post, in a body that is run there), and ends, then what the await_suspend
// asks the library afterwards is asked on a chain that is gone. So it is if the await_suspend runs
// in a fiber and itself goes on on another thread before.
// Another library's coroutine that runs in a coroutine's stead may resume that by its end, or by
// its end within a loop of its own, which goes on afterwards. The two look the same. So if what was
// resumed then waits for another such coroutine, the loop goes on with its chain; and without tail
// calls, what it transfers to begins only when the loop returns.
#pragma once

#include <turnstile/detail/config.hpp>
#include <turnstile/detail/thread_state.hpp>

#include <coroutine>
#include <cstdint>
#include <optional>
#include <utility>

namespace turnstile::detail {

// What the library's resumption stands behind while `h` is in its await_suspend.
inline const void* in_await(std::coroutine_handle<> h) noexcept {
  return static_cast<const char*>(h.address()) + 1;
}
// The same of one that somebody's own code has resumed.
inline const void* in_await_of_others(std::coroutine_handle<> h) noexcept {
  return static_cast<const char*>(h.address()) + 2;
}
// Whether what runs here is called by the await_suspend of the coroutine with that frame.
inline bool is_in_await_of(const void* frame) noexcept {
  const auto resumed = reinterpret_cast<std::uintptr_t>(here().resumed);
  return resumed - reinterpret_cast<std::uintptr_t>(frame) - 1 < 2;
}

// Its address is what the rest of an await_suspend stands behind that has resumed its coroutine.
TURNSTILE_VISIBLE inline constexpr char in_place{};

// A place in a relay's list.
struct transfer_node {
  std::coroutine_handle<> to;
  transfer_node* next;
};

// Stands in for tail calls between the coroutines that one resume() call runs. Latest first, which
// is the order that tail calls would have.
class relay {
 public:
  relay() noexcept : relay(std::coroutine_handle<>{}) {}
  // Takes what `h` transfers to, and `run_waiting` runs it.
  explicit relay(std::coroutine_handle<> h) noexcept
      : outer_(here().transfers), running_(h.address()) {
    here().transfers = this;
  }
  ~relay() { here().transfers = outer_; }
  relay(const relay&) = delete;
  relay& operator=(const relay&) = delete;

  void run(std::coroutine_handle<> h) {
    resume(h);
    run_waiting();
  }
  void run_waiting() {
    while (first_ != nullptr) {
      const std::coroutine_handle<> to = first_->to;
      first_ = first_->next;
      resume(to);  // the node may be gone
    }
  }

  // Only a coroutine that this loop stands behind will return to it soon. Others were resumed by
  // somebody's own code, which may wait for what the transfer leads to: also one that its own
  // awaiter resumes, within the loop's resumption.
  bool stands_behind(std::coroutine_handle<> h) const noexcept {
    if (running_ != h.address()) return false;
    const void* const resumed = here().resumed;
    return takes_one_transfer_ || resumed == h.address() || resumed == in_await(h);
  }

  void push(transfer_node& n) noexcept {
    n.next = first_;
    first_ = &n;
  }

 private:
  void resume(std::coroutine_handle<> h) {
    takes_one_transfer_ = false;
    running_ = h.address();
    here().resumed = h.address();
    h.resume();
  }

  relay* outer_;
  void* running_;
  transfer_node* first_ = nullptr;
  bool takes_one_transfer_ = true;  // made for that, within an await_suspend
};

// Puts it back, also if another library's coroutine throws out of its resumption.
class resumed_before {
 public:
  resumed_before() noexcept : was_(here().resumed) {}
  ~resumed_before() { here().resumed = was_; }
  resumed_before(const resumed_before&) = delete;
  resumed_before& operator=(const resumed_before&) = delete;

 private:
  const void* was_;
};

// Resumes `h` and what it transfers to, until something really waits. The caller puts the thread's
// chain right.
inline void run_to_suspension(std::coroutine_handle<> h) {
  const resumed_before before;
#if TURNSTILE_TAIL_TRANSFER
  here().resumed = h.address();
  h.resume();
#else
  relay r;
  r.run(h);
#endif
}

// While the await_suspend of a coroutine is called, or its end told. `self` stands for it.
class suspending {
 public:
  suspending(std::coroutine_handle<> h, const void* self) noexcept
      : from_(h), before_(here().resumed), is_known_(before_ == h.address() || before_ == self) {}

  // In which it may transfer.
  void begin() noexcept {
    here().resumed = is_known_ ? in_await(from_) : in_await_of_others(from_);
  }
  // In which its frame may end.
  void begin_end() noexcept {
    if (is_known_) here().resumed = nullptr;
  }

  bool is_known() const noexcept { return is_known_; }
  // Or what that has led to: it runs within an await_suspend that has resumed its own coroutine.
  bool is_in_place() const noexcept { return before_ == &in_place; }
  // Its await_suspend has resumed it.
  bool went_on_in_place() const noexcept { return is_known_ && here().resumed == &in_place; }

  void goes_on() noexcept { here().resumed = is_known_ ? from_.address() : before_; }
  void waits() noexcept { here().resumed = is_known_ ? nullptr : before_; }

  // True: it does not transfer to a coroutine of the library's, and the library stands behind it,
  // and behind `instead` from now on.
  [[nodiscard]] bool leaves_the_library(const void* instead) noexcept {
    if (!is_known_) {
      here().resumed = before_;
      return false;
    }
    if (here().resumed != in_await(from_)) return false;
    here().resumed = instead;
    return true;
  }

 private:
  std::coroutine_handle<> from_;
  const void* before_;
  bool is_known_;
};

// Around the await_suspend of a coroutine that has something to put right before what it transfers
// to may run.
class transfer_scope {
 public:
#if TURNSTILE_TAIL_TRANSFER
  transfer_scope(std::coroutine_handle<>, const suspending&) noexcept {}
  void run() noexcept {}
#else
  // Made at once: of an emplace g++ 12 thinks that it may end what is not there.
  transfer_scope(std::coroutine_handle<> h, const suspending& now) noexcept
      : waiting_(now.is_known() ? std::optional<relay>() : std::optional<relay>(std::in_place, h)) {
  }
  // What it transfers to may throw nothing: the coroutine waits already.
  void run() noexcept {
    if (!waiting_) return;
    const resumed_before before;
    const chain_scope as{share(here().chain)};
    waiting_->run_waiting();
  }

 private:
  std::optional<relay> waiting_;
#endif
};

// To be returned from the await_suspend of `from`. `node` lives as long as the coroutine behind
// `to` waits.
inline std::coroutine_handle<> transfer(std::coroutine_handle<> from, std::coroutine_handle<> to,
                                        transfer_node& node) noexcept {
#if TURNSTILE_TAIL_TRANSFER
  static_cast<void>(node);
  if (here().resumed == in_await(from)) here().resumed = to.address();
  return to;
#else
  relay* const r = here().transfers;
  if (r != nullptr && r->stands_behind(from)) {
    node.to = to;
    r->push(node);
    here().resumed = nullptr;  // until that is run
  } else {
    const chain_scope as{share(here().chain)};
    run_to_suspension(to);
  }
  return std::noop_coroutine();
#endif
}

}  // namespace turnstile::detail
