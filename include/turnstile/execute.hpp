// execute.hpp - run a function as part of several sections at once.
//
// Behind it: detail/several_request.hpp, lib/strand.
#pragma once

#include <turnstile/detail/applied_body.hpp>
#include <turnstile/detail/several_awaiter.hpp>
#include <turnstile/synchronized.hpp>

#include <concepts>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

namespace turnstile {
namespace detail {

// The private side of what can be entered.
struct section_access {
  static section_core& core(critical_section& s) noexcept { return s.core_; }
  template <class T>
  static section_core& core(synchronized<T>& s) noexcept {
    return s.section_.core_;
  }

  static std::tuple<> data(critical_section&) noexcept { return {}; }
  template <class T>
  static std::tuple<T&> data(synchronized<T>& s) noexcept {
    return std::tuple<T&>(s.value_);
  }
};

template <class T>
concept with_data = requires(T& s) { []<class V>(synchronized<V>&) {}(s); };

// Or what is derived from one of them.
template <class T>
concept section_like =
    !std::is_const_v<T> && std::derived_from<T, critical_section> != with_data<T>;

}  // namespace detail

/// Runs `body` as part of all these sections, `critical_section`s or `synchronized`s, given as
/// `std::tie(a, b)`. It is called with the data of each `synchronized`, in that order. A body that
/// returns an awaitable is awaited with all of them held and no thread held.
///
/// Threads    any
/// Order      all such requests enter in one global order, whatever the order here, so they cannot
///            deadlock with each other; in each section the request takes its place in line when it
///            holds the sections before. A section given twice counts once
/// Memory     as execute, for each of them
/// Progress   as execute, for one after the other
/// Runs on    the executor that some of the sections are bound to; without one, here if all are
///            idle, else on the thread that serves the last one to come free, up to a budget
/// Resumes    as execute, when all of them are released
/// Throws     what `body` throws; std::invalid_argument from the call, if they are bound to
///            different executors; reentry_error at once when awaited, before anything is queued,
///            if the chain holds one of them; section_closed if one is closed, and then those
///            entered before it count no execution; section_full, operation_cancelled,
///            deadline_exceeded likewise; and, as execute, deadlock_error, exclusive_access_error,
///            device_mismatch_error, device_error, bad_alloc, std::system_error
/// Claims     earlier claims of these sections stay; all else that `uses` names, or that the body
///            touches, is claimed by the section that is entered last: the youngest bound one or,
///            if none is bound, the youngest
/// Cancel     as execute; what it holds already is released. Where it has some of the sections and
///            an executor has to run before it goes on, it ends when that does. A running body is
///            never stopped
/// Lifetime   as execute
template <class... Sections, class Body>
auto execute(std::tuple<Sections&...> sections, Body&& body,
             const execute_options& options = detail::default_execution,
             std::source_location where = std::source_location::current()) {
  static_assert(sizeof...(Sections) != 0, "there is no section to enter");
  static_assert((detail::section_like<Sections> && ...),
                "what is entered are critical_sections and synchronizeds, not const");
  detail::require_safe_inside_co_await<Body>();
  return std::apply(
      [&](Sections&... all) {
        auto data = std::tuple_cat(detail::section_access::data(all)...);
        using call = detail::body_applied_to_t<Body, decltype(data)>;
        detail::require_host_body<call>();
        return detail::several_awaiter<sizeof...(Sections), call>(
            {&detail::section_access::core(all)...}, call(std::forward<Body>(body), data), options,
            where);
      },
      sections);
}

}  // namespace turnstile
