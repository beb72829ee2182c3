// exit.cpp - a process ends while there is work in sections, pools, scopes and timers.
//
// Each case is a child process that returns from main. What it leaves behind is never destroyed, or
// is static and destroyed in the order that the language gives; it has to end with status 0 and to
// say nothing. No doctest here: its watchdog is a thread, and the thread sanitizer wants the
// process that forks to have none.

#include "support/child_process.hpp"

#include <turnstile/manual_clock.hpp>
#include <turnstile/turnstile.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <source_location>
#include <stop_token>
#include <string_view>
#include <sys/wait.h>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <utility>

using namespace turnstile;
using namespace std::chrono_literals;

namespace {

const auto nothing = [] {};

// Never destroyed, and found by the leak sanitizer.
struct world {
  critical_section cs{"work"};
  critical_section other;
  async_scope scope;
  async_scope on_shared{{.executor = thread_pool::shared()}};
  std::stop_source stop;
  std::stop_token token = stop.get_token();
  section_guard guard;
  long ran = 0;
};
constinit world* left = nullptr;

world& leave_a_world() {
  left = new world;
  return *left;
}

section_guard hold(critical_section& cs) {
  section_guard guard = std::move(cs.try_lock().value());
  guard.detach();
  return guard;
}

task<> swallow(auto a) {
  try {
    co_await std::move(a);
  } catch (const std::exception&) {
  }
}

task<> sleep_often(std::chrono::microseconds time) {
  for (;;) co_await sleep_for(time);
}

void queued_behind_a_guard() {
  world& w = leave_a_world();
  w.guard = hold(w.cs);
  for (int i = 0; i != 100; ++i) {
    w.scope.spawn(swallow(w.cs.execute(nothing)));
    w.scope.spawn(swallow(w.cs.execute(nothing, {.stop = w.token})));
    w.on_shared.spawn(swallow(w.cs.lock({.deadline = std::chrono::steady_clock::now() + 1h})));
    w.on_shared.spawn(swallow(execute(std::tie(w.other, w.cs), nothing)));
    w.cs.post(nothing, {.stop = w.token});
  }
}

void unlocked_at_the_last_moment() {
  queued_behind_a_guard();
  left->guard.unlock();
}

void withdrawn_at_the_last_moment() {
  on_unobserved_error([](std::exception_ptr, std::string_view, std::source_location) {});
  queued_behind_a_guard();
  left->stop.request_stop();
}

void posted_to_the_shared_pool() {
  world& w = leave_a_world();
  for (int i = 0; i != 10'000; ++i) w.cs.post([&w] { ++w.ran; });
  for (int i = 0; i != 100; ++i) static_cast<void>(w.other.submit(nothing));
}

void set_aside() {
  world& w = leave_a_world();
  for (int i = 0; i != 100; ++i) {
    w.scope.spawn(swallow(w.cs.execute_when([] { return false; }, nothing)));
    w.on_shared.spawn(swallow(w.cs.execute_when([] { return false; }, nothing, {.stop = w.token})));
    w.scope.spawn(swallow(w.cs.execute_when([&w] { return w.ran == 1; }, nothing)));
  }
  w.cs.post([&w] { ++w.ran; });
}

void sleeping() {
  world& w = leave_a_world();
  for (int i = 0; i != 100; ++i) {
    w.scope.spawn(swallow(sleep_for(1h)));
    w.on_shared.spawn(swallow(timeout(sleep_for(2h), 1h)));
    w.on_shared.spawn(swallow(sleep_for(std::chrono::microseconds(20 * i))));
    w.on_shared.spawn(swallow(timeout(sleep_for(1h), std::chrono::microseconds(20 * i))));
  }
}

void deadlines_that_come() {
  world& w = leave_a_world();
  w.guard = hold(w.cs);
  const auto now = std::chrono::steady_clock::now();
  for (int i = 0; i != 200; ++i) {
    w.on_shared.spawn(
        swallow(w.cs.execute(nothing, {.deadline = now + std::chrono::microseconds(20 * i)})));
  }
}

void sleeping_again_and_again() {
  world& w = leave_a_world();
  for (int i = 1; i != 20; ++i) w.on_shared.spawn(sleep_often(std::chrono::microseconds(5 * i)));
}

// By a clock that is gone before, and by one that stays.
void a_manual_clock() {
  world& w = leave_a_world();
  {
    manual_clock clock;
    w.on_shared.spawn(swallow(sleep_for(1h)));
    clock.advance(1min);
  }
  static manual_clock* const clock = new manual_clock;
  w.on_shared.spawn(swallow(sleep_for(1h)));
  clock->advance(2h);
}

void pools_and_sections_that_are_static() {
  thread_pool::shared();
  static critical_section cs;
  static thread_pool one(1);
  static thread_pool two(2);
  static critical_section bound({.executor = one});
  for (int i = 0; i != 1000; ++i) {
    cs.post(nothing);
    sync_wait(bound.execute(nothing));
  }
  static async_scope on_one{{.executor = one}};
  static async_scope on_two{{.executor = two}};
  for (int i = 0; i != 100; ++i) {
    on_one.spawn(cs.execute(nothing));
    on_two.spawn(cs.execute(nothing));
  }
  sync_wait(on_one.join());
  sync_wait(on_two.join());
  sync_wait(cs.close());
  sync_wait(bound.close());
}

// It runs what is queued before it ends, and that queues more in a section that stays.
void a_static_pool_with_work() {
  world& w = leave_a_world();
  static thread_pool pool(2);
  static async_scope* const scope = new async_scope({.executor = pool});
  for (int i = 0; i != 1000; ++i) scope->spawn(w.cs.execute([&w] { ++w.ran; }));
}

// The destructors in each order that the contract allows.
void orders_of_destruction() {
  for (int order = 0; order != 6; ++order) {
    auto pool = std::make_unique<thread_pool>(1);
    auto scope = std::make_unique<async_scope>(scope_options{.executor = *pool});
    auto cs = std::make_unique<critical_section>(section_options{.executor = *pool});
    auto clock = std::make_unique<manual_clock>();
    std::stop_source stop;
    auto never_awaited = cs->execute(nothing, {.stop = stop.get_token()});
    auto sleeps_never = sleep_for(1h);
    scope->spawn(cs->execute(nothing, {.stop = stop.get_token()}));
    scope->spawn(swallow(
        cs->execute_when([] { return false; }, nothing, {.deadline = clock->now() + 1min})));
    scope->spawn(swallow(timeout(sleep_for(2h), 1h)));
    while (clock->pending() != 3 || cs->statistics().executions != 1) std::this_thread::yield();
    clock->advance(2h);
    sync_wait(scope->join());
    if (order == 0) cs.reset(), pool.reset(), scope.reset(), clock.reset();
    if (order == 1) cs.reset(), scope.reset(), pool.reset(), clock.reset();
    if (order == 2) scope.reset(), clock.reset(), cs.reset(), pool.reset();
    if (order == 3) clock.reset(), cs.reset(), pool.reset(), scope.reset();
    if (order == 4) pool.reset(), clock.reset(), scope.reset(), cs.reset();
    if (order == 5) pool.reset(), cs.reset(), clock.reset(), scope.reset();
    stop.request_stop();
  }
}

// Made before the shared pool, so it ends after that, and stops its work only then.
struct service {
  async_scope scope;
  ~service() {
    scope.request_stop();
    sync_wait(swallow(scope.join()));
    critical_section last;
    sync_wait(schedule_on(thread_pool::shared(), last.execute(nothing)));
    last.post(nothing);
    sync_wait(last.close());
  }
};
void a_static_scope_that_outlives_the_shared_pool() {
  static service it;
  it.scope.spawn(sleep_often(1h));
  sync_wait(sleep_for(20us));
}

// A log whose last line is written when the process ends, and that ends within its own section.
struct keeps_a_log {
  critical_section* cs = nullptr;
  ~keeps_a_log() {
    try {
      cs->execute_blocking(nothing);
      std::fputs("it was inside already\n", stderr);
    } catch (const reentry_error&) {
    }
  }
};
void exit_within_a_section() {
  static auto& cs = *new critical_section;
  static keeps_a_log log{&cs};
  {
    const section_guard had = sync_wait(cs.lock());
  }
  cs.execute_blocking([] { std::exit(0); });
}

[[noreturn]] void wait_for_the_end() {
  for (;;) std::this_thread::sleep_for(1s);
}
void exit_on_a_thread_of_the_shared_pool() {
  leave_a_world().on_shared.spawn([]() -> task<> {
    std::exit(0);
    co_return;
  }());
  wait_for_the_end();
}
void exit_on_the_thread_of_the_timers() {
  world& w = leave_a_world();
  w.on_shared.spawn(timeout(
      []() -> task<> {
        const std::stop_token asked = co_await current_stop_token();
        const std::stop_callback ends(asked, [] { std::exit(0); });
        co_await sleep_for(1h);
      }(),
      1ms));
  wait_for_the_end();
}

// What its pool is to do for the shared one is never done.
void exit_on_a_thread_of_another_pool() {
  static auto& pool = *new thread_pool(1);
  static auto& on_pool = *new async_scope({.executor = pool});
  static std::atomic<bool> has_begun = false;
  on_pool.spawn([]() -> task<> {
    while (!has_begun) std::this_thread::yield();
    std::exit(0);
    co_return;
  }());
  leave_a_world().on_shared.spawn([]() -> task<> {
    has_begun = true;
    sync_wait(schedule_on(pool, sleep_for(0s)));
    co_return;
  }());
  wait_for_the_end();
}

// Ends when the next one has been posted: a pool that is given these is never idle.
struct one_of_many : job {
  explicit one_of_many(unsigned n) noexcept : job(&run_it), number(n) {}
  static void run_it(job& j) noexcept {
    const auto& self = static_cast<one_of_many&>(j);
    while (posted <= self.number) std::this_thread::yield();
    delete &self;
    ++ended;
  }
  static inline std::atomic<unsigned> posted{0};
  static inline std::atomic<unsigned> ended{0};
  const unsigned number;
};

// As the threads of a server do.
void others_post_for_ever() {
  using counts = one_of_many;
  std::thread([] {
    for (;; ++counts::posted) {
      executor_ref(thread_pool::shared()).post(*new one_of_many(counts::posted + 1));
      while (counts::posted - counts::ended > 10) std::this_thread::yield();
    }
  }).detach();
  while (counts::ended == 0) std::this_thread::yield();
}

// As a daemon does it.
[[maybe_unused]] void a_child_that_has_no_threads() {
  sync_wait(schedule_on(thread_pool::shared(), sleep_for(1ns)));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (status != 0) std::fprintf(stderr, "the child ended with status %d\n", status);
}

void pool_ended_by_its_own_worker() {
  static auto* pool = new thread_pool(2);
  sync_wait(schedule_on(*pool, []() -> task<> {
    delete pool;
    co_return;
  }()));
}

struct scenario {
  std::string_view name;
  void (*run)();
};

#define SCENARIO(name) \
  scenario { #name, &name }
constexpr scenario ends_well[] = {
    SCENARIO(queued_behind_a_guard),
    SCENARIO(unlocked_at_the_last_moment),
    SCENARIO(withdrawn_at_the_last_moment),
    SCENARIO(posted_to_the_shared_pool),
    SCENARIO(set_aside),
    SCENARIO(sleeping),
    SCENARIO(deadlines_that_come),
    SCENARIO(sleeping_again_and_again),
    SCENARIO(a_manual_clock),
    SCENARIO(pools_and_sections_that_are_static),
    SCENARIO(a_static_pool_with_work),
    SCENARIO(orders_of_destruction),
    SCENARIO(a_static_scope_that_outlives_the_shared_pool),
    SCENARIO(exit_within_a_section),
    SCENARIO(exit_on_a_thread_of_the_shared_pool),
    SCENARIO(exit_on_a_thread_of_another_pool),
    SCENARIO(exit_on_the_thread_of_the_timers),
    SCENARIO(others_post_for_ever),
#if !defined(TURNSTILE_ADDRESS_SANITIZER)  // what only those threads know of looks leaked there
    SCENARIO(a_child_that_has_no_threads),
#endif
};

int wrong = 0;

void check(bool held, std::string_view name, const support::child_end& end) {
  if (held) return;
  ++wrong;
  std::fprintf(stderr, "%.*s: status %d%s\n%s\n", static_cast<int>(name.size()), name.data(),
               end.status, end.aborted ? ", aborted" : "", end.said.c_str());
}

}  // namespace

int main() {
  constexpr int rounds = 5;  // each ends at another moment
  for (const scenario& s : ends_well) {
    for (int i = 0; i != rounds; ++i) {
      const support::child_end end = support::in_child_that_returns(s.run);
      check(end.status == 0 && end.said.empty(), s.name, end);
    }
  }
  const support::child_end end = support::in_child_that_returns(&pool_ended_by_its_own_worker);
  check(end.aborted && end.one_line() && end.says("one of its own threads"),
        "pool_ended_by_its_own_worker", end);
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
