// fairness.hpp - does everybody get the same share?
//
// Jain's index of the clients' throughput, (sum x)^2 / (n sum x^2): 1 if all got the same, 1/n if
// one got it all.
//
// With a fixed number of turns for each client all have the same in the end, and half-way nobody
// can have had more than twice the mean. So this is a run of its own, beside the one that is timed:
// it ends for everybody at the same moment, in the body that makes the number of turns full, and
// nobody is held back before. Turns count from when all clients have begun, so that a starting
// thread that is interrupted is not taken for a lock that starves; or, if some have not after twice
// as many turns, from there. What is still in line in the end does not count.
#pragma once

#include "support/shape.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

namespace bench {

// In [1/n, 1]; 0 if nobody had anything.
inline double jains_index(std::span<const double> shares) noexcept {
  double sum = 0;
  double squares = 0;
  for (const double x : shares) {
    sum += x;
    squares += x * x;
  }
  return squares == 0 ? 0 : sum * sum / (static_cast<double>(shares.size()) * squares);
}

// A client that goes on until all of them together have had `turns` turns each on average.
template <class Client>
class counted : public Client {
 public:
  struct shared_state : Client::shared_state {
    shared_state(const shape& s, std::size_t turns)
        : Client::shared_state(s), clients(s.clients), wanted(s.clients * turns) {}

    const std::size_t clients;
    const std::size_t wanted;
    std::atomic<std::size_t> begun{0};
    std::atomic<bool> is_over{false};
    // Protected by the section.
    std::size_t bodies = 0;
    std::size_t counted = 0;
    bool all_have_begun = false;
  };

  counted(shared_state& shared, std::size_t index, std::size_t turns)
      : Client(shared, index, turns), all_(&shared) {}

  std::size_t turns() const noexcept {
    return all_->is_over.load(std::memory_order_relaxed) ? 0 : unlimited;
  }
  void request() noexcept {
    if (!has_begun_) all_->begun.fetch_add(1, std::memory_order_relaxed);
    has_begun_ = true;
    Client::request();
  }
  void body() noexcept {
    Client::body();
    ++all_->bodies;
    if (!all_->all_have_begun) {
      all_->all_have_begun = all_->begun.load(std::memory_order_relaxed) == all_->clients ||
                             all_->bodies == 2 * all_->wanted;
    } else if (all_->counted != all_->wanted) {
      ++had_;
      if (++all_->counted == all_->wanted) all_->is_over.store(true, std::memory_order_relaxed);
    }
  }
  std::size_t had() const noexcept { return had_; }

 private:
  shared_state* all_;
  bool has_begun_ = false;
  alignas(64) std::size_t had_ = 0;
};

// So many turns each for a case that takes `turns` to fill a round. A round lasts about 40 ms, in
// which threads that are more than cores have a few slices of 3 ms each, and shares are of that; so
// it is eight times as long.
// Contenders let others go first after 32 turns or so, which would show with fewer than 512.
inline std::size_t turns_to_share(std::size_t turns, const shape& s) noexcept {
  const double usual = static_cast<double>(turns) / s.round_factor;
  return std::max(static_cast<std::size_t>(8 * usual), std::size_t{512});
}

struct fairness {
  double index;
  bool right;
};

template <class Client, class Contender>
fairness fairness_of(Contender& contender, const shape& s, std::size_t turns) {
  using one = counted<Client>;
  typename one::shared_state shared(s, turns);
  std::vector<one> clients;
  clients.reserve(s.clients);
  for (std::size_t i = 0; i < s.clients; ++i) clients.emplace_back(shared, i, turns);
  contender.run(std::span(clients));
  std::vector<double> shares;
  std::size_t all_had = 0;
  for (const one& c : clients) {
    shares.push_back(static_cast<double>(c.had()));
    all_had += c.had();
  }
  return {jains_index(shares), all_had == shared.wanted && shared.is_right(shared.bodies)};
}

}  // namespace bench
