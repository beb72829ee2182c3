#include "contender/plain_threads.hpp"

#include <tbb/spin_mutex.h>

namespace {

struct tbb_spin_mutex : bench::guarded_by<tbb::spin_mutex> {
  static constexpr std::string_view name = "tbb_spin_mutex";
};

const bool asked = bench::ask_everything<bench::plain_threads<tbb_spin_mutex>>();

}  // namespace
