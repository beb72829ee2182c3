#include "variable/behind.hpp"

#include <mutex>
#include <string_view>

namespace {

template <class T>
struct std_mutex : bench::variable::behind<T, std::mutex, std::lock_guard> {
  static constexpr std::string_view name = "std_mutex";
};

const bool asked = bench::variable::ask<std_mutex>();

}  // namespace
