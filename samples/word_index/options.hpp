// options.hpp - the command line of word_index.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace word_index {

struct options {
  std::size_t threads = 1;
  std::size_t top = 10;
  bool verify = false;
  bool help = false;
  std::vector<std::string> paths = {};
};

/// A command line that cannot be carried out; what() names the part that is wrong.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Options and paths may come in any order; after "--" everything is a path.
options parse_options(int argc, char** argv);

std::string_view help_text();

}  // namespace word_index
