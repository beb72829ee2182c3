// choices.hpp - who decides what happens next.
//
// Source  PCT: Burckhardt, Kothari, Musuvathi, Nagarakatte, 2010.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace schedule {

// What there is to choose between. The first possibility is always the plain one: the running
// thread goes on, a load sees the newest value, a weak exchange does not fail without reason.
enum class kind : std::uint8_t { thread, value, failure, test };

struct question {
  kind about;
  unsigned step;  // how many operations there were before; at one, a kind is asked about once
  unsigned possibilities;
  const int* threads = nullptr;  // kind::thread: their numbers
  bool free = true;              // kind::thread: the running one cannot go on anyway
};

class chooser {
 public:
  virtual ~chooser() = default;
  virtual unsigned choose(const question& q) noexcept = 0;
  // Before each execution. False: there are no more.
  virtual bool next() = 0;
};

// Every execution with at most so many preemptions, and so many loads that see an old value or
// exchanges that fail without reason.
struct bounds {
  int preemptions = 2;
  int surprises = 2;
};
class depth_first : public chooser {
 public:
  explicit depth_first(bounds most) : most_(most) {}
  unsigned choose(const question& q) noexcept override;
  bool next() override;
  void restart() noexcept {
    path_.clear();
    begun_ = false;
  }
  // What would have been possible without the bounds was cut off somewhere.
  bool was_bounded() const noexcept { return was_bounded_; }

 private:
  struct choice {
    std::uint16_t taken;
    std::uint16_t possible;
  };
  bounds most_;
  bounds left_{};
  bool begun_ = false;
  bool was_bounded_ = false;
  std::size_t depth_ = 0;
  std::vector<choice> path_;
};

// Each execution has a seed of its own, so that any of them can be repeated alone.
class random_walk : public chooser {
 public:
  random_walk(std::uint64_t seed, std::uint64_t executions) : seed_(seed), left_(executions) {}
  unsigned choose(const question& q) noexcept override;
  bool next() override;
  std::uint64_t seed() const noexcept { return seed_ - 1; }

 protected:
  std::uint64_t draw() noexcept;
  unsigned below(unsigned n) noexcept { return static_cast<unsigned>(draw() % n); }
  unsigned surprise(const question& q) noexcept;

 private:
  std::uint64_t seed_;
  std::uint64_t left_;
  std::uint64_t state_ = 0;
};

// Threads have random priorities; at `depth` - 1 random moments the running one falls behind all.
class priorities : public random_walk {
 public:
  priorities(std::uint64_t seed, std::uint64_t executions, unsigned depth)
      : random_walk(seed, executions), depth_(depth) {}
  unsigned choose(const question& q) noexcept override;
  bool next() override;

 private:
  unsigned depth_;
  unsigned longest_ = 100;  // questions about threads in an execution so far
  unsigned asked_ = 0;
  std::vector<int> priority_;
  std::vector<unsigned> changes_;
};

struct answer {
  kind about;
  unsigned step;
  unsigned taken;
};

// One execution, as another one was written down.
class replay : public chooser {
 public:
  explicit replay(std::string_view written);
  unsigned choose(const question& q) noexcept override;
  bool next() override { return !std::exchange(done_, true); }

 private:
  std::vector<answer> taken_;
  std::size_t at_ = 0;
  bool done_ = false;
};

// "t12=1.v30=2": what was not plain.
std::string written(const std::vector<answer>& answers);

}  // namespace schedule
