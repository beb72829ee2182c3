// uncontended.hpp - what does an operation cost when nobody else wants the section?
#pragma once

#include "counter/counter.hpp"

namespace bench::uncontended {

// The counter with one client on one thread. The process has other threads, as programs that need
// a lock do, so std::mutex does not take the short cut that glibc has for a single thread.
template <class Contender>
void ask() {
  add_case<Contender, counter::client>("uncontended", {.threads = 1, .clients = 1, .against = 1});
}

}  // namespace bench::uncontended
