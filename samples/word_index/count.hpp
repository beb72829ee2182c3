// count.hpp - the words of many files, counted side by side or one after the other.
//
// In parallel there are two kinds of shared state, each behind sections:
//
//   ledger   which file is next, the totals, what was skipped, the line on the terminal
//   shards   the words, spread over several sections so that readers seldom meet in one
//
// Each reader is a coroutine that takes a file from the ledger, counts it alone, and carries the
// result into the shards. A fixed number of readers bounds what is in memory at once. One that has
// to wait for a shard gives its thread to another reader.
#pragma once

#include "skip.hpp"
#include "status_line.hpp"
#include "words.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace word_index {

struct totals {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t words = 0;
};

struct result {
  totals sums = {};
  word_counts words = {};
  std::vector<skip> skips = {};  // sorted by path, whatever order the files were read in
};

result count_in_parallel(const std::vector<std::string>& files, std::size_t threads,
                         status_line& line);

/// The same with a loop and a map: no coroutine, no section, no thread.
result count_serially(const std::vector<std::string>& files, status_line& line);

/// The first difference as a sentence, or nothing if both are the same.
std::string difference(const result& parallel, const result& serial);

}  // namespace word_index
