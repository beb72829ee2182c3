#include "variable/behind.hpp"

#include <shared_mutex>
#include <string_view>

namespace {

template <class T>
struct std_shared_mutex : bench::variable::behind<T, std::shared_mutex, std::shared_lock> {
  static constexpr std::string_view name = "std_shared_mutex";
};

const bool asked = bench::variable::ask<std_shared_mutex>();

}  // namespace
