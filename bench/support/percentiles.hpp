// percentiles.hpp - exact percentiles of recorded times.
#pragma once

#include <cstdint>
#include <vector>

namespace bench {

struct percentiles {
  double p50, p99, p999, max;
};

// In the unit of the samples, of which there must be at least one. Reorders them.
percentiles percentiles_of(std::vector<std::uint32_t>& samples);

}  // namespace bench
