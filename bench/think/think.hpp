// think.hpp - does the work outside the section still use every core?
//
// A queue that drags all clients onto the thread that drains it looks best in `counter` and loses
// here: all private work then runs on one core, and the limit is missed by a factor.
#pragma once

#include "support/measure.hpp"
#include "support/tally.hpp"

#include <benchmark/benchmark.h>

namespace bench::think {

struct shared_state {
  explicit shared_state(const shape& s) : inside(steps_of(s.body)), outside(steps_of(s.work)) {}
  bool is_right(std::size_t operations) const noexcept { return sum.is(operations, inside); }

  std::uint64_t inside;
  std::uint64_t outside;
  tally sum;
};

// Works alone for a while, then inside the section, and so on.
class alignas(64) client {
 public:
  using shared_state = think::shared_state;
  static constexpr bool shares_matter = true;

  client(shared_state& shared, std::size_t index, std::size_t turns) noexcept
      : shared_(&shared), turns_(turns), own_(index) {}

  std::size_t turns() const noexcept { return turns_; }
  std::size_t section() const noexcept { return 0; }
  void request() noexcept {}
  void body() noexcept { own_ += shared_->sum.add(shared_->inside); }

  // Starts from what the body made: a core must not do both at once.
  void completed() noexcept {
    own_ = multiply_add(own_, shared_->outside);
    benchmark::DoNotOptimize(own_);
  }

 private:
  shared_state* shared_;
  std::size_t turns_;
  std::uint64_t own_;
};

template <class Contender>
void ask() {
  for (const length body : {length::none, length::ns_250}) {
    for (const std::size_t threads : thread_counts()) {
      for (const std::size_t clients : clients_on<Contender>(threads, {64, 1024})) {
        add_case<Contender, client>("think", {threads, clients, threads, body, length::ns_215});
      }
    }
  }
}

}  // namespace bench::think
