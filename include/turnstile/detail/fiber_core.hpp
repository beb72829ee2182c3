// fiber_core.hpp - a function on a stack of its own, and the coroutine that stands for it outside.
//
// To the rest of the library a fiber is a coroutine: this one runs the stack until that waits, and
// then is what waits. So requests, chains of holds, stops and resumption know nothing of fibers.
//
//     executor --job--> coroutine --enter--> the fiber's stack: users' code, await
//                           ^                      |
//                           +-------leave----------+  and there, off that stack, the wait begins:
//                                                     the fiber may be resumed before this returns
//
// Shape     owners_ = the run, and the handle: who drops the last share frees this
//
// Edges     B1  owners_.fetch_sub(acq_rel): everything, before it is freed. The result, and the
//               guards that the fiber still has, go to who awaits it by the scope's edges
//               (scope_core.hpp): a fiber is the only work of a scope of its own, by which it is
//               joined and stopped, and seen by the wait graph
//
// Progress  Switching is wait-free. Beginning and ending take the lock of the pool of stacks for a
//           few steps.
//
// Dangers   A wait must not begin on the stack that waits: another thread may enter it at once.
//           What serves others runs their bodies, which may need any stack: so it is called off the
//           fiber's (call_off), whose size is for its own code.
//           After a wait the thread may be another one: see here() in thread_state.hpp.
//
// Proof     test/fiber, test/stress (fibers), test/schedule (fiber)
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/branch.hpp>
#include <turnstile/detail/chain_promise.hpp>
#include <turnstile/detail/result.hpp>
#include <turnstile/detail/scope_core.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/transfer.hpp>
#include <turnstile/executor.hpp>
#include <turnstile/fiber_options.hpp>

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

namespace turnstile {

namespace detail {

inline constexpr fiber_options default_fiber{};

class delegated_hold;
class own_stack;

class fiber_core : public borrowed_stack, private job {
 public:
  class promise;
  using handle = std::coroutine_handle<promise>;

  // What the coroutine does in the fiber's stead once that has left its stack. Gives what to go on
  // with.
  using wait_step = std::coroutine_handle<> (*)(void* wait, handle h) noexcept;

  fiber_core(const fiber_core&) = delete;
  fiber_core& operator=(const fiber_core&) = delete;

  void start(executor_ref on) noexcept;

  // The fiber whose own code calls this. Null: it is none's.
  static fiber_core* own_code() noexcept;
  // The same; a broken contract if there is none.
  static fiber_core& running() noexcept;

  // By the fiber: leaves its stack, and comes back when the coroutine goes on.
  void wait(void* w, wait_step step) noexcept;

  // By the handle, and by the run when it has ended.
  void drop() noexcept {
    if (owners_.fetch_sub(1, acq_rel) == 1) delete this;  // B1
  }

  scope_core& scope() noexcept { return *scope_; }
  const site& place() const noexcept { return at_; }
  const own_stack& stack() const noexcept { return *stack_; }

  // What it holds through delegated_mutex, innermost first.
  delegated_hold* innermost = nullptr;
  // Memory for one of those: most fibers hold one at a time.
  std::unique_ptr<std::byte[]> spare_hold;

 protected:
  using work = void (*)(fiber_core&) noexcept;

  fiber_core(work w, const fiber_options& options, const std::source_location& where);
  virtual ~fiber_core();

  // When it has ended: guards that it still had, for who awaits it.
  chain_frame* take_left() noexcept { return std::exchange(left_, nullptr); }
  // Its error, when nobody can take that any more.
  void report(std::exception_ptr error) noexcept;

 private:
  static void begin(job& j) noexcept;
  static void run_work(void* self) noexcept;
  static void call_outside(borrowed_stack& s, call what, void* with) noexcept;
  struct coroutine {
    using promise_type = promise;
    handle its;
  };
  static coroutine drive(fiber_core& f);
  [[gnu::always_inline]] inline bool run() noexcept;
  [[gnu::always_inline]] inline void enter() noexcept;
  void ended() noexcept;

  struct abandon_scope {
    void operator()(scope_core* s) const noexcept { s->abandon(); }
  };
  struct end_stack {
    void operator()(own_stack* s) const noexcept;
  };

  // What each switch needs, together.
  std::unique_ptr<own_stack, end_stack> stack_;
  guarded<void*> wait_{nullptr};  // between leaving the stack and entering it again
  guarded<wait_step> step_{nullptr};
  guarded<call> call_{nullptr};
  guarded<void*> call_with_{nullptr};
  relay* transfers_ = nullptr;  // while it is left: the thread's, which lies on this stack
  bool has_ended_ = false;
  atomic<std::uint8_t> owners_{2};
  const work work_;
  handle coroutine_;
  const site at_;
  const std::unique_ptr<scope_core, abandon_scope> scope_;
  member_frame member_;
  chain_frame* left_ = nullptr;  // guards that it still had at its end
};

class fiber_core::promise : public coroutine_promise {
 public:
  explicit promise(fiber_core& f) noexcept : fiber_(&f) {}

  struct end {
    bool await_ready() const noexcept { return false; }
    void await_suspend(handle h) const noexcept {
      promise& p = h.promise();
      p.finish();
      suspending now{h, static_cast<chain_promise*>(&p)};
      if (now.is_known()) give_back(nullptr);
      now.begin_end();
      const chain_scope nothing_held{nullptr};  // what the fiber began on ends with it
      p.fiber_->ended();                        // the frame is gone
    }
    void await_resume() const noexcept {}
  };

  // The wait that the fiber asked for, which takes the chain along by itself.
  struct pause {
    fiber_core& f;
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(handle h) const noexcept {
      return f.step_(f.wait_, h);  // f may be gone
    }
    void await_resume() const noexcept {}
  };

  coroutine get_return_object() noexcept { return {handle::from_promise(*this)}; }
  end final_suspend() const noexcept { return {}; }
  void return_void() const noexcept {}
  void unhandled_exception() const noexcept { std::terminate(); }
  pause await_transform(pause p) const noexcept { return p; }

  // To be returned from a wait_step: the fiber need not wait.
  std::coroutine_handle<> go_on(handle self) noexcept { return transfer(self, self, node_); }

 private:
  fiber_core* fiber_;
  transfer_node node_;
};

// One await of a fiber, on its stack.
template <awaitable T>
class fiber_wait {
 public:
  // What it is made of may be gone when the awaiter is, which ends with the call.
  using value =
      std::conditional_t<std::is_reference_v<awaiter_of<T>>, awaited<T>, kept<awaited<T>>>;

  template <class A>
  explicit fiber_wait(A&& a) : awaiter_(detail::track(std::forward<A>(a), ask_off{})) {}

  value await(fiber_core& f) {
    if (!awaiter_.await_ready()) {
      f.wait(this, &begin);
      if (error_ != nullptr) std::rethrow_exception(std::move(error_));
    }
    return awaiter_.await_resume();
  }

 private:
  struct ask_off {
    template <class A>
    bool operator()(A& awaiter) const {
      const not_in_fiber whatever_runs_here;
      return ask_here{}(awaiter);
    }
  };

  static std::coroutine_handle<> begin(void* w, fiber_core::handle h) noexcept {
    auto& self = *static_cast<fiber_wait*>(w);
    using answer = decltype(self.awaiter_.await_suspend(h));
    try {
      if constexpr (std::is_void_v<answer>) {
        self.awaiter_.await_suspend(h);
        return std::noop_coroutine();  // self may be gone
      } else if constexpr (std::is_same_v<answer, bool>) {
        if (self.awaiter_.await_suspend(h)) return std::noop_coroutine();  // self may be gone
      } else {
        return self.awaiter_.await_suspend(h);  // self may be gone
      }
    } catch (...) {
      self.error_ = std::current_exception();
    }
    return h.promise().go_on(h);
  }

  tracked_awaiter_of<T> awaiter_;
  std::exception_ptr error_;
};

// The part of a fiber that its handle knows.
template <class R>
class fiber_result : public fiber_core {
 public:
  R take() {
    if (chain_frame* const left = this->take_left()) adopt_holds(*left);
    return got_.take();
  }

 protected:
  using fiber_core::fiber_core;
  ~fiber_result() override {
    if (std::exception_ptr error = got_.error()) report(std::move(error));
  }

  result<R> got_;
};

template <class F, class R>
class fiber_state final : public fiber_result<R> {
 public:
  template <class G>
  fiber_state(G&& f, const fiber_options& options, const std::source_location& where)
      : fiber_result<R>(&call, options, where), function_(std::forward<G>(f)) {}

 private:
  static void call(fiber_core& f) noexcept {
    auto& self = static_cast<fiber_state&>(f);
    self.got_.run([&self]() -> decltype(auto) { return std::invoke(std::move(self.function_)); });
  }

  F function_;
};

}  // namespace detail
}  // namespace turnstile
