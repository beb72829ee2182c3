// words.hpp - how often each word occurs, and how text is cut into words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace word_index {

// Can look up a string_view without making a string of it.
struct text_hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>{}(text);
  }
};

using word_counts = std::unordered_map<std::string, std::uint64_t, text_hash, std::equal_to<>>;

void add(word_counts& to, std::string_view word, std::uint64_t times);

/// Cuts text that arrives in blocks into words and counts them.
///
/// A word is a longest run of letters, digits and underscores. Bytes outside ASCII count as
/// letters, so that words in UTF-8 stay whole whatever their language. Upper and lower case differ.
class tokeniser {
 public:
  explicit tokeniser(word_counts& into) : into_{into} {}

  void feed(std::string_view block);
  void finish();
  std::uint64_t words() const { return words_; }

 private:
  void end_word(std::string_view tail);
  void count(std::string_view word);

  word_counts& into_;
  std::string begun_;  // a word that reached the end of its block and may go on in the next
  std::uint64_t words_ = 0;
};

}  // namespace word_index
