// errors.cpp - the texts of errors, and what happens to those that nobody takes.

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/errors.hpp>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace turnstile {

namespace {

using handler = void (*)(std::exception_ptr, std::string_view, std::source_location);

detail::atomic<handler> unobserved_handler{nullptr};

std::string place(const std::source_location& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

std::string describe(std::string_view headline, std::span<const detail::held_step> path) {
  std::string text = "turnstile: ";
  text += headline;
  const char* joint = ": ";
  for (const detail::held_step& at : path) {
    text.append(joint).append(at.step.section);
    if (!at.execution.empty()) text.append(" by ").append(at.execution);
    text.append(" (").append(place(at.step.where)).append(")");
    joint = " -> ";
  }
  return text;
}

std::shared_ptr<const std::vector<path_step>> steps_of(std::vector<detail::held_step> path) {
  auto steps = std::make_shared<std::vector<path_step>>();
  steps->reserve(path.size());
  for (detail::held_step& at : path) steps->push_back(std::move(at.step));
  return steps;
}

// As part of one line.
void print(std::string_view text) noexcept {
  for (std::size_t end = 0; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    std::fprintf(stderr, "%.*s ", static_cast<int>(end), text.data());
  }
  std::fprintf(stderr, "%.*s", static_cast<int>(text.size()), text.data());
}

// What is about no section, or has no place, says neither. In pieces: what there is to tell may be
// that there is no memory left.
void print_line(std::string_view section, std::string_view what, std::string_view of,
                const std::source_location& where) noexcept {
  flockfile(stderr);
  print("turnstile: ");
  if (!section.empty()) {
    print("section \"");
    print(section);
    print("\": ");
  }
  print(what);
  print(of);
  if (where.line() != 0) {
    std::fprintf(stderr, " (%s:%u)", where.file_name(), static_cast<unsigned>(where.line()));
  }
  std::fputc('\n', stderr);
  funlockfile(stderr);
}

}  // namespace

deadlock_error::deadlock_error(std::vector<detail::held_step> path)
    : deadlock_error("this wait would never end", std::move(path)) {}

deadlock_error::deadlock_error(std::string_view headline, std::vector<detail::held_step> path)
    : std::logic_error(describe(headline, path)), path_(steps_of(std::move(path))) {}

std::span<const path_step> deadlock_error::path() const noexcept { return *path_; }

reentry_error::reentry_error(std::vector<detail::held_step> path)
    : deadlock_error("re-entry of a section that this chain of awaits already holds",
                     std::move(path)) {}

exclusive_access_error::exclusive_access_error(std::string resource, std::string owner,
                                               std::string claimant)
    : exclusive_access_error(std::make_shared<const names>(
          names{std::move(resource), std::move(owner), std::move(claimant)})) {}

exclusive_access_error::exclusive_access_error(std::shared_ptr<const names> all)
    : std::logic_error("turnstile: section \"" + all->claimant + "\" may not use \"" +
                       all->resource + "\": section \"" + all->owner +
                       "\" has claimed it, and one of them asked for it exclusively. Guard it with "
                       "one section; if both only read it, set exclusive_resource_access = false "
                       "in both"),
      names_(std::move(all)) {}

device_mismatch_error::device_mismatch_error(std::string object, device expected, device found,
                                             bool is_name)
    : std::logic_error("turnstile: " + (is_name ? '"' + object + '"' : object) + " is on " +
                       found.name() + " and is to be used on " + expected.name()),
      object_(std::make_shared<const std::string>(std::move(object))),
      expected_(expected),
      found_(found) {}

device_error::device_error(int code, std::string name, const std::string& why, bool lost)
    : std::runtime_error("turnstile: " + why),
      code_(code),
      name_(std::make_shared<const std::string>(std::move(name))),
      lost_(lost) {}

section_closed::section_closed(std::string_view section)
    : std::runtime_error("turnstile: section \"" + std::string(section) + "\" is closed") {}

section_full::section_full(std::string_view section, std::size_t max_waiters)
    : std::runtime_error("turnstile: section \"" + std::string(section) + "\" is full: " +
                         std::to_string(max_waiters) + " requests wait, which is its max_waiters") {
}

operation_cancelled::operation_cancelled()
    : std::runtime_error("turnstile: cancelled, because a stop was requested") {}

operation_cancelled::operation_cancelled(std::string_view section)
    : std::runtime_error("turnstile: a request to section \"" + std::string(section) +
                         "\" was withdrawn, because a stop was requested") {}

deadline_exceeded::deadline_exceeded()
    : std::runtime_error("turnstile: the time given to this was over") {}

deadline_exceeded::deadline_exceeded(std::string_view section)
    : std::runtime_error("turnstile: a request to section \"" + std::string(section) +
                         "\" was withdrawn, because its deadline came before its turn") {}

void on_unobserved_error(handler h) noexcept { unobserved_handler.store(h, detail::release); }

namespace detail {

void contract_break(std::string_view section, std::string_view what,
                    std::source_location where) noexcept {
  print_line(section, what, {}, where);
  std::abort();
}

void report_unobserved(std::exception_ptr error, std::string_view section,
                       std::source_location where) noexcept {
  if (const handler h = unobserved_handler.load(acquire)) {
    return h(std::move(error), section, where);
  }
  constexpr std::string_view what = "an error nobody takes: ";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    print_line(section, what, e.what(), where);
  } catch (...) {
    print_line(section, what, "an exception that is no std::exception", where);
  }
}

}  // namespace detail
}  // namespace turnstile
