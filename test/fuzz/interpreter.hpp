// interpreter.hpp - does with the library what a program says, and tells the model all that
// happens.
//
// Programs that would wait in a circle are not made: the library does not find circles of several
// chains. So
//   - what holds a section waits only for sections of higher numbers, or for one it holds already,
//     which is refused; `actor::floor` says the same of a task that somebody waits for in `join`
//     while holding sections
//   - guards that outlive the block that took them lie in slots, and whoever runs the executors
//     unlocks them when nothing else is left to do
//
// Requests are withdrawn only where nobody can be in the middle of serving them: not within jobs
// within jobs, and not where executors are eager. Threads are for that (test/schedule,
// test/stress).
//
// Programs that would need a thread are not made either: what has no executor and would be served
// without one goes to thread_pool::shared(). So code that runs nowhere (a task spawned without an
// executor, until it first suspends) neither posts to sections without an executor nor hands one
// on; where it waits for one it says where to go on. Nor does it make requests that may be
// withdrawn. And nothing is withdrawn that has a section which what was posted there, or the end of
// its line, would have next.
#pragma once

#include "fuzz/model.hpp"
#include "fuzz/program.hpp"
#include "fuzz/world.hpp"

#include <turnstile/turnstile.hpp>

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

namespace fuzz {

// Who does something: the chain it is part of, and what it must not wait for.
struct actor {
  chain* holds;
  int floor;  // nothing up to here
};

// One request to a section, under way. Lives as long as the program runs.
struct asked {
  const instruction* how = nullptr;
  std::size_t section = 0;
  verdict said = verdict::accepted;
  request* as = nullptr;   // null if it was refused
  chain* inner = nullptr;  // of its body
  int floor = -1;
  place home = place::nowhere;            // where the awaiter was
  place resume_on = place::nowhere;       // what it asked for instead
  std::uint64_t events = 0;               // when it was asked
  long value = 0;                         // what the body returns
  std::optional<std::size_t> stopped_by;  // the number of its token
  std::stop_token token;
  std::chrono::steady_clock::time_point deadline = turnstile::never;
  std::optional<std::uint64_t> level;  // of an execute_when
};

// How the children of one when_all or scope ended.
struct ends {
  std::size_t ended = 0;
  std::exception_ptr first_error;  // which counts: a cancellation only if there is nothing else
  place last = place::nowhere;
  int last_depth = 0;  // of jobs within jobs

  void note(const std::exception_ptr& error, place where, int depth) {
    ++ended;
    last = where;
    last_depth = depth;
    const bool follows = reason_of(first_error) == reason::cancelled &&
                         reason_of(error) != reason::cancelled && error != nullptr;
    if (first_error == nullptr || follows) first_error = error;
  }
};

class interpreter {
 public:
  explicit interpreter(const program& p);
  ~interpreter();
  interpreter(const interpreter&) = delete;
  interpreter& operator=(const interpreter&) = delete;

  void run();

  // For bodies and awaiters.
  template <class R>
  R plain(asked& q);
  template <class R>
  turnstile::task<R> waiting(asked& q);
  void see(asked& q, long& data);
  bool may_run(asked& q);
  void others_go_first(unsigned turns);

 private:
  struct root {
    explicit root(turnstile::executor_ref on) : scope({.executor = on}) {}
    turnstile::async_scope scope;
    ends end;
    bool joined = true;
  };

  // The driver.
  void drive(const driver_step& s);
  void spawn(const driver_step& s);
  template <class F>
  void in_a_job(F f);
  void run_until_quiet();
  void finish();
  void end_of(std::unique_ptr<root> r);
  static void on_error(std::exception_ptr error, std::string_view section, std::source_location);

  // Tasks. Those that need not wait are done by plain_step, also inside plain bodies; false: not
  // such.
  turnstile::task<> run_block(actor a, const block& b);
  turnstile::task<> step(actor a, const instruction& i);
  bool plain_step(actor a, const instruction& i);
  turnstile::task<long> child(actor a, const block& b, ends& e, long number);
  turnstile::task<> all_of_two(actor a, const instruction& i);
  turnstile::task<> all_in_range(actor a, const instruction& i);
  turnstile::task<> crowd(actor a, const instruction& i);
  turnstile::task<> often(actor a, const instruction& i);
  turnstile::task<> short_life(const instruction& i);
  turnstile::task<> all_of(actor a, std::vector<const block*> blocks, bool pass_errors);
  turnstile::task<> nested_scope(actor a, const instruction& i);
  turnstile::task<> join(turnstile::async_scope& scope, const instruction& i);
  turnstile::task<> schedule(actor a, const instruction& i);
  turnstile::task<> scheduled(actor a, const instruction& i, place there, ends& e);
  turnstile::task<> yield_once();
  turnstile::task<> close(actor a, const instruction& i);
  void check_place_after(const ends& e, place home, int before) const;
  void check_ends(const ends& e, std::size_t children, const std::exception_ptr& error);

  // Bodies.
  void begin(asked& q);
  template <class R>
  turnstile::task<R> waits(asked& q);
  template <class R>
  turnstile::task<R> waits_not(asked& q);  // throws before there is anything to wait for

  // Executions.
  turnstile::task<> execute(actor a, const instruction& i);
  template <class Body, class Target>
  turnstile::task<> execute_on(actor a, const instruction& i, std::size_t section, Target& target);
  void try_execute(actor a, const instruction& i);
  template <class R, class Target>
  void try_execute_on(actor a, asked& q, Target& target);
  void wait_in_place(actor a, const instruction& i);
  template <class R, class Target>
  void wait_in_place_on(actor a, asked& q, Target& target);
  bool would_not_wait(actor a, std::size_t section);
  void came_back(actor a, asked& q, const outcome& got);
  bool went(asked& q, const std::exception_ptr& error);

  // Executions that nobody's frame waits for.
  void submit(const instruction& i);
  template <class Body, class Target>
  void submit_to(const instruction& i, std::size_t section, Target& target);
  void post(const instruction& i);
  template <class Body, class Target>
  void post_to(const instruction& i, std::size_t section, Target& target);
  void post_many(const instruction& i);
  turnstile::task<> await_handle(actor a, const instruction& i);
  void check_handle(actor a, request& r, const outcome& got, bool refused_wait);
  void drop_handle(std::size_t slot);
  void move_handle(const instruction& i);

  // Guards.
  turnstile::task<> lock(actor a, const instruction& i, bool into_slot);
  template <class Target>
  turnstile::task<> lock_on(actor a, const instruction& i, std::size_t section, Target& target,
                            bool into_slot);
  template <class Guard>
  turnstile::task<> hold(actor a, asked& q, Guard guard);
  template <class Guard>
  void put(std::size_t slot, Guard guard, request& r);
  template <class Guard>
  void give_back(Guard& guard, request& r, unsigned how);
  void try_lock(actor a, const instruction& i);
  void unlock_slot(std::size_t slot, unsigned how);
  void detach_slot(std::size_t slot);
  void move_slot(const instruction& i);
  bool owned_slots() const;
  bool may_hand_on(const request& r) const;

  // Asking.
  enum class tried : std::uint8_t { empty, closed, runs };
  tried predict_try(std::size_t section);
  std::optional<std::size_t> choose(actor a, const instruction& i) const;
  bool may_wait_for(actor a, std::size_t section) const;
  bool is_bound(std::size_t section) const;
  bool needs_thread(std::size_t section) const;  // if it is handed on from here
  bool is_elsewhere(std::size_t section) const;  // not where its bodies run
  asked& ask(actor a, const instruction& i, std::size_t section, request::kind what);
  asked& ask_without_waiting(const instruction& i, std::size_t section);
  void say_how_to_withdraw(asked& q, const instruction& i);
  static void never_withdraw(asked& q);
  void note_how_to_withdraw(asked& q, bool has_to_wait);
  bool is_stopped(const asked& q) const;
  static reason why_stopped(const asked& q);
  static reason why_refused(const asked& q);
  template <class F>
  bool may_withdraw_here(F goes) const;
  void stop_token(std::size_t slot, bool renew);
  void advance(std::chrono::nanoseconds by);
  void settle();
  place starts_at(std::size_t section, bool idle) const;
  turnstile::execute_options options(const asked& q);
  unsigned gap(const asked& q) const;
  unsigned turns_between(const instruction& i) const;

  // Checking.
  void check_refused(actor a, const asked& q, const std::exception_ptr& error);
  void check_path(actor a, std::size_t section, const turnstile::deadlock_error& e);
  void check_place(place expected) const;
  void look();
  void look_at(std::size_t section);
  place now() const { return world_.on.now(); }
  int depth() const { return world_.on.depth(); }
  place executor_of(const instruction& i) const {
    return i.other_executor() ? place::second : place::first;
  }

  const program& program_;
  world world_;
  model model_;
  std::deque<asked> asked_;
  std::deque<instruction> made_;
  std::deque<block> made_blocks_;
  std::vector<std::unique_ptr<root>> roots_;
  std::vector<long> visits_;      // of the data in a section
  std::exception_ptr abandoned_;  // what the scope that ends now did not tell anybody
  long last_value_ = 0;
};

// Runs the program that the bytes stand for, and ends the process if anything is wrong.
void run_program(std::span<const std::uint8_t> bytes);

// An execution, with others getting turns between its two steps: it has its place in line, and is
// not published yet, as if its thread were stopped there.
template <class A>
class late {
 public:
  late(interpreter& in, unsigned turns, A&& a) : in_(&in), turns_(turns), inner_(std::move(a)) {}
  late(late&&) = default;

  bool await_ready() { return inner_.await_ready(); }
  template <class P>
  auto await_suspend(std::coroutine_handle<P> h) {
    in_->others_go_first(turns_);
    return inner_.await_suspend(h);
  }
  decltype(auto) await_resume() { return inner_.await_resume(); }

 private:
  interpreter* in_;
  unsigned turns_;
  A inner_;
};

// Calls `f` with the section, or with the data and section in one.
template <class F>
decltype(auto) with_target(const site& s, F&& f) {
  return s.data() != nullptr ? f(*s.data()) : f(s.section());
}

template <class R>
struct plain_body {
  using value = R;
  R operator()() const { return in->plain<R>(*q); }
  R operator()(long& data) const {
    in->see(*q, data);
    return in->plain<R>(*q);
  }
  interpreter* in;
  asked* q;
};

template <class R>
struct waiting_body {
  using value = R;
  turnstile::task<R> operator()() const { return in->waiting<R>(*q); }
  turnstile::task<R> operator()(long& data) const {
    in->see(*q, data);
    return in->waiting<R>(*q);
  }
  interpreter* in;
  asked* q;
};

struct predicate {
  bool operator()() const { return in->may_run(*q); }
  bool operator()(const long&) const { return in->may_run(*q); }
  interpreter* in;
  asked* q;
};

inline long value_of(const token& t, const asked&) { return t.value(); }
inline long value_of(long& value, const asked& q) {
  expect(&value == &q.value, "a reference to something else");
  return value;
}

}  // namespace fuzz
