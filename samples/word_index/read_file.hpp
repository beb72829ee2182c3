// read_file.hpp - the words of one file.
#pragma once

#include "skip.hpp"
#include "words.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace word_index {

struct reading {
  word_counts words = {};
  std::uint64_t word_total = 0;
  std::uint64_t bytes = 0;
  std::optional<skip> refused = {};  // if there is one, everything else is empty
};

/// Reads and counts one file. Blocks its thread while the disk works, never for a writer.
reading read_file(const std::string& path);

}  // namespace word_index
