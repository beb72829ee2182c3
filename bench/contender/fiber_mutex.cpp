#include "contender/fiber_mutex.hpp"

namespace {

const bool asked = bench::ask_everything<bench::fiber_mutex>();

}  // namespace
