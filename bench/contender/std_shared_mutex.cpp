#include "contender/plain_threads.hpp"

#include <shared_mutex>

namespace {

// Taken exclusively: every body of every question writes.
struct std_shared_mutex : bench::guarded_by<std::shared_mutex> {
  static constexpr std::string_view name = "std_shared_mutex";
};

const bool asked = bench::ask_everything<bench::plain_threads<std_shared_mutex>>();

}  // namespace
