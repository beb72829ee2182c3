// dies.hpp - breaking a contract: one line on stderr, then abort.
#pragma once

#include "support/child_process.hpp"

#include <doctest/doctest.h>
#include <string>
#include <string_view>
#include <utility>

namespace support {

// In a child process `f` ends so, and all of `words` are in that line.
template <class F, class... Words>
void check_dies(F f, const Words&... words) {
  const child_end end = in_child(std::move(f));
  INFO(end.said);
  CHECK(end.aborted);
  CHECK(end.one_line());
  const auto says = [&end](std::string_view text) {
    CAPTURE(text);
    CHECK(end.says(std::string(text)));
  };
  (says(words), ...);
}

}  // namespace support
