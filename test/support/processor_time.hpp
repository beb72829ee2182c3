// processor_time.hpp - what all threads of the process have used so far.
#pragma once

#include <chrono>
#include <ctime>

namespace support {

inline std::chrono::nanoseconds processor_time() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace support
