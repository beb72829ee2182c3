// lines.hpp - what does it cost that the data a section guards comes over to who enters it?
//
// Where each client enters on its own thread, the lines follow the threads; where one thread runs
// many bodies in a row, they stay.
#pragma once

#include "support/measure.hpp"
#include "support/work.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench::lines {

struct alignas(64) line {
  std::size_t word = 0;
};

// Adds one to a word in each line.
struct touched_lines {
  static constexpr bool shares_matter = false;  // as counter's

  explicit touched_lines(const shape& s) : all(lines_of(s.body)) {}
  void visit() noexcept {
    for (line& l : all) ++l.word;
  }
  bool is_right(std::size_t operations) const noexcept {
    return std::ranges::all_of(all, [&](const line& l) { return l.word == operations; });
  }

  std::vector<line> all;
};

struct alignas(64) worked_line {
  static constexpr std::uint64_t first_value = 1;

  std::uint64_t word = first_value;
};

// Works with what is in each line, one line after the other: a line is not begun before the one
// before is done, for nothing of that is added; nor the first one before the last body's last. So
// the body is as long as its steps at least.
struct worked_lines {
  static constexpr bool shares_matter = true;

  explicit worked_lines(const shape& s) : all(lines_of(s.body)), steps(steps_of(s.body)) {}
  void visit() noexcept {
    std::uint64_t made = all.back().word;
    for (worked_line& l : all) {
      made = multiply_add(l.word + (made & nothing), steps);
      l.word = made;
    }
  }
  bool is_right(std::size_t operations) const noexcept {
    const std::uint64_t right = multiply_add_foretold(worked_line::first_value, operations * steps);
    return std::ranges::all_of(all, [&](const worked_line& l) { return l.word == right; });
  }

  std::vector<worked_line> all;
  std::uint64_t steps;
  std::uint64_t nothing = 0;  // which no compiler knows, and no core guesses
};

// Visits the lines, and asks again at once.
template <class Lines>
class client {
 public:
  using shared_state = Lines;
  static constexpr bool shares_matter = Lines::shares_matter;

  client(Lines& shared, std::size_t, std::size_t turns) noexcept
      : shared_(&shared), turns_(turns) {}

  std::size_t turns() const noexcept { return turns_; }
  std::size_t section() const noexcept { return 0; }
  void request() noexcept {}
  void body() noexcept { shared_->visit(); }
  void completed() noexcept {}

 private:
  Lines* shared_;
  std::size_t turns_;
};

template <class Contender, class Lines>
void ask_on(std::size_t threads, length body) {
  for (const std::size_t clients : clients_on<Contender>(threads, {64, 1024})) {
    add_case<Contender, client<Lines>>("lines", {threads, clients, threads, body});
  }
}

template <class Contender>
bool ask() {
  for (const length body : {length::line_1, length::lines_8, length::lines_64}) {
    ask_on<Contender, touched_lines>(2, body);
  }
  for (const std::size_t threads : several_threads()) {
    if (threads != 2) ask_on<Contender, touched_lines>(threads, length::lines_8);
    ask_on<Contender, worked_lines>(threads, length::lines_8_ns_100);
  }
  return true;
}

}  // namespace bench::lines
