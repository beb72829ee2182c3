#include "report.hpp"

#include <algorithm>
#include <iomanip>
#include <string>
#include <string_view>

namespace word_index {
namespace {

using entry = word_counts::value_type;

constexpr int number_width = 12;
constexpr std::size_t longest_shown = 60;  // of a word, which may be as long as a file

// Equally frequent words in the order of their letters, so that the report is always the same.
bool comes_first(const entry* a, const entry* b) {
  return a->second != b->second ? a->second > b->second : a->first < b->first;
}

std::vector<const entry*> most_frequent(const word_counts& counts, std::size_t top) {
  std::vector<const entry*> entries;
  entries.reserve(counts.size());
  for (const entry& word : counts) entries.push_back(&word);
  const auto shown = static_cast<std::ptrdiff_t>(std::min(top, entries.size()));
  std::partial_sort(entries.begin(), entries.begin() + shown, entries.end(), comes_first);
  entries.resize(static_cast<std::size_t>(shown));
  return entries;
}

std::string shortened(const std::string& word) {
  return word.size() <= longest_shown ? word : word.substr(0, longest_shown) + "...";
}

void print_total(std::ostream& out, std::string_view name, std::uint64_t value) {
  out << std::left << std::setw(number_width) << name << std::right << std::setw(number_width)
      << value << '\n';
}

}  // namespace

void print_report(std::ostream& out, const result& counted, const std::vector<skip>& skips,
                  std::size_t top) {
  for (const entry* word : most_frequent(counted.words, top)) {
    out << std::setw(number_width) << word->second << "  " << shortened(word->first) << '\n';
  }
  if (top > 0) out << '\n';
  print_total(out, "files", counted.sums.files);
  print_total(out, "bytes", counted.sums.bytes);
  print_total(out, "words", counted.sums.words);
  print_total(out, "distinct", counted.words.size());
  print_total(out, "skipped", skips.size());
  if (!skips.empty()) out << "  " << summary(skips) << '\n';
}

}  // namespace word_index
