// walk.hpp - the regular files below some paths.
#pragma once

#include "skip.hpp"
#include "status_line.hpp"

#include <string>
#include <vector>

namespace word_index {

struct tree {
  std::vector<std::string> files;
  std::vector<skip> skips;
};

/// Lists every regular file below `roots`, the entries of a directory in the order of their names.
/// Symbolic links are followed. Whatever has several names is listed once, under the first one, so
/// loops of links or of mounts end.
tree walk(const std::vector<std::string>& roots, status_line& line);

/// The directories in which compilers for this system keep the headers of the C++ library.
std::vector<std::string> system_headers();

}  // namespace word_index
