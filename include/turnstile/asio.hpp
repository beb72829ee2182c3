// asio.hpp - sections for programs on Asio: executions with completion tokens, and an executor.
//
// Needs Boost.Asio 1.81 or later; with TURNSTILE_ASIO_STANDALONE defined, Asio 1.22 without Boost.
// Not part of turnstile.hpp.
//
// Behind it: detail/asio_operation.hpp, detail/asio_jobs.hpp.
#pragma once

#include <turnstile/detail/applied_body.hpp>
#include <turnstile/detail/asio_jobs.hpp>
#include <turnstile/detail/asio_operation.hpp>
#include <turnstile/execute.hpp>
#include <turnstile/execute_options.hpp>
#include <turnstile/executor.hpp>

#include <concepts>
#include <cstddef>
#include <source_location>
#include <type_traits>
#include <utility>

namespace turnstile {

/// Runs `body` alone in `section`, a critical_section or a synchronized (then it is called with the
/// data), and completes `token`: `void(std::exception_ptr, R)`, or `void(std::exception_ptr)` if
/// the body gives nothing. The error is what `body` throws or what refused it; then R is a default
/// one. So R has a default and is no reference; it may be move-only. (If making that default, or
/// moving the result to the handler's parameter, throws, the handler is not called, and that
/// exception leaves `run` as a handler's own would.) A body that returns an awaitable of any type
/// but Asio's own is awaited with the section held and no thread held.
///
/// A coroutine of type boost::asio::awaitable refuses to await anything but Asio's own: with
/// `use_awaitable` this is how it awaits a section, and how it awaits a turnstile::task, which the
/// body returns. (Boost 1.81 itself cannot co_await what `deferred` gives if there is a value.)
///
/// Memory     the handler sees what the body wrote
/// Runs on    the section's executor; without one, here, inside the call, if the section is idle,
///            else on the thread that is serving it. The execution is not part of the chain that
///            starts it: a body may start one in its own section, which runs after that body
/// Resumes    completes on the token's associated executor, never inside the call, after the
///            section was released; that executor has outstanding work until then. `resume_on` is
///            ignored
/// Throws     bad_alloc, and then nothing was done. What refuses the request goes to the token; so
///            does a thread that cannot be made, which the first deadline may need.
///            Without memory to post the completion of what has run the program ends. A result
///            whose move may throw is on its way in memory from `new`: what making it throws,
///            bad_alloc too, goes to the token, though the body has run
/// Cancel     while it waits: by any type of cancellation through the token's slot, by `stop`, at
///            `deadline`; it ends with operation_cancelled or deadline_exceeded. A running body is
///            never stopped
/// Lifetime   an rvalue body is moved, an lvalue copied, `std::ref` refers; it and the token's
///            handler live in memory of the associated allocator. With a lazy token (`deferred`,
///            `use_awaitable`) nothing happens until that is started, and `section` must live until
///            then. What `deferred` gives is copied, with the body, if it is started as an lvalue.
///            The executor's context must outlive the execution: let `run` return by itself before
///            it is destroyed, after a `restart` if it was stopped. To close the section is not
///            enough: that is released before its last handlers are posted. A result that only has
///            to be handed to the handler is freed with the context.
///            Inside co_await, g++ before 13 destroys the captures of a lambda twice: there, and
///            with `deferred`, name a body that is not trivially destructible and pass it as an
///            lvalue
template <detail::section_like Section, class Body, class Token>
auto async_execute(Section& section, Body&& body, const execute_options& options, Token&& token,
                   std::source_location where = std::source_location::current()) {
  using data = decltype(detail::section_access::data(section));
  using call = detail::body_applied_to_t<Body, data>;
  using value = detail::body_result_t<call>;
  using signature = typename detail::asio_signature<std::remove_cv_t<value>>::type;
  detail::require_a_value_beside_errors<value>();
  using answer = decltype(detail::asio::async_initiate<Token, signature>(
      detail::start_asio_operation(), token, std::declval<detail::asio_request>(),
      std::declval<call>()));
  if constexpr (detail::is_asio_awaitable<answer>) detail::require_safe_inside_co_await<Body>();
  return detail::asio::async_initiate<Token, signature>(
      detail::start_asio_operation(), token,
      detail::asio_request(detail::section_access::core(section), options, where),
      call(std::forward<Body>(body), detail::section_access::data(section)));
}

template <detail::section_like Section, class Body, class Token>
auto async_execute(Section& section, Body&& body, Token&& token,
                   std::source_location where = std::source_location::current()) {
  return async_execute(section, std::forward<Body>(body), detail::default_execution,
                       std::forward<Token>(token), where);
}

/// Runs jobs on an executor of Asio's: as a section's executor, a scope's, or `resume_on`.
///
/// Threads    `post` from any thread; construction and destruction from one
/// Order      jobs begin in the order in which they were posted; on several threads they overlap
/// Progress   posting blocks a thread for a step of a list, and for what Asio's own post takes; it
///            does not allocate, except with executors such as any_io_executor, which do not ask
///            the handler for memory
/// Lifetime   it and the context must outlive everything that refers to it. It keeps no work guard:
///            `run` returns while coroutines wait elsewhere. Jobs that a context has not run when
///            it is destroyed never run
template <class Executor>
class basic_asio_executor {
 public:
  using executor_type = Executor;

  explicit basic_asio_executor(const Executor& e) : jobs_(new detail::asio_jobs<Executor>(e)) {}
  template <std::derived_from<detail::asio::execution_context> Context>
    requires std::convertible_to<typename Context::executor_type, Executor>
  explicit basic_asio_executor(Context& c) : basic_asio_executor(Executor(c.get_executor())) {}
  ~basic_asio_executor() { jobs_->drop(); }
  basic_asio_executor(const basic_asio_executor&) = delete;
  basic_asio_executor& operator=(const basic_asio_executor&) = delete;

  void post(job& j) noexcept { jobs_->post(&j, &j); }
  void post(job* first, job* last, std::size_t) noexcept { jobs_->post(first, last); }

 private:
  detail::asio_jobs<Executor>* const jobs_;  // shared with its handlers
};

/// Runs jobs on the threads that run an io_context.
using asio_executor = basic_asio_executor<detail::asio::io_context::executor_type>;

}  // namespace turnstile
