// world.hpp - the real things a program plays with: executors, sections, guards, handles.
#pragma once

#include "fuzz/model.hpp"
#include "fuzz/program.hpp"

#include <turnstile/manual_clock.hpp>
#include <turnstile/turnstile.hpp>

#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace fuzz {

// A result that must be moved and destroyed as often as it was made.
class token {
 public:
  explicit token(long value) : value_(std::make_unique<long>(value)) { ++alive_; }
  token(token&& other) noexcept : value_(std::move(other.value_)) { ++alive_; }
  token& operator=(token&&) = default;
  ~token() { --alive_; }

  long value() const {
    expect(value_ != nullptr, "a result was moved away");
    return *value_;
  }
  static int alive() { return alive_; }

 private:
  static inline int alive_ = 0;
  std::unique_ptr<long> value_;
};

// The error of a body or task.
struct thrown {
  long number;
};

// Which of the library's errors it is that says why a request did not run.
reason reason_of(const std::exception_ptr& error);

// The two executors. Jobs run only here, so it is known where code runs.
class executors {
 public:
  // Jobs run within what a job does, as if another thread did them.
  static constexpr int most_nested = 3;

  executors(bool first_eager, bool second_eager)
      : queues_{queue(*this, place::first, first_eager),
                queue(*this, place::second, second_eager)} {}

  place now() const { return now_; }
  int depth() const { return depth_; }

  turnstile::executor_ref at(place p) {
    if (p == place::nowhere) return {};
    return queues_[index(p)];
  }
  bool run_one(place p);
  // Within what runs here; not from nowhere, where code must not be waited for by others.
  bool run_nested(place p);

 private:
  class queue {
   public:
    queue(executors& all, place self, bool eager) : all_(&all), self_(self), eager_(eager) {}
    void post(turnstile::job& j) noexcept {
      jobs_->post(j);
      if (eager_) all_->run_nested(self_);
    }
    turnstile::manual_executor& jobs() const { return *jobs_; }

   private:
    executors* all_;
    place self_;
    bool eager_;
    std::unique_ptr<turnstile::manual_executor> jobs_ =
        std::make_unique<turnstile::manual_executor>();
  };

  static std::size_t index(place p) { return p == place::first ? 0 : 1; }

  std::array<queue, 2> queues_;
  place now_ = place::nowhere;
  int depth_ = 0;
};

// A section, with or without data.
class site {
 public:
  site(const section_config& config, std::string name, executors& on);

  turnstile::critical_section& section() const { return *section_; }
  turnstile::synchronized<long>* data() const { return data_.get(); }
  place bound() const { return bound_; }
  counts statistics() const;

  // What errors call it: its name, or its number.
  const std::string& label() const { return label_; }

 private:
  void make(const section_config& config, executors& on);

  std::string name_;
  std::string label_;
  place bound_ = place::nowhere;
  std::unique_ptr<turnstile::synchronized<long>> data_;
  std::shared_ptr<turnstile::critical_section> section_;
};

// One that requests are made with, until it is stopped.
struct token_slot {
  std::size_t number = 0;
  std::stop_source source;
};

struct guard_slot {
  std::variant<turnstile::section_guard, turnstile::synchronized_guard<long>> guard;
  request* owned = nullptr;
};

struct handle_slot {
  using none = std::monostate;
  std::variant<none, turnstile::execution_handle<void>, turnstile::execution_handle<token>> handle;
  request* asked = nullptr;
  chain* inner = nullptr;  // of its body; null if it was refused

  bool ready() const;
};

class world {
 public:
  explicit world(const program& p);

  bool eager() const { return eager_; }

  turnstile::manual_clock clock;
  executors on;
  std::array<token_slot, 4> tokens;
  std::vector<std::unique_ptr<site>> sites;
  std::array<guard_slot, 4> guards;
  std::array<handle_slot, 4> handles;

 private:
  bool eager_;  // some executor is
};

}  // namespace fuzz
