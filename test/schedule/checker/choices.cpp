// choices.cpp - depth first, at random, by priorities, as written down.

#include "schedule/checker/choices.hpp"

#include "schedule/checker/world.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

namespace schedule {

namespace {

constexpr std::string_view letters = "tvfc";  // of kind

bool is_preemption(const question& q) noexcept { return q.about == kind::thread && !q.free; }
bool is_surprise(const question& q) noexcept {
  return q.about == kind::value || q.about == kind::failure;
}

}  // namespace

unsigned depth_first::choose(const question& q) noexcept {
  int unlimited = 1;
  int& left = is_preemption(q) ? left_.preemptions : is_surprise(q) ? left_.surprises : unlimited;
  if (left == 0) {
    was_bounded_ = true;
    return 0;
  }
  if (depth_ == path_.size()) path_.push_back({0, static_cast<std::uint16_t>(q.possibilities)});
  const choice& c = path_[depth_++];
  require(c.possible == q.possibilities, "the scenario does not do the same when it is repeated");
  if (c.taken != 0) --left;
  return c.taken;
}

bool depth_first::next() {
  if (begun_) {
    while (!path_.empty() && path_.back().taken + 1 == path_.back().possible) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().taken;
  }
  begun_ = true;
  depth_ = 0;
  left_ = most_;
  return true;
}

std::uint64_t random_walk::draw() noexcept {  // splitmix64 (Steele, Lea, Flood, 2014)
  std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

bool random_walk::next() {
  if (left_ == 0) return false;
  --left_;
  state_ = seed_++ * 0xD1342543DE82EF95u;
  return true;
}

unsigned random_walk::surprise(const question& q) noexcept {
  return below(6) == 0 ? below(q.possibilities) : 0;
}

unsigned random_walk::choose(const question& q) noexcept {
  if (is_surprise(q)) return surprise(q);
  if (is_preemption(q) && below(2) == 0) return 0;
  return below(q.possibilities);
}

bool priorities::next() {
  if (!random_walk::next()) return false;
  longest_ = std::max(longest_, asked_);
  asked_ = 0;
  priority_.resize(max_threads);
  std::iota(priority_.begin(), priority_.end(), max_threads);
  for (std::size_t i = priority_.size(); i > 1; --i) {
    std::swap(priority_[i - 1], priority_[below(static_cast<unsigned>(i))]);
  }
  changes_.clear();
  for (unsigned i = 1; i < depth_; ++i) changes_.push_back(below(longest_));
  return true;
}

unsigned priorities::choose(const question& q) noexcept {
  if (is_surprise(q)) return surprise(q);
  if (q.about != kind::thread) return below(q.possibilities);
  const auto change = std::ranges::find(changes_, asked_++);
  if (change != changes_.end()) {
    priority_[static_cast<std::size_t>(q.threads[0])] = -static_cast<int>(asked_);
  }
  unsigned best = 0;
  for (unsigned i = 1; i != q.possibilities; ++i) {
    const auto rank = [&](unsigned at) {
      return priority_[static_cast<std::size_t>(q.threads[at])];
    };
    if (rank(i) > rank(best)) best = i;
  }
  return best;
}

replay::replay(std::string_view text) {
  const auto number = [&text] {
    unsigned n = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), n).ptr;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return n;
  };
  while (!text.empty()) {
    const auto about = static_cast<kind>(letters.find(text.front()));
    text.remove_prefix(1);
    const unsigned step = number();
    require(text.starts_with('='), "SCHEDULE_REPLAY is not what a report says");
    text.remove_prefix(1);
    taken_.push_back({about, step, number()});
    if (!text.empty()) text.remove_prefix(1);
  }
}

unsigned replay::choose(const question& q) noexcept {
  if (at_ == taken_.size() || taken_[at_].step != q.step || taken_[at_].about != q.about) return 0;
  const unsigned answer = taken_[at_++].taken;
  require(answer < q.possibilities, "SCHEDULE_REPLAY is of another scenario or another build");
  return answer;
}

std::string written(const std::vector<answer>& answers) {
  std::string text;
  for (const answer& a : answers) {
    if (a.taken == 0) continue;
    text += text.empty() ? "" : ".";
    text += letters[static_cast<std::size_t>(a.about)];
    text += std::to_string(a.step) + '=' + std::to_string(a.taken);
  }
  return text.empty() ? "t0=0" : text;
}

}  // namespace schedule
