// options.hpp - the command line of order_service.
#pragma once

#include "market.hpp"
#include "round.hpp"

#include <optional>
#include <stdexcept>
#include <string_view>

namespace order_service {

struct options {
  load asks = {};
  guard how = guard::section;
  std::size_t rounds = 5;
  bool compare = false;
  bool help = false;
  std::optional<unsigned short> serve = {};
};

/// A command line that cannot be carried out; what() names the part that is wrong.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

options parse_options(int argc, char** argv);

std::string_view help_text();

}  // namespace order_service
