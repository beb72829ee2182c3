// transfer.hpp - resuming coroutines without growing the stack.
//
// A coroutine that suspends in favour of another returns that one's handle (symmetric transfer). Where
// the compiler does not make that a tail call (config.hpp), the handle goes to the loop that resumed
// the first one instead, so chains of any length run in constant stack in every build.
#pragma once

#include <turnstile/detail/config.hpp>
#include <turnstile/detail/thread_state.hpp>

#include <coroutine>

namespace turnstile::detail {

// A place in a relay's list.
struct transfer_node {
  std::coroutine_handle<> to;
  transfer_node* next;
};

// Stands in for tail calls between the coroutines that one resume() call runs. Latest first, which is
// the order that tail calls would have.
class relay {
 public:
  relay() noexcept : outer_(here().transfers) { here().transfers = this; }
  ~relay() {
    run();
    here().transfers = outer_;
  }
  relay(const relay&) = delete;
  relay& operator=(const relay&) = delete;

  void push(transfer_node& n) noexcept {
    n.next = first_;
    first_ = &n;
  }

 private:
  void run() noexcept {
    while (first_ != nullptr) {
      const std::coroutine_handle<> to = first_->to;
      first_ = first_->next;
      to.resume();  // the node may be gone
    }
  }

  relay* outer_;
  transfer_node* first_ = nullptr;
};

// Resumes `h` and what it transfers to, until something really waits.
inline void run_to_suspension(std::coroutine_handle<> h) {
#if TURNSTILE_TAIL_TRANSFER
  h.resume();
#else
  const relay r;
  h.resume();
#endif
}

// To be returned from await_suspend. `node` lives as long as the coroutine behind `to`.
inline std::coroutine_handle<> transfer(std::coroutine_handle<> to, transfer_node& node) noexcept {
#if TURNSTILE_TAIL_TRANSFER
  static_cast<void>(node);
  return to;
#else
  if (relay* const r = here().transfers) {
    node.to = to;
    r->push(node);
  } else {
    run_to_suspension(to);
  }
  return std::noop_coroutine();
#endif
}

}  // namespace turnstile::detail
