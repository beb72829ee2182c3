#include "contender/plain_threads.hpp"
#include "lines/lines.hpp"

namespace {

struct std_mutex : bench::guarded_by<std::mutex> {
  static constexpr std::string_view name = "std_mutex";
};

using contender = bench::plain_threads<std_mutex>;
const bool asked = bench::ask_everything<contender>() && bench::lines::ask<contender>();

}  // namespace
