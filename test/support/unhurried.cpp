// unhurried.cpp - in programs with this nobody's turn to serve ends because of the time, only after
// 32 bodies.
//
// Most tests say which thread runs what. A machine that is busy with something else may stop any
// thread for longer than a turn, and then the section is passed on to another one: path/budget.cpp
// tries that, alone.
#include "strand/budget.hpp"

#include <chrono>

namespace {

struct unhurried {
  unhurried() { turnstile::detail::budget::most_time = std::chrono::hours(1); }
};

const unhurried from_the_start;

}  // namespace
