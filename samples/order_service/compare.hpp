// compare.hpp - rounds behind each guard in turn, and what is said of them.
#pragma once

#include "options.hpp"

#include <iosfwd>
#include <string>

namespace order_service {

/// Empty: every answer of every round was right. Else what was not, in a sentence.
std::string compare(std::ostream& out, const options& chosen);

}  // namespace order_service
