// mirrored.hpp - a value that every replica has, written by all of them together.
//
// Behind it: detail/mirrored_group.hpp.
#pragma once

#include <turnstile/aggregation.hpp>
#include <turnstile/detail/mirrored_group.hpp>
#include <turnstile/snapshot.hpp>

#include <cstddef>
#include <utility>

namespace turnstile {

/// A value with a copy for each replica (a worker, a device). All copies are equal: the replicas
/// write together, what they give is combined, and every copy is changed by that. Reading is local.
///
/// Threads    every member from any thread; one coroutine for each replica, as a rule
/// Order      the n-th writes of all replicas are one round. Writes of one replica keep their order
/// Memory     a round sees everything that came before each write in it, and so does each writer
///            after
/// Progress   does not block a thread but for a lock, for a step of a list
/// Resumes    when all replicas have come, on the executor the awaiting coroutine was running on
/// Claims     as a variable, one for each replica: a call claims that replica's value
/// Throws     the call: std::logic_error if the aggregation is none, std::out_of_range,
///            exclusive_access_error. The co_await, for all replicas of the round, none of which
///            has then written: std::logic_error if they do not make the same kind of write, what T
///            throws, bad_alloc. Constructor: std::invalid_argument without replicas, or if T lacks
///            the operators that are needed
/// Cancel     a write that waits for others is withdrawn below a stop, as in timeout and when_any,
///            with operation_cancelled: nothing is written, and its replica's next write takes its
///            place. Without a stop, if a replica never comes, the others wait for ever
/// Lifetime   the write lives in the awaiting frame. Destroying this while a write waits for others
///            is reported and aborts; snapshots may outlive it
template <class T>
class mirrored {
 public:
  mirrored(std::size_t replicas, T initial, aggregation how) : group_(replicas, initial, how) {}
  mirrored(const mirrored&) = delete;
  mirrored& operator=(const mirrored&) = delete;

  /// co_await gives the snapshot of what the round wrote to this replica's copy. So do the others.
  auto assign(std::size_t replica, T value) {
    return write(replica, detail::mirrored_change::assign, std::move(value));
  }
  auto assign_add(std::size_t replica, T amount)
    requires detail::can_add<T, T>
  {
    return write(replica, detail::mirrored_change::add, std::move(amount));
  }
  auto assign_sub(std::size_t replica, T amount)
    requires detail::can_subtract<T, T>
  {
    return write(replica, detail::mirrored_change::subtract, std::move(amount));
  }

  snapshot<T> read(std::size_t replica) const { return group_.read(replica); }

 private:
  detail::mirrored_write<T> write(std::size_t replica, detail::mirrored_change change, T value) {
    group_.begin_write(replica);
    return {group_, replica, change, std::move(value)};
  }

  detail::mirrored_group<T> group_;
};

}  // namespace turnstile
