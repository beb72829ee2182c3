// ledger.hpp - which file is next, and what the files that are done add up to.
#pragma once

#include "count.hpp"
#include "read_file.hpp"
#include "status_line.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace word_index {

/// Knows nothing of threads: a section or a loop around it makes sure that it is used by one.
class ledger {
 public:
  ledger(std::string_view activity, std::size_t files, status_line& line)
      : activity_{activity}, files_{files}, line_{&line} {}

  std::optional<std::size_t> next();
  void enter(const reading& file);

  const totals& sums() const { return sums_; }
  std::vector<skip> sorted_skips() const;

 private:
  void show_progress();

  std::string activity_;
  std::size_t files_;
  std::size_t next_ = 0;
  totals sums_;
  std::vector<skip> skips_;
  status_line* line_;
};

}  // namespace word_index
