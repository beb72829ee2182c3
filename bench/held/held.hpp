// held.hpp - a section is kept for 100 us while its holder waits: how much other work gets done?
//
// Tasks that never touch the section share the threads with two holders, which keep it in turn. A
// lock that makes its caller wait in place takes a thread away from the tasks; a section that is
// held across an await must not.
#pragma once

#include "held/alarm.hpp"
#include "support/case_table.hpp"
#include "support/limit.hpp"
#include "support/measure.hpp"
#include "support/work.hpp"

#include <atomic>
#include <benchmark/benchmark.h>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace bench::held {

inline constexpr double unit_ns = 1000;

// The unrelated work: `turns` units of about a microsecond, with a yield after each.
class alignas(64) task {
 public:
  task(std::uint64_t steps, std::size_t turns) noexcept : steps_(steps), turns_(turns) {}

  std::size_t turns() const noexcept { return turns_; }

  void unit() noexcept {
    value_ = multiply_add(value_, steps_);
    benchmark::DoNotOptimize(value_);
    ++done_;
  }

  bool is_done() const noexcept { return done_ == turns_; }

  bool is_right() const noexcept {
    return is_done() && value_ == multiply_add_foretold(0, done_ * steps_);
  }

 private:
  std::uint64_t steps_;
  std::size_t turns_;
  std::uint64_t value_ = 0;
  std::size_t done_ = 0;
};

// One run: over when the last task is done. Holders go on until they see that.
//
//   a holder   while (!r.is_over()) { <enter>  r.enter();  <until called>  r.leave();  <leave> }
//              r.finish_holder();
//   a task     while (!t.is_done()) { t.unit();  r.look_at_clock();  <yield> }
//              if (r.finish_task()) while (r.has_holders()) { r.look_at_clock();  <yield> }
class run {
 public:
  run(const shape& s, std::size_t turns, bool with_section)
      : with_section_(with_section),
        tasks_(s.clients, task(steps_lasting(unit_ns), turns)),
        unfinished_(s.clients),
        holders_left_(holders()) {}

  // Without the section one is enough to have somebody wait for 100 us all the time.
  std::size_t holders() const noexcept { return with_section_ ? 2 : 1; }
  bool with_section() const noexcept { return with_section_; }
  std::vector<task>& tasks() noexcept { return tasks_; }

  // True for the last one, which then looks at the clock for the holders.
  bool finish_task() noexcept {
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
    over_at_ = clock::now();
    return true;
  }
  bool is_over() const noexcept { return unfinished_.load(std::memory_order_acquire) == 0; }

  void finish_holder() noexcept { holders_left_.fetch_sub(1, std::memory_order_acq_rel); }
  bool has_holders() const noexcept { return holders_left_.load(std::memory_order_acquire) != 0; }

  // Calls `ring` hold_time later. One holder at a time.
  void call_later(std::function<void()> ring) { alarm_.set(std::move(ring)); }
  void look_at_clock() { alarm_.look(is_over()); }

  // From the making of the run to the end of the last task, not of the last hold.
  nanoseconds took() const noexcept { return over_at_ - made_at_; }

  // At the start and at the end of a hold, inside the section.
  void enter() noexcept {
    overlapped_ = overlapped_ || occupied_;
    occupied_ = true;
    ++holds_;
  }
  void leave() noexcept { occupied_ = false; }

  bool is_right() const noexcept {
    for (const task& t : tasks_) {
      if (!t.is_right()) return false;
    }
    return !overlapped_ && (holds_ > 0) == with_section_;
  }
  std::size_t holds() const noexcept { return holds_; }

 private:
  bool with_section_;
  std::vector<task> tasks_;
  std::atomic<std::size_t> unfinished_;
  std::atomic<std::size_t> holders_left_;
  alarm alarm_;
  clock::time_point made_at_ = clock::now();
  clock::time_point over_at_;  // written by the last task, read after all threads are done

  // Protected by the section.
  bool occupied_ = false;
  bool overlapped_ = false;
  std::size_t holds_ = 0;
};

template <class Contender>
concept can_hold = requires(Contender c, run& r) { c.hold(r); };

// Two runs with the section between two without it, so that a drift of the machine cancels out.
class comparison {
 public:
  template <class RunOnce>
  explicit comparison(RunOnce&& run_once) {
    without_ += run_once(false);
    with_ += run_once(true);
    with_ += run_once(true);
    without_ += run_once(false);
  }

  nanoseconds with() const noexcept { return with_; }
  double throughput_kept() const noexcept { return without_ / with_; }

 private:
  nanoseconds with_{0};
  nanoseconds without_{0};
};

inline nanoseconds unit_alone() {
  return fastest_call([](std::size_t units) {
    task t(steps_lasting(unit_ns), units);
    return time_of([&] {
      for (std::size_t i = 0; i < units; ++i) t.unit();
    });
  });
}

template <class Contender>
void measure(benchmark::State& state, const shape& s) {
  Contender contender(s);
  bool right = true;
  std::size_t holds = 0;
  const auto run_once = [&](std::size_t turns, bool with_section) {
    run r(s, turns, with_section);
    contender.hold(r);
    right = right && r.is_right();
    holds += r.holds();
    return r.took();
  };
  for (auto _ : state) {
    const auto turns = turns_that_fill(round_length(s) / 4, s.clients,
                                       [&](std::size_t n) { return run_once(n, false); });
    const comparison both([&](bool with_section) { return run_once(turns, with_section); });
    if (!right) return refuse(state, "wrong answer: two holders at once, or work left undone");
    report_time(state, both.with(), 2 * turns * s.clients);
    state.counters["throughput_kept"] = both.throughput_kept();
    state.counters["holds_per_ms"] = static_cast<double>(holds) / (both.with().count() / 1e6);
  }
  report_kind<Contender>(state, s);
  report_limit(state, {.inside = nanoseconds{0}, .outside = unit_alone()}, s);
}

template <class Contender>
void ask() {
  if constexpr (can_hold<Contender>) {
    const shape s{.threads = 2, .clients = 64, .against = 2, .round_factor = 2};
    cases().push_back({"held", Contender::name, s, measure<Contender>});
  }
}

}  // namespace bench::held
