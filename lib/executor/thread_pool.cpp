// thread_pool.cpp - workers that run their own jobs, then those from outside, then each other's.

#include "executor/injector.hpp"
#include "executor/run_queue.hpp"
#include "executor/sleepers.hpp"

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/thread_pool.hpp>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace turnstile {
namespace detail {

namespace {

struct worker {
  pool_core* pool = nullptr;
  std::uint32_t index = 0;
  std::uint32_t random = 0;  // xorshift state: which victim to try first
  std::uint32_t tick = 0;
  run_queue queue;
  // Bodies of sections run here, as of the end of the last job. Relaxed: thieves judge by it.
  atomic<std::uint32_t> executions{0};
  std::thread thread;
};

thread_local worker* this_worker = nullptr;

// Jobs from outside are looked at after so many of a worker's own, so that they cannot starve;
// the number is tokio's.
constexpr std::uint32_t own_jobs_at_a_stretch = 61;

// How often a worker looks for work, once a microsecond, before it lies down: about half of what it
// takes to wake it.
constexpr int looks_before_sleep = 20;

using std::chrono::steady_clock;
using namespace std::chrono_literals;

void spin_for(std::chrono::nanoseconds time) noexcept {
  const auto end = steady_clock::now() + time;
  do {
    pause();
  } while (steady_clock::now() < end);
}

// Would a thief help? A worker whose jobs are little more than bodies of sections would only be
// contended with: each stolen coroutine would bring the section's lines over and lose its turn there,
// at several times the cost of running it where it is. So such a worker is left alone as long as it
// runs a body every 150 ns (bench/counter against bench/think; lib/executor/README.md, Decisions).
bool worth_helping(const worker& w) noexcept {
  const std::uint32_t before = w.executions.load(relaxed);
  spin_for(5us);
  if (w.executions.load(relaxed) == before) return true;
  constexpr auto observation = 20us;  // long enough for several turns of 32 bodies
  spin_for(observation);
  constexpr std::uint32_t most = observation / 150ns;
  return w.executions.load(relaxed) - before < most;
}

}  // namespace

class pool_core {
 public:
  explicit pool_core(unsigned threads) : workers_(threads) {
    for (unsigned i = 0; i != threads; ++i) {
      workers_[i].pool = this;
      workers_[i].index = i;
      workers_[i].random = i * 2654435769u + 1;
    }
    start();
  }

  ~pool_core() {
    if (this_worker != nullptr && this_worker->pool == this) {
      contract_break("", "a thread_pool is destroyed on one of its own threads", {});
    }
    stop();
  }

  unsigned size() const noexcept { return static_cast<unsigned>(workers_.size()); }

  void post(job* first, job* last, std::size_t n) noexcept {
    worker* const w = this_worker;
    if (w != nullptr && w->pool == this && n <= w->queue.room()) {
      w->queue.append(first, static_cast<std::uint32_t>(n));
      sleepers_.wake_one();
    } else {
      injector_.push(first, last, n, sleepers_);
    }
  }

 private:
  void start() {
    try {
      for (worker& w : workers_) {
        w.thread = std::thread([this, &w] { work(w); });
        started_.fetch_add(1, seq_cst);
      }
    } catch (...) {
      stop();
      throw;
    }
  }

  void stop() noexcept {
    stopping_.store(true, seq_cst);
    sleepers_.wake_all();
    for (worker& w : workers_) {
      if (w.thread.joinable()) w.thread.join();
    }
  }

  void work(worker& w) noexcept {
    this_worker = &w;
    here().crowded = []() noexcept {
      return this_worker->queue.has_backlog() || this_worker->pool->injector_.size() != 0;
    };
    while (job* const j = next_job(w)) {
      j->run();  // j may be gone
      w.executions.store(begin_turn(), relaxed);
    }
    this_worker = nullptr;
  }

  job* next_job(worker& w) noexcept {
    if (++w.tick % own_jobs_at_a_stretch == 0) {
      if (job* const j = from_outside(w)) return j;
    }
    if (job* const j = w.queue.take()) return j;
    if (job* const j = from_outside(w)) return j;
    return search(w);
  }

  // The oldest job from outside; a fair share of the others goes into the worker's own queue.
  job* from_outside(worker& w) noexcept {
    const std::size_t share = injector_.size() / workers_.size() + 1;
    const auto room = std::min<std::uint32_t>(w.queue.room(), run_queue::capacity / 2);
    const injector::chain taken = injector_.take(std::min<std::size_t>(share, room + 1));
    if (taken.n > 1) w.queue.append(taken.first->next, static_cast<std::uint32_t>(taken.n - 1));
    return taken.first;
  }

  // Takes from others; `busy` if there would be something that is better left where it is.
  job* steal(worker& w, bool& busy) noexcept {
    w.random ^= w.random << 13;
    w.random ^= w.random >> 17;
    w.random ^= w.random << 5;
    const std::size_t n = workers_.size();
    for (std::size_t i = 0, at = w.random % n; i != n; ++i, at = at + 1 == n ? 0 : at + 1) {
      worker& victim = workers_[at];
      if (at == w.index || !victim.queue.has_backlog()) continue;
      if (!worth_helping(victim)) {
        busy = true;
      } else if (job* const j = w.queue.steal_from(victim.queue)) {
        return j;
      }
    }
    return from_outside(w);
  }

  // Null: the pool stops and there is nothing left to do.
  job* search(worker& w) noexcept {
    sleepers_.begin_search();
    for (;;) {
      if (job* const j = look_round(w)) {
        // A post that saw us searching woke nobody.
        if (sleepers_.found() && anything_to_do()) sleepers_.wake_one();
        return j;
      }
      const bool all_down = sleepers_.lie_down() == started_.load(seq_cst);
      if (anything_to_do()) {
        sleepers_.get_up();
      } else if (all_down && stopping_.load(seq_cst)) {
        // Nobody runs a job that could post another one.
        done_.store(true, seq_cst);
        sleepers_.wake_all();
      } else {
        sleepers_.sleep();
      }
      if (done_.load(seq_cst)) return nullptr;
    }
  }

  job* look_round(worker& w) noexcept {
    for (int look = 0; look != looks_before_sleep; ++look) {
      bool busy = false;
      if (job* const j = steal(w, busy)) return j;
      if (busy) {
        // Look again soon, in case that worker's jobs grow long, but leave it and the core alone.
        std::this_thread::sleep_for(50us);
        look = 0;
      } else {
        spin_for(1us);
      }
    }
    return nullptr;
  }

  bool anything_to_do() const noexcept {
    return !injector_.looks_empty() ||
           std::ranges::any_of(workers_, [](const worker& w) { return !w.queue.looks_empty(); });
  }

  std::vector<worker> workers_;
  injector injector_;
  sleepers sleepers_;
  atomic<std::uint32_t> started_{0};
  atomic<bool> stopping_{false};
  atomic<bool> done_{false};
};

}  // namespace detail

thread_pool::thread_pool(unsigned threads) {
  if (threads == 0) throw std::invalid_argument("turnstile: a thread_pool needs at least 1 thread");
  core_ = std::make_unique<detail::pool_core>(threads);
}

thread_pool::~thread_pool() = default;

unsigned thread_pool::size() const noexcept { return core_->size(); }

void thread_pool::post(job& j) noexcept { core_->post(&j, &j, 1); }

void thread_pool::post(job* first, job* last, std::size_t n) noexcept { core_->post(first, last, n); }

thread_pool& thread_pool::shared() {
  static thread_pool pool{std::max(2u, std::thread::hardware_concurrency())};
  return pool;
}

}  // namespace turnstile
