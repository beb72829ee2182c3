// counter.hpp - what does an operation cost when everybody wants the same section?
#pragma once

#include "support/measure.hpp"
#include "support/tally.hpp"

namespace bench::counter {

struct shared_state {
  explicit shared_state(const shape&) noexcept {}
  bool is_right(std::size_t operations) const noexcept { return sum.is(operations); }

  tally sum;
};

// Adds one, and asks again at once.
class client {
 public:
  using shared_state = counter::shared_state;
  static constexpr bool shares_matter = true;

  client(shared_state& shared, std::size_t, std::size_t turns) noexcept
      : sum_(&shared.sum), turns_(turns) {}

  std::size_t turns() const noexcept { return turns_; }
  std::size_t section() const noexcept { return 0; }
  void request() noexcept {}
  void body() noexcept { sum_->add(); }
  void completed() noexcept {}

 private:
  tally* sum_;
  std::size_t turns_;
};

template <class Contender>
void ask() {
  for (const std::size_t threads : thread_counts()) {
    for (const std::size_t clients : clients_on<Contender>(threads, {1, 2, 64, 1024})) {
      add_case<Contender, client>("counter", {threads, clients, threads});
    }
  }
}

}  // namespace bench::counter
