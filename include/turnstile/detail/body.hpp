// body.hpp - running the function given to an execution, as part of its section.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/branch.hpp>
#include <turnstile/detail/section_core.hpp>

#include <concepts>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <type_traits>
#include <utility>

namespace turnstile {

class stream;

namespace detail {

// A body that can be called with a stream, and not without, only submits work to a device. The
// second is not even asked of the others: that of a generic body may be an error.
template <class Body>
inline constexpr bool submits =
    std::conjunction_v<std::negation<std::is_invocable<std::remove_reference_t<Body>&>>,
                       std::is_invocable<std::remove_reference_t<Body>&, stream&>>;

template <class Body>
constexpr bool require_callable() noexcept {
  constexpr bool is_callable = std::is_invocable_v<std::remove_reference_t<Body>&>;
  static_assert(
      is_callable,
      "a body is called as an lvalue, without arguments or with a stream&; that of a "
      "synchronized with a reference to its value before, and that of after(...) with what "
      "those gave");
  return is_callable;
}

// Says nothing itself: clang takes a class in which an assertion fails for broken, and each use of
// it for one more error.
template <class Body, bool = submits<Body>>
struct returned_by : std::conditional_t<require_callable<Body>(),
                                        std::invoke_result<std::remove_reference_t<Body>&>,
                                        std::type_identity<void>> {};
template <class Body>
struct returned_by<Body, true> {
  using type = std::invoke_result_t<std::remove_reference_t<Body>&, stream&>;
  static_assert(!awaitable<type>,
                "a body that takes a stream only submits: it must not return an awaitable. Await "
                "inside a body without a stream, or after the execution");
};
template <class Body>
using returned = typename returned_by<Body>::type;

// A body that returns an awaitable is awaited with the section held.
template <class Body>
inline constexpr bool waits = awaitable<returned<Body>>;

// Where a body cannot submit.
template <class Body>
constexpr void require_host_body() noexcept {
  static_assert(
      !submits<std::decay_t<Body>>,
      "a body that takes a stream can be given to execute, submit, post, async_execute and "
      "execute_blocking of one section only");
}

template <class Body>
constexpr void require_copyable_lvalue() noexcept {
  static_assert(
      !std::is_lvalue_reference_v<Body> || std::is_constructible_v<std::decay_t<Body>, Body>,
      "an lvalue is copied; a body that cannot be copied is passed as std::ref(body)");
}

// What a call uses that ends with its body: a copy of an lvalue, as an execution has one; an rvalue
// itself.
template <class Body>
using tried_body = std::conditional_t<std::is_lvalue_reference_v<Body>, std::decay_t<Body>, Body&>;

template <class Body, bool = waits<Body>>
struct body_result {
  using type = kept<returned<Body>>;
};
template <class Body>
struct body_result<Body, true> {
  using type = kept<awaited<returned<Body>>>;
};
template <class Body>
using body_result_t = typename body_result<Body>::type;

// Calls `f` as the body of an execution in `section` by the chain `requester`, on the calling
// thread, whose state is `t` and whose chain is `before`. Gives the guards that it left behind, if
// any.
template <class F>
TURNSTILE_INLINE chain_frame* run_held(thread_state& t, chain_frame* before,
                                       const section_core& section, chain_frame* requester,
                                       const site& at, F&& f) noexcept {
  body_frame frame{{frame_on(requester, &section, &at)}};
  chain_top& top = t.chain;
  top = &frame;
  f();
  chain_frame* const after = std::exchange(top, before);
  chain_frame* const left = after == &frame ? nullptr : cut_holds(after, &frame);
  end_frame(frame);
  return left;
}

template <class F>
TURNSTILE_INLINE chain_frame* run_held(const section_core& section, chain_frame* requester,
                                       const site& at, F&& f) noexcept {
  thread_state& t = here();
  return run_held(t, t.chain, section, requester, at, std::forward<F>(f));
}

// What cannot be moved is awaited where it is made.
template <class Body>
task<body_result_t<Body>> call_and_await(Body& body) {
  co_return co_await std::invoke(body);
}

// A body that waits, while it does.
//
// Edges  S1  phase_.exchange(acq_rel) by the strand when start returns, and by the body's end: the
//            second one goes on with the section, and sees all the first one did. An end within
//            start, on its thread, only stores: start looks (acquire) before it exchanges.
// Proof  test/schedule (strand: a body waits), model handshake
template <class Body, class Owner>
class waiting_body : private branch_end {
  using value = body_result_t<Body>;

 public:
  waiting_body() noexcept : branch_end(&ended_here) {}

  // Owner has: section_core& section(), const site& place(), result<value>& got(),
  // chain_frame*& left_behind(), void body_ended().
  outcome start(Owner& owner, Body& body, chain_frame* requester) noexcept {
    owner_ = &owner;
    static_cast<chain_frame&>(frame_) = frame_on(requester, &owner.section(), &owner.place());
    phase_.store(thread_number(), relaxed);  // nobody else can see it yet
    chain_frame* const before = std::exchange(here().chain, &frame_);
    const bool made = make(owner, body);
    chain_frame* const top = std::exchange(here().chain, before);
    if (!made) {
      if (top != &frame_) owner.left_behind() = cut_holds(top, &frame_);
      end(owner);
      return outcome::finished;
    }
    branch_.prepare(*this, top, &frame_);
    branch_.run();
    if (phase_.load(acquire) == ended) return outcome::finished;                 // S1
    return phase_.exchange(returned_from, acq_rel) == ended ? outcome::finished  // S1
                                                            : outcome::suspended;
  }

 private:
  // What phase_ is once it is not the number of the thread any more that start runs on.
  static constexpr std::uint64_t returned_from = 0;
  static constexpr std::uint64_t ended = ~std::uint64_t{0};

  bool make(Owner& owner, Body& body) noexcept {
    try {
      if constexpr (std::move_constructible<returned<Body>>) {
        branch_ = detail::make_branch<returned<Body>>(std::invoke(body));
      } else {
        branch_ = detail::call_and_await(body);
      }
      return true;
    } catch (...) {
      owner.got().fail(std::current_exception());
      return false;
    }
  }

  void end(Owner& owner) noexcept {
    end_frame(frame_);
    if constexpr (requires { owner.body_over(); }) owner.body_over();
  }

  static std::coroutine_handle<> ended_here(branch_end& self) noexcept {
    auto& w = static_cast<waiting_body&>(self);
    Owner& owner = *w.owner_;
    owner.left_behind() = w.branch_.take_left();
    owner.got().take_over(w.branch_.got());
    w.branch_.destroy();
    w.end(owner);
    if (w.phase_.load(relaxed) == thread_number()) {
      w.phase_.store(ended, relaxed);  // S1
      return {};
    }
    if (w.phase_.exchange(ended, acq_rel) == returned_from) {  // S1
      const chain_scope nothing_held{nullptr};                 // what the body began on may be gone
      owner.body_ended();                                      // and so may this
    }
    return {};
  }

  Owner* owner_ = nullptr;
  body_frame frame_{};
  branch<value> branch_;
  atomic<std::uint64_t> phase_{returned_from};
};

struct no_waiting_body {};

}  // namespace detail
}  // namespace turnstile
