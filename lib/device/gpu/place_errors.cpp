// place_errors.cpp - which of several errors is a place's, and who hears of the others.

#include "device/gpu/place_errors.hpp"

#include <turnstile/detail/contract.hpp>

#include <source_location>
#include <utility>

namespace turnstile::detail {

namespace {

// True: `e` is another one, which nobody takes.
bool comes_behind(std::exception_ptr& first, std::exception_ptr& e) noexcept {
  if (first != nullptr) return e != nullptr && e != first;
  first = std::move(e);
  return false;
}

}  // namespace

void report_untaken(std::exception_ptr e, const std::string& name) noexcept {
  report_unobserved(std::move(e), name, std::source_location::current());
}

void add_error(std::exception_ptr& first, std::exception_ptr e, const std::string& name) noexcept {
  if (comes_behind(first, e)) report_untaken(std::move(e), name);
}

other_errors::~other_errors() {
  for (std::size_t i = 0; i != count_; ++i) report_untaken(std::move(all_[i]), name_);
}

void other_errors::add_behind(std::exception_ptr& first, std::exception_ptr e) noexcept {
  if (comes_behind(first, e)) all_[count_++] = std::move(e);
}

}  // namespace turnstile::detail
