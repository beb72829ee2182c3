// status_line.hpp - one line on the terminal that is written over again and again.
#pragma once

#include <chrono>
#include <string_view>

namespace word_index {

/// Says how far the program is, on stderr, if that is a terminal; otherwise stays silent.
///
/// Threads  one at a time: while the files are read, the section of the ledger sees to that
class status_line {
 public:
  status_line();
  ~status_line();
  status_line(const status_line&) = delete;
  status_line& operator=(const status_line&) = delete;

  /// Whether it is time to write again. Ask first, to save the work of making the text.
  bool due() const;
  void show(std::string_view text);
  void clear();

 private:
  using clock = std::chrono::steady_clock;

  const bool on_terminal_;
  bool shown_ = false;
  clock::time_point next_ = clock::now();
};

}  // namespace word_index
