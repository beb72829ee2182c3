#include "status_line.hpp"

#include <cstdio>
#include <string>
#include <unistd.h>

namespace word_index {
namespace {

// Often enough to look alive, and too seldom to cost anything.
constexpr auto refresh_interval = std::chrono::milliseconds{100};

// Padding with blanks wipes what was there before and, unlike an escape sequence, works on every
// terminal. Below 80, so that the line never wraps.
constexpr std::size_t width = 72;

void overwrite(std::string_view text) {
  std::string line{text.substr(0, width)};
  line.resize(width, ' ');
  std::fprintf(stderr, "\r%s\r", line.c_str());
}

}  // namespace

status_line::status_line() : on_terminal_{::isatty(STDERR_FILENO) == 1} {}

status_line::~status_line() { clear(); }

bool status_line::due() const { return on_terminal_ && clock::now() >= next_; }

void status_line::show(std::string_view text) {
  if (!on_terminal_) return;
  overwrite(text);
  shown_ = true;
  next_ = clock::now() + refresh_interval;
}

void status_line::clear() {
  if (shown_) overwrite({});
  shown_ = false;
}

}  // namespace word_index
