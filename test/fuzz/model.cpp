// model.cpp - lines of requests and chains of holds.

#include "fuzz/model.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace fuzz {

void fail(std::string_view what) {
  std::fprintf(stderr, "fuzz: %.*s\n", static_cast<int>(what.size()), what.data());
  std::fflush(stderr);
  std::abort();
}

void tell(std::string_view what, std::size_t section, std::size_t number) {
  if (!telling) return;
  std::fprintf(stderr, "  section %zu, request %zu: %.*s\n", section, number,
               static_cast<int>(what.size()), what.data());
}

void chain::adopt(chain& inner) {
  for (const hold& h : inner.holds) {
    if (h.guard != nullptr && !h.guard->let_go) holds.push_back(h);
  }
  inner.holds.clear();
}

std::vector<chain::hold> chain::all() const {
  std::vector<hold> above = parent == nullptr ? std::vector<hold>{} : parent->all();
  for (const hold& h : holds) {
    if (h.guard == nullptr || !h.guard->let_go) above.push_back(h);
  }
  return above;
}

bool chain::has(std::size_t section) const {
  return std::ranges::any_of(all(), [=](const hold& h) { return h.section == section; });
}

int chain::highest() const {
  int top = -1;
  for (const hold& h : all()) top = std::max(top, static_cast<int>(h.section));
  return top;
}

std::vector<std::size_t> chain::path_to(std::size_t section) const {
  std::vector<std::size_t> path;
  for (const hold& h : all()) {
    if (h.section == section || !path.empty()) path.push_back(h.section);
  }
  path.push_back(section);
  return path;
}

chain& model::new_chain(chain* parent) {
  chain& c = chains_.emplace_back();
  c.parent = parent;
  return c;
}

chain& model::new_body_chain(chain* parent, std::size_t section) {
  chain& c = new_chain(parent);
  c.holds.push_back({section, nullptr});
  return c;
}

void model::event(const request* r) {
  ++events_;
  expect(due_ == nullptr || due_ == r, "an idle section did not run the body at once");
}

verdict model::ask(std::size_t section, const chain* asking, bool stopped) {
  event(nullptr);
  section_line& l = line(section);
  const bool holds = asking != nullptr && asking->has(section);
  if (!holds && stopped) return ++l.withdrawn, verdict::withdrawn;
  if (!holds && !l.closed) return verdict::accepted;
  ++l.refused;
  return holds ? verdict::reentry : verdict::closed;
}

request& model::make(std::size_t section, request::kind what) {
  request& r = requests_.emplace_back();
  r.section = section;
  r.number = requests_.size();
  r.what = what;
  return r;
}

request& model::accept(std::size_t section, request::kind what) {
  request& r = make(section, what);
  section_line& l = line(section);
  l.waiting.push_back(&r);
  ++l.accepted;
  if (what != request::kind::closing) {
    l.most_waiters = std::max(l.most_waiters, l.waiting.size() - 1);
  }
  tell("accepted", section, r.number);
  return r;
}

request& model::refuse(std::size_t section, reason why) {
  request& r = make(section, request::kind::body);
  r.at = request::phase::done;
  r.refused = true;
  r.gone = why;
  return r;
}

void model::start(request& r, place now, int depth) {
  event(&r);
  due_ = nullptr;
  tell("starts", r.section, r.number);
  expect(forbidden_at_ != depth, "a body ran inside submit or post");
  expect(r.at == request::phase::queued, "a body ran twice");
  expect(r.late == reason::none, "a body ran that had been asked to stop");
  expect(line(r.section).waiting.front() == &r, "a body ran before its turn");
  expect(!line(r.section).lags, "two bodies at once");
  expect(!line(r.section).asks_there, "a body ran before those aside were asked");
  expect(r.starts_at == place::nowhere || r.starts_at == now, "a body ran on the wrong executor");
  if (!r.awake) check_nobody_aside_may_run(line(r.section));
  r.at = request::phase::running;
  r.depth = depth;
}

void model::granted(request& r) {
  event(&r);
  tell("granted", r.section, r.number);
  expect(r.at == request::phase::queued, "a guard was given twice");
  expect(line(r.section).waiting.front() == &r, "a guard was given before its turn");
  expect(!line(r.section).asks_there, "a guard was given before those aside were asked");
  check_nobody_aside_may_run(line(r.section));
  r.at = request::phase::running;
}

void model::end(request& r, outcome got, int depth, bool elsewhere) {
  event(nullptr);
  tell(got.error == nullptr ? "ends" : "ends with an error", r.section, r.number);
  section_line& l = line(r.section);
  expect(r.at == request::phase::running && l.waiting.front() == &r, "ended without having begun");
  l.waiting.pop_front();
  ++l.executions;
  l.lags = r.what == request::kind::body && depth > r.depth;
  l.asks_there = elsewhere && !l.lags && !l.aside.empty();
  r.at = request::phase::done;
  r.got = std::move(got);
}

void model::deliver(request& r, const outcome& got, reason why) {
  event(nullptr);
  tell("delivered", r.section, r.number);
  if (r.at == request::phase::queued && r.late != reason::none) go(r, r.late);
  expect(r.at == request::phase::done, "went on before its request had ended, or twice");
  if (r.gone != reason::none) {
    expect(why == r.gone, "an error of another kind arrived, or none");
  } else {
    expect(got.error == r.got.error, "another error arrived than the one thrown");
    expect(got.value == r.got.value, "another value arrived than the one returned");
  }
  r.at = request::phase::told;
}

bool model::unobserved(const std::exception_ptr& error, reason why, std::size_t section) {
  for (request& r : requests_) {
    if (r.at != request::phase::done || r.who != request::listener::nobody) continue;
    if (r.section != section) continue;
    if (r.gone == reason::none ? r.got.error != error : r.gone != why) continue;
    tell("its error is reported", r.section, r.number);
    r.at = request::phase::told;
    return true;
  }
  return false;
}

void model::check_nobody_aside_may_run(const section_line& l) {
  for (const request* const r : l.aside) {
    expect(l.executions < *r->level, "one that is set aside and may run was passed over");
  }
}

bool model::asks(request& r, const counts& said) {
  event(nullptr);
  section_line& l = line(r.section);
  go_late(l, said.withdrawn);
  if (said.executions == l.executions) l.lags = false;
  expect(!l.lags, "a predicate was asked beside a body");
  expect(r.at == request::phase::queued, "a predicate was asked too late");
  const bool yes = l.executions >= *r.level;
  tell(yes ? "may run" : "may not run", r.section, r.number);
  if (r.aside) {
    expect(l.waiting.empty() || l.waiting.front()->at == request::phase::queued,
           "a predicate was asked beside a body");
    if (yes || l.aside.back() == &r) l.asks_there = false;
    if (!yes) return false;
    expect(*std::ranges::find_if(
               l.aside, [&l](const request* o) { return *o->level <= l.executions; }) == &r,
           "an older one that may run was passed over");
    std::erase(l.aside, &r);
    l.waiting.push_front(&r);
    r.aside = false;
    r.awake = true;
    return true;
  }
  expect(l.waiting.front() == &r, "a predicate was asked before its turn");
  check_nobody_aside_may_run(l);
  if (yes) return true;
  l.waiting.pop_front();
  l.aside.push_back(&r);
  r.aside = true;
  r.can_go = true;
  return false;
}

bool model::anyone_aside() const {
  return std::ranges::any_of(lines_, [](const section_line& l) { return !l.aside.empty(); });
}

void model::go(request& r, reason why) {
  section_line& l = line(r.section);
  tell("is withdrawn", r.section, r.number);
  std::erase(l.waiting, &r);
  std::erase(l.aside, &r);
  if (l.aside.empty()) l.asks_there = false;
  ++l.withdrawn;
  r.at = request::phase::done;
  r.gone = why;
}

void model::withdraw(request& r, reason why) {
  section_line& l = line(r.section);
  if (r.awake) {
    if (r.late == reason::none) r.late = why;
  } else if (r.what == request::kind::guard && l.waiting.front() == &r) {
    l.may_go = &r;
    l.may_go_by = why;
  } else {
    go(r, why);
  }
}

// Nobody is told when its turn comes; the statistics say it.
void model::go_late(section_line& l, std::uint64_t withdrawn) {
  if (l.waiting.empty() || withdrawn != l.withdrawn + 1) return;
  request& r = *l.waiting.front();
  if (r.late != reason::none) go(r, r.late);
}

void model::settle(std::size_t section, std::uint64_t withdrawn) {
  section_line& l = line(section);
  request* const r = std::exchange(l.may_go, nullptr);
  if (r != nullptr && withdrawn == l.withdrawn + 1) go(*r, l.may_go_by);
}

// Nothing that was set aside runs any more.
void model::end_line(section_line& l) {
  l.waiting.clear();
  for (request* const r : l.aside) {
    tell("is refused, set aside", r->section, r->number);
    ++l.refused;
    r->at = request::phase::done;
    r->gone = reason::closed;
  }
  l.aside.clear();
}

void model::close(std::size_t section) {
  event(nullptr);
  section_line& l = line(section);
  if (std::exchange(l.closed, true)) return;
  accept(section, request::kind::closing);
}

bool model::only_closing(const section_line& l) {
  return l.waiting.size() == 1 && l.waiting.front()->what == request::kind::closing;
}

void model::closed_now(std::size_t section, std::optional<place> home) {
  event(nullptr);
  section_line& l = line(section);
  expect(l.waiting.empty() || only_closing(l), "close went on before all accepted had ended");
  end_line(l);
  for (const request& r : requests_) {
    const bool waits = r.section == section && r.goes_on == home && r.at == request::phase::done &&
                       r.who == request::listener::awaiter && r.what == request::kind::body;
    expect(!home || !waits, "close went on before an execution it waited for");
  }
}

void model::look(std::size_t section, const counts& said) {
  section_line& l = line(section);
  go_late(l, said.withdrawn);
  if (only_closing(l) && !said.held) end_line(l);
  if (said.executions == l.executions) l.lags = false;
  const std::size_t lag = l.lags ? 1 : 0;
  const std::size_t all = l.waiting.size() + lag + (l.asks_there ? 1 : 0);
  expect(said.held == (all != 0), "statistics: held");
  const std::size_t behind = (all == 0 ? 0 : all - 1) + l.aside.size();
  const bool passed_on = counts_passed_on_ && said.waiters == all + l.aside.size();
  expect(said.waiters == behind || passed_on, "statistics: waiters");
  expect(said.executions == l.executions - lag, "statistics: executions");
  expect(said.refused == l.refused, "statistics: refused");
  expect(said.withdrawn == l.withdrawn, "statistics: withdrawn");
  expect(said.most_waiters >= l.most_waiters && said.most_waiters <= l.accepted,
         "statistics: most_waiters");
}

void model::quiet(bool stuck) const {
  expect(due_ == nullptr, "an idle section did not run the body at once");
  for (const section_line& l : lines_) {
    expect(!l.lags && !l.asks_there, "a section was not released");
    if (l.waiting.empty()) continue;
    expect(stuck, "requests wait, and nobody is going to serve them");
    expect(l.waiting.front()->at == request::phase::running, "a free section serves nobody");
  }
  for (const request& r : requests_) {
    if (r.what == request::kind::closing || r.at != request::phase::done) continue;
    const bool waited_for = r.who == request::listener::awaiter;
    const bool reported =
        r.who == request::listener::nobody && (r.gone != reason::none || r.got.error);
    expect(!waited_for, "an execution has ended and its awaiter does not know");
    expect(!reported, "an error was neither delivered nor reported");
  }
}

}  // namespace fuzz
