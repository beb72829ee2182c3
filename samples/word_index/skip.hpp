// skip.hpp - why a path was not counted, as a sentence for people and a word for the totals.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace word_index {

enum class reason : std::uint8_t { missing, unreadable, loop, repeated, dangling, special, binary };

struct skip {
  reason why;
  std::string path;
  std::string detail = {};  // what the sentence needs besides: an error, another path, a kind
};

/// "skipped 'a/b': it does not exist", safe to print on a terminal.
std::string sentence(const skip& skipped);

/// "1 loop, 2 binary", in the order of `reason`; empty if there are none.
std::string summary(const std::vector<skip>& skips);

/// Whether the user asked for something that could not be read. A loop, a binary file and the
/// like are ordinary things to meet in a tree and no failure.
bool is_failure(const skip& skipped);

/// What the message calls a file that is not a regular one, "a fifo" for instance.
std::string_view special_kind(mode_t mode);

/// What the system says about an `errno` value.
std::string system_message(int error);

}  // namespace word_index
