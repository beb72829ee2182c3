// report.hpp - the result as people read it.
#pragma once

#include "count.hpp"
#include "skip.hpp"

#include <cstddef>
#include <ostream>
#include <vector>

namespace word_index {

/// The `top` most frequent words, then the totals. `skips` is everything left out, by the walk too.
void print_report(std::ostream& out, const result& counted, const std::vector<skip>& skips,
                  std::size_t top);

}  // namespace word_index
