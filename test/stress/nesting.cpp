// nesting.cpp - random programs that enter sections inside each other, in every way there is. Each
// round ends, and each refusal is confirmed by a search through a ledger that knows nothing of the
// library: who wants what, who has what, and who waits for whom.

#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <doctest/doctest.h>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace turnstile;
using stress::dice;

namespace {

constexpr int rounds = stress::sanitized ? 1'000 : 10'000;
constexpr unsigned n_sections = 8;
constexpr int nobody = -1;

// Branches are strands of control: what is spawned, submitted, or a child of when_all is one of its
// own.
class ledger {
 public:
  int new_branch() {
    const std::lock_guard lock(mutex_);
    branches_.emplace_back();
    return static_cast<int>(branches_.size()) - 1;
  }
  void wants(int b, unsigned section) {
    const std::lock_guard lock(mutex_);
    at(b).wants = static_cast<int>(section);
  }
  void waits_for(int b, std::vector<int> others) {
    const std::lock_guard lock(mutex_);
    at(b).waits_for = std::move(others);
  }
  void goes_on(int b) {
    const std::lock_guard lock(mutex_);
    at(b).wants = nobody;
    at(b).waits_for.clear();
  }
  void has(int b, unsigned section) {
    const std::lock_guard lock(mutex_);
    if (owner_[section] != nobody) overlaps_ = true;
    owner_[section] = b;
    at(b).wants = nobody;
  }
  void leaves(unsigned section) {
    const std::lock_guard lock(mutex_);
    owner_[section] = nobody;
  }
  bool overlaps() const noexcept { return overlaps_; }

  // Whether `b` waits for itself.
  bool is_in_a_cycle(int b) {
    const std::lock_guard lock(mutex_);
    std::vector<bool> seen(branches_.size());
    std::vector<int> todo = next_of(b);
    while (!todo.empty()) {
      const int at = todo.back();
      todo.pop_back();
      if (at == b) return true;
      if (seen[static_cast<std::size_t>(at)]) continue;
      seen[static_cast<std::size_t>(at)] = true;
      for (const int next : next_of(at)) todo.push_back(next);
    }
    return false;
  }

 private:
  struct branch {
    int wants = nobody;
    std::vector<int> waits_for;
  };

  branch& at(int b) { return branches_[static_cast<std::size_t>(b)]; }
  std::vector<int> next_of(int b) {
    std::vector<int> all = at(b).waits_for;
    if (at(b).wants != nobody) {
      const int has_it = owner_[static_cast<std::size_t>(at(b).wants)];
      if (has_it != nobody) all.push_back(has_it);
    }
    return all;
  }

  std::mutex mutex_;
  std::deque<branch> branches_;
  std::array<int, n_sections> owner_{nobody, nobody, nobody, nobody,
                                     nobody, nobody, nobody, nobody};
  bool overlaps_ = false;
};

struct totals {
  std::atomic<long> waits{0};
  std::atomic<long> refusals{0};
  std::atomic<long> unconfirmed{0};
  std::atomic<long> wrong_paths{0};
};

// One round: a few branches that start together.
class round_of {
 public:
  round_of(dice& d, executor_ref on, totals& t) : dice_(&d), on_(on), totals_(&t) {
    for (unsigned i = 0; i != n_sections; ++i) {
      std::string name = "s";
      name += std::to_string(i);
      sections_.push_back(std::make_unique<critical_section>(name));
    }
  }

  task<> run() {
    async_scope all({.executor = on_});
    const unsigned n = 2 + dice_->below(4);
    for (unsigned i = 0; i != n; ++i) all.spawn(begin(book_.new_branch(), numbers()));
    co_await all.join();
    while (std::optional<left_over> one = take_left_over()) {
      if (one->scope) co_await one->scope->join();
      if (one->handle) co_await *one->handle;
    }
  }

  bool overlapped() const noexcept { return book_.overlaps(); }

 private:
  // What nobody waits for in its place is waited for at the end, by who holds nothing.
  struct left_over {
    std::unique_ptr<async_scope> scope;
    std::optional<execution_handle<void>> handle;
  };
  void leave(std::unique_ptr<async_scope> s) {
    const std::lock_guard lock(mutex_);
    left_.push_back({std::move(s), std::nullopt});
  }
  void leave(execution_handle<void> h) {
    const std::lock_guard lock(mutex_);
    left_.push_back({nullptr, std::move(h)});
  }
  std::optional<left_over> take_left_over() {
    const std::lock_guard lock(mutex_);
    if (left_.empty()) return std::nullopt;
    left_over one = std::move(left_.back());
    left_.pop_back();
    return one;
  }

  // Each branch its own, so that it does the same whatever the others do.
  dice numbers() { return dice(dice_->below(1u << 30)); }
  static dice part_of(dice& d) { return dice(d.below(1u << 30)); }

  task<> begin(int me, dice d) { co_await steps(me, d, 0); }

  task<> steps(int me, dice& d, int depth) {
    const unsigned n = 1 + d.below(3);
    for (unsigned i = 0; i != n; ++i) co_await step(me, d, depth);
  }

  task<> step(int me, dice& d, int depth) {
    const unsigned s = d.below(n_sections);
    const bool leaf = depth == 4;
    switch (d.below(leaf ? 3u : 10u)) {
      case 0: co_await yield(); break;
      case 1:
      case 2: co_await enter(me, s); break;
      case 3:
      case 4:
      case 5: co_await enter_and_go_on(me, d, s, depth); break;
      case 6: co_await guard(me, d, s, depth); break;
      case 7: co_await children(me, d, depth); break;
      case 8: co_await scope(me, d, depth); break;
      default: co_await submitted(me, d, s, depth); break;
    }
  }

  // `me` was refused where it wants or waits for what the ledger says.
  void refused(int me, const deadlock_error& e) {
    totals_->refusals.fetch_add(1);
    if (!book_.is_in_a_cycle(me)) totals_->unconfirmed.fetch_add(1);
    const auto path = e.path();
    const bool there_and_back = path.size() >= 2 && path.front().section == path.back().section;
    if (!there_and_back) totals_->wrong_paths.fetch_add(1);
    book_.goes_on(me);
  }

  template <class A>
  task<> wait_in_line(int me, unsigned s, A body) {
    totals_->waits.fetch_add(1);
    book_.wants(me, s);
    try {
      co_await sections_[s]->execute(body);
    } catch (const deadlock_error& e) {
      refused(me, e);
    }
  }

  task<> enter(int me, unsigned s) {
    co_await wait_in_line(me, s, [this, me, s] {
      book_.has(me, s);
      book_.leaves(s);
    });
  }

  task<> inside(int me, dice& d, unsigned s, int depth) {
    book_.has(me, s);
    co_await steps(me, d, depth + 1);
    book_.leaves(s);
  }
  task<> enter_and_go_on(int me, dice& d, unsigned s, int depth) {
    co_await wait_in_line(me, s, [this, me, &d, s, depth] { return inside(me, d, s, depth); });
  }

  task<> guard(int me, dice& d, unsigned s, int depth) {
    totals_->waits.fetch_add(1);
    book_.wants(me, s);
    section_guard g;
    try {
      g = co_await sections_[s]->lock();
    } catch (const deadlock_error& e) {
      refused(me, e);
    }
    if (!g) co_return;
    book_.has(me, s);
    co_await steps(me, d, depth + 1);
    book_.leaves(s);
    g.unlock();
  }

  task<> child(int me, dice d, int depth) { co_await steps(me, d, depth + 1); }

  task<> children(int me, dice& d, int depth) {
    std::vector<int> ids;
    std::vector<task<>> tasks;
    for (unsigned n = 2 + d.below(2); n != 0; --n) {
      ids.push_back(book_.new_branch());
      tasks.push_back(child(ids.back(), part_of(d), depth));
    }
    book_.waits_for(me, std::move(ids));
    co_await when_all(std::move(tasks));
    book_.goes_on(me);
  }

  task<> scope(int me, dice& d, int depth) {
    std::vector<int> ids;
    const scope_options where{.executor = d.below(2) == 0 ? on_ : executor_ref()};
    auto all = std::make_unique<async_scope>(where);
    for (unsigned n = 1 + d.below(2); n != 0; --n) {
      ids.push_back(book_.new_branch());
      all->spawn(child(ids.back(), part_of(d), depth));
    }
    if (d.below(2) == 0) co_await step(me, d, depth + 1);
    book_.waits_for(me, std::move(ids));
    try {
      co_await all->join();
    } catch (const deadlock_error& e) {
      refused(me, e);
      leave(std::move(all));
    }
    book_.goes_on(me);
  }

  task<> submitted(int me, dice& d, unsigned s, int depth) {
    const int other = book_.new_branch();
    totals_->waits.fetch_add(1);
    book_.wants(other, s);
    auto numbers = std::make_shared<dice>(part_of(d));
    auto h = sections_[s]->submit(
        [this, other, numbers, s, depth] { return inside(other, *numbers, s, depth); });
    if (d.below(2) == 0) co_await step(me, d, depth + 1);
    if (d.below(3) == 0) {
      leave(std::move(h));
      co_return;
    }
    book_.waits_for(me, {other});
    try {
      co_await h;
    } catch (const deadlock_error& e) {
      refused(me, e);
      leave(std::move(h));
    }
    book_.goes_on(me);
  }

  dice* dice_;
  executor_ref on_;
  totals* totals_;
  ledger book_;
  std::mutex mutex_;
  std::vector<left_over> left_;
  std::vector<std::unique_ptr<critical_section>> sections_;
};

void check(const totals& t) {
  std::printf("  %ld waits, %ld refused\n", t.waits.load(), t.refusals.load());
  CHECK(t.refusals.load() > 0);
  CHECK(t.unconfirmed.load() == 0);
  CHECK(t.wrong_paths.load() == 0);
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("nesting: on one thread, every round ends and every refusal is a deadlock") {
    totals t;
    for (int i = 0; i != stress::times_scale(rounds); ++i) {
      dice d(static_cast<std::uint32_t>(i));
      manual_executor lane;
      round_of one(d, lane, t);
      async_scope top({.executor = lane});
      bool ended = false;
      top.spawn([](round_of& r, bool& done) -> task<> {
        co_await r.run();
        done = true;
      }(one, ended));
      lane.run();
      if (!ended) {
        FAIL_CHECK("round " << i << " hangs");
        std::abort();  // what hangs cannot be destroyed
      }
      CHECK_FALSE(one.overlapped());
    }
    check(t);
  }

  TEST_CASE("nesting: on several threads, every round ends and every refusal is a deadlock") {
    totals t;
    thread_pool pool(4);
    for (int i = 0; i != stress::times_scale(rounds); ++i) {
      dice d(static_cast<std::uint32_t>(i));
      round_of one(d, pool, t);
      sync_wait(one.run());
      CHECK_FALSE(one.overlapped());
    }
    check(t);
  }
}
