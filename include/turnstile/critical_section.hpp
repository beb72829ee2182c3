// critical_section.hpp - run a function alone, without blocking a thread.
//
// Behind it: lib/strand (who serves), lib/ring (waiting requests), lib/registry (who holds what).
#pragma once

#include <turnstile/after.hpp>
#include <turnstile/detail/blocking_execution.hpp>
#include <turnstile/detail/close_awaiter.hpp>
#include <turnstile/detail/config.hpp>
#include <turnstile/detail/device_awaiter.hpp>
#include <turnstile/detail/execute_after.hpp>
#include <turnstile/detail/execute_awaiter.hpp>
#include <turnstile/detail/lock_awaiter.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/submitted.hpp>
#include <turnstile/detail/when_awaiter.hpp>
#include <turnstile/execute_options.hpp>
#include <turnstile/execution_handle.hpp>
#include <turnstile/section_guard.hpp>
#include <turnstile/section_options.hpp>
#include <turnstile/section_statistics.hpp>
#include <turnstile/sync_wait.hpp>
#include <turnstile/thread_pool.hpp>

#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace turnstile {

class registry;

namespace detail {

struct section_access;

// See config.hpp: another body would be destroyed twice, which is silent memory corruption.
template <class Body>
constexpr void require_safe_inside_co_await() noexcept {
  constexpr bool is_safe = !TURNSTILE_CO_AWAIT_COPIES_CLOSURES ||
                           std::is_lvalue_reference_v<Body> ||
                           std::is_trivially_destructible_v<std::remove_cvref_t<Body>>;
  constexpr bool can_be_lvalue = std::is_constructible_v<std::decay_t<Body>, Body&>;
  static_assert(is_safe || !can_be_lvalue,
                "g++ before 13 destroys the captures of a lambda written inside co_await twice. "
                "Name the lambda and pass it as an lvalue, or pass std::ref(it).");
  static_assert(is_safe || can_be_lvalue,
                "g++ before 13 destroys the captures of a lambda written inside co_await twice. "
                "Name the lambda; a body that cannot be copied is passed as std::ref(body).");
  detail::require_copyable_lvalue<Body>();
}

// try_execute's answer: what the body returned, if it ran.
template <class R>
struct attempt {
  using type = std::optional<R>;
};
template <class R>
struct attempt<R&> {
  using type = R*;
};
template <>
struct attempt<void> {
  using type = bool;
};

}  // namespace detail

/// Runs functions one at a time, in the order in which they were accepted, without blocking a
/// thread.
///
/// Choose it for state that many coroutines share. For state that one coroutine touches, a plain
/// variable will do.
///
/// Threads    every member from any thread; the destructor from one, when the section is not in use
/// Order      one FIFO order of accepted requests, which no later one overtakes; one thread's
///            requests keep their order
/// Memory     a body sees what every earlier body of this section wrote; the awaiter sees what its
///            body wrote
/// Progress   see the tables in README.md and lib/PROGRESS.md. At most 33 million requests can wait
///            at once
/// Lifetime   destroying a section in use (a body runs, a guard is owned, a request waits, a device
///            works for it) is reported and aborts; the awaiter of the last execution may destroy
///            it as soon as it is resumed. A coroutine must not be destroyed while it waits for a
///            section: that is reported and aborts, too
class critical_section {
 public:
  /// Unnamed, and distinct from every other.
  critical_section() = default;
  /// `name` is a label in errors; it does not share.
  explicit critical_section(std::string_view name)
      : critical_section(section_options{.name = name}) {}
  /// Throws `std::invalid_argument` if ring_capacity is 0 or no power of two, or max_in_flight is
  /// 0; `bad_alloc`.
  explicit critical_section(section_options options) : critical_section(options, {}) {}

  critical_section(const critical_section&) = delete;
  critical_section& operator=(const critical_section&) = delete;

  /// The section that everybody asking with the same two names shares in this process, as long as
  /// anybody holds it.
  ///
  /// Throws     std::invalid_argument if `shared_name` is empty; bad_alloc
  /// Memory     as of any section while somebody holds it; a section that is made after the last
  ///            one of its name has ended is a new one, and sees nothing of what that one's bodies
  ///            wrote
  /// Progress   takes a lock of that name; the first call makes the section under it. Blocks its
  ///            thread where the last pointer is just let go of, until its claims are given up
  /// Lifetime   the section ends with the last pointer to it, under the destructor's conditions
  static std::shared_ptr<critical_section> open(std::string_view shared_name,
                                                std::string_view container = {});

  /// Runs `body` alone and gives back what it returns (a T where that is a `T&&`); a body that
  /// returns an awaitable is awaited with the section held and no thread held.
  ///
  /// Runs on    the section's executor; without one, here if the section is idle, else on the
  ///            thread that is serving it
  /// Resumes    on `resume_on`; else on the executor the coroutine was running on; else on the
  ///            thread that served it, after the section was released; on thread_pool::shared() if
  ///            it was withdrawn, has waited for a device, a call on that thread has waited half a
  ///            second for it, or the library blocks that thread (sync_wait, execute_blocking)
  /// Throws     what `body` throws. At once, when awaited: reentry_error, deadlock_error,
  ///            section_closed, section_full, exclusive_access_error, device_mismatch_error;
  ///            operation_cancelled or deadline_exceeded if it is too late already; bad_alloc if a
  ///            first claim, or waiting outside, cannot allocate; std::system_error if the
  ///            process's first wait for a time cannot start the thread that it needs. Later:
  ///            operation_cancelled, deadline_exceeded, device_error. A wait that is refused with
  ///            deadlock_error leaves something in its place in line; without memory for that the
  ///            program ends
  /// Cancel     while it waits: by `stop`, at `deadline`, or with the when_any, timeout or scope
  ///            around it; at once, whoever holds the section. A running body is never stopped.
  ///            Below what was stopped it may be refused even where the section is idle: clean-up
  ///            that must run goes to `post` or `submit`. Without memory for a stand-in (Lifetime)
  ///            a request waits as any other, and cannot be withdrawn
  /// Lifetime   an rvalue body is moved, an lvalue copied, `std::ref` refers; it lives in the
  ///            awaiting frame, longer than the awaitable it returns. A plain body allocates
  ///            nothing, unless it has to wait and can be withdrawn: that takes a stand-in, memory
  ///            which the thread keeps for its next ones. A small body that is trivially copyable
  ///            may run as a copy that ends with the call
  ///
  /// A body that takes a `stream&`, and cannot be called without, is a device execution: it only
  /// submits work, to `options.on` or to the section's own stream. The section continues with the
  /// next device execution at once, whose work follows in the device's order, and with all other
  /// requests when the work is complete. The caller resumes, with the body's result or exception,
  /// when its own work is complete, on its executor or thread_pool::shared(). Submitted work is not
  /// withdrawn
  template <class Body>
  auto execute(Body&& body, const execute_options& options = detail::default_execution,
               std::source_location where = std::source_location::current()) {
    detail::require_safe_inside_co_await<Body>();
    return detail::execution_awaiter<std::decay_t<Body>>(core_, std::forward<Body>(body), options,
                                                         where);
  }

  /// The same once all that `after(a, b)` names has ended; `body` gets its values. See after.hpp.
  template <class... A, class Body>
  auto execute(dependencies<A...> first, Body&& body,
               const execute_options& options = detail::default_execution,
               std::source_location where = std::source_location::current()) {
    detail::require_safe_inside_co_await<Body>();
    return detail::execute_after<std::decay_t<Body>, std::tuple<>, A...>(
        core_, detail::dependencies_access::all(std::move(first)), std::forward<Body>(body), {},
        options, detail::kept_token(options.stop.token()), detail::lane_of(options.on), where);
  }

  /// Runs `body` once `pred()` is true. It is called when the request's turn comes and, if it is
  /// false then, after every body of the section, oldest request first. The first request whose
  /// predicate is true runs next, before any request not yet started; those behind it in line need
  /// not wait for it. `pred` is called as part of the section, any number of times, and must not
  /// wait. A change made outside the section is noticed at the next body.
  ///
  /// Order      first come, first served among those whose predicate is true
  /// Runs on    as execute, `pred` too
  /// Resumes    as execute
  /// Throws     as execute; what `pred` throws; section_closed if the section is closed before
  ///            `pred` was true when it was called; section_full when `pred` is called, if
  ///            `max_waiters` leaves no room to set the request aside; bad_alloc
  /// Cancel     as execute
  /// Lifetime   as execute. A request that is set aside allocates
  template <class Pred, class Body>
  auto execute_when(Pred&& pred, Body&& body,
                    const execute_options& options = detail::default_execution,
                    std::source_location where = std::source_location::current()) {
    detail::require_safe_inside_co_await<Pred>();
    detail::require_safe_inside_co_await<Body>();
    detail::require_host_body<Body>();
    return detail::when_awaiter<std::decay_t<Pred>, std::decay_t<Body>>(
        core_, std::forward<Pred>(pred), std::forward<Body>(body), options, where);
  }

  /// Runs `body` on this thread if the section is idle; never waits. Empty if it is not, also when
  /// the calling chain holds it. The body must not return an awaitable; an lvalue is copied.
  ///
  /// Order      overtakes no request that waits, except those that execute_when has set aside
  /// Runs on    this thread. A section bound to an executor accepts it only there: elsewhere the
  ///            answer is empty
  /// Claims     what the body touches, exclusively
  /// Throws     what `body` throws; section_closed; device_error if what it guards is lost with its
  ///            device
  template <class Body>
  auto try_execute(Body&& body, std::source_location where = std::source_location::current()) {
    detail::require_host_body<Body>();
    detail::require_copyable_lvalue<Body>();
    using tried = detail::tried_body<Body>;
    using value = detail::returned<tried>;
    static_assert(!detail::awaitable<value>, "a body that waits cannot be tried: use execute");
    static_assert(
        !std::is_rvalue_reference_v<value>,
        "no answer of try_execute can be an rvalue reference: return the value, or an lvalue");
    using answer = typename detail::attempt<value>::type;
    detail::section_core::place line;
    if (!arrive_if_idle(line, where)) return answer{};
    detail::result<value> got;
    run_tried(line, where, [&] {
      got.run([&]() -> decltype(auto) {
        tried own(body);
        return own();
      });
    });
    if constexpr (std::is_void_v<value>) {
      got.take();
      return true;
    } else if constexpr (std::is_reference_v<value>) {
      return std::addressof(got.take());
    } else if constexpr (detail::require_movable<value>()) {
      return answer(got.take());
    }
  }

  /// Starts an execution now, and returns a handle to it.
  ///
  /// Runs on    the section's executor; else where the section is being served; else on the calling
  ///            executor, or thread_pool::shared() without one. Inside the call only if that
  ///            executor runs jobs within its `post`
  /// Resumes    the coroutine that awaits the handle, as said there: `resume_on` is ignored
  /// Throws     bad_alloc. A refusal completes the handle with its error. If thread_pool::shared()
  ///            is needed for the first time and cannot be made, the program ends
  /// Cancel     as execute, by `stop` and `deadline` only: the handle ends with operation_cancelled
  ///            or deadline_exceeded
  /// Lifetime   `body`, copied or moved, is in allocated memory. The section must outlive the
  ///            execution; the handle may outlive the section. Where the result is awaited in the
  ///            same expression, g++ before 13 destroys the captures of a lambda twice: name the
  ///            lambda, or the handle, first
  template <class Body>
  auto submit(Body&& body, const execute_options& options = detail::default_execution,
              std::source_location where = std::source_location::current()) {
    detail::require_copyable_lvalue<Body>();
    using value = detail::body_result_t<std::decay_t<Body>>;
    detail::require_movable<value>();
    using state = detail::submitted<std::decay_t<Body>>;
    auto* const s =
        new state(core_, std::forward<Body>(body), options, where, state::purpose::handle);
    auto handle = detail::handle_access::to<value>(s);
    if (std::exception_ptr refused = s->send(options)) s->refuse(std::move(refused));
    return handle;
  }

  /// Starts an execution that nobody waits for. Its error goes to on_unobserved_error.
  ///
  /// Runs on    as submit
  /// Throws     what refuses it: section_closed, section_full, exclusive_access_error,
  ///            device_mismatch_error, device_error; operation_cancelled or deadline_exceeded if it
  ///            is too late already; bad_alloc; std::system_error as execute. The program may end,
  ///            as in submit
  /// Cancel     as submit, but the error goes to on_unobserved_error
  /// Lifetime   as submit
  template <class Body>
  void post(Body&& body, const execute_options& options = detail::default_execution,
            std::source_location where = std::source_location::current()) {
    detail::require_copyable_lvalue<Body>();
    using state = detail::submitted<std::decay_t<Body>>;
    auto* const s =
        new state(core_, std::forward<Body>(body), options, where, state::purpose::nobody);
    if (std::exception_ptr refused = s->send(options)) {
      s->discard();
      std::rethrow_exception(std::move(refused));
    }
  }

  /// execute for code that is not a coroutine: the calling thread waits. Its request stands in the
  /// same line, and the thread that serves the line runs its body; a thread that finds the section
  /// idle runs its own body, and then serves others.
  ///
  /// Runs on    as execute
  /// Throws     as execute
  /// Cancel     as execute
  /// Progress   blocks a thread, in a coroutine or a fiber too. If all threads of an executor are
  ///            blocked, nothing that waits for it continues, and nothing detects that. Coroutines
  ///            without an executor that were about to resume on this thread do so on
  ///            thread_pool::shared(); those that it has served go on here before this returns, for
  ///            up to half a second where they need not suspend. A coroutine that has just run its
  ///            own body in an idle section, and is serving others, is not suspended: if one of
  ///            their bodies blocks this thread, that coroutine waits for it
  /// Lifetime   as execute, on this thread's stack; any rvalue body will do. `resume_on` is ignored
  template <class Body>
  detail::body_result_t<std::decay_t<Body>> execute_blocking(
      Body&& body, const execute_options& options = detail::default_execution,
      std::source_location where = std::source_location::current()) {
    detail::require_copyable_lvalue<Body>();
    using body_type = std::decay_t<Body>;
    if constexpr (detail::submits<body_type>) {
      execute_options elsewhere = options;
      elsewhere.resume_on = thread_pool::shared();  // this thread is blocked, and perhaps alone
      return turnstile::sync_wait(
          detail::device_awaiter<body_type>(core_, std::forward<Body>(body), elsewhere, where));
    } else {
      detail::blocking_execution<body_type> now(core_, std::forward<Body>(body), options, where);
      return now.run();
    }
  }

  /// Waits for the section and owns it until the guard is unlocked or destroyed.
  ///
  /// Resumes    as execute
  /// Throws     at once, when awaited: reentry_error, deadlock_error, section_closed, section_full,
  ///            exclusive_access_error, device_mismatch_error, bad_alloc, std::system_error;
  ///            operation_cancelled, deadline_exceeded as execute. Later: operation_cancelled,
  ///            deadline_exceeded, device_error. A refused wait may end the program, as in execute
  /// Cancel     as execute, until the guard is owned
  /// Lifetime   the section must outlive the guard. A guard allocates, unless it is for the section
  ///            of this thread's last one
  TURNSTILE_INLINE auto lock(const execute_options& options = detail::default_execution,
                             std::source_location where = std::source_location::current()) {
    return detail::lock_awaiter<section_guard>(core_, options, where);
  }

  /// Owns the section if it is idle; never waits.
  ///
  /// Threads    any; of a section bound to an executor only its own: elsewhere the answer is empty
  /// Order      as try_execute
  /// Throws     section_closed; device_error, as try_execute; bad_alloc
  /// Lifetime   as lock
  std::optional<section_guard> try_lock(
      std::source_location where = std::source_location::current());

  /// From the await on, refuses new requests; resumes when every accepted one has finished. Then
  /// the section may be destroyed; results may still be on their way to coroutines that await them.
  ///
  /// Requests set aside, whose predicate was false when it was last called, and those outside
  /// max_waiters, end with section_closed then. A close() that is cancelled counts as withdrawn,
  /// and keeps some 400 bytes until the section has closed.
  ///
  /// Memory     the awaiter sees what every body of the section wrote
  /// Resumes    on the executor the awaiting coroutine was running on
  /// Throws     reentry_error from inside the section; deadlock_error if something in this
  ///            section's line waits for a section that the caller's chain holds; bad_alloc. Twice
  ///            is fine
  /// Cancel     the wait ends with the when_any, timeout or scope around it; the section is closed
  ///            all the same, also if those were stopped before. Its close is still in line then:
  ///            await close() once more before the section is destroyed
  auto close(std::source_location where = std::source_location::current()) {
    return detail::close_awaiter(core_, where);
  }

  std::string_view name() const noexcept { return core_.name(); }
  section_statistics statistics() const noexcept { return core_.statistics(); }

 private:
  template <class T>
  friend class synchronized;
  friend class delegated_mutex;
  friend struct detail::section_access;
  friend class registry;

  critical_section(const section_options& options, std::string_view container)
      : core_(options, container) {}

  // True: the caller owns the section. Throws section_closed. `anywhere`: it may run no body, so
  // that it need not be on the section's executor.
  bool arrive_if_idle(detail::section_core::place& line, std::source_location where,
                      bool anywhere = false);
  std::optional<section_guard> own_if_idle(std::source_location where, bool anywhere);

  template <class F>
  void run_tried(detail::section_core::place line, std::source_location where, F&& f) noexcept {
    const detail::site at{{}, where};
    const detail::not_in_fiber a_body_runs_here;
    detail::chain_frame* const left =
        detail::run_held(core_, detail::here().chain, at, std::forward<F>(f));
    if (core_.timed()) [[unlikely]]
      core_.end_time();
    core_.leave_tried(line);
    if (left != nullptr) detail::adopt_holds(*left);
  }

  detail::section_core core_;
};

#if !defined(TURNSTILE_RING_CYCLE)
static_assert(sizeof(critical_section) <= 192, "a section takes three cache lines at most");
#endif

}  // namespace turnstile
