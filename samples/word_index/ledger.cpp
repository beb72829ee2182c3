#include "ledger.hpp"

#include <algorithm>

namespace word_index {

std::optional<std::size_t> ledger::next() {
  if (next_ == files_) return std::nullopt;
  return next_++;
}

void ledger::enter(const reading& file) {
  if (file.refused) {
    skips_.push_back(*file.refused);
  } else {
    ++sums_.files;
    sums_.bytes += file.bytes;
    sums_.words += file.word_total;
  }
  show_progress();
}

std::vector<skip> ledger::sorted_skips() const {
  std::vector<skip> sorted = skips_;
  std::ranges::sort(sorted, {}, &skip::path);
  return sorted;
}

void ledger::show_progress() {
  if (!line_->due()) return;
  line_->show(activity_ + ": " + std::to_string(sums_.files + skips_.size()) + " of " +
              std::to_string(files_) + " files, " + std::to_string(sums_.bytes >> 20) + " MiB");
}

}  // namespace word_index
