#include "words.hpp"

#include <algorithm>
#include <array>

namespace word_index {
namespace {

constexpr bool between(unsigned char low, unsigned char c, unsigned char high) {
  return low <= c && c <= high;
}

constexpr auto is_word_byte = [] {
  std::array<bool, 256> table = {};
  for (unsigned i = 0; i < table.size(); ++i) {
    const auto c = static_cast<unsigned char>(i);
    table[i] = between('a', c, 'z') || between('A', c, 'Z') || between('0', c, '9') || c == '_' ||
               c >= 0x80;
  }
  return table;
}();

std::size_t length_of_word(std::string_view text) {
  const auto end = std::ranges::find_if_not(
      text, [](char c) { return is_word_byte[static_cast<unsigned char>(c)]; });
  return static_cast<std::size_t>(end - text.begin());
}

}  // namespace

void add(word_counts& to, std::string_view word, std::uint64_t times) {
  const auto place = to.find(word);
  if (place != to.end()) {
    place->second += times;
  } else {
    to.emplace(word, times);
  }
}

void tokeniser::feed(std::string_view block) {
  while (!block.empty()) {
    const std::size_t length = length_of_word(block);
    if (length == block.size()) {
      begun_ += block;
      return;
    }
    end_word(block.substr(0, length));
    block.remove_prefix(length + 1);
  }
}

void tokeniser::finish() { end_word({}); }

void tokeniser::end_word(std::string_view tail) {
  if (begun_.empty()) return count(tail);
  begun_ += tail;
  count(begun_);
  begun_.clear();
}

void tokeniser::count(std::string_view word) {
  if (word.empty()) return;
  add(into_, word, 1);
  ++words_;
}

}  // namespace word_index
