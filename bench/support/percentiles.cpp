#include "support/percentiles.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace bench {
namespace {

// The smallest sample that at least `share` of all samples do not exceed.
double at(std::vector<std::uint32_t>& samples, double share) {
  const auto rank =
      static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(samples.size())));
  const auto nth = samples.begin() + std::max<std::ptrdiff_t>(rank, 1) - 1;
  std::nth_element(samples.begin(), nth, samples.end());
  return *nth;
}

}  // namespace

percentiles percentiles_of(std::vector<std::uint32_t>& samples) {
  return {at(samples, 0.50), at(samples, 0.99), at(samples, 0.999), at(samples, 1)};
}

}  // namespace bench
