// lines.hpp - what does it cost that the data a section guards comes over to who enters it?
//
// Where each client enters on its own thread, the lines follow the threads; where one thread runs many
// bodies in a row, they stay.
#pragma once

#include "support/measure.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace bench::lines {

struct alignas(64) line {
  std::size_t word = 0;
};

struct shared_state {
  explicit shared_state(const shape& s) : all(lines_of(s.body)) {}
  bool is_right(std::size_t operations) const noexcept {
    return std::ranges::all_of(all, [&](const line& l) { return l.word == operations; });
  }

  std::vector<line> all;
};

// Adds one to a word in each line, and asks again at once.
class client {
 public:
  using shared_state = lines::shared_state;

  client(shared_state& shared, std::size_t, std::size_t turns) noexcept
      : shared_(&shared), turns_(turns) {}

  std::size_t turns() const noexcept { return turns_; }
  std::size_t section() const noexcept { return 0; }
  void request() noexcept {}
  void body() noexcept {
    for (line& l : shared_->all) ++l.word;
  }
  void completed() noexcept {}

 private:
  shared_state* shared_;
  std::size_t turns_;
};

template <class Contender>
bool ask() {
  const auto ask_on = [](std::size_t threads, length body) {
    for (const std::size_t clients : clients_on<Contender>(threads, {64, 1024})) {
      add_case<Contender, client>("lines", {threads, clients, threads, body});
    }
  };
  for (const length body : {length::line_1, length::lines_8, length::lines_64}) ask_on(2, body);
  for (const std::size_t threads : {4, 8}) ask_on(threads, length::lines_8);
  return true;
}

}  // namespace bench::lines
