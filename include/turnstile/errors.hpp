// errors.hpp - the library's own errors.
//
// Bad arguments throw what <stdexcept> has for them: std::invalid_argument, std::length_error.
//
// Behind it: lib/base (texts), lib/registry (who finds the paths).
#pragma once

#include <turnstile/device.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace turnstile {

/// One hold on the way from the section wanted back to itself.
struct path_step {
  std::string section;  ///< its name, or `section #7` if it has none
  std::source_location where;
};

namespace detail {

// A step, and what the execution calls itself that is there.
struct held_step {
  path_step step;
  std::string execution;
};

}  // namespace detail

/// The wait asked for would never end. `what()` names the sections and the executions, in the order
/// of waiting.
class deadlock_error : public std::logic_error {
 public:
  explicit deadlock_error(std::vector<detail::held_step> path);

  /// From the section wanted, along what is held by whom, back to it.
  std::span<const path_step> path() const noexcept;

 protected:
  deadlock_error(std::string_view headline, std::vector<detail::held_step> path);

 private:
  std::shared_ptr<const std::vector<path_step>> path_;  // shared: copying an error cannot throw
};

/// The chain of awaits that asks already holds the section it asks for.
class reentry_error : public deadlock_error {
 public:
  /// `path` leads from the outermost holder to the refused request.
  explicit reentry_error(std::vector<detail::held_step> path);
};

/// Two sections use one resource, and at least one of them asked for it exclusively: neither keeps
/// the other out, so what one reads the other may be changing.
class exclusive_access_error : public std::logic_error {
 public:
  exclusive_access_error(std::string resource, std::string owner, std::string claimant);

  const std::string& resource() const noexcept { return names_->resource; }
  /// The section that has claimed it, or `section #7` if that has no name.
  const std::string& owner() const noexcept { return names_->owner; }
  /// The section that was refused.
  const std::string& claimant() const noexcept { return names_->claimant; }

 private:
  struct names {
    std::string resource, owner, claimant;
  };

  explicit exclusive_access_error(std::shared_ptr<const names> all);

  std::shared_ptr<const names> names_;
};

/// A resource, a stream or an event is on another device than the section or the stream that is to
/// use it.
class device_mismatch_error : public std::logic_error {
 public:
  /// A name stands between quotation marks in what().
  device_mismatch_error(std::string object, device expected, device found, bool is_name = false);

  /// What is in the wrong place.
  const std::string& what_object() const noexcept { return *object_; }
  device expected() const noexcept { return expected_; }
  device found() const noexcept { return found_; }

 private:
  std::shared_ptr<const std::string> object_;
  device expected_;
  device found_;
};

/// A device failed, or is not available.
class device_error : public std::runtime_error {
 public:
  /// `why` is the whole sentence.
  device_error(int code, std::string name, const std::string& why, bool lost = false);

  /// The number of the runtime's error, as CUDA counts them; 0 if it is none of the runtime's.
  int code() const noexcept { return code_; }
  /// What the runtime calls it.
  const std::string& name() const noexcept { return *name_; }
  /// No later work on that device can succeed in this process.
  bool lost() const noexcept { return lost_; }

 private:
  int code_;
  std::shared_ptr<const std::string> name_;
  bool lost_;
};

/// The section was closed before the request was made, or before its predicate ever held.
class section_closed : public std::runtime_error {
 public:
  explicit section_closed(std::string_view section);
};

/// As many requests wait in the section as `section_options::max_waiters` allows.
class section_full : public std::runtime_error {
 public:
  section_full(std::string_view section, std::size_t max_waiters);
};

/// Withdrawn before it started, because a stop was requested.
class operation_cancelled : public std::runtime_error {
 public:
  operation_cancelled();
  explicit operation_cancelled(std::string_view section);
};

/// Withdrawn before it started, because its deadline had come; or the time of a `timeout` was up.
class deadline_exceeded : public std::runtime_error {
 public:
  deadline_exceeded();
  explicit deadline_exceeded(std::string_view section);
};

/// Sets the handler of errors that nobody takes: those of `post`, of dropped handles, fibers and
/// scopes, of streams that nobody awaited, and of a body's calls to a GPU beside another error that
/// the body has thrown. `section` is empty if no section is concerned, or it may be gone; for what
/// was left in a stream it is that stream's name, or "a stream". The default handler, also set by
/// null, prints one line to stderr.
///
/// Threads    from any thread; the handler is called on whichever thread finds out that nobody
///            takes the error: the one that ran the body, or where its caller goes on, or that
///            dropped the handle, scope, stream or its last event, or that noticed how far a stream
///            got. The last may be the one thread that looks at devices: so the handler may give
///            them work, but must not wait for them
/// Throws     nothing. A handler that throws ends the program, by std::terminate
void on_unobserved_error(void (*handler)(std::exception_ptr, std::string_view section,
                                         std::source_location where)) noexcept;

}  // namespace turnstile
