// trace.hpp - what happened in an execution, to be read when something went wrong.
#pragma once

#include "schedule/checker/sites.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace schedule {

struct event {
  int thread;
  const char* what;
  int order;  // a std::memory_order; -1: none
  site_id at;
  std::uint32_t place;
  std::uint64_t before, after;
  unsigned older;  // how many newer values there were
};

class trace {
 public:
  trace() { events_.reserve(1 << 14); }
  void clear() noexcept { events_.clear(); }
  void add(const event& e) { events_.push_back(e); }

  // One line for each event, with its source line.
  std::string text() const;

 private:
  std::vector<event> events_;
};

// file:line of code at this address.
std::string source_of(const void* return_to);

}  // namespace schedule
