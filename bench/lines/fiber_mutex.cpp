#include "contender/fiber_mutex.hpp"

#include "lines/lines.hpp"

namespace {

const bool asked = bench::lines::ask<bench::fiber_mutex>();

}  // namespace
