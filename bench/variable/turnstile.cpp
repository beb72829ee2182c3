#include "variable/variable.hpp"

#include <turnstile/variable.hpp>

#include <cstddef>

namespace {

template <class T>
class turnstile_variable {
 public:
  static constexpr std::string_view name = "turnstile";

  turnstile::snapshot<T> read() const { return value_.read(); }
  void add() { value_.assign_add(1); }
  static long number_in(const turnstile::snapshot<T>& value, std::size_t place) {
    return bench::variable::number(*value, place);
  }

 private:
  turnstile::variable<T> value_{T{}};
};

const bool asked = bench::variable::ask<turnstile_variable>();

}  // namespace
