// blocked_thread.cpp - waiting in place: spinning for a while, then parked. The protocol is in the
// header.

#include "strand/batch.hpp"

#include <turnstile/detail/blocked_thread.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/detail/trampoline.hpp>
#include <turnstile/thread_pool.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

namespace turnstile::detail {

namespace {

using std::chrono::nanoseconds;

// What parking costs: a system call to fall asleep, one by another thread to wake this one, and the
// way back onto a core. Who spins for as long loses at most half (Karlin, Manasse, McGeoch, Owicki
// 1990).
constexpr nanoseconds most_spinning =
    limit(std::chrono::microseconds(2), std::chrono::microseconds(0));

constexpr int looks_between_clocks = limit(8, 1);

}  // namespace

constinit blocked_threads to_blocked_threads;

void give_away() noexcept {
  batch::give_away_all();
  trampoline::give_away_all();
  blocked_thread::go_away_all();
}

blocked_thread::in_line::in_line(blocked_thread& me) noexcept {
  me.outer_ = std::exchange(here().in_line, &me);
}

blocked_thread::in_line::~in_line() { here().in_line = here().in_line->outer_; }

// False: the thread has gone away.
bool blocked_thread::take(job& j) noexcept {
  atomic<std::uint32_t>& word = word_;
  std::uint32_t seen = word.load(relaxed);
  job_ = &j;
  do {
    if ((seen & away) != 0) return false;
  } while (!word.compare_exchange_weak(seen, seen | has_job, seq_cst, relaxed));  // B1
  if ((seen & parked) != 0) word.notify_one();  // this and the section may have ended
  return true;
}

void blocked_thread::post(job& j) noexcept {
  if (!take(j)) executor_ref(thread_pool::shared()).post(j);
}

void blocked_thread::go_away() noexcept {
  if ((word_.fetch_or(away, acquire) & has_job) == 0) return;  // B1
  job& j = *job_;
  word_.fetch_and(~has_job, relaxed);
  executor_ref(thread_pool::shared()).post(j);
}

void blocked_thread::go_away_all() noexcept {
  for (blocked_thread* t = here().in_line; t != nullptr; t = t->outer_) t->go_away();
}

void blocked_thread::wait() noexcept {
  for (;;) {
    if ((word_.load(relaxed) & away) != 0) word_.fetch_and(~away, relaxed);
    if ((await_word() & has_job) == 0) return;
    run_job();
  }
}

void blocked_thread::need_not_wait() noexcept {
  if ((word_.load(relaxed) & has_job) != 0) run_job();  // posted with its stand-in pinned: A1
}

void blocked_thread::run_job() noexcept {
  job& j = *job_;
  word_.fetch_and(done, relaxed);  // whoever posts again comes after the job
  const on_top others_may_follow;
  const chain_scope nothing_held{nullptr};
  const in_line until_it_waits_again(*this);
  trampoline before_it(true);
  job_access::work_here(j);
}

// Until the word says something.
std::uint32_t blocked_thread::await_word() noexcept {
  const std::uint32_t seen = spin();
  return seen != 0 ? seen : park();
}

std::uint32_t blocked_thread::spin() noexcept {
  const steady_clock::time_point begun = steady_clock::now();
  do {
    for (int i = 0; i != looks_between_clocks; ++i) {
      if (const std::uint32_t seen = word_.load(acquire); seen != 0) return seen;  // B1
      pause();
    }
  } while (steady_clock::now() - begun < most_spinning);
  return 0;
}

std::uint32_t blocked_thread::park() noexcept {
  std::uint32_t nothing = 0;
  word_.compare_exchange_strong(nothing, parked, relaxed, relaxed);  // or it says something
  for (;;) {
    if (const std::uint32_t seen = word_.load(acquire); seen != parked) return seen;  // B1
    word_.wait(parked, relaxed);
  }
}

}  // namespace turnstile::detail
