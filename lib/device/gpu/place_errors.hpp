// place_errors.hpp - several errors at one place of a stream: the first is the place's, and of the
// others on_unobserved_error hears.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <string>

namespace turnstile::detail {

// Of the stream that is called `name`.
void report_untaken(std::exception_ptr e, const std::string& name) noexcept;

// Keeps the first.
void add_error(std::exception_ptr& first, std::exception_ptr e, const std::string& name) noexcept;

// As add_error, for who has a stream's turn: the others are reported at the end, which comes after
// the turn. Whoever hears of them may give work to the same stream.
class other_errors {
 public:
  explicit other_errors(const std::string& name) noexcept : name_(name) {}
  ~other_errors();
  other_errors(const other_errors&) = delete;
  other_errors& operator=(const other_errors&) = delete;

  void add_behind(std::exception_ptr& first, std::exception_ptr e) noexcept;

 private:
  const std::string& name_;
  std::array<std::exception_ptr, 2> all_;  // no turn has more
  std::size_t count_ = 0;
};

}  // namespace turnstile::detail
