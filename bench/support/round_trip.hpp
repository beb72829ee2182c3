// round_trip.hpp - how far two threads are from each other.
#pragma once

#include "support/stopwatch.hpp"

namespace bench {

// One word, written by two threads in turn: the median of a few bursts. Two cores of a virtual
// machine may be moved apart while it runs, and then everything that shares a line is slower. Zero
// where there is one core.
nanoseconds line_round_trip();

}  // namespace bench
