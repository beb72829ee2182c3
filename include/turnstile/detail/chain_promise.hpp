// chain_promise.hpp - a coroutine that takes its chain of holds with it from thread to thread.
//
// While it runs, its chain is the thread's; at each suspension the thread gets back what it had,
// whoever resumed the coroutine, and the chain waits in the promise.
#pragma once

#include <turnstile/detail/awaitable.hpp>
#include <turnstile/detail/recycled.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/transfer.hpp>

#include <coroutine>
#include <memory>
#include <type_traits>
#include <utility>

namespace turnstile {

template <class T>
class task;

}  // namespace turnstile

namespace turnstile::detail {

class chain_promise {
 public:
  chain_promise() noexcept = default;
  chain_promise(const chain_promise&) = delete;
  chain_promise& operator=(const chain_promise&) = delete;
  ~chain_promise() {
    drop(chain_);
    drop(left_);
    drop(base_);
  }

  // Before the first resumption: the chain to run on, of which it takes over a share.
  void start_on(chain_frame* chain) noexcept { start_on(chain, chain); }
  // What is on `chain` above `base` counts as acquired by this coroutine.
  void start_on(chain_frame* chain, chain_frame* base) noexcept {
    chain_ = chain;
    base_ = share(base);
  }

  // While it is suspended.
  chain_frame* saved() const noexcept { return chain_; }
  // What it started on.
  chain_frame* base() const noexcept { return base_; }

  // The coroutine runs on this thread from here on.
  void enter() noexcept {
    chain_frame* const mine = std::exchange(chain_, nullptr);
    if (is_in_await_of(frame_)) [[unlikely]] {
      enter_in_place(mine);
    } else if (here().chain == mine || (here().resumed == this && left_holds_here(mine))) {
      alone_ = true;
      outer_ = mine;
    } else {
      // What it awaited has ended without waiting: the thread has again what it was given back.
      alone_ = alone_ && here().chain == outer_;
      outer_ = std::exchange(here().chain, mine);
    }
  }

  // It ends here; `known`: it was resumed by the library. What it still holds can be had from
  // take_left. True: the thread is left with its own chain, which is another one's as well.
  bool finish(bool known = true) noexcept {
    const bool leaves_own = !known && alone_ && outer_ != base_;
    chain_frame* const mine = std::exchange(here().chain, left_to_others(known));
    if (mine == base_) [[likely]] {
      drop(mine);
    } else {
      left_ = cut_holds(mine, base_);
    }
    return leaves_own;
  }
  chain_frame* take_left() noexcept { return std::exchange(left_, nullptr); }

  // Suspension in three steps, because nothing of the coroutine may be touched once it can be
  // resumed elsewhere: save, call the awaiter with the chain still in place, give the thread back.
  chain_frame* save() noexcept {
    chain_ = share(here().chain);
    return outer_;
  }
  static void give_back(chain_frame* outer) noexcept { drop(std::exchange(here().chain, outer)); }
  void did_not_suspend(chain_frame* outer) noexcept {
    drop(std::exchange(chain_, nullptr));
    outer_ = outer;
  }

 protected:
  void is_of(std::coroutine_handle<> h) noexcept { frame_ = h.address(); }

 private:
  // Within its own await_suspend, which goes on afterwards, when its chain may be gone: as nobody,
  // where nothing but guards lies on top of what was left there.
  TURNSTILE_COLD void enter_in_place(chain_frame* mine) noexcept {
    here().resumed = &in_place;
    alone_ = false;
    outer_ = std::exchange(here().chain, mine);
    if (below_guards(outer_) == below_guards(mine)) drop(std::exchange(outer_, nullptr));
  }
  static const chain_frame* below_guards(const chain_frame* top) noexcept {
    while (is_hold(top)) top = top->parent;
    return top;
  }

  // What the thread had. The library resumes a coroutine with nothing on the thread but its own
  // chain; that ends with it, and who awaits it may be somebody else's coroutine, which takes what
  // it finds: the chain that this one started on, which is the awaiter's. Whoever else has resumed
  // it goes on with what the thread had, which may look like this one's own: children of one
  // when_any begin on the same frame.
  chain_frame* left_to_others(bool known) noexcept {
    chain_frame* const outer = std::exchange(outer_, nullptr);
    if (!alone_ || !known || outer == base_) return outer;
    drop(outer);
    return share(base_);
  }

  // Another library's coroutine ran in its stead and left nothing but guards on top of its chain:
  // it has them now.
  TURNSTILE_COLD static bool left_holds_here(const chain_frame* mine) noexcept {
    const chain_frame* top = here().chain;
    while (!belongs_to(top, mine) && is_hold(top)) top = top->parent;
    return belongs_to(top, mine);
  }

  chain_frame* chain_ = nullptr;  // while suspended; owned share
  chain_frame* outer_ = nullptr;  // while running: what the thread had; else the address of that
  chain_frame* left_ = nullptr;   // after the end: guards not yet unlocked
  chain_frame* base_ = nullptr;   // what it started on; owned share
  const void* frame_ = nullptr;   // of the coroutine
  bool alone_ = false;            // what the thread had is the coroutine's own chain
};

// A coroutine's type, as far as that can be told: who awaits it lets it begin.
template <class T>
concept coroutine_type =
    requires { typename std::coroutine_traits<std::remove_cvref_t<T>>::promise_type; };

// Adds the chain's coming and going to an awaiter, which it asks at once whether it is ready. A is
// the awaiter or a reference to it; what it transfers to is part of the chain if it is of a
// coroutine type.
template <class A, bool of_coroutine>
class tracked;

// Whether an awaiter is ready is asked like this, unless it has to be in other surroundings.
struct ask_here {
  template <class A>
  bool operator()(A& awaiter) const {
    return static_cast<bool>(awaiter.await_ready());
  }
};

template <class A, bool of_coroutine>
class tracked<A&, of_coroutine> {
 public:
  template <class Ask>
  tracked(A& awaiter, const Ask& is_ready) {
    if (is_ready(awaiter)) {
      at_once_ = std::addressof(awaiter);
    } else {
      awaiter_ = std::addressof(awaiter);
      at_once_ = nullptr;
    }
  }
  tracked(const tracked&) = delete;
  tracked& operator=(const tracked&) = delete;
  ~tracked() {}  // not implicit: after this one g++ knows that what was stored is dead

  bool await_ready() const noexcept { return at_once_ != nullptr; }

  template <class P>
  auto await_suspend(std::coroutine_handle<P> h) {
    static_assert(
        requires { awaiter_->await_suspend(h); },
        "what is awaited can only be awaited by coroutines of its own library");
    using answer = decltype(awaiter_->await_suspend(h));
    chain_promise& p = h.promise();
    away_ = &p;
    suspending now{h, &p};
    chain_frame* const outer = p.save();
    try {
      now.begin();
      if constexpr (std::is_void_v<answer>) {
        awaiter_->await_suspend(h);  // the frame may be gone
        now.waits();
        give_back_or_nothing(now.is_known(), outer);
      } else if constexpr (std::is_same_v<answer, bool>) {
        const bool suspended = awaiter_->await_suspend(h);
        if (suspended) {
          now.waits();
          give_back_or_nothing(now.is_known(), outer);
        } else {
          now.goes_on();
          away_ = nullptr;
          p.did_not_suspend(outer);
        }
        return suspended;
      } else {
        transfer_scope after{h, now};
        const std::coroutine_handle<> next = awaiter_->await_suspend(h);  // the frame may be gone
        const bool is_for_it = of_coroutine || next == h;
        const bool went_on = now.went_on_in_place();
        if (!now.leaves_the_library(is_for_it ? &p : nullptr)) {
          give_back_or_nothing(went_on, outer);
        } else {
          drop(outer);
          if (!is_for_it) chain_promise::give_back(nullptr);
        }
        after.run();
        return next;
      }
    } catch (...) {
      now.goes_on();
      away_ = nullptr;
      p.did_not_suspend(outer);
      throw;
    }
  }

  TURNSTILE_INLINE decltype(auto) await_resume() {
    if (at_once_ != nullptr) return take_at_once(*at_once_);
    if (away_ != nullptr) away_->enter();
    return awaiter_->await_resume();
  }

 private:
  // Nothing is left on the thread by one that the library has resumed, which puts the chain right:
  // what was there is the coroutine's own chain. Another library's code may go on before, where
  // that ran in its stead.
  static void give_back_or_nothing(bool nothing, chain_frame* outer) noexcept {
    if (nothing) drop(std::exchange(outer, nullptr));
    chain_promise::give_back(outer);
  }

  static decltype(auto) take_at_once(A& awaiter) {
    if constexpr (requires { awaiter.await_resume(was_ready{}); }) {
      return awaiter.await_resume(was_ready{});
    } else {
      return awaiter.await_resume();
    }
  }

  // Written after it was asked: what a compiler knows of memory ends where a section is left, and
  // so it still knows them when the coroutine goes on, and need not write them (test/instructions).
  A* at_once_;           // the awaiter, if it was ready
  A* awaiter_;           // if not
  chain_promise* away_;  // of the coroutine, if it was suspended
};

template <class A, bool of_coroutine>
class tracked<A&&, of_coroutine> : public tracked<A&, of_coroutine> {
 public:
  template <class Ask>
  tracked(A&& awaiter, const Ask& is_ready) : tracked<A&, of_coroutine>(awaiter, is_ready) {}
};

template <class A>
struct kept_awaiter {
  A awaiter;
};

template <class A, bool of_coroutine>
class tracked : kept_awaiter<A>, public tracked<A&, of_coroutine> {
 public:
  template <class T, class Ask>
  tracked(T&& t, const Ask& is_ready)
      : kept_awaiter<A>{detail::get_awaiter(std::forward<T>(t))},
        tracked<A&, of_coroutine>(kept_awaiter<A>::awaiter, is_ready) {}
};

template <awaitable T>
using tracked_awaiter_of = tracked<awaiter_of<T>, coroutine_type<T>>;

template <awaitable T, class Ask = ask_here>
tracked_awaiter_of<T> track(T&& t, const Ask& is_ready = {}) {
  if constexpr (std::is_reference_v<awaiter_of<T>>) {
    return tracked_awaiter_of<T>(detail::get_awaiter(std::forward<T>(t)), is_ready);
  } else {
    return tracked_awaiter_of<T>(std::forward<T>(t), is_ready);
  }
}

// What every coroutine of the library's own has in common.
class coroutine_promise : public chain_promise, public recycled {
 public:
  struct begin {
    coroutine_promise& p;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) const noexcept { p.is_of(h); }
    void await_resume() const noexcept { p.enter(); }
  };

  begin initial_suspend() noexcept { return {*this}; }

  template <awaitable T>
  tracked_awaiter_of<T> await_transform(T&& t) {
    return detail::track(std::forward<T>(t));
  }
  // As that of task.hpp.
  template <class T>
  void await_transform(task<T>&)  // a task is awaited as an rvalue: co_await std::move(t)
      = delete;
};

}  // namespace turnstile::detail
