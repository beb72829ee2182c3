// model.hpp - what has to happen, worked out without the library: lines of requests, one after the
// other, and chains of holds.
//
// The interpreter tells it each thing that happens, in the order in which it happens; there is one
// thread, so there is only one. What the model did not expect ends the program with a message.
//
// Shape    a section is a line: the request in front has the section, until it ends
//
//            accept --> queued --start or granted--> running --end--> done --deliver--> told
//
// It uses nothing of the library.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fuzz {

[[noreturn]] void fail(std::string_view what);
inline void expect(bool held, std::string_view what) {
  if (!held) fail(what);
}

// Says on stderr what happens, for people.
inline bool telling = false;
void tell(std::string_view what, std::size_t section, std::size_t number);

enum class verdict : std::uint8_t { accepted, reentry, closed, withdrawn };

// Why a request ends that does not run.
enum class reason : std::uint8_t { none, cancelled, expired, closed };

// Whose job the thread runs. `nowhere`: nobody's; as an expectation: anywhere.
enum class place : std::uint8_t { nowhere, first, second };

struct outcome {
  std::exception_ptr error;
  long value = 0;
};

struct request {
  enum class kind : std::uint8_t { body, guard, closing };
  enum class phase : std::uint8_t { queued, running, done, told };
  enum class listener : std::uint8_t { awaiter, handle, nobody };

  std::size_t section = 0;
  std::size_t number = 0;
  kind what = kind::body;
  phase at = phase::queued;
  listener who = listener::awaiter;
  place starts_at = place::nowhere;
  int depth = 0;                 // where it started: see end
  std::optional<place> goes_on;  // whoever waits for it, if the order there is known
  bool refused = false;          // a handle knows of it all the same
  reason gone = reason::none;    // it does not run
  bool let_go = false;           // a guard that its chain holds no more
  bool has_home = false;         // it goes on somewhere, or runs there
  outcome got;                   // from its end on

  // Of one that may be withdrawn while it waits:
  bool can_go = false;
  std::optional<std::size_t> token;
  std::optional<std::chrono::steady_clock::time_point> deadline;
  // Of an execute_when: after so many executions it may run.
  std::optional<std::uint64_t> level;
  bool aside = false;
  bool awake = false;
  reason late = reason::none;  // asked to go when it was awake: it does in its turn

  bool may_be_withdrawn() const { return at == phase::queued && can_go; }
  bool over() const { return at == phase::done || at == phase::told; }
};

// What one chain of awaits holds, outermost first. A part that others run on has a parent.
struct chain {
  struct hold {
    std::size_t section;
    const request* guard;  // null: a body, which holds as long as the chain lives
  };

  chain* parent = nullptr;
  std::vector<hold> holds;

  void push(const request& guard) { holds.push_back({guard.section, &guard}); }
  // What `inner` still owns at its end belongs to whoever waited for it.
  void adopt(chain& inner);
  bool has(std::size_t section) const;
  // The highest section on it; -1 for none.
  int highest() const;
  // From the outermost hold of `section` to the one refused.
  std::vector<std::size_t> path_to(std::size_t section) const;

 private:
  std::vector<hold> all() const;
};

struct counts {
  std::uint64_t executions = 0;
  std::uint64_t withdrawn = 0;
  std::uint64_t refused = 0;
  std::size_t waiters = 0;
  std::size_t most_waiters = 0;
  bool held = false;
};

class model {
 public:
  // `counts_passed_on`: a request that was given to an executor, and has not begun, is still one of
  // the waiters. Otherwise it is the one that has the section.
  model(std::size_t sections, bool counts_passed_on)
      : lines_(sections), counts_passed_on_(counts_passed_on) {}

  chain& new_chain(chain* parent = nullptr);
  chain& new_body_chain(chain* parent, std::size_t section);

  // Requests. `ask` says what becomes of it and counts a refusal; then accept, or refuse for one
  // that has a handle.
  verdict ask(std::size_t section, const chain* asking, bool stopped = false);
  request& accept(std::size_t section, request::kind what);
  request& refuse(std::size_t section, reason why);
  // It runs before anything else happens.
  void runs_at_once(request& r) { due_ = &r; }
  bool idle(std::size_t section) const {
    const section_line& l = line(section);
    return l.waiting.empty() && !l.lags && !l.asks_there;
  }
  bool closed(std::size_t section) const { return line(section).closed; }
  std::size_t length(std::size_t section) const { return line(section).waiting.size(); }
  std::uint64_t executions(std::size_t section) const { return line(section).executions; }

  // `depth` counts jobs that run within others, as if other threads did them. A body that starts
  // outside of one and ends inside keeps its section until the outer call returns: the section
  // lags.
  // `elsewhere`: not on the section's executor. Then those aside are asked there before anybody has
  // the section.
  void start(request& r, place now, int depth);
  void granted(request& r);
  void end(request& r, outcome got, int depth, bool elsewhere);
  // Whoever waited for it goes on, with `got`, which says `why`.
  void deliver(request& r, const outcome& got, reason why);

  // The predicate of an execute_when is asked: what does it say? `said` by the section.
  bool asks(request& r, const counts& said);

  // Those that wait and of which `goes(r)` are withdrawn; one that is awake in its turn. Of a guard
  // whose turn has come nobody can say from outside whether it was given already, so then the
  // statistics say it, by `settle`.
  template <class F>
  void withdraw(reason why, F goes) {
    for (request& r : requests_) {
      if (r.may_be_withdrawn() && goes(r)) withdraw(r, why);
    }
  }
  void settle(std::size_t section, std::uint64_t withdrawn);
  // Whether then `section` would be left to thread_pool::shared(): whoever has it goes, and who is
  // next has no home.
  template <class F>
  bool leaves_to_nobody(std::size_t section, F goes) const {
    const section_line& l = line(section);
    const auto may = [&goes](const request* r) {
      return r->may_be_withdrawn() && !r->awake && goes(*r);
    };
    const bool owner_goes = l.asks_there || (!l.waiting.empty() && may(l.waiting.front()));
    const auto next = std::find_if_not(l.waiting.begin(), l.waiting.end(), may);
    return owner_goes && next != l.waiting.end() && !(*next)->has_home;
  }
  bool anyone_aside() const;

  // Nobody has it any more, or never had.
  void drop(request& r) { r.who = request::listener::nobody; }
  // The error, which says `why`, of a request to `section` that nobody listens to; false: there is
  // no such request.
  bool unobserved(const std::exception_ptr& error, reason why, std::size_t section);

  void close(std::size_t section);
  // Whoever waited for something accepted before goes on before those who waited for the end, if
  // both do so at `home`. None: the order is not known.
  void closed_now(std::size_t section, std::optional<place> home);
  bool ended(std::size_t section) const {
    return line(section).closed && line(section).waiting.empty();
  }

  // No body may run at this depth until it is allowed again, with what this gave.
  int forbid_bodies(int depth) { return std::exchange(forbidden_at_, depth); }
  void allow_bodies(int before) { forbidden_at_ = before; }

  // How much has happened: two equal answers, and nothing did in between.
  std::uint64_t events() const { return events_; }

  void look(std::size_t section, const counts& said);
  // No job is left. `stuck`: somebody owns a guard and may give it back later.
  void quiet(bool stuck) const;

 private:
  struct section_line {
    std::deque<request*> waiting;  // the one in front has the section
    std::deque<request*> aside;    // oldest first
    request* may_go = nullptr;     // see withdraw
    reason may_go_by = reason::none;
    bool closed = false;
    bool lags = false;        // see end
    bool asks_there = false;  // see end
    std::uint64_t accepted = 0;
    std::uint64_t executions = 0;
    std::uint64_t withdrawn = 0;
    std::uint64_t refused = 0;
    std::size_t most_waiters = 0;
  };

  section_line& line(std::size_t s) { return lines_[s]; }
  const section_line& line(std::size_t s) const { return lines_[s]; }
  void event(const request* r);
  request& make(std::size_t section, request::kind what);
  // The request that closes is served by itself as soon as it is in front, unseen.
  static bool only_closing(const section_line& l);
  static void end_line(section_line& l);
  void withdraw(request& r, reason why);
  void go(request& r, reason why);
  void go_late(section_line& l, std::uint64_t withdrawn);
  static void check_nobody_aside_may_run(const section_line& l);

  std::vector<section_line> lines_;
  std::deque<request> requests_;
  std::deque<chain> chains_;
  const bool counts_passed_on_;
  const request* due_ = nullptr;
  int forbidden_at_ = -1;
  std::uint64_t events_ = 0;
};

}  // namespace fuzz
