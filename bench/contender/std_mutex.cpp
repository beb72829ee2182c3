#include "contender/plain_threads.hpp"

namespace {

struct std_mutex : bench::guarded_by<std::mutex> {
  static constexpr std::string_view name = "std_mutex";
};

const bool asked = bench::ask_everything<bench::plain_threads<std_mutex>>();

}  // namespace
