// asio_operation.hpp - an execution that an Asio handler waits for.
#pragma once

#include <turnstile/detail/asio_names.hpp>
#include <turnstile/detail/detached.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <source_location>
#include <stop_token>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

// Without one of its own a handler gets the memory that Asio keeps for the threads that run it.
template <class Handler>
auto allocator_of(const Handler& handler) noexcept {
  return asio::get_associated_allocator(handler, asio::recycling_allocator<void>());
}

// The last step, on the handler's executor.
template <class R, class Handler>
class asio_completion {
 public:
  asio_completion(Handler&& handler, result<R>& got) : handler_(std::move(handler)) {
    error_ = got.error();
    if (error_ == nullptr) take(got);
  }

  using allocator_type = decltype(detail::allocator_of(std::declval<const Handler&>()));
  allocator_type get_allocator() const noexcept { return detail::allocator_of(handler_); }

  void operator()() {
    if constexpr (std::is_void_v<R>) {
      std::move(handler_)(std::move(error_));
    } else if (error_ != nullptr) {
      std::move(handler_)(std::move(error_), R());
    } else {
      std::move(handler_)(std::exception_ptr(), std::move(*value_));
    }
  }

 private:
  using value = std::conditional_t<std::is_void_v<R>, nothing_yet, R>;
  // Asio moves this where nothing may throw.
  static constexpr bool moves_freely = std::is_nothrow_move_constructible_v<value>;

  void take(result<R>& got) noexcept {
    if constexpr (!std::is_void_v<R>) {
      try {
        if constexpr (moves_freely) {
          value_.emplace(got.take());
        } else {
          value_ = std::make_unique<value>(got.take());
        }
      } catch (...) {
        error_ = std::current_exception();
      }
    }
  }

  Handler handler_;
  std::exception_ptr error_;
  std::conditional_t<moves_freely, std::optional<value>, std::unique_ptr<value>> value_;
};

// What strands are made of.
template <class E>
auto context_executor(const E& e) noexcept {
  if constexpr (requires { e.get_inner_executor(); }) {
    return detail::context_executor(e.get_inner_executor());
  } else {
    return e;
  }
}

// Keeps an executor from running out of work. One that says itself whether work is outstanding says
// so to what it is made of, which ends last: what a strand has, also where it is erased, ends
// before.
template <class Executor, bool = asio::execution::is_executor<Executor>::value>
class kept_working {
 public:
  explicit kept_working(const Executor& e)
      : by_(asio::prefer(e, asio::execution::outstanding_work.tracked)) {}

  const auto& executor() const noexcept { return by_; }

 private:
  std::decay_t<decltype(asio::prefer(std::declval<const Executor&>(),
                                     asio::execution::outstanding_work.tracked))>
      by_;
};

// Of the older kind. A guard says first that its work is over, and lets go of its executor then. A
// strand still asks for its context's services there, so somebody else has to keep that from
// ending.
template <class Executor>
class kept_working<Executor, false> {
 public:
  explicit kept_working(const Executor& e) : outlives_(detail::context_executor(e)), by_(e) {}

  auto executor() const noexcept { return by_.get_executor(); }

 private:
  using context_type = decltype(detail::context_executor(std::declval<const Executor&>()));

  asio::executor_work_guard<context_type> outlives_;
  asio::executor_work_guard<Executor> by_;
};

// That of a handler.
template <class Handler>
class asio_work : public kept_working<asio::associated_executor_t<Handler>> {
 public:
  explicit asio_work(const Handler& handler)
      : kept_working<asio::associated_executor_t<Handler>>(asio::get_associated_executor(handler)) {
  }
};

// Lives where the handler's allocator says, from the initiating call until the section is left.
// Then what is left of it goes to the executor, which frees that if it ends without running it.
template <class Body, class Handler>
class asio_operation final
    : public detached<Body, asio_operation<Body, Handler>, bodies::here_too> {
  using value = body_result_t<Body>;
  using base = detached<Body, asio_operation, bodies::here_too>;
  using allocator = typename std::allocator_traits<decltype(detail::allocator_of(
      std::declval<const Handler&>()))>::template rebind_alloc<asio_operation>;

 public:
  static asio_operation& make(section_core& section, Body&& body, const resource_list& uses,
                              const site& at, asio_work<Handler>&& works, Handler&& handler) {
    allocator memory(detail::allocator_of(handler));
    asio_operation* const place = std::allocator_traits<allocator>::allocate(memory, 1);
    try {
      return *::new (static_cast<void*>(place))
          asio_operation(section, std::move(body), uses, at, std::move(works), std::move(handler));
    } catch (...) {
      std::allocator_traits<allocator>::deallocate(memory, place, 1);
      throw;
    }
  }

  ~asio_operation() {
    if (left_ != nullptr) drop_hold(*left_);  // a handler has no chain that could have them
  }

  void refuse(std::exception_ptr error) noexcept {
    got_.fail(std::move(error));
    end();
  }

  using base::submit_to;

  // For detached.
  section_core& section() const noexcept { return section_; }
  const site& place() const noexcept { return at_; }
  result<value>& got() noexcept { return got_; }
  chain_frame*& left_behind() noexcept { return left_; }
  void body_over() noexcept {}
  // Without memory for the post this ends the program: the handler would be lost.
  void end() noexcept {
    const asio_work<Handler> works = std::move(works_);
    // What is left of it when it has been moved from may still refer to the executor, whose context
    // may end as soon as `works` has. So it ends before.
    asio_completion<value, Handler> last(std::move(handler_), got_);
    allocator memory(last.get_allocator());
    std::destroy_at(this);
    std::allocator_traits<allocator>::deallocate(memory, this, 1);
    asio::post(works.executor(), std::move(last));
  }

  bool is_stoppable() const noexcept { return slot().is_connected(); }
  // Asio does not say when the last signal comes, so the slot shares what it stops.
  std::stop_token stop() {
    std::stop_source source;
    slot().assign([source](asio::cancellation_type_t type) mutable {
      if (type != asio::cancellation_type::none) source.request_stop();
    });
    return source.get_token();
  }

 private:
  asio_operation(section_core& section, Body&& body, const resource_list& uses, const site& at,
                 asio_work<Handler>&& works, Handler&& handler)
      : base(std::move(body), uses),
        section_(section),
        at_(at),
        works_(std::move(works)),
        handler_(std::move(handler)) {}

  auto slot() const noexcept { return asio::get_associated_cancellation_slot(handler_); }

  section_core& section_;
  site at_;
  result<value> got_;
  chain_frame* left_ = nullptr;
  asio_work<Handler> works_;
  Handler handler_;
};

// What a call of async_execute asks for, kept until it is started.
struct asio_request {
  asio_request(section_core& s, const execute_options& options, const std::source_location& where)
      : section(&s),
        at(options.name, where, options.exclusive_resource_access),
        uses(options.uses),
        on(lane_of(options.on)),
        withdrawn_by(options) {}

  section_core* section;
  site at;
  resource_list uses;
  lane_ref on;
  withdrawal_sources withdrawn_by;
};

struct start_asio_operation {
  template <class Handler, class Body>
  void operator()(Handler&& handler, asio_request&& asked, Body&& body) const {
    using call = std::decay_t<Body>;
    using waiting = std::decay_t<Handler>;
    asio_work<waiting> works(handler);
    if constexpr (!waits<call> && !submits<call>) {
      result<body_result_t<call>> got;
      if (runs_at_once(asked, body, got)) {
        return complete(works, handler, body, got);
      }
    }
    auto& o = asio_operation<call, waiting>::make(*asked.section, std::move(body), asked.uses,
                                                  asked.at, std::move(works), std::move(handler));
    if constexpr (submits<call>) o.submit_to(std::move(asked.on));
    if (std::exception_ptr refused = o.send(asked.withdrawn_by)) o.refuse(std::move(refused));
  }
  // A lazy one that is started as an lvalue, and may be once more.
  template <class Handler, class Body>
    requires std::is_copy_constructible_v<Body>
  void operator()(Handler&& handler, const asio_request& asked, const Body& body) const {
    (*this)(std::forward<Handler>(handler), asio_request(asked), Body(body));
  }

 private:
  // Without memory for the post this ends the program, as where there is an operation: the body has
  // run, and the handler would be lost.
  template <class Handler, class Body, class R>
  static void complete(const asio_work<Handler>& works, Handler& handler, Body& body,
                       result<R>& got) noexcept {
    // What it has captured ends before the handler begins, unless it can only be copied.
    if constexpr (std::is_nothrow_move_constructible_v<Body>) {
      const Body over(std::move(body));
    }
    asio::post(works.executor(), asio_completion<R, Handler>(std::move(handler), got));
  }

  // A section that is idle, and an execution that nothing more is known of: without an operation,
  // which would cost more than the post itself (bench/tried.md). False: it has not run.
  template <class Body, class R>
  static bool runs_at_once(const asio_request& asked, Body& body, result<R>& got) noexcept {
    section_core& section = *asked.section;
    section_core::place line;
    if (asked.withdrawn_by.are_any() || !asked.uses.empty() || section.special()) return false;
    if (section.try_arrive(line) != arrival::owner) return false;
    if (section.is_lost()) {
      section.leave_unused(line);
      return false;
    }
    const not_in_fiber a_body_runs_here;
    chain_frame* const left = run_held(section, nullptr, asked.at, [&] {
      got.run([&]() -> decltype(auto) { return std::invoke(body); });
    });
    section.leave_to_others(line);  // one that blocks would keep the handler; it may be gone
    if (left != nullptr) drop_hold(*left);
    return true;
  }
};

template <class T>
inline constexpr bool is_asio_awaitable = false;
#if defined(TURNSTILE_ASIO_AWAITABLE)
template <class T, class Executor>
inline constexpr bool is_asio_awaitable<asio::awaitable<T, Executor>> = true;
#endif

template <class R>
constexpr void require_a_value_beside_errors() noexcept {
  static_assert(
      !std::is_reference_v<R>,
      "A handler gets a value also beside an error, and then there is nothing to refer to. "
      "Return a pointer.");
  static_assert(
      std::is_void_v<R> || std::is_reference_v<R> || std::is_default_constructible_v<R>,
      "A handler gets a value also beside an error. Return a type with a default, such as "
      "a std::optional of this one.");
}

// The signature of a completion that gives an R.
template <class R>
struct asio_signature {
  using type = void(std::exception_ptr, R);
};
template <>
struct asio_signature<void> {
  using type = void(std::exception_ptr);
};

}  // namespace turnstile::detail
