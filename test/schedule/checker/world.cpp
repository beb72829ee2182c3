// world.cpp - fibers that take turns, and the operations of one execution.

#include "schedule/checker/arena.hpp"
#include "schedule/checker/execution.hpp"
#include "schedule/checker/memory.hpp"
#include "schedule/checker/trace.hpp"

#include <turnstile/detail/keeper.hpp>
#include <turnstile/detail/kept_token.hpp>
#include <turnstile/detail/thread_state.hpp>

#include <algorithm>
#include <array>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <memory>
#include <optional>
#include <unistd.h>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace schedule {

namespace {

namespace context = boost::context;

// What a thread has of its own that the language keeps for the system's threads.
struct own_state {
  turnstile::detail::thread_state library;
  std::array<void*, 2> exceptions{};  // __cxa_eh_globals: caught ones, and how many are in flight

  void swap() noexcept {
    std::swap(library, turnstile::detail::this_thread_state);
    auto* const live = reinterpret_cast<std::array<void*, 2>*>(abi::__cxa_get_globals());
    std::swap(exceptions, *live);
  }
};

enum class condition : std::uint8_t { ready, paused, blocked, done };

struct fiber_thread {
  condition is = condition::done;
  const void* waits_for = nullptr;  // a mutex, an atomic or, with join_of, nothing
  const char* waits_how = "";
  int join_of = -1;
  unsigned gives_way_to = 0;  // paused: a bit for each thread that has to do something first
  view now;
  own_state own;
  std::function<void()> work;
  context::fiber fiber;
  void* fake_stack = nullptr;
};

// Stacks are kept from one execution to the next.
class stack_of {
 public:
  stack_of() : stack_(context::protected_fixedsize_stack(256 * 1024).allocate()) {}

  struct keep {
    void deallocate(context::stack_context&) noexcept {}
  };
  context::preallocated place() const noexcept { return {stack_.sp, stack_.size, stack_}; }
  const void* bottom() const noexcept { return static_cast<char*>(stack_.sp) - stack_.size; }
  std::size_t size() const noexcept { return stack_.size; }

 private:
  context::stack_context stack_;
};

class execution {
 public:
  void run(const std::function<void()>& scenario, chooser& c, const conditions& under) {
    chooser_ = &c;
    under_ = under;
    memory_.reset();
    trace_.clear();
    answers_.clear();
    steps_ = 0;
    clock_ = std::chrono::hours(++runs_);  // so that nothing of an earlier one looks recent
    threads_ = 0;
    reset_arena();
    forget_keepers();
    start(scenario);
    current_ = 0;
    while (current_ >= 0) {
      resume(current_);
    }
    if (const std::size_t n = live_objects()) {
      current_ = 0;
      fail(std::to_string(n) + " objects were never freed");
    }
  }

  int start(std::function<void()> work) {
    if (threads_ == max_threads) fail("the checker has no room for more threads: see max_threads");
    const int id = threads_++;
    fiber_thread& t = at(id);
    t.is = condition::ready;
    t.work = std::move(work);
    t.now.known = {};
    t.now.atomics = 0;
    if (id != 0) t.now.copy(at(current_).now);
    tick(id);
    if (id != 0) tick(current_);
    t.own = {};
    t.fiber = context::fiber(std::allocator_arg, stacks_[static_cast<std::size_t>(id)].place(),
                             stack_of::keep{}, [this, id](context::fiber&& back) {
                               back_ = std::move(back);
                               entered(id);
                               live(id);
                               leaving(id, true);
                               return std::move(back_);
                             });
    return id;
  }

  void join(int id) {
    while (at(id).is != condition::done) block(nullptr, "join", id);
    mine().now.join(at(id).now);
  }

  // Before an operation at a site: somebody else may come first.
  void step(site_id at) {
    count_step();
    if (at == no_site || is_contended(at) || under_.everywhere) offer_turn();
  }

  void pause(std::chrono::nanoseconds time) {
    clock_ += time;
    mine().is = condition::paused;
    mine().gives_way_to = 0;
    for (int i = 0; i != threads_; ++i) {
      if (at(i).is == condition::ready) mine().gives_way_to |= 1u << i;
    }
    give_turn();
    memory_.show_newest(mine().now);
  }

  void block(const void* on, const char* how, int join_of = -1) {
    fiber_thread& t = mine();
    t.is = condition::blocked;
    t.waits_for = on;
    t.waits_how = how;
    t.join_of = join_of;
    give_turn();
  }

  // Lets go on who waits for `on`, at most `most` of them; gives how many.
  int wake(const void* on, int most) {
    std::vector<int> waiting;
    for (int i = 0; i != threads_; ++i) {
      if (at(i).is == condition::blocked && at(i).waits_for == on) waiting.push_back(i);
    }
    int woken = 0;
    for (; woken != most && !waiting.empty(); ++woken) {
      const auto n = static_cast<unsigned>(waiting.size());
      const unsigned who =
          most < static_cast<int>(n) ? ask({kind::test, steps_, n, nullptr, true}) : 0;
      at(waiting[who]).is = condition::ready;
      waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(who));
    }
    return woken;
  }

  unsigned ask(const question& q) {
    if (q.possibilities == 1) return 0;
    const unsigned taken = chooser_->choose(q);
    answers_.push_back({q.about, q.step, taken});
    return taken;
  }

  fiber_thread& mine() noexcept { return at(current_); }
  fiber_thread& at(int id) noexcept { return all_[static_cast<std::size_t>(id)]; }
  int current() const noexcept { return current_; }
  unsigned steps() const noexcept { return steps_; }
  memory& places() noexcept { return memory_; }
  trace& events() noexcept { return trace_; }

  std::chrono::nanoseconds look_at_clock() noexcept { return clock_ += under_.look_takes; }

  // The thread's own clock goes on; whoever knew it before does not know what comes now.
  void tick(int id) noexcept { ++at(id).now.known.of[static_cast<std::size_t>(id)]; }

  void count_step() {
    if (++steps_ > most_steps) fail("no end in sight after 20000 operations");
    went_on(current_);
  }

  // Fair as in CHESS (Musuvathi, Qadeer, 2008): who pauses waits until everybody who could go on
  // then has done something or cannot go on any more. So nobody spins while others are ready for
  // ever.
  void went_on(int id) noexcept {
    for (int i = 0; i != threads_; ++i) {
      fiber_thread& t = at(i);
      if (i == id || t.is != condition::paused) continue;
      t.gives_way_to &= ~(1u << id);
      if (t.gives_way_to == 0) t.is = condition::ready;
    }
  }

  std::string report(std::string_view what) {
    std::string all = "FAILED: " + std::string(what) + '\n';
    all += trace_.text();
    for (int i = 0; i != threads_; ++i) {
      if (at(i).is != condition::done && i != current_) all += standing(i);
    }
    all += "  again: SCHEDULE_REPLAY=" + written(answers_) + '\n';
    return all;
  }

 private:
  static constexpr unsigned most_steps = 20000;

  // They are static: what one execution left in them is not known in the next one.
  static void forget_keepers() noexcept {
    for (std::uint16_t n = 1; n <= max_threads; ++n) {
      turnstile::detail::keeper& k = turnstile::detail::keeper::numbered(n);
      std::destroy_at(&k);
      std::construct_at(&k);
    }
  }

  void live(int id) {
    set_active(true);
    try {
      at(id).work();
    } catch (...) {
      fail("an exception leaves a thread");
    }
    at(id).work = nullptr;
    // What the library leaves to the end of a thread (registry/chain.cpp, base/kept_token.cpp).
    turnstile::detail::drop(std::exchange(turnstile::detail::here().chain, nullptr));
    turnstile::detail::end_kept_tokens();
    turnstile::detail::end_keeping();
    set_active(false);
    at(id).is = condition::done;
    for (int i = 0; i != threads_; ++i) {
      if (at(i).is == condition::blocked && at(i).join_of == id) at(i).is = condition::ready;
    }
    tick(id);
    count_step();
    next_ = decide();
  }

  // From outside: returns when the fiber says who is next.
  void resume(int id) {
    at(id).own.swap();
    switching_to(id);
    at(id).fiber = std::move(at(id).fiber).resume();
    switched_back();
    at(id).own.swap();
    current_ = next_;
  }

  void switch_to(int id) {
    next_ = id;
    const int self = current_;
    leaving(self, false);
    back_ = std::move(back_).resume();
    entered(self);
  }

  // Who could run, the running thread first.
  unsigned candidates(std::array<int, max_threads>& list) noexcept {
    for (const condition c : {condition::ready, condition::paused}) {
      unsigned n = 0;
      if (current_ >= 0 && mine().is == c && c == condition::ready) list[n++] = current_;
      for (int i = 0; i != threads_; ++i) {
        if (at(i).is == c && (i != current_ || c == condition::paused)) list[n++] = i;
      }
      if (n != 0) return n;
    }
    return 0;
  }

  // -1: all are done.
  int decide() {
    std::array<int, max_threads> list;
    const unsigned n = candidates(list);
    if (n == 0) {
      for (int i = 0; i != threads_; ++i) {
        if (at(i).is != condition::done) fail("nobody can go on, and work is unfinished");
      }
      return -1;
    }
    const bool free = mine().is != condition::ready;
    const int who = list[ask({kind::thread, steps_, n, list.data(), free})];
    at(who).is = condition::ready;
    return who;
  }

  void offer_turn() {
    const int who = decide();
    if (who != current_) switch_to(who);
  }

  void give_turn() {
    count_step();
    offer_turn();
  }

  std::string standing(int id) {
    const fiber_thread& t = at(id);
    std::string text = "  T" + std::to_string(id);
    if (t.is != condition::blocked) return text + " could go on\n";
    text += " waits: ";
    text += t.waits_how;
    if (t.join_of >= 0) text += " of T" + std::to_string(t.join_of);
    if (const place* const p = t.waits_for == nullptr ? nullptr : memory_.find(t.waits_for)) {
      text += " @" + std::to_string(memory_.number(*p));
    }
    return text + '\n';
  }

#if defined(__SANITIZE_ADDRESS__)
  void switching_to(int id) {
    const stack_of& s = stacks_[static_cast<std::size_t>(id)];
    __sanitizer_start_switch_fiber(&outer_fake_, s.bottom(), s.size());
  }
  void switched_back() { __sanitizer_finish_switch_fiber(outer_fake_, nullptr, nullptr); }
  void entered(int id) {
    __sanitizer_finish_switch_fiber(at(id).fake_stack, &outer_bottom_, &outer_size_);
  }
  void leaving(int id, bool for_good) {
    __sanitizer_start_switch_fiber(for_good ? nullptr : &at(id).fake_stack, outer_bottom_,
                                   outer_size_);
    if (for_good) at(id).fake_stack = nullptr;
  }
  void* outer_fake_ = nullptr;
  const void* outer_bottom_ = nullptr;
  std::size_t outer_size_ = 0;
#else
  void switching_to(int) noexcept {}
  void switched_back() noexcept {}
  void entered(int) noexcept {}
  void leaving(int, bool) noexcept {}
#endif

  chooser* chooser_ = nullptr;
  conditions under_;
  memory memory_;
  trace trace_;
  std::vector<answer> answers_;
  std::array<fiber_thread, max_threads> all_;
  std::array<stack_of, max_threads> stacks_;
  context::fiber back_;
  int threads_ = 0;
  int current_ = -1;
  int next_ = -1;
  unsigned steps_ = 0;
  int runs_ = 0;
  std::chrono::nanoseconds clock_{};
};

execution the_world;
execution& world() noexcept { return the_world; }

std::function<void(const std::string&)> when_it_fails;

// For the length of an operation: what it allocates is not the scenario's.
class operation {
 public:
  operation() noexcept { set_active(false); }
  ~operation() { set_active(true); }
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;
};

constexpr int no_order = -1;

void record(const char* what, int order, site_id at, place& p, std::uint64_t before,
            std::uint64_t after, unsigned older = 0) {
  const auto number = static_cast<std::uint32_t>(world().places().number(p));
  world().events().add({world().current(), what, order, at, number, before, after, older});
}

void record(const char* what, std::memory_order order, site_id at, place& p, std::uint64_t before,
            std::uint64_t after, unsigned older = 0) {
  record(what, static_cast<int>(order), at, p, before, after, older);
}

// An atomic's turn has come: it is there, and who else uses it is known.
place& touch(cell c, access how, site_id at) {
  execution& w = world();
  place& p = w.places().know(c);
  if (p.ended) {
    record("use after end", no_order, at, p, c.value, c.value);
    fail("use after end: an atomic");
  }
  if (!w.mine().now.known.covers(p.born_by, p.born_when)) {
    record("use before begin", no_order, at, p, c.value, c.value);
    fail("an atomic is used, and nothing orders that after it was made");
  }
  w.places().note(p, w.current(), w.mine().now, how, at);
  return p;
}

// Which value a load sees: 0 is the newest.
unsigned older_by(place& p, bool seq_cst) {
  execution& w = world();
  const std::size_t oldest = w.places().oldest_visible(p, w.mine().now, seq_cst);
  const auto n = static_cast<unsigned>(p.order.size() - oldest);
  return w.ask({kind::value, w.steps(), n, nullptr, true});
}

std::uint64_t load_at(cell c, std::memory_order o, site_id at, const char* what) {
  execution& w = world();
  place& p = touch(c, access::read, at);
  const unsigned older = older_by(p, o == std::memory_order_seq_cst);
  const std::size_t index = p.order.size() - 1 - older;
  const std::uint64_t value = p.order[index].value;
  w.places().see(p, w.mine().now, index, o);
  record(what, o, at, p, value, value, older);
  return value;
}

struct change_under_way {
  place* at = nullptr;
  std::memory_order order{};
  const char* what = "";
  site_id site = no_site;
};
change_under_way change;

// By the other threads, last.
std::string uses_of(const place& p) {
  std::string text;
  const auto add = [&](const last_accesses& last, const char* did, std::size_t t) {
    if (last.when.of[t] == 0 || last.from[t] == nullptr) return;
    text += "; T" + std::to_string(t) + did + source_of(last.from[t]);
  };
  for (std::size_t t = 0; t != max_threads; ++t) {
    if (static_cast<int>(t) == world().current()) continue;
    add(p.writes, " wrote it at ", t);
    add(p.reads, " read it at ", t);
  }
  return text;
}

void plain_access(const void* field, access how, const void* return_to) {
  execution& w = world();
  place& p = w.places().know(field);
  const char* const what = how == access::read ? "reads" : "writes";
  if (!p.ended && w.places().note(p, w.current(), w.mine().now, how, no_site, return_to)) return;
  record(what, no_order, no_site, p, 0, 0);
  fail((p.ended ? "use after end: T" : "data race: T") + std::to_string(w.current()) + ' ' + what +
       " a plain field at " + source_of(return_to) + uses_of(p));
}

}  // namespace

void run_once(const std::function<void()>& scenario, chooser& c, const conditions& under) {
  world().run(scenario, c, under);
}

unsigned steps_of_last_run() noexcept { return world().steps(); }

std::string report_on(std::string_view what) { return world().report(what); }

void on_failure(std::function<void(const std::string& report)> f) { when_it_fails = std::move(f); }

void fail(std::string_view what) noexcept {
  set_active(false);
  if (when_it_fails) when_it_fails(report_on(what));
  std::fprintf(stderr, "%.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

void begin_life(const void* object) noexcept {
  if (!active()) return;
  const operation here;
  execution& w = world();
  place& p = w.places().begin_life(object);
  p.born_by = w.current();
  w.places().note(p, p.born_by, w.mine().now, access::write, no_site);
  p.born_when = w.mine().now.known.of[static_cast<std::size_t>(p.born_by)];
}

void end_life(const void* object) noexcept {
  if (!active()) return;
  const operation here;
  execution& w = world();
  place& p = w.places().know(object);
  const bool was_atomic = std::exchange(p.atomic, false);
  const bool ordered = w.places().note(p, w.current(), w.mine().now, access::write, no_site);
  if (!ordered || p.ended) {
    record("ends", no_order, no_site, p, 0, 0);
    fail(std::string(was_atomic ? "an atomic" : "a plain field") +
         " ends, and nothing orders that after its last use by another thread");
  }
  p.ended = true;
}

std::uint64_t load(cell c, std::memory_order o, const site& at) noexcept {
  const operation here;
  const site_id id = id_of(at);
  world().step(id);
  return load_at(c, weakened(id, 0, action::load, o), id, "load");
}

void store(cell c, std::uint64_t value, std::memory_order o, const site& at) noexcept {
  const operation here;
  const site_id id = id_of(at);
  world().step(id);
  place& p = touch(c, access::write, id);
  const std::memory_order order = weakened(id, 0, action::store, o);
  const std::uint64_t before = p.order.back().value;
  world().places().append(p, world().mine().now, value, order, false);
  record("store", order, id, p, before, value);
}

std::uint64_t begin_change(cell c, std::memory_order o, const char* what, const site& at) noexcept {
  const operation here;
  const site_id id = id_of(at);
  world().step(id);
  place& p = touch(c, access::write, id);
  change = {&p, weakened(id, 0, action::change, o), what, id};
  world().places().see(p, world().mine().now, p.order.size() - 1, change.order);
  return p.order.back().value;
}

void finish_change(std::uint64_t value) noexcept {
  const operation here;
  place& p = *change.at;
  const std::uint64_t before = p.order.back().value;
  world().places().append(p, world().mine().now, value, change.order, true);
  record(change.what, change.order, change.site, p, before, value);
}

// Succeeds only on the newest value; fails with any that it may see and that is another one, or if
// weak without reason.
bool swap_if(cell c, std::uint64_t& expected, std::uint64_t desired, swap_orders orders,
             const site& at) noexcept {
  const operation here;
  const site_id id = id_of(at);
  execution& w = world();
  w.step(id);
  place& p = touch(c, access::write, id);
  const std::memory_order success = weakened(id, 0, action::change, orders.success);
  const std::memory_order failure = weakened(id, 1, action::load, orders.failure);
  const bool can = p.order.back().value == expected;
  if (can && orders.weak && w.ask({kind::failure, w.steps(), 2, nullptr, true}) == 1) {
    record("CAS fails idly", failure, id, p, expected, expected);
    return false;
  }
  std::vector<std::size_t> seen;  // where it would fail, newest first
  const std::size_t oldest =
      w.places().oldest_visible(p, w.mine().now, failure == std::memory_order_seq_cst);
  for (std::size_t i = p.order.size(); i-- > oldest;) {
    if (p.order[i].value != expected) seen.push_back(i);
  }
  const auto n = static_cast<unsigned>(seen.size()) + (can ? 1 : 0);
  const unsigned taken = w.ask({kind::value, w.steps(), n, nullptr, true});
  if (can && taken == 0) {
    w.places().see(p, w.mine().now, p.order.size() - 1, success);
    w.places().append(p, w.mine().now, desired, success, true);
    record("CAS", success, id, p, expected, desired);
    return true;
  }
  const std::size_t index = seen[taken - (can ? 1 : 0)];
  w.places().see(p, w.mine().now, index, failure);
  expected = p.order[index].value;
  record("CAS fails", failure, id, p, expected, expected,
         static_cast<unsigned>(p.order.size() - 1 - index));
  return false;
}

// As libstdc++ does it: a load; then the kernel, in one order with everything, looks once more and
// lets the thread sleep.
void wait(cell c, std::uint64_t old, std::memory_order o, const site& at) noexcept {
  const operation here;
  const site_id id = id_of(at);
  execution& w = world();
  for (;;) {
    w.step(id);
    if (load_at(c, weakened(id, 0, action::load, o), id, "load to wait") != old) return;
    w.step(id);
    if (load_at(c, std::memory_order_seq_cst, id, "futex wait") != old) continue;
    w.block(c.at, "for a notification");
  }
}

// What is waited for may have ended: only its address counts.
void notify(const void* at, int how_many, const site& from) noexcept {
  if (!active()) return;
  const operation here;
  execution& w = world();
  const site_id id = id_of(from);
  w.step(no_site);
  const int woken = w.wake(at, how_many);
  if (place* const p = w.places().find(at)) {
    record(how_many == 1 ? "notify_one" : "notify_all", no_order, id, *p,
           static_cast<std::uint64_t>(woken), static_cast<std::uint64_t>(woken));
  }
}

// Relaxed accesses never race; only an end that nothing orders after them does (end_life).
void use_statistic(const void* at, std::memory_order o) noexcept {
  if (!active()) return;
  const operation here;
  execution& w = world();
  place& p = w.places().know(at);
  if (o != std::memory_order_relaxed) fail("a statistic is used with an order");
  if (p.ended) fail("use after end: a statistic");
  w.tick(w.current());
  const std::uint32_t time = w.mine().now.known.of[static_cast<std::size_t>(w.current())];
  p.reads.set(w.current(), time, no_site, nullptr);
}

void read_plain(const void* field) noexcept {
  if (!active()) return;
  const operation here;
  plain_access(field, access::read, __builtin_return_address(0));
}

void write_plain(const void* field) noexcept {
  if (!active()) return;
  const operation here;
  plain_access(field, access::write, __builtin_return_address(0));
}

int start(std::function<void()> work) {
  const operation here;
  return world().start(std::move(work));
}

void join(int thread) noexcept {
  const operation here;
  world().join(thread);
}

void lock(const void* mutex) noexcept {
  if (!active()) return;
  const operation here;
  execution& w = world();
  w.step(no_site);
  for (;;) {
    place& p = w.places().know(cell{mutex, 0});
    if (p.holder < 0) {
      p.holder = w.current();
      w.places().note(p, w.current(), w.mine().now, access::write, no_site);
      w.places().see(p, w.mine().now, p.order.size() - 1, std::memory_order_acquire);
      record("lock", no_order, no_site, p, 0, 0);
      return;
    }
    w.block(mutex, "for a lock");
  }
}

void unlock(const void* mutex) noexcept {
  if (!active()) return;
  const operation here;
  execution& w = world();
  place& p = w.places().know(mutex);
  p.holder = -1;
  w.places().note(p, w.current(), w.mine().now, access::write, no_site);
  w.places().append(p, w.mine().now, 0, std::memory_order_release, true);
  record("unlock", no_order, no_site, p, 0, 0);
  w.wake(mutex, max_threads);
}

void pause(std::chrono::nanoseconds time) noexcept {
  if (!active()) return;
  const operation here;
  world().pause(time);
}

std::chrono::nanoseconds now() noexcept {
  return active() ? world().look_at_clock() : std::chrono::nanoseconds{};
}

unsigned any_of(unsigned n) noexcept {
  const operation here;
  world().count_step();
  return world().ask({kind::test, world().steps(), n, nullptr, true});
}

}  // namespace schedule
