// thread_pool.cpp - workers that run their own forks and jobs, then those from outside, then each
// other's.

#include "executor/even_out.hpp"
#include "executor/hand_back.hpp"
#include "executor/idle_look.hpp"
#include "executor/injector.hpp"
#include "executor/mailbox.hpp"
#include "executor/pace.hpp"
#include "executor/run_queue.hpp"
#include "executor/sleepers.hpp"
#include "executor/timer_thread.hpp"
#include "executor/worker.hpp"

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/fork_job.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/detail/trampoline.hpp>
#include <turnstile/thread_pool.hpp>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace turnstile {
namespace detail {

namespace {

// Jobs from outside are looked at after so many of a worker's own, so that they cannot starve; the
// number is tokio's. Half-way between, those of its own that are no forks; and after so many of
// these looks the oldest fork, which is the largest one, and would come last.
constexpr std::uint32_t own_jobs_at_a_stretch = limit(61u, 3u);
constexpr std::uint32_t stretches_to_the_oldest = limit(61u, 2u);

// How often a worker looks for work, once a microsecond, before it lies down: about half of what it
// takes to wake it.
constexpr int looks_before_sleep = limit(20, 1);

using namespace std::chrono_literals;

constexpr std::chrono::microseconds shortest_nap = 50us;
constexpr std::chrono::microseconds longest_nap = 200us;
constexpr std::uint32_t longest_round = 16;  // of those who nap in turn

// By a worker that has nothing to do. False: it has mail, or something has come from outside.
bool spin_for(const worker& w, const injector& outside, std::chrono::nanoseconds time) noexcept {
  const auto end = steady_clock::now() + time;
  do {
    pause();
    if (w.mail.has_any() || outside.size() != 0) return false;
  } while (steady_clock::now() < end);
  return true;
}

// How long a worker that has nothing to do looks at devices, before it leaves that to their own
// thread, and how much of that without letting others have the core.
constexpr std::chrono::microseconds longest_look = 200us;
constexpr std::chrono::microseconds longest_spin = 50us;

idle_look devices() noexcept {
  const auto look = look_at_devices.load(relaxed);
  return look == nullptr ? idle_look::nothing : look();
}

// Would a thief help? See pace.hpp. Who has not looked for long has to wait for an answer, and does
// not get one if it has something better to do meanwhile.
bool worth_helping(worker& thief, const worker& w, const injector& outside) noexcept {
  const auto now = steady_clock::now();
  if (w.tries(now)) return false;
  pace& seen = thief.others[w.index].pace_there;
  if (seen.is_outdated(now)) {
    const work_done before = w.work();
    const auto begun = steady_clock::now();
    if (!spin_for(thief, outside, 5us)) return false;
    const bool stands_still = w.work().requests == before.requests;
    if (!stands_still && !spin_for(thief, outside, pace::shortest_look)) return false;
    seen.begin(before, begun);
    if (stands_still) return true;
  }
  return !seen.look(w.work(), steady_clock::now());
}

}  // namespace

class pool_core {
 public:
  pool_core(unsigned threads, executor_ref self) : self_(self), workers_(threads) {
    for (unsigned i = 0; i != threads; ++i) {
      workers_[i].pool = this;
      workers_[i].index = i;
      workers_[i].random = i * 2654435769u + 1;
      workers_[i].others.resize(threads);
    }
    start();
  }

  ~pool_core() {
    if (is_this_thread_ours()) {
      contract_break("", "a thread_pool is destroyed on one of its own threads", {});
    }
    stop();
    // Posted by destructors of what is thread_local, when nobody here ran jobs any more.
    while (job* const j = injector_.take(1).first) j->run();
  }

  unsigned size() const noexcept { return static_cast<unsigned>(workers_.size()); }

  void post(job* first, job* last, std::size_t n) noexcept {
    if (is_this_thread_ours()) {
      here().as_worker->keep(first, last, n, sleepers_);
      sleepers_.wake_one();
    } else if (!injector_.push(first, last, n, sleepers_)) {
      post_late(first, last, n);
    }
  }

  bool is_this_thread_ours() const noexcept {
    const worker* const w = here().as_worker;
    return w != nullptr && w->pool == this;
  }

  // By the process's end, of the shared pool, which is never destroyed: what others post from now
  // on is done by threads that nobody joins, however much that is.
  void end() noexcept {
    before_blocking();  // what comes here by that is not late
    injector_.close();
    stop();
  }

  // By the worker itself.
  void fork(worker& w, job* first, job* last, std::size_t n) noexcept {
    const std::size_t rest = n - w.forks.push(first, n);
    if (rest != 0) w.keep(first, last, rest, sleepers_);
    sleepers_.wake_one();
  }

  bool may_try(steady_clock::time_point now, steady_clock::time_point end) noexcept {
    return turn_to_try_.take(now, end);
  }

  void hand_back(worker& to, job* first, job* last) noexcept {
    to.mail.push(first, last);
    sleepers_.wake_one();
  }

 private:
  // Here, if there is no memory or no thread for it.
  static void post_late(job* first, job* last, std::size_t n) noexcept {
    try {
      static thread_pool& late = *new thread_pool(2);
      late.post(first, last, n);
    } catch (...) {
      while (n-- != 0) {
        job& j = *std::exchange(first, first->next);
        j.run();  // j may be gone
      }
    }
  }

  void start() {
    try {
      for (worker& w : workers_) {
        w.runs = thread([this, &w] { work(w); });
        started_.fetch_add(1, relaxed);
      }
    } catch (...) {
      stop();
      throw;
    }
  }

  void stop() noexcept {
    before_blocking();  // first: what comes here by that has run when this is over
    stopping_.store(true, seq_cst);
    sleepers_.wake_one();
    for (worker& w : workers_) {
      if (w.runs.joinable()) w.runs.join();
    }
  }

  void work(worker& w) noexcept {
    here().pool = self_;
    here().as_worker = &w;
    here().crowded = []() noexcept {
      worker& me = *here().as_worker;
      return me.pool->ends_turn(me);
    };
    while (job* const j = next_job(w)) {
      if (w.turn.watches()) {
        w.turn.begin(w.tick.load(relaxed), here().bodies(), steady_clock::now());
      }
      run_alone(*j);  // j may be gone
      w.note_work(here());
    }
    here().pool = {};
    here().as_worker = nullptr;
    here().crowded = nullptr;
  }

  // As job::run, with nothing around it to be put back.
  static void run_alone(job& j) noexcept {
    thread_state& t = here();
    t.runs_on = job_access::home(j);
    begin_turn();
    {
      trampoline base;
      job_access::work_here(j);  // j may be gone
    }
    drop(std::exchange(t.chain, nullptr));
    t.runs_on = {};
  }

  job* next_job(worker& w) noexcept {
    if (job* const j = job_for_fairness(w)) return j;
    if (job* const j = w.forks.take()) return j;
    if (job* const j = own_job(w)) return j;
    if (job* const j = from_outside(w)) return j;
    return search(w);
  }

  // What the others would keep waiting, once in a stretch of jobs.
  job* job_for_fairness(worker& w) noexcept {
    const std::uint32_t tick = w.tick.load(relaxed) + 1;
    w.tick.store(tick, relaxed);
    static_cast<void>(looks_at_others(w, w.bodies.load(relaxed)));
    const std::uint32_t at = tick % own_jobs_at_a_stretch;
    if (at == 0) {
      static_cast<void>(devices());  // what they have done is not held up by our own jobs
      return from_outside(w);
    }
    if (at != own_jobs_at_a_stretch / 2 || !w.forks.has_any()) return nullptr;
    const bool oldest = tick / own_jobs_at_a_stretch % stretches_to_the_oldest == 0;
    return oldest ? w.forks.steal() : own_job(w);
  }

  // Asked at the end of each turn of a coroutine that need not suspend. False: nobody else waits
  // here, and the next turn has begun.
  bool ends_turn(worker& w) noexcept {
    thread_state& t = here();
    if (!w.has_backlog() && injector_.size() == 0 && !gets_others_jobs(w)) {
      t.begin_turn(
          w.turns_alone.begin(w.tick.load(relaxed), t.bodies(), steady_clock::now(), t.turn));
      return false;
    }
    if (w.turn.is_measured(w.tick.load(relaxed))) {
      t.turn = w.turn.end(t.bodies(), steady_clock::now());
    } else {
      w.turn.end_unmeasured();
    }
    return true;
  }

  bool gets_others_jobs(worker& w) noexcept {
    const thread_state& t = here();
    return may_go_behind_others(t) && looks_at_others(w, t.bodies()) && w.has_backlog();
  }

  // Now and then: by how many bodies have been run.
  bool looks_at_others(worker& w, std::uint32_t bodies) noexcept {
    if (!w.looks.comes(w.tick.load(relaxed), bodies)) return false;
    w.turn.watch();
    gather(w, bodies);
    even_out(w, workers_, w.looks.last(), sleepers_);
    return true;
  }

  std::uint32_t bodies_of_all() const noexcept {
    std::uint32_t sum = 0;
    for (const worker& each : workers_) sum += each.bodies.load(relaxed);
    return sum;
  }

  // Goes on with this thread's trial to be brisk as long as the pool runs more bodies so.
  void gather(worker& w, std::uint32_t bodies) noexcept {
    thread_state& t = here();
    const auto now = w.looks.last();
    const bool tries = t.tries_until_ns > now.time_since_epoch().count();
    switch (w.gathers.look({tries, w.tick.load(relaxed), bodies, now},
                           [this] { return bodies_of_all(); })) {
      case gathering::verdict::nothing: return;
      case gathering::verdict::go_on:
        this_pace.try_until(now + pace::trial);
        turn_to_try_.keep(now + pace::trial);
        break;
      case gathering::verdict::no_more: this_pace.give_up(now); break;
      case gathering::verdict::is_spent: this_pace.try_soon(now); break;
    }
    t.tries_until_ns = this_pace.trial_ends().time_since_epoch().count();
    w.note_work(t);
  }

  // Other than a fork. One piece of mail that is kept runs now, or something that all could see
  // before. Inlined, as what is rare in it is not.
  TURNSTILE_INLINE job* own_job(worker& w) noexcept {
    if (w.mail.has_any()) keep_mail(w, w.mail.take());
    if (job* const j = w.queue.take()) return j;
    return from_overflow(w, w);
  }

  // Moving jobs hides them for a moment, and who looked just then has gone to sleep. So whoever
  // leaves some behind wakes somebody, as if they were new.
  [[gnu::noinline]] void keep_mail(worker& w, const mailbox::chain& mail) noexcept {
    if (mail.n == 0) return;
    w.keep(mail.first, mail.last, mail.n, sleepers_);
    if (mail.n > 1) sleepers_.wake_one();
  }

  // The first of some jobs that were taken for `w`, whose queue has room for the others.
  job* first_of(worker& w, const injector::chain& taken) noexcept {
    if (taken.n > 1) {
      w.queue.append(taken.first->next, static_cast<std::uint32_t>(taken.n - 1));
      sleepers_.wake_one();
    }
    return taken.first;
  }

  [[gnu::noinline]] job* from_overflow(worker& w, worker& from) noexcept {
    const std::size_t half = from.overflow.size() / 2 + 1;
    return first_of(w, from.overflow.take(std::min<std::size_t>(half, run_queue::capacity / 2)));
  }

  // The oldest job from outside; a fair share of the others goes into the worker's own queue, but
  // not ahead of its own that wait for room there.
  job* from_outside(worker& w) noexcept {
    const bool full = w.overflow.size() != 0;
    const std::size_t share = full ? 1 : injector_.size() / workers_.size() + 1;
    const auto room = std::min<std::uint32_t>(w.queue.room(), run_queue::capacity / 2);
    return first_of(w, injector_.take(std::min<std::size_t>(share, room + 1)));
  }

  // By a worker without jobs.
  job* steal_from(worker& w, worker& victim) noexcept {
    if (job* const j = victim.forks.steal()) return j;
    if (job* const j = w.queue.steal_from(victim.queue)) return j;
    if (job* const j = from_overflow(w, victim)) return j;
    keep_mail(w, victim.mail.take());
    return own_job(w);
  }

  // Takes from others; `busy` if there would be something that is better left where it is.
  job* steal(worker& w, bool& busy) noexcept {
    w.random ^= w.random << 13;
    w.random ^= w.random >> 17;
    w.random ^= w.random << 5;
    const std::size_t n = workers_.size();
    for (std::size_t i = 0, at = w.random % n; i != n; ++i, at = at + 1 == n ? 0 : at + 1) {
      worker& victim = workers_[at];
      if (at == w.index || !victim.has_backlog()) continue;
      if (!worth_helping(w, victim, injector_)) {
        if (w.mail.has_any()) return nullptr;  // that comes first
        busy = true;
        if (injector_.size() != 0) break;
      } else if (job* const j = steal_from(w, victim)) {
        return j;
      }
    }
    return from_outside(w);
  }

  // Null: the pool stops and there is nothing left to do.
  job* search(worker& w) noexcept {
    end_trial(w);
    sleepers_.begin_search();
    for (;;) {
      if (job* const j = look_round(w)) {
        // A post that saw us searching woke nobody.
        if (sleepers_.found() && anything_to_do()) sleepers_.wake_one();
        return j;
      }
      sleepers_.lie_down();
      const bool stopping = stopping_.load(seq_cst);  // before the look: nobody else posts any more
      if (anything_to_do()) {
        sleepers_.get_up();
      } else if (stopping && sleepers_.all_lie(started_.load(relaxed))) {
        sleepers_.end();  // nobody runs a job that could post another one
      } else {
        sleepers_.sleep();
      }
      if (sleepers_.has_ended()) return nullptr;
    }
  }

  // Who has nothing left to do may be handed something, and lie down beside it: then another one is
  // woken, and helps.
  static void end_trial(worker& w) noexcept {
    here().tries_until_ns = 0;
    w.note_work(here());
  }

  job* look_round(worker& w) noexcept {
    auto nap = shortest_nap;
    steady_clock::time_point begun{};  // to look at devices
    for (int look = 0; look != looks_before_sleep; ++look) {
      bool busy = false;
      if (job* const j = own_job(w)) return j;
      if (job* const j = steal(w, busy)) return j;
      if (w.mail.has_any()) continue;  // it has come since
      if (waits_for_devices(begun)) {
        look = 0;
      } else if (busy) {
        // Look again soon, in case that worker's jobs grow long, but leave it and the core alone.
        take_nap(nap);
        nap = std::min(nap * 2, longest_nap);
        look = 0;
      } else {
        spin_for(w, injector_, 1us);
      }
    }
    return own_job(w);  // which may have come at the last look
  }

  // Where threads are more than cores, waking up takes the core from somebody: who naps takes turns
  // to look.
  void take_nap(std::chrono::microseconds nap) noexcept {
    const std::uint32_t napping = napping_.fetch_add(1, relaxed) + 1;
    sleep_for(has_too_few_cores_ ? nap * std::min(napping, longest_round) : nap);
    napping_.fetch_sub(1, relaxed);
  }

  // True: look again soon. Found what it waited for, it has as long again.
  static bool waits_for_devices(steady_clock::time_point& begun) noexcept {
    const idle_look seen = devices();
    if (seen == idle_look::nothing) return false;
    const auto now = steady_clock::now();
    if (seen == idle_look::found || begun == steady_clock::time_point{}) begun = now;
    if (now - begun > longest_look) return false;
    if (now - begun > longest_spin) {
      std::this_thread::yield();
    } else {
      pause();
    }
    return true;
  }

  bool anything_to_do() const noexcept {
    return !injector_.looks_empty() ||
           std::ranges::any_of(workers_, [](const worker& w) { return !w.looks_empty(); });
  }

  const executor_ref self_;
  std::vector<worker> workers_;
  injector injector_;
  sleepers sleepers_;
  turn_to_try turn_to_try_;
  const bool has_too_few_cores_ = size() > thread::hardware_concurrency();
  atomic<std::uint32_t> napping_{0};
  atomic<std::uint32_t> started_{0};  // relaxed: read by who has seen stopping_, which comes after
  atomic<bool> stopping_{false};
};

void post_forks(executor_ref on, job* first, job* last, std::size_t n) noexcept {
  if (worker* const w = home_worker()) {
    w->pool->fork(*w, first, last, n);  // they may be gone
  } else {
    on.post(first, last, n);  // they may be gone
  }
}

void post(executor_ref to, job& j, queued where) noexcept {
  if (where == queued::last || to != here().runs_on) return to.post(j);
  job_access::set_home(j, to);
  post_forks(to, &j, &j, 1);
}

bool may_try_here(steady_clock::time_point now, steady_clock::time_point end) noexcept {
  worker* const w = here().as_worker;
  return w != nullptr && w->pool->may_try(now, end);
}

void note_work_here() noexcept {
  if (worker* const w = here().as_worker) w->note_work(here());
}

void hand_back(worker& to, job* first, job* last) noexcept { to.pool->hand_back(to, first, last); }

}  // namespace detail

thread_pool::thread_pool(unsigned threads) {
  if (threads == 0) throw std::invalid_argument("turnstile: a thread_pool needs at least 1 thread");
  core_ = new detail::pool_core(threads, *this);
}

thread_pool::~thread_pool() { delete core_; }

unsigned thread_pool::size() const noexcept { return core_->size(); }

void thread_pool::post(job& j) noexcept { core_->post(&j, &j, 1); }

void thread_pool::post(job* first, job* last, std::size_t n) noexcept {
  core_->post(first, last, n);
}

// Never destroyed: destructors of static objects that were made before it may still post to it, or
// stop what comes back by it.
thread_pool& thread_pool::shared() {
  struct at_exit {
    // If a thread of the library's ends the process, it does not wait for the others; a child of
    // fork() has none to wait for.
    ~at_exit() {
      if (::getpid() != process || detail::here().as_worker != nullptr) return;
      if (detail::end_timer_thread()) pool.core_->end();
    }
    thread_pool& pool;
    const pid_t process = ::getpid();
  };
  static thread_pool& it = *new thread_pool(std::max(2u, detail::thread::hardware_concurrency()));
  static const at_exit ends{it};
  return it;
}

}  // namespace turnstile
