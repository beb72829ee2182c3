// ordered_scope.hpp - bodies that say what they read and write, and wait only for what conflicts.
//
// Behind it: lib/variable (ordered_graph), lib/resume (scope_core).
#pragma once

#include <turnstile/detail/ordered_graph.hpp>
#include <turnstile/executor.hpp>
#include <turnstile/resource.hpp>
#include <turnstile/variable.hpp>

#include <concepts>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

namespace turnstile {
namespace detail {

template <class T>
concept has_identity = std::convertible_to<const T&, resource_ref>;

}  // namespace detail

/// What a body touches: made by reads and writes, joined by |.
class access_list {
 public:
  access_list() = default;

  friend access_list operator|(access_list a, const access_list& b) {
    a.all_.insert(a.all_.end(), b.all_.begin(), b.all_.end());
    return a;
  }

 private:
  friend class ordered_scope;
  template <detail::has_identity... T>
  friend access_list reads(const T&... things);
  template <detail::has_identity... T>
  friend access_list writes(const T&... things);

  explicit access_list(std::vector<detail::access> all) : all_(std::move(all)) {}

  std::vector<detail::access> all_;
};

/// The body reads these: resources, variables, device buffers and what `resource_of` refers to,
/// which have to outlive it, and the next join if it fails: they are known by their address.
template <detail::has_identity... T>
access_list reads(const T&... things) {
  return access_list(
      std::vector<detail::access>{{detail::identity_of(resource_ref(things)), false}...});
}

/// The body writes these, and may read them. As reads.
template <detail::has_identity... T>
access_list writes(const T&... things) {
  return access_list(
      std::vector<detail::access>{{detail::identity_of(resource_ref(things)), true}...});
}

/// Runs bodies as if one after the other, in the order in which they were added, and in parallel
/// where nobody could tell the difference: a body waits for earlier ones that write what it touches
/// or that touch what it writes, and for no others.
///
/// Threads    add and join from any thread; the order of two adds at the same time is either one
/// Order      a write waits for the last write and for all reads since; a read waits for the last
///            write
/// Memory     a body sees everything that the bodies it waits for did
/// Progress   join does not block a thread; adding and ending take a lock for a few steps of a list
///            for each thing touched
/// Runs on    the scope's executor; without one, on the thread that adds it, until it first
///            suspends, or where the last body that it waits for ended
/// Resumes    a joining coroutine on the executor it was running on
/// Throws     add: bad_alloc, and then nothing was added. join: the first error of the bodies
///            added, once, after all have ended
/// Cancel     bodies that wait for one that failed, or was skipped, never run; after a join that
///            found nothing left, what failed before it is forgotten. A join that is stopped from
///            outside ends with operation_cancelled, and may be awaited again; the bodies
///            themselves are not asked to stop
/// Lifetime   must be joined, or its bodies must have ended, before it is destroyed: else that is
///            reported on stderr, in one line, and aborts. An error that no join took goes to
///            on_unobserved_error. A body lives until it has ended
class ordered_scope {
 public:
  ordered_scope(executor_ref executor = {}) : graph_(executor) {}
  ordered_scope(const ordered_scope&) = delete;
  ordered_scope& operator=(const ordered_scope&) = delete;

  /// `body()` is called once; if that gives an awaitable, the body ends when that does.
  template <class Body>
    requires std::invocable<std::decay_t<Body>&>
  void add(access_list touches, Body&& body,
           std::source_location where = std::source_location::current()) {
    graph_.add(std::make_unique<detail::ordered_body>(
        detail::make_ordered<std::decay_t<Body>>(std::forward<Body>(body)), std::move(touches.all_),
        where));
  }

  auto join(std::source_location where = std::source_location::current()) {
    return detail::ordered_join(graph_, where);
  }

 private:
  detail::ordered_graph graph_;
};

}  // namespace turnstile
