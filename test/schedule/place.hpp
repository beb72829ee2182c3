// place.hpp - a section, what it protects, and who has it at first.
#pragma once

#include "schedule/client.hpp"
#include "schedule/signal.hpp"
#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <coroutine>
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

namespace schedule {

// A section, what it protects, and who has it at first.
class place {
 public:
  place() : place({.ring_capacity = 1}) {}
  explicit place(turnstile::section_options options) : cs(options), is_bound_(options.executor) {}

  void hold() { holder_ = support::hold(cs); }
  void unlock() { holder_.unlock(); }

  // The body of request `i`.
  auto body(int i) {
    return [this, i] {
      require(!busy, "two bodies at once");
      require(i > last, "out of order");
      last = i;
      n = n + 1;
    };
  }
  auto ask(int i) { return cs.execute(body(i)); }
  auto ask(int i, const std::stop_source& s) {
    const std::stop_token stop = s.get_token();
    return cs.execute(body(i), {.stop = stop});
  }
  auto ask(int i, turnstile::detail::time_point until) {
    return cs.execute(body(i), {.deadline = until});
  }
  // The same once the door is open.
  auto ask_when(int i, const std::stop_source& s) {
    const std::stop_token stop = s.get_token();
    return cs.execute_when([this] { return static_cast<bool>(open); }, body(i), {.stop = stop});
  }
  auto ask_when(int i) {
    return cs.execute_when([this] { return static_cast<bool>(open); }, body(i));
  }
  auto open_it() {
    return cs.execute([this] { open = true; });
  }

  // When everybody is back.
  void is_free() {
    require(!cs.statistics().held && cs.statistics().waiters == 0, "the section is not free");
    require(is_bound_ || cs.try_execute([] {}), "the section is not idle");
  }

  turnstile::critical_section cs;
  guarded<int> n{0};
  guarded<int> last{-1};
  guarded<bool> busy{false};
  guarded<bool> open{false};

 private:
  turnstile::section_guard holder_;
  const bool is_bound_;
};

// Ended by the last of those who asked. The first one holds it, with a body that waits: whoever
// ends that is no user, and nobody waits for what it still does then.
class shared_place {
 public:
  explicit shared_place(int users, turnstile::section_options options = {.ring_capacity = 1})
      : users_(users), at_(std::make_unique<place>(options)) {}
  place* operator->() const noexcept { return at_.get(); }

  void hold() {
    holder_.begin(at_->cs.execute([this]() -> turnstile::task<> { co_await given_; }));
  }
  void unlock() { given_.give(); }
  void end_of_holder() { end(holder_); }

  ending end(client& c) {
    const ending how = c.end();
    leave();
    return how;
  }
  void leave() {
    if (users_.fetch_sub(1, turnstile::detail::acq_rel) == 1) at_.reset();
  }

 private:
  atomic<int> users_;
  std::unique_ptr<place> at_;
  client holder_;
  signal given_;
};

// Others' threads, and this one, which is one thread less.
inline void beside(std::vector<std::function<void()>> others, const std::function<void()>& mine) {
  std::vector<thread> threads;
  threads.reserve(others.size());
  for (auto& work : others) threads.emplace_back(std::move(work));
  mine();
  for (auto& t : threads) t.join();
}

}  // namespace schedule
