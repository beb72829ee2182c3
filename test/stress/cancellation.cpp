// cancellation.cpp - storms of withdrawals: many wait in one section that a guard holds, a random
// half of them is withdrawn from several threads, and the guard is unlocked amid that.
//
// Each request ends exactly once, by running or by going; those that run keep their order, one at a
// time; and the section is free at the end. What bodies write is plain variables, so that the
// thread sanitizer sees two at once.
//
// TURNSTILE_STRESS_SCALE=250 makes the storm of ten thousand 1000 rounds long.

#include "stress/crew.hpp"
#include "stress/dice.hpp"
#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <doctest/doctest.h>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <stop_token>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

using namespace turnstile;
using stress::dice;

namespace {

constexpr int withdrawers = 8;

// What became of each request. Requests of one asker are in the order in which they were accepted.
class ledger {
 public:
  ledger(std::size_t requests, std::size_t askers)
      : each_((requests + askers - 1) / askers), ran_(requests), gone_(requests), last_(askers) {}

  std::size_t size() const noexcept { return ran_.size(); }
  std::size_t asker_of(std::size_t i) const noexcept { return i / each_; }
  std::span<const std::uint8_t> ran() const noexcept { return ran_; }

  // In bodies: plain, one after the other.
  void enter(std::size_t i) noexcept {
    if (std::exchange(inside_, true)) ++wrong_;
    ++ran_[i];
    std::size_t& last = last_[asker_of(i)];
    if (i + 1 <= last) ++wrong_;
    last = i + 1;
  }
  void leave() noexcept { inside_ = false; }
  void visit(std::size_t i) noexcept {
    enter(i);
    leave();
  }

  void came_back() noexcept { back_.fetch_add(1, std::memory_order_relaxed); }
  void went(std::size_t i) noexcept {
    gone_[i].fetch_add(1, std::memory_order_relaxed);
    went_.fetch_add(1, std::memory_order_relaxed);
  }
  std::size_t gone() const noexcept { return went_.load(std::memory_order_relaxed); }
  std::size_t back() const noexcept { return back_.load(std::memory_order_relaxed); }

  // Once all have ended. `may_go(i)`: it was asked to.
  template <class F>
  void check(F may_go) const {
    std::size_t not_once = 0;
    std::size_t for_no_reason = 0;
    for (std::size_t i = 0; i != size(); ++i) {
      const int gone = gone_[i].load();
      if (ran_[i] + gone != 1) ++not_once;
      if (gone != 0 && !may_go(i)) ++for_no_reason;
    }
    REQUIRE(not_once == 0);
    REQUIRE(for_no_reason == 0);
    REQUIRE(wrong_ == 0);
    REQUIRE(back() + gone() == size());
  }

 private:
  std::size_t each_;
  std::vector<std::uint8_t> ran_;
  std::vector<std::atomic<std::uint8_t>> gone_;
  std::vector<std::size_t> last_;  // of each asker: the latest that ran, from 1
  bool inside_ = false;
  int wrong_ = 0;
  std::atomic<std::size_t> went_{0};
  std::atomic<std::size_t> back_{0};
};

// By nobody in particular, also of a section that is bound.
section_guard hold(critical_section& cs) {
  section_guard guard = sync_wait(cs.lock());
  guard.detach();
  return guard;
}

task<bool> is_given(critical_section& cs) {
  co_return cs.try_execute([] {});
}

// The section is free, and has counted everything.
void check_free(critical_section& cs, std::size_t ran, std::size_t gone, executor_ref on = {}) {
  const section_statistics s = cs.statistics();
  REQUIRE(s.waiters == 0);
  REQUIRE_FALSE(s.held);
  REQUIRE(s.executions == ran);
  REQUIRE(s.withdrawn == gone);
  REQUIRE((on ? sync_wait(schedule_on(on, is_given(cs))) : sync_wait(is_given(cs))));
}

// Which requests are asked to go, in which order, and when the guard is unlocked.
class plan {
 public:
  plan(dice& d, std::size_t requests) : asked_(requests) {
    for (std::size_t i = 0; i != requests; ++i) {
      if (d.one_in(2)) continue;
      asked_[i] = true;
      order_.push_back(i);
    }
    for (std::size_t i = order_.size(); i > 1; --i)
      std::swap(order_[i - 1], order_[d.below(static_cast<unsigned>(i))]);
    unlock_after_ = d.below(static_cast<unsigned>(order_.size()) + 1);
  }

  bool asks(std::size_t i) const { return asked_[i]; }
  std::size_t count() const { return order_.size(); }

  // From several threads at once, and the guard from one more.
  template <class F>
  void carry_out(F withdraw, section_guard guard) {
    carry_out(std::move(withdraw), [&guard] { guard.unlock(); });
  }
  template <class F, class G>
    requires std::invocable<G>
  void carry_out(F withdraw, G unlock) {
    std::atomic<std::size_t> next{0};
    stress::together(withdrawers + 1, [&](int t) {
      if (t == withdrawers) {
        while (next < unlock_after_) std::this_thread::yield();
        return unlock();
      }
      for (std::size_t n = 0; (n = next.fetch_add(1)) < order_.size();) withdraw(order_[n]);
    });
  }

 private:
  std::vector<bool> asked_;
  std::vector<std::size_t> order_;
  std::size_t unlock_after_ = 0;
};

// Tokens of so many sources, each shared by as many requests.
class tokens {
 public:
  tokens(std::size_t requests, std::size_t sources) : sources_(sources), of_(requests) {
    for (std::size_t i = 0; i != requests; ++i) of_[i] = sources_[i % sources].get_token();
  }

  const std::stop_token& of(std::size_t i) const { return of_[i]; }
  void stop(std::size_t source) { sources_[source].request_stop(); }

 private:
  std::vector<std::stop_source> sources_;
  std::vector<std::stop_token> of_;
};

// Awaits what `ask` gives, and writes down how that ended.
template <class A>
task<> wait_for(ledger& l, std::size_t i, A asked) {
  try {
    co_await std::move(asked);
    l.came_back();
  } catch (const operation_cancelled&) {
    l.went(i);
  } catch (const deadline_exceeded&) {
    l.went(i);
  }
}

task<> ask_plain(ledger& l, critical_section& cs, std::size_t i, execute_options o) {
  return wait_for(l, i, cs.execute([&l, i] { l.visit(i); }, o));
}

task<> hold_and_leave(ledger& l, critical_section& cs, std::size_t i, execute_options o) {
  const auto guard = co_await cs.lock(o);
  l.visit(i);
}

task<> await_handle(execution_handle<void> handle) { co_await handle; }

// Any kind of request that ends with its body.
task<> ask_somehow(dice& d, ledger& l, critical_section& cs, std::size_t i, execute_options o) {
  const auto body = [&l, i] { l.visit(i); };
  const auto waits = [&l, i]() -> task<> {
    l.enter(i);
    co_await schedule_on(thread_pool::shared(), yield());
    l.leave();
  };
  switch (d.below(8)) {
    case 0: return wait_for(l, i, cs.execute(waits, o));
    case 1: return wait_for(l, i, await_handle(cs.submit(body, o)));
    case 2: return wait_for(l, i, cs.execute_when([] { return true; }, body, o));
    default: return wait_for(l, i, cs.execute(body, o));
  }
}

// Each asker spawns its requests in order. Without an executor spawn comes back when a request is
// in line.
template <class F>
void ask_all(const ledger& l, std::size_t askers, F spawn) {
  const std::size_t each = (l.size() + askers - 1) / askers;
  stress::together(static_cast<int>(askers), [&](int t) {
    const std::size_t from = static_cast<std::size_t>(t) * each;
    for (std::size_t i = from; i < std::min(from + each, l.size()); ++i) spawn(i);
  });
}

// The others are outside.
std::size_t most_in_line(const section_options& options, std::size_t requests) {
  return options.max_waiters == 0 ? requests : std::min(requests, options.max_waiters);
}

// The pattern of a storm on one section with a token for each request. `ask` gives a task.
// True: some were withdrawn, and some ran.
template <class Ask>
bool storm(dice& d, std::size_t requests, section_options options, Ask ask) {
  const std::size_t askers = 1 + d.below(4);
  ledger l(requests, askers);
  tokens t(requests, requests);
  plan p(d, requests);
  critical_section cs(options);
  async_scope scope;
  section_guard guard = hold(cs);
  ask_all(l, askers,
          [&](std::size_t i) { scope.spawn(ask(l, cs, i, execute_options{.stop = t.of(i)})); });
  REQUIRE(cs.statistics().waiters == most_in_line(options, requests));
  p.carry_out([&t](std::size_t i) { t.stop(i); }, std::move(guard));
  sync_wait(scope.join());
  l.check([&p](std::size_t i) { return p.asks(i); });
  check_free(cs, l.back() + 1, l.gone(), options.executor);
  return l.gone() != 0 && l.back() != 0;
}

// Counts what is reported while it lives.
class reports {
 public:
  reports() {
    count() = 0;
    on_unobserved_error(&note);
  }
  ~reports() { on_unobserved_error(nullptr); }
  reports(const reports&) = delete;
  reports& operator=(const reports&) = delete;

  static std::atomic<std::size_t>& count() {
    static std::atomic<std::size_t> n{0};
    return n;
  }

 private:
  static void note(std::exception_ptr, std::string_view, std::source_location) { ++count(); }
};

// Frames that nobody gives back before the end of a round. Destroyed ones are full of one byte, and
// have to stay so.
class graveyard {
 public:
  ~graveyard() {
    for (const frame& f : frames_) ::operator delete(f.at);
  }

  // clang 19 -O2 would copy the lock, when it has ended, into the frame, and the address sanitizer
  // sees that.
  [[gnu::noinline]] void* make(std::size_t size) {
    void* const at = ::operator new(size);
    const std::lock_guard lock(mutex_);
    frames_.push_back({at, size});
    return at;
  }
  void bury(void* at, std::size_t size) noexcept {
    std::memset(at, poison, size);
    buried_.fetch_add(1);
  }

  void check() {
    while (buried_ != frames_.size()) std::this_thread::yield();
    std::size_t touched = 0;
    std::vector<unsigned char> untouched;
    for (const frame& f : frames_) {
      if (untouched.size() < f.size) untouched.assign(f.size, poison);
      if (std::memcmp(f.at, untouched.data(), f.size) != 0) ++touched;
    }
    REQUIRE(touched == 0);
  }

  static inline graveyard* used = nullptr;

 private:
  static constexpr unsigned char poison = 0xDB;
  struct frame {
    void* at;
    std::size_t size;
  };

  std::mutex mutex_;
  std::vector<frame> frames_;
  std::atomic<std::size_t> buried_{0};
};

// A coroutine that nobody waits for, with its frame in the graveyard.
struct mortal {
  struct promise_type {
    static void* operator new(std::size_t size) { return graveyard::used->make(size); }
    static void operator delete(void* at, std::size_t size) { graveyard::used->bury(at, size); }

    mortal get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };
};

mortal ask_and_die(ledger& l, critical_section& cs, std::size_t i, const std::stop_token& token,
                   bool waits) {
  const auto body = [&l, i] { l.visit(i); };
  const auto task_body = [&l, i]() -> task<> {
    l.enter(i);
    co_await yield();
    l.leave();
  };
  try {
    if (waits) {
      co_await cs.execute(task_body, {.stop = token});
    } else {
      co_await cs.execute(body, {.stop = token});
    }
    l.came_back();
  } catch (const operation_cancelled&) {
    l.went(i);
  }
}

void storm_of_frames(dice& d, std::size_t requests) {
  graveyard frames;
  graveyard::used = &frames;
  ledger l(requests, 1);
  tokens t(requests, requests);
  plan p(d, requests);
  critical_section cs;
  section_guard guard = hold(cs);
  for (std::size_t i = 0; i != requests; ++i) ask_and_die(l, cs, i, t.of(i), d.one_in(4));
  p.carry_out([&t](std::size_t i) { t.stop(i); }, std::move(guard));
  frames.check();
  l.check([&p](std::size_t i) { return p.asks(i); });
  check_free(cs, l.back() + 1, l.gone());
}

// Whoever comes back last ends the section, while others may still be serving it.
struct last_one_out {
  std::unique_ptr<critical_section> cs;
  std::atomic<std::size_t> left;

  void leave() {
    if (left.fetch_sub(1) == 1) cs.reset();
  }
};

task<> ask_and_leave(last_one_out& out, task<> asks) {
  co_await std::move(asks);
  out.leave();
}

void storm_to_the_end(dice& d, std::size_t requests) {
  ledger l(requests, 1);
  tokens t(requests, requests);
  plan p(d, requests);
  const bool all_may_go = p.count() == requests;
  // If all are withdrawn, the guard may be the last.
  last_one_out out{std::make_unique<critical_section>(), requests + (all_may_go ? 1 : 0)};
  async_scope scope;
  section_guard guard = hold(*out.cs);
  for (std::size_t i = 0; i != requests; ++i) {
    const execute_options o{.stop = t.of(i)};
    scope.spawn(ask_and_leave(out, ask_somehow(d, l, *out.cs, i, o)));
  }
  p.carry_out([&t](std::size_t i) { t.stop(i); },
              [&] {
                guard.unlock();
                if (all_may_go) out.leave();
              });
  sync_wait(scope.join());
  l.check([&p](std::size_t i) { return p.asks(i); });
  REQUIRE(out.cs == nullptr);
}

// By deadlines of the real clock, some of them past when they are asked.
void storm_of_deadlines(dice& d, std::size_t requests) {
  using namespace std::chrono_literals;
  using clock = std::chrono::steady_clock;
  const std::size_t askers = 1 + d.below(4);
  ledger l(requests, askers);
  std::vector<clock::time_point> due(requests, never);
  const unsigned spread = 1 + d.below(20'000);
  const clock::time_point begin = clock::now();
  std::size_t near = 0;
  for (auto& at : due) {
    if (d.one_in(2)) continue;
    at = begin + std::chrono::microseconds(d.below(spread));
    ++near;
  }
  const std::size_t unlock_after = d.below(static_cast<unsigned>(near) + 1);
  critical_section cs;
  async_scope scope;
  section_guard guard = hold(cs);
  ask_all(l, askers,
          [&](std::size_t i) { scope.spawn(ask_plain(l, cs, i, {.deadline = due[i]})); });
  while (l.gone() < unlock_after) std::this_thread::yield();
  guard.unlock();
  sync_wait(scope.join());
  l.check([&due](std::size_t i) { return due[i] != never; });
  check_free(cs, l.back() + 1, l.gone());
}

// One stop takes many with it.
void storm_of_shared_tokens(dice& d, std::size_t requests, std::size_t sources) {
  ledger l(requests, 1);
  tokens t(requests, sources);
  plan p(d, sources);
  critical_section cs;
  async_scope scope;
  section_guard guard = hold(cs);
  for (std::size_t i = 0; i != requests; ++i)
    scope.spawn(ask_somehow(d, l, cs, i, {.stop = t.of(i)}));
  p.carry_out([&t](std::size_t source) { t.stop(source); }, std::move(guard));
  sync_wait(scope.join());
  l.check([&](std::size_t i) { return p.asks(i % sources); });
  check_free(cs, l.back() + 1, l.gone());
}

// What surrounds the requests is stopped; their own tokens are not.
void storm_of_scopes(dice& d, std::size_t requests, std::size_t scopes) {
  ledger l(requests, 1);
  tokens t(requests, requests);
  plan p(d, scopes);
  critical_section cs;
  std::vector<std::unique_ptr<async_scope>> all;
  for (std::size_t n = 0; n != scopes; ++n) {
    all.push_back(std::make_unique<async_scope>(scope_options{.fail_fast = true}));
  }
  section_guard guard = hold(cs);
  for (std::size_t i = 0; i != requests; ++i) {
    const execute_options o = d.one_in(2) ? execute_options{.stop = t.of(i)} : execute_options{};
    all[i % scopes]->spawn(ask_plain(l, cs, i, o));
  }
  p.carry_out([&all](std::size_t n) { all[n]->request_stop(); }, std::move(guard));
  for (auto& scope : all) sync_wait(scope->join());
  l.check([&](std::size_t i) { return p.asks(i % scopes); });
  check_free(cs, l.back() + 1, l.gone());
}

// Handles that are kept or dropped, and posts: what is withdrawn of those nobody waits for is
// reported.
void storm_of_handles(dice& d, std::size_t requests) {
  const reports reported;
  ledger l(requests, 1);
  tokens t(requests, requests);
  plan p(d, requests);
  critical_section cs;
  async_scope scope;
  std::vector<std::uint8_t> dropped(requests);
  section_guard guard = hold(cs);
  for (std::size_t i = 0; i != requests; ++i) {
    const execute_options o{.stop = t.of(i)};
    const auto body = [&l, i] { l.visit(i); };
    const unsigned how = d.below(4);
    dropped[i] = how < 2;
    if (how == 0) {
      cs.post(body, o);
    } else if (how == 1) {
      static_cast<void>(cs.submit(body, o));
    } else {
      scope.spawn(wait_for(l, i, await_handle(cs.submit(body, o))));
    }
  }
  p.carry_out([&t](std::size_t i) { t.stop(i); }, std::move(guard));
  sync_wait(scope.join());
  sync_wait(cs.close());
  const section_statistics s = cs.statistics();
  const std::size_t unheard = s.withdrawn - l.gone();
  while (reports::count() < unheard) std::this_thread::yield();
  REQUIRE(s.executions + s.withdrawn == requests + 1);
  REQUIRE(s.waiters == 0);
  REQUIRE_FALSE(s.held);
  std::size_t did_not_run = 0;
  for (std::size_t i = 0; i != requests; ++i) {
    if (l.ran()[i] > 1 || (l.ran()[i] == 0 && !p.asks(i))) FAIL("request " << i << " is lost");
    if (dropped[i] != 0 && l.ran()[i] == 0) ++did_not_run;
  }
  REQUIRE(unheard == did_not_run);
  REQUIRE(reports::count() == unheard);
}

// Requests for one, two or three sections, all of which are held at first.
void storm_on_several(dice& d, std::size_t requests) {
  critical_section a;
  critical_section b;
  critical_section c;
  ledger in_a(requests, 1);
  ledger in_b(requests, 1);
  ledger in_c(requests, 1);
  tokens t(requests, requests);
  plan p(d, requests);
  async_scope scope;
  section_guard guards[] = {hold(a), hold(b), hold(c)};
  for (std::size_t i = 0; i != requests; ++i) {
    const execute_options o{.stop = t.of(i)};
    const auto in_all = [&in_a, i] { in_a.visit(i); };
    switch (d.below(4)) {
      case 0: scope.spawn(wait_for(in_b, i, b.execute([&in_b, i] { in_b.visit(i); }, o))); break;
      case 1: scope.spawn(wait_for(in_c, i, c.execute([&in_c, i] { in_c.visit(i); }, o))); break;
      default: scope.spawn(wait_for(in_a, i, execute(std::tie(c, a, b), in_all, o))); break;
    }
  }
  std::atomic<int> next{0};
  p.carry_out([&t](std::size_t i) { t.stop(i); },
              [&] { stress::together(3, [&](int) { guards[next++].unlock(); }); });
  sync_wait(scope.join());
  std::size_t executions = 0;
  std::size_t withdrawn = 0;
  for (critical_section* const cs : {&a, &b, &c}) {
    const section_statistics s = cs->statistics();
    REQUIRE(s.waiters == 0);
    REQUIRE_FALSE(s.held);
    executions += s.executions;
    withdrawn += s.withdrawn;
    REQUIRE(cs->try_execute([] {}));
  }
  std::size_t ran = 0;
  for (std::size_t i = 0; i != requests; ++i) {
    const int n = in_a.ran()[i] + in_b.ran()[i] + in_c.ran()[i];
    if (n > 1 || (n == 0 && !p.asks(i))) FAIL("request " << i << " is lost");
    ran += static_cast<std::size_t>(n);
  }
  REQUIRE(ran + withdrawn == requests);
  REQUIRE(in_a.gone() + in_b.gone() + in_c.gone() == withdrawn);
  REQUIRE(in_a.back() + in_b.back() + in_c.back() == ran);
  // One for each guard, and for each section that a request had, though it went while it waited for
  // the next one.
  REQUIRE(executions >= ran + 2 * in_a.back() + 3);
}

// Those set aside wait for a count. Whoever runs sees that none was forgotten that is older, may
// run and was not asked to go.
class levels {
 public:
  levels(dice& d, std::size_t requests) : ran_(requests), asked_(requests) {
    for (std::size_t i = 0; i != requests; ++i) {
      least_.push_back(1 + d.below(static_cast<unsigned>(requests)));
    }
  }

  void raise() noexcept { ++count_; }
  bool reaches(std::size_t i) const noexcept { return count_ >= least_[i]; }
  void run(std::size_t i) noexcept {
    ++ran_[i];
    for (std::size_t older = 0; older != i; ++older) {
      if (reaches(older) && ran_[older] == 0 && !asked_[older].load()) ++forgotten_;
    }
  }
  void asked(std::size_t i) noexcept { asked_[i] = true; }
  std::size_t count() const noexcept { return count_; }
  int forgotten() const noexcept { return forgotten_; }
  std::span<const std::uint8_t> ran() const noexcept { return ran_; }

 private:
  std::vector<std::size_t> least_;
  std::vector<std::uint8_t> ran_;
  std::vector<std::atomic<bool>> asked_;
  std::size_t count_ = 0;
  int forgotten_ = 0;
};

void storm_of_predicates(dice& d, std::size_t requests, section_options options) {
  levels l(d, requests);
  ledger ends(requests, 1);
  tokens t(requests, requests);
  plan p(d, requests);
  critical_section cs(options);
  async_scope scope;
  for (std::size_t i = 0; i != requests; ++i) {
    const auto reached = [&l, i] { return l.reaches(i); };
    const auto run = [&l, i] { l.run(i); };
    scope.spawn(wait_for(ends, i, cs.execute_when(reached, run, {.stop = t.of(i)})));
  }
  support::wait_for_waiters(cs, requests);
  while (cs.statistics().held) std::this_thread::yield();  // its executor sets them aside
  std::atomic<std::size_t> raised{0};
  p.carry_out(
      [&](std::size_t i) {
        l.asked(i);
        t.stop(i);
        if (raised.fetch_add(1) < requests) cs.post([&l] { l.raise(); });
      },
      [&] {
        while (raised.fetch_add(1) < requests) cs.post([&l] { l.raise(); });
      });
  sync_wait(scope.join());
  sync_wait(cs.close());
  REQUIRE(l.forgotten() == 0);
  REQUIRE(l.count() == requests);
  for (std::size_t i = 0; i != requests; ++i) {
    if (l.ran()[i] > 1 || (l.ran()[i] == 0 && !p.asks(i))) FAIL("request " << i << " is lost");
  }
  const section_statistics s = cs.statistics();
  REQUIRE(s.executions == requests + ends.back());
  REQUIRE(s.withdrawn == ends.gone());
  REQUIRE(s.withdrawn + ends.back() == requests);
  REQUIRE(s.waiters == 0);
  REQUIRE_FALSE(s.held);
}

// Says how fast, for who runs it for long. Of rounds that say whether they had what they are about
// one at least has to.
template <class F>
void rounds(int n, F round) {
  using clock = std::chrono::steady_clock;
  const clock::time_point begin = clock::now();
  bool had_it = false;
  for (int i = 0; i != n; ++i) {
    CAPTURE(i);
    if constexpr (std::is_same_v<std::invoke_result_t<F&>, bool>) {
      had_it = round() || had_it;
    } else {
      round();
      had_it = true;
    }
  }
  CHECK(had_it);
  const std::chrono::duration<double> took = clock::now() - begin;
  std::printf("  %d rounds, %.1f/s\n", n, n / took.count());
  std::fflush(stdout);
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("cancellation: a storm of ten thousand, half of them withdrawn by eight threads") {
    dice d(1);
    rounds(stress::times_scale(4), [&] { return storm(d, 10'000, {}, &ask_plain); });
  }

  TEST_CASE("cancellation: requests of every kind") {
    dice d(2);
    rounds(stress::times_scale(10), [&] {
      const std::uint32_t number = d.below(1u << 30);
      std::mutex one_at_a_time;
      dice how(number);
      return storm(d, 1000, {.ring_capacity = std::size_t{1} << d.below(7)},
                   [&](ledger& l, critical_section& cs, std::size_t i, execute_options o) {
                     const std::lock_guard lock(one_at_a_time);
                     return ask_somehow(how, l, cs, i, o);
                   });
    });
  }

  TEST_CASE("cancellation: guards") {
    dice d(3);
    rounds(stress::times_scale(10), [&] {
      return storm(d, 1000, {},
                   [&](ledger& l, critical_section& cs, std::size_t i, const execute_options& o) {
                     return wait_for(l, i, hold_and_leave(l, cs, i, o));
                   });
    });
  }

  TEST_CASE("cancellation: a section bound to an executor") {
    dice d(4);
    thread_pool pool(1);
    rounds(stress::times_scale(10), [&] { return storm(d, 1000, {.executor = pool}, &ask_plain); });
  }

  TEST_CASE("cancellation: most of them wait outside") {
    dice d(13);
    rounds(stress::times_scale(10), [&] {
      return storm(d, 1000, {.max_waiters = 1 + d.below(64), .on_full = when_full::wait_outside},
                   &ask_plain);
    });
  }

  TEST_CASE("cancellation: deadlines") {
    dice d(5);
    rounds(stress::times_scale(10), [&] { storm_of_deadlines(d, 1000); });
  }

  TEST_CASE("cancellation: tokens that many share") {
    dice d(6);
    rounds(stress::times_scale(10), [&] { storm_of_shared_tokens(d, 1000, 40); });
  }

  TEST_CASE("cancellation: scopes that are stopped") {
    dice d(7);
    rounds(stress::times_scale(10), [&] { storm_of_scopes(d, 1000, 40); });
  }

  TEST_CASE("cancellation: handles, kept and dropped, and posts") {
    dice d(8);
    rounds(stress::times_scale(10), [&] { storm_of_handles(d, 1000); });
  }

  TEST_CASE("cancellation: several sections at once") {
    dice d(9);
    rounds(stress::times_scale(10), [&] { storm_on_several(d, 600); });
  }

  TEST_CASE("cancellation: requests that were set aside") {
    dice d(10);
    thread_pool pool(1);
    rounds(stress::times_scale(10), [&] {
      storm_of_predicates(d, 100, {});
      storm_of_predicates(d, 100, {.executor = pool});
    });
  }

  TEST_CASE("cancellation: frames that are destroyed at once stay untouched") {
    dice d(11);
    rounds(stress::times_scale(10), [&] { storm_of_frames(d, 1000); });
  }

  TEST_CASE("cancellation: whoever comes back last ends the section") {
    dice d(12);
    rounds(stress::times_scale(10), [&] { storm_to_the_end(d, 100); });
    rounds(stress::times_scale(300), [&] { storm_to_the_end(d, 1 + d.below(6)); });
  }
}
