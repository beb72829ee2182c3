#include "skip.hpp"

#include <algorithm>
#include <array>
#include <sys/stat.h>
#include <system_error>

namespace word_index {
namespace {

constexpr std::array<std::string_view, 7> short_names = {
    "missing", "unreadable", "loop", "repeated", "dangling link", "special", "binary"};

// A name may hold line ends and escape sequences, which must not reach a terminal.
std::string quoted(std::string_view path) {
  std::string text{path};
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return '\'' + text + '\'';
}

std::string loop_explanation(const std::string& target) {
  if (target.empty()) return "a symbolic link that leads back to itself";
  return "a directory loop, it leads back to " + quoted(target);
}

std::string explanation(const skip& skipped) {
  switch (skipped.why) {
    case reason::missing: return "it does not exist";
    case reason::unreadable: return "it cannot be read (" + skipped.detail + ")";
    case reason::loop: return loop_explanation(skipped.detail);
    case reason::repeated: return "it was met before, as " + quoted(skipped.detail);
    case reason::dangling: return "a symbolic link that leads nowhere";
    case reason::special: return "it is " + skipped.detail + ", not a regular file";
    case reason::binary: return "a binary file, its first block holds a zero byte";
  }
  return {};
}

}  // namespace

std::string sentence(const skip& skipped) {
  return "skipped " + quoted(skipped.path) + ": " + explanation(skipped);
}

std::string summary(const std::vector<skip>& skips) {
  std::string text;
  for (std::size_t i = 0; i < short_names.size(); ++i) {
    const auto times = std::ranges::count(skips, static_cast<reason>(i), &skip::why);
    if (times == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(times) + ' ';
    text += short_names[i];
  }
  return text;
}

bool is_failure(const skip& skipped) {
  return skipped.why == reason::missing || skipped.why == reason::unreadable;
}

std::string_view special_kind(mode_t mode) {
  if (S_ISFIFO(mode)) return "a fifo";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  return "of a special kind";
}

std::string system_message(int error) { return std::generic_category().message(error); }

}  // namespace word_index
