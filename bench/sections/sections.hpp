// sections.hpp - what if there are many sections?
#pragma once

#include "support/measure.hpp"

#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

namespace bench::sections {

struct shared_state {
  explicit shared_state(const shape& s) : counts(s.sections), choose(s.choose) {}

  bool is_right(std::size_t operations) const noexcept {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0}) == operations;
  }

  std::vector<std::size_t> counts;  // one for each section, which alone protects it
  choice choose;
};

// Adds one behind another section each time.
class alignas(64) client {
 public:
  using shared_state = sections::shared_state;

  client(shared_state& shared, std::size_t index, std::size_t turns) noexcept
      : counts_(shared.counts.data()),
        sections_(shared.counts.size()),
        skewed_(shared.choose == choice::skewed),
        turns_(turns),
        random_((index + 1) * 0x9e3779b97f4a7c15u) {}

  std::size_t turns() const noexcept { return turns_; }
  std::size_t section() noexcept { return picked_ = below(skewed_ ? skewed_range() : sections_); }
  void request() noexcept {}
  void body() noexcept { ++counts_[picked_]; }
  void completed() noexcept {}

 private:
  // Ranges of 1, 2, 4, ... sections, equally often: rank r is picked about 1/r times as often as
  // the first one, which is Zipf's law without a logarithm.
  std::size_t skewed_range() noexcept {
    return std::min<std::size_t>(sections_, std::size_t{1} << below(std::bit_width(sections_)));
  }

  // A number from 0 to range - 1: the product of range and a random fraction.
  std::size_t below(std::size_t range) noexcept {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return ((random_ >> 32) * range) >> 32;
  }

  std::size_t* counts_;
  std::size_t sections_;
  bool skewed_;
  std::size_t turns_;
  std::uint64_t random_;
  std::size_t picked_ = 0;
};

template <class Contender>
void ask() {
  constexpr std::size_t threads = 2;
  const auto ask_for = [](std::size_t sections, choice choose) {
    const std::size_t clients = Contender::clients_are_threads ? threads : 64;
    add_case<Contender, client>("sections", {.threads = threads,
                                             .clients = clients,
                                             .against = threads,
                                             .sections = sections,
                                             .choose = choose});
  };
  ask_for(1, choice::uniform);
  for (const std::size_t sections : {16, 1024, 1'000'000}) {
    ask_for(sections, choice::uniform);
    ask_for(sections, choice::skewed);
  }
}

}  // namespace bench::sections
