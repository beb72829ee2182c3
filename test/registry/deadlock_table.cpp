// deadlock_table.cpp - every way of waiting in every scenario, with the verdict that is expected.
//
// A party holds sections, waits at its own door, and then waits for something while it still holds
// them. How it does all that is the column; what it meets is the row. The others are parties too,
// of the usual kind. All of it runs on one thread, but for parties that block theirs.

#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <doctest/doctest.h>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using support::foreign;
using support::gate;
using support::loop;

namespace {

enum class verdict {
  silent,    // nobody is refused, and all finish
  reentry,   // reentry_error
  deadlock,  // deadlock_error in at least one party, and all finish
  not_seen,  // they wait for each other until somebody else helps
  none       // there is no such thing; the row or the column says why
};

std::string_view text(verdict v) {
  switch (v) {
    case verdict::silent: return "silent";
    case verdict::reentry: return "reentry";
    case verdict::deadlock: return "deadlock";
    case verdict::not_seen: return "not seen";
    case verdict::none: break;
  }
  return "-";
}

// What a party waits for in the end.
struct want {
  enum class what { entry, end, opening };

  what of;
  critical_section* section = nullptr;
  gate* shut = nullptr;
};
want entry(critical_section& s) { return {want::what::entry, &s}; }
want end_of(critical_section& s) { return {want::what::end, &s}; }
want opening(gate& g) { return {want::what::opening, nullptr, &g}; }

task<> wait_for(want w) {
  switch (w.of) {
    case want::what::entry: co_await w.section->execute([] {}); break;
    case want::what::end: co_await w.section->close(); break;
    case want::what::opening: co_await *w.shut; break;
  }
}

struct party;

// A column.
struct way {
  std::string_view name;
  std::string_view of;  // in a sentence
  void (*start)(party&);
  bool waits = true;  // false: what it starts goes on by itself
};

struct party {
  party(const way& how, loop& on, std::vector<critical_section*> held, want last)
      : go_on(&on),
        holds(std::move(held)),
        wanted(last),
        scope_later({.executor = on}),
        how(&how) {}
  ~party() {
    if (thread.joinable()) thread.join();
  }

  void note_error() {
    try {
      throw;
    } catch (const reentry_error&) {
      reentries = true;
    } catch (const deadlock_error&) {
      deadlocks = true;
    }
  }

  loop* go_on;
  std::vector<critical_section*> holds;  // outermost first
  want wanted;
  critical_section door;  // it waits here, with all it holds
  section_guard key = support::hold(door);
  critical_section spare;  // for bodies that touch no section of the scenario
  async_scope scope;
  async_scope scope_later;  // its work starts when the loop gets to it
  gate inner_over;
  std::vector<foreign> runners;
  std::thread thread;
  const way* how;
  std::atomic<bool> over{false};
  std::atomic<bool> reentries{false};
  std::atomic<bool> deadlocks{false};
};

// --- the ways ------------------------------------------------------------------------------------

using last_step = task<> (*)(party&);

task<> nested(party& p, std::size_t i, last_step last) {
  if (i == p.holds.size()) {
    co_await p.door.execute([] {});
    co_await last(p);
    co_return;
  }
  auto body = [&p, i, last] { return nested(p, i + 1, last); };
  co_await p.holds[i]->execute(body);
}

task<> to_its_end(party& p, task<> t) {
  try {
    co_await std::move(t);
  } catch (...) {
    p.note_error();
  }
  p.over = true;
}

foreign run(task<> t) { co_await std::move(t); }

template <last_step last>
void start_nested(party& p) {
  p.runners.push_back(run(to_its_end(p, nested(p, 0, last))));
}

task<> directly(party& p) { return wait_for(p.wanted); }

task<> nothing() { co_return; }
task<> in_a_child(party& p) { co_await when_all(nothing(), wait_for(p.wanted)); }

task<> posting(party& p) {
  if (p.wanted.of == want::what::entry) {
    p.wanted.section->post([] {});
  } else {
    p.spare.post([&p] { return wait_for(p.wanted); });
  }
  co_return;
}

task<> spawning(party& p) {
  p.scope.spawn(wait_for(p.wanted));
  co_return;
}

task<> on_a_handle(party& p) {
  if (p.wanted.of == want::what::entry) {
    auto h = p.wanted.section->submit([] {});
    co_await h;
  } else {
    auto h = p.spare.submit([&p] { return wait_for(p.wanted); });
    co_await h;
  }
}

task<> joining(party& p) {
  p.scope.spawn(wait_for(p.wanted));
  co_await p.scope.join();
}

task<> joining_first(party& p) {
  p.scope_later.spawn(wait_for(p.wanted));
  co_await p.scope_later.join();
}

foreign ask_in_foreign(party& p) {
  try {
    switch (p.wanted.of) {
      case want::what::entry: co_await p.wanted.section->execute([] {}); break;
      case want::what::end: co_await p.wanted.section->close(); break;
      case want::what::opening: co_await *p.wanted.shut; break;
    }
  } catch (...) {
    p.note_error();
  }
  p.inner_over.open();
}

task<> through_foreign(party& p) {
  p.runners.push_back(ask_in_foreign(p));
  co_await p.inner_over;
}

void start_posted(party& p) {
  p.holds[0]->post([&p] { return to_its_end(p, nested(p, 1, &directly)); });
}

void start_spawned(party& p) { p.scope.spawn(to_its_end(p, nested(p, 0, &directly))); }

task<> with_guards(party& p) {
  std::vector<section_guard> guards;
  for (critical_section* s : p.holds) guards.push_back(co_await s->lock());
  co_await p.door.lock();
  if (p.wanted.of == want::what::entry) {
    co_await p.wanted.section->lock();
  } else {
    co_await wait_for(p.wanted);
  }
}
void start_with_guards(party& p) { p.runners.push_back(run(to_its_end(p, with_guards(p)))); }

foreign all_foreign(party& p) {
  try {
    co_await yield();  // from here on it runs because the library resumed it
    std::vector<section_guard> guards;
    for (critical_section* s : p.holds) guards.push_back(co_await s->lock());
    co_await p.door.execute([] {});
    switch (p.wanted.of) {
      case want::what::entry: co_await p.wanted.section->execute([] {}); break;
      case want::what::end: co_await p.wanted.section->close(); break;
      case want::what::opening: co_await *p.wanted.shut; break;
    }
  } catch (...) {
    p.note_error();
  }
  p.over = true;
}
void start_foreign(party& p) { p.runners.push_back(all_foreign(p)); }

void blocking(party& p, std::size_t i) {
  if (i == p.holds.size()) {
    sync_wait(p.door.execute([] {}));
    sync_wait(wait_for(p.wanted));
  } else {
    sync_wait(p.holds[i]->execute([&p, i] { blocking(p, i + 1); }));
  }
}
void in_place(party& p, std::size_t i) {
  if (i != p.holds.size()) {
    p.holds[i]->execute_blocking([&p, i] { in_place(p, i + 1); });
    return;
  }
  p.door.execute_blocking([] {});
  if (p.wanted.of == want::what::entry) {
    p.wanted.section->execute_blocking([] {});
  } else {
    sync_wait(wait_for(p.wanted));
  }
}

template <auto Steps>
void start_thread(party& p) {
  p.thread = std::thread([&p] {
    try {
      Steps(p, 0);
    } catch (...) {
      p.note_error();
    }
    p.over = true;
  });
}

void wait_in_fiber(const want& w) {
  if (w.of == want::what::entry) {
    delegated_mutex m(*w.section);
    const std::scoped_lock mine(m);
  } else {
    turnstile::await(wait_for(w));
  }
}
void locked(party& p, std::size_t i) {
  if (i != p.holds.size()) {
    delegated_mutex m(*p.holds[i]);
    const std::scoped_lock mine(m);
    return locked(p, i + 1);
  }
  turnstile::await(p.door.execute([] {}));
  wait_in_fiber(p.wanted);
}
void start_fiber(party& p) {
  spawn_fiber(*p.go_on, [&p] {
    try {
      locked(p, 0);
    } catch (...) {
      p.note_error();
    }
    p.over = true;
  });
}

task<> on_a_fiber(party& p) {
  auto f = spawn_fiber(*p.go_on, [&p] { wait_in_fiber(p.wanted); });
  co_await std::move(f);
}

constexpr way ways[] = {
    {"plain", "a plain body that blocks its thread", &start_thread<blocking>},
    {"in place", "execute_blocking", &start_thread<in_place>},
    {"when_all", "a child of when_all", &start_nested<in_a_child>},
    {"post", "posted work, not waited for", &start_nested<posting>, false},
    {"spawn", "spawned work, not waited for", &start_nested<spawning>, false},
    {"in post", "a body that was posted", &start_posted},
    {"in spawn", "work that was spawned", &start_spawned},
    {"handle", "a handle", &start_nested<on_a_handle>},
    {"scope", "join of work that waits", &start_nested<joining>},
    {"joined", "join of work that waits later", &start_nested<joining_first>},
    {"guard", "guards", &start_with_guards},
    {"awaitable", "an awaitable body", &start_nested<directly>},
    {"foreign", "a foreign coroutine with guards", &start_foreign},
    {"f. inside", "a foreign coroutine inside a body", &start_nested<through_foreign>},
    {"mutex", "a fiber with delegated mutexes", &start_fiber},
    {"fiber", "a fiber that is awaited", &start_nested<on_a_fiber>},
};
constexpr const way& usual = ways[11];

// --- a scenario ----------------------------------------------------------------------------------

std::string at_work;  // what a test that hangs says

class world {
 public:
  explicit world(const way& how) : how_(&how) {}

  ~world() {
    for (party& p : parties_) wait_until([&] { return p.over.load(); });
    for (party& p : parties_) {
      for (async_scope* s : {&p.scope, &p.scope_later}) join_quietly(*s);
      wait_until([&] { return !p.spare.statistics().held; });
    }
  }

  critical_section a{"a"};
  critical_section b{"b"};
  critical_section c{"c"};

  // The one whose way is the column, and any other.
  party& one(std::vector<critical_section*> holds, want wanted) {
    return add(*how_, std::move(holds), wanted);
  }
  party& other(std::vector<critical_section*> holds, want wanted) {
    return add(usual, std::move(holds), wanted);
  }
  party& add(const way& how, std::vector<critical_section*> holds, want wanted) {
    return parties_.emplace_back(how, loop_, std::move(holds), wanted);
  }

  // The party has all it holds, and waits at its door.
  void let_hold(party& p) {
    begin(p);
    wait_until([&] { return p.door.statistics().waiters == 1; });
  }
  // The party is in line for the first it wants to hold.
  void let_queue(party& p) {
    const std::size_t before = p.holds[0]->statistics().waiters;
    begin(p);
    wait_until([&] { return p.holds[0]->statistics().waiters == before + 1; });
  }
  void begin(party& p) {
    act([&] { p.how->start(p); });
  }
  // The party waits for what it wants in the end, or is through.
  void let_ask(party& p) {
    const std::size_t before = waiting_for(p.wanted);
    open_door(p);
    wait_until([&] { return p.over || waiting_for(p.wanted) > before; });
  }
  void open_door(party& p) {
    act([&] { p.key.unlock(); });
  }

  template <class F>
  void act(F f) {
    struct call : job {
      explicit call(F& g) noexcept : job(&run_it), function(&g) {}
      static void run_it(job& j) noexcept { (*static_cast<call&>(j).function)(); }
      F* function;
    };
    call first(f);
    executor_ref(loop_).post(first);
    loop_.run();
  }

  bool all_over() {
    loop_.run();
    for (const party& p : parties_) {
      if (!p.over) return false;
    }
    return true;
  }

  // Once all of them are through.
  verdict look() {
    wait_until([&] { return all_over(); });
    bool reentry = false;
    bool deadlock = false;
    for (const party& p : parties_) {
      reentry = reentry || p.reentries;
      deadlock = deadlock || p.deadlocks;
    }
    CHECK_FALSE((reentry && deadlock));
    return reentry ? verdict::reentry : deadlock ? verdict::deadlock : verdict::silent;
  }

  // Nobody has anything, and everything can be had.
  void check_usable(std::initializer_list<critical_section*> sections) {
    for (critical_section* s : sections) {
      wait_until([&] { return !s->statistics().held; });
      CHECK(s->try_execute([] {}));
    }
  }

 private:
  static std::size_t waiting_for(const want& w) {
    return w.section != nullptr ? w.section->statistics().waiters : w.shut->waiting();
  }

  template <class Condition>
  void wait_until(Condition is_so) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (;;) {
      loop_.run();
      if (is_so()) return;
      if (std::chrono::steady_clock::now() > give_up) {
        std::fprintf(stderr, "they wait for ever: %s\n", at_work.c_str());
        std::abort();
      }
      std::this_thread::yield();
    }
  }

  void join_quietly(async_scope& s) {
    std::atomic<bool> over{false};
    const foreign f = [](async_scope& scope, std::atomic<bool>& flag) -> foreign {
      try {
        co_await scope.join();
      } catch (const deadlock_error&) {  // a party has counted it, or it was asked for by nobody
      }
      flag = true;
    }(s, over);
    wait_until([&] { return over.load(); });
  }

  const way* how_;
  loop loop_;
  std::deque<party> parties_;
};

// --- the scenarios -------------------------------------------------------------------------------

verdict direct(const way& how) {
  world w(how);
  party& one = w.one({&w.a}, entry(w.a));
  w.let_hold(one);
  w.open_door(one);
  const verdict v = w.look();
  w.check_usable({&w.a});
  return v;
}

verdict through_another(const way& how) {
  world w(how);
  party& one = w.one({&w.a, &w.b}, entry(w.a));
  w.let_hold(one);
  w.open_door(one);
  const verdict v = w.look();
  w.check_usable({&w.a, &w.b});
  return v;
}

verdict closing_the_own(const way& how) {
  world w(how);
  party& one = w.one({&w.a}, end_of(w.a));
  w.let_hold(one);
  w.open_door(one);
  const verdict v = w.look();
  if (v == verdict::reentry) w.check_usable({&w.a});
  return v;
}

verdict two(const way& first, const way& second) {
  world w(first);
  party& x = w.one({&w.a}, entry(w.b));
  party& y = w.add(second, {&w.b}, entry(w.a));
  w.let_hold(x);
  w.let_hold(y);
  w.let_ask(x);
  w.let_ask(y);
  const verdict v = w.look();
  w.check_usable({&w.a, &w.b});
  return v;
}
verdict two_last(const way& how) { return two(usual, how); }
verdict two_first(const way& how) { return two(how, usual); }

verdict three(const way& how, int place) {
  world w(how);
  party& x = w.one({&w.a}, entry(w.b));
  party& y = w.other({&w.b}, entry(w.c));
  party& z = w.other({&w.c}, entry(w.a));
  std::vector<party*> order{&y, &z};
  order.insert(order.begin() + place, &x);
  for (party* p : order) w.let_hold(*p);
  for (party* p : order) w.let_ask(*p);
  const verdict v = w.look();
  w.check_usable({&w.a, &w.b, &w.c});
  return v;
}
verdict three_last(const way& how) { return three(how, 2); }
verdict three_between(const way& how) { return three(how, 1); }
verdict three_first(const way& how) { return three(how, 0); }

// It holds two, and the other wants the outer one.
verdict several(const way& how, bool last) {
  world w(how);
  party& x = w.one({&w.a, &w.b}, entry(w.c));
  party& y = w.other({&w.c}, entry(w.a));
  w.let_hold(x);
  w.let_hold(y);
  w.let_ask(last ? y : x);
  w.let_ask(last ? x : y);
  const verdict v = w.look();
  w.check_usable({&w.a, &w.b, &w.c});
  return v;
}
verdict several_last(const way& how) { return several(how, true); }
verdict several_first(const way& how) { return several(how, false); }

// It closes a section whose holder waits for it.
verdict closing(const way& how, bool last) {
  world w(how);
  party& x = w.one({&w.a}, end_of(w.b));
  party& y = w.other({&w.b}, entry(w.a));
  w.let_hold(x);
  w.let_hold(y);
  w.let_ask(last ? y : x);
  w.let_ask(last ? x : y);
  const verdict v = w.look();
  w.check_usable({&w.a});
  return v;
}
verdict closing_last(const way& how) { return closing(how, true); }
verdict closing_first(const way& how) { return closing(how, false); }

// Both orders inside, but one at a time: c is the gate.
verdict gate_section(const way& how) {
  world w(how);
  party& x = w.one({&w.c, &w.a}, entry(w.b));
  party& y = w.other({&w.c, &w.b}, entry(w.a));
  w.let_hold(x);
  w.let_queue(y);
  w.open_door(y);
  w.open_door(x);
  const verdict v = w.look();
  w.check_usable({&w.a, &w.b, &w.c});
  return v;
}

verdict hierarchy(const way& how) {
  world w(how);
  party& x = w.one({&w.a, &w.b}, entry(w.c));
  party& y = w.other({&w.a, &w.b}, entry(w.c));
  party& z = w.other({&w.b}, entry(w.c));
  w.let_hold(x);
  w.let_queue(y);
  w.let_queue(z);
  w.open_door(y);
  w.open_door(z);
  w.open_door(x);
  const verdict v = w.look();
  w.check_usable({&w.a, &w.b, &w.c});
  return v;
}

verdict at_other_times(const way& how) {
  world w(how);
  party& x = w.one({&w.a}, entry(w.b));
  w.let_hold(x);
  w.open_door(x);
  const verdict first = w.look();
  party& y = w.other({&w.b}, entry(w.a));
  w.let_hold(y);
  w.open_door(y);
  const verdict second = w.look();
  CHECK(first == second);
  w.check_usable({&w.a, &w.b});
  return second;
}

// Two sections guard data that is only read, and their bodies meet in a third one.
verdict reading(const way& how) {
  world w(how);
  party& x = w.one({&w.a}, entry(w.c));
  party& y = w.other({&w.b}, entry(w.c));
  section_guard busy = support::hold(w.c);
  w.let_hold(x);
  w.let_hold(y);
  w.let_ask(x);
  w.let_ask(y);
  w.act([&] { busy.unlock(); });
  const verdict v = w.look();
  w.check_usable({&w.a, &w.b, &w.c});
  return v;
}

// The one who would open the gate waits for who waits at it.
verdict foreign_awaitable(const way& how) {
  world w(how);
  gate g;
  bool opened = false;
  party& x = w.one({&w.a}, opening(g));
  w.let_hold(x);
  const foreign opener = run([](critical_section& s, gate& shut, bool& done) -> task<> {
    co_await s.execute([] {});
    done = true;
    shut.open();
  }(w.a, g, opened));
  w.let_ask(x);
  const bool through = w.all_over();
  if (!through) w.act([&] { g.open(); });
  const verdict v = w.look();
  CHECK(opener.done());
  CHECK(opened);
  w.check_usable({&w.a});
  return through || v != verdict::silent ? v : verdict::not_seen;
}

// The other one's guard belongs to nobody any more.
verdict detached_guard(const way& how) {
  world w(how);
  section_guard kept;
  bool other_over = false;
  party& x = w.one({&w.a}, entry(w.b));
  w.let_hold(x);
  const foreign other = run(
      [](critical_section& mine, critical_section& next, section_guard& g, bool& flag) -> task<> {
        g = co_await mine.lock();
        g.detach();
        co_await next.execute([] {});
        flag = true;
      }(w.b, w.a, kept, other_over));
  w.let_ask(x);
  const bool through = w.all_over();
  w.act([&] { kept.unlock(); });
  const verdict v = w.look();
  CHECK(other_over);
  w.check_usable({&w.a, &w.b});
  return through || v != verdict::silent ? v : verdict::not_seen;
}

// --- the table -----------------------------------------------------------------------------------

struct row {
  std::string_view name;
  verdict (*play)(const way&);
  std::array<verdict, std::size(ways)> expected;
};

constexpr verdict S = verdict::silent;
constexpr verdict R = verdict::reentry;
constexpr verdict D = verdict::deadlock;
constexpr verdict N = verdict::not_seen;
constexpr verdict O = verdict::none;  // what is posted or submitted is a body, and closing is none

// clang-format off
const row table[] = {
    //                                            pln plc all  post spawn inp ins  hdl scope jnd guard awt fgn  f.in mtx fbr
    {"its own section",           &direct,            {R,  R,  R,   S,   S,   R,   R,   D,   D,   D,   R,   R,   R,   R,   R,   D}},
    {"its own through another",   &through_another,   {R,  R,  R,   S,   S,   R,   R,   D,   D,   D,   R,   R,   R,   R,   R,   D}},
    {"closes its own",            &closing_the_own,   {R,  R,  R,   O,   S,   R,   R,   O,   D,   D,   R,   R,   R,   R,   R,   D}},
    {"two chains, waits last",    &two_last,          {D,  D,  D,   S,   S,   D,   D,   D,   D,   D,   D,   D,   D,   D,   D,   D}},
    {"two chains, waits first",   &two_first,         {D,  D,  D,   S,   S,   D,   D,   D,   D,   D,   D,   D,   D,   D,   D,   D}},
    {"three chains, last",        &three_last,        {D,  D,  D,   S,   S,   D,   D,   D,   D,   D,   D,   D,   D,   D,   D,   D}},
    {"three chains, between",     &three_between,     {D,  D,  D,   S,   S,   D,   D,   D,   D,   D,   D,   D,   D,   D,   D,   D}},
    {"three chains, first",       &three_first,       {D,  D,  D,   S,   S,   D,   D,   D,   D,   D,   D,   D,   D,   D,   D,   D}},
    {"holds two, waits last",     &several_last,      {D,  D,  D,   S,   S,   D,   D,   D,   D,   D,   D,   D,   D,   D,   D,   D}},
    {"holds two, waits first",    &several_first,     {D,  D,  D,   S,   S,   D,   D,   D,   D,   D,   D,   D,   D,   D,   D,   D}},
    {"closes another's, last",    &closing_last,      {D,  D,  D,   O,   S,   D,   D,   O,   D,   D,   D,   D,   D,   D,   D,   D}},
    {"closes another's, first",   &closing_first,     {D,  D,  D,   O,   S,   D,   D,   O,   D,   D,   D,   D,   D,   D,   D,   D}},
    {"safe: a gate section",      &gate_section,      {S,  S,  S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S}},
    {"safe: a hierarchy",         &hierarchy,         {S,  S,  S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S}},
    {"safe: at other times",      &at_other_times,    {S,  S,  S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S}},
    {"safe: shared and read",     &reading,           {S,  S,  S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S,   S}},
    {"a foreign awaitable",       &foreign_awaitable, {N,  N,  N,   S,   S,   N,   N,   N,   N,   N,   N,   N,   N,   N,   N,   N}},
    {"a detached guard",          &detached_guard,    {N,  N,  N,   S,   S,   N,   N,   N,   N,   N,   N,   N,   N,   N,   N,   N}},
};
// clang-format on

void print_table(const std::vector<std::array<verdict, std::size(ways)>>& actual) {
  std::printf("%-26s", "");
  for (const way& how : ways) std::printf(" %-9s", std::string(how.name).c_str());
  std::printf("\n");
  for (std::size_t r = 0; r != actual.size(); ++r) {
    std::printf("%-26s", std::string(table[r].name).c_str());
    for (std::size_t c = 0; c != std::size(ways); ++c) {
      const bool as_expected = actual[r][c] == table[r].expected[c];
      const std::string shown = std::string(text(actual[r][c])) + (as_expected ? "" : " !");
      std::printf(" %-9s", shown.c_str());
    }
    std::printf("\n");
  }
}

}  // namespace

TEST_SUITE("registry") {
  TEST_CASE("deadlock table: every way of waiting gets its verdict in every scenario") {
    std::vector<std::array<verdict, std::size(ways)>> actual;
    for (const row& r : table) {
      auto& verdicts = actual.emplace_back();
      for (std::size_t c = 0; c != std::size(ways); ++c) {
        at_work = std::string(r.name) + ", " + std::string(ways[c].name);
        INFO(at_work);
        verdicts[c] = r.expected[c] == O ? O : r.play(ways[c]);
        CHECK(text(verdicts[c]) == text(r.expected[c]));
      }
    }
    print_table(actual);
  }

  TEST_CASE("deadlock table: two chains are found whichever way either of them waits") {
    for (const way& first : ways) {
      for (const way& second : ways) {
        at_work = std::string(first.name) + " first, then " + std::string(second.name);
        INFO(at_work);
        CHECK(text(two(first, second)) == text(first.waits && second.waits ? D : S));
      }
    }
  }
}
