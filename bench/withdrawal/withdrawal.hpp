// withdrawal.hpp - how soon does a request that is withdrawn go on with its error, while a long
// body keeps the section?
//
// N requests wait behind one body. They are withdrawn one after the other, in turn the first in
// line, the one in the middle of those left, and the last one: by a stop token each, or by
// deadlines, which are at the same times. What is noted is the time from request_stop, or from the
// deadline, until the one that waited runs.
#pragma once

#include "support/case_table.hpp"
#include "support/measure.hpp"
#include "support/percentiles.hpp"
#include "support/shape.hpp"
#include "support/stopwatch.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <benchmark/benchmark.h>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <semaphore>
#include <stop_token>
#include <string_view>
#include <thread>
#include <vector>

namespace bench::withdrawal {

enum class source { stop_token, deadline };

enum class place { head, middle, tail };
inline constexpr std::array places{place::head, place::middle, place::tail};

// How a request ended; `stopped` and `expired` by the error of its contender.
enum class ending { none, stopped, expired, ran };

class run;

// One request: asks with token(), or with deadline(), and then says how that ended, once.
class alignas(64) waiter {
 public:
  waiter(run& all, place from) noexcept : all_(&all), from_(from) {}

  std::stop_token token() const noexcept { return source_.get_token(); }
  clock::time_point deadline() const noexcept { return from_when_; }
  void ended(ending how) noexcept;

 private:
  friend class run;

  run* all_;
  place from_;
  std::stop_source source_;
  clock::time_point from_when_;  // its deadline; or written before the stop is requested
  std::chrono::nanoseconds waited_{0};
  ending how_ = ending::none;
  bool section_was_held_ = false;
};

// One hold of a section. A contender lets one client call hold() in its body, and when is_held(),
// each other client make the request that next_in_line() gives it.
class run {
 public:
  // `lead` is the time that all have to get into line.
  run(const shape& s, source by, nanoseconds length, nanoseconds lead)
      : by_(by), length_(length), lead_(lead), unfinished_(s.clients), order_(s.clients) {
    all_.reserve(s.clients);
    for (const place from : appoint()) all_.emplace_back(*this, from);
  }

  source by() const noexcept { return by_; }
  std::size_t waiters() const noexcept { return all_.size(); }
  bool is_held() const noexcept { return held_.load(std::memory_order_acquire); }

  // The body: lasts as long as it should, and for a while longer if somebody has not come back yet.
  // Who comes back only after that has waited for its end.
  void hold() {
    const auto begin = clock::now();
    for (std::size_t k = 0; k < order_.size(); ++k) all_[order_[k]].from_when_ = begin + at(k);
    held_.store(true, std::memory_order_release);
    (void)all_back_.try_acquire_until(begin + whole(length_) + patience);
    std::this_thread::sleep_until(begin + whole(length_));
    held_.store(false, std::memory_order_release);
  }

  // By each client, in the order in which the requests are made.
  waiter& next_in_line() noexcept { return all_[arrived_.fetch_add(1, std::memory_order_relaxed)]; }

  // By a thread that is no client's. `waiting()` says how many wait by now.
  template <class Waiting>
  void withdraw_all(Waiting waiting) {
    while (!is_held()) std::this_thread::yield();
    const clock::time_point first = all_[order_.front()].from_when_;
    while (!late_ && waiting() < waiters()) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      late_ = clock::now() >= first;
    }
    if (by_ == source::stop_token) stop_all();
  }

  // Not all were in line when the first one had to go: the run says nothing.
  bool is_late() const noexcept { return late_; }

  bool is_right() const noexcept {
    const ending wanted = by_ == source::deadline ? ending::expired : ending::stopped;
    return std::all_of(all_.begin(), all_.end(), [wanted](const waiter& w) {
      return w.how_ == wanted && w.section_was_held_ && w.waited_.count() >= 0;
    });
  }

  // Nanoseconds, of those that were withdrawn there.
  std::vector<std::uint32_t> waited(place from) const {
    constexpr std::int64_t longest = std::numeric_limits<std::uint32_t>::max();
    std::vector<std::uint32_t> samples;
    for (const waiter& w : all_) {
      if (w.from_ != from) continue;
      samples.push_back(
          static_cast<std::uint32_t>(std::min<std::int64_t>(w.waited_.count(), longest)));
    }
    return samples;
  }

 private:
  friend class waiter;

  static constexpr std::chrono::seconds patience{10};

  static std::chrono::nanoseconds whole(nanoseconds t) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t);
  }

  // When the one whose turn is `number` has to go: they end a tenth before the hold does.
  std::chrono::nanoseconds at(std::size_t number) const {
    const double share = static_cast<double>(number) / static_cast<double>(order_.size());
    return whole(lead_ + (0.9 * length_ - lead_) * share);
  }

  // Fills order_ with who goes when, and gives from where each of the line goes.
  std::vector<place> appoint() {
    std::vector<std::size_t> left(order_.size());
    std::vector<place> from(order_.size());
    std::iota(left.begin(), left.end(), std::size_t{0});
    for (std::size_t k = 0; k < order_.size(); ++k) {
      const place p = places[k % places.size()];
      const std::size_t i = p == place::head     ? 0
                            : p == place::middle ? left.size() / 2
                                                 : left.size() - 1;
      order_[k] = left[i];
      from[left[i]] = p;
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return from;
  }

  void stop_all() {
    for (const std::size_t i : order_) {
      waiter& w = all_[i];
      if (!late_) std::this_thread::sleep_until(w.from_when_);
      w.from_when_ = clock::now();
      w.source_.request_stop();
    }
  }

  void one_is_back() noexcept {
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) all_back_.release();
  }

  const source by_;
  const nanoseconds length_;
  const nanoseconds lead_;
  std::vector<waiter> all_;  // as they stand in line
  std::atomic<std::size_t> arrived_{0};
  std::atomic<std::size_t> unfinished_;
  std::vector<std::size_t> order_;  // in which they are withdrawn
  std::atomic<bool> held_{false};
  std::binary_semaphore all_back_{0};
  bool late_ = false;  // only who withdraws, and afterwards
};

inline void waiter::ended(ending how) noexcept {
  waited_ = clock::now() - from_when_;
  how_ = how;
  section_was_held_ = all_->is_held();
  all_->one_is_back();
}

inline void report(benchmark::State& state, const run& r) {
  constexpr std::array names{"head_us", "middle_us", "tail_us"};
  std::vector<std::uint32_t> all;
  for (const place from : places) {
    std::vector<std::uint32_t> waited = r.waited(from);
    all.insert(all.end(), waited.begin(), waited.end());
    state.counters[names[static_cast<std::size_t>(from)]] = percentiles_of(waited).p50 / 1000;
  }
  const percentiles p = percentiles_of(all);
  state.counters["p50_us"] = p.p50 / 1000;
  state.counters["p99_us"] = p.p99 / 1000;
  state.counters["max_us"] = p.max / 1000;
}

// A contender is made from the letters of a case and owns its threads and its section; drive(run)
// drives everybody to the end, and waiting() says how many requests wait.
template <class Contender>
void measure(benchmark::State& state, const shape& s, source by) {
  constexpr int attempts = 5;
  Contender contender(s);
  nanoseconds lead = round_length(s) / 10;
  for (auto _ : state) {
    for (int attempt = 1;; ++attempt, lead *= 2) {
      run r(s, by, round_length(s) + lead, lead);
      std::thread control([&] { r.withdraw_all([&] { return contender.waiting(); }); });
      const nanoseconds took = time_of([&] { contender.drive(r); });
      control.join();
      if (r.is_late() && attempt < attempts) continue;
      if (r.is_late()) return refuse(state, "the requests were not in line in time");
      if (!r.is_right()) {
        return refuse(state,
                      "wrong answer: a request ran, had another error, or waited for the body");
      }
      state.SetIterationTime(std::chrono::duration<double>(took).count());
      report(state, r);
      break;
    }
  }
  report_kind<Contender>(state, s);
}

// The hold is 25 rounds long: a second, as a rule.
template <class Contender>
bool ask() {
  constexpr std::size_t many_threads = 64;
  shape s{.threads = 2, .clients = 1024, .against = many_threads, .round_factor = 25};
  if (Contender::clients_are_threads) s.threads = s.clients = many_threads;
  const auto add = [&s](std::string_view question, source by) {
    cases().push_back({question, Contender::name, s, [by](benchmark::State& state, const shape& t) {
                         measure<Contender>(state, t, by);
                       }});
  };
  add("withdraw_stop", source::stop_token);
  add("withdraw_deadline", source::deadline);
  return true;
}

}  // namespace bench::withdrawal
