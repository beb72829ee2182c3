// ordered_graph.cpp - edges between bodies, their starts and ends. See the header.

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/ordered_graph.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/trampoline.hpp>

#include <algorithm>
#include <exception>
#include <mutex>

namespace turnstile::detail {

namespace {

// By doubling, which reserve alone does not do.
void make_room_in(std::vector<ordered_body*>& list) {
  if (list.size() == list.capacity()) list.reserve(2 * list.size() + 1);
}

// One access to each thing, the stronger one.
std::vector<access> merged(std::vector<access> all) {
  std::sort(all.begin(), all.end(), [](const access& a, const access& b) {
    return a.thing != b.thing ? std::less<>()(a.thing, b.thing) : a.writes > b.writes;
  });
  const auto same = [](const access& a, const access& b) { return a.thing == b.thing; };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  return all;
}

}  // namespace

ordered_body::ordered_body(branch<void> run, std::vector<access> touches,
                           std::source_location where)
    : branch_end(&ended_here),
      job(&begin),
      branch_(std::move(run)),
      touches_(merged(std::move(touches))),
      at_({}, where) {}

// A chain of its own, as of everything that nobody awaits by itself.
void ordered_body::begin(job& j) noexcept {
  const not_in_fiber coroutines_run_here;
  static_cast<ordered_body&>(j).branch_.run();
}

std::coroutine_handle<> ordered_body::ended_here(branch_end& self) noexcept {
  auto& body = static_cast<ordered_body&>(self);
  body.graph_->body_ended(body);
  return {};
}

ordered_graph::~ordered_graph() {
  if (!ends_->idle()) {
    contract_break("", "an ordered_scope is destroyed while its bodies have not ended", {});
  }
  ends_->abandon();
}

void ordered_graph::add(std::unique_ptr<ordered_body> added) {
  step_result now;
  {
    const std::lock_guard lock(mutex_);
    make_room(*added);
    ordered_body& body = *added.release();
    body.graph_ = this;
    // A join can wait for what it waits for, so it is a member like spawned work.
    body.member_.emplace(ends_->members(), body.at_);
    ends_->members().add(*body.member_);
    body.branch_.prepare(body, &*body.member_);
    link(body);
    ++unfinished_;
    ends_->add();
    if (body.waits_for_ == 0) note(body, now);
    remove_skipped(now);
  }
  // It is the one body that may be there; the other call would look at what may be gone by then.
  if (!now.skipped.empty()) {
    free_skipped(now);
  } else {
    const on_top of_who_adds;
    start_ready(now, &ordered_body::begin);
  }
}

// All that may fail.
void ordered_graph::make_room(const ordered_body& body) {
  for (const access& a : body.touches_) {
    thing& t = things_[a.thing];
    make_room_in(t.readers);
    if (t.writer != nullptr) make_room_in(t.writer->successors_);
    for (ordered_body* const r : t.readers) make_room_in(r->successors_);
  }
}

void ordered_graph::link(ordered_body& body) noexcept {
  for (const access& a : body.touches_) {
    thing& t = things_.find(a.thing)->second;
    wait_for(t.writer, body);
    body.skipped_ |= t.writer_failed;
    if (a.writes) {
      for (ordered_body* const r : t.readers) wait_for(r, body);
      body.skipped_ |= t.reader_failed;
      t.readers.clear();
      t.writer = &body;
      t.writer_failed = t.reader_failed = false;
    } else {
      t.readers.push_back(&body);
    }
  }
}

void ordered_graph::wait_for(ordered_body* before, ordered_body& body) noexcept {
  if (before == nullptr) return;
  auto& after = before->successors_;
  if (!after.empty() && after.back() == &body) return;  // on account of another thing
  after.push_back(&body);
  ++body.waits_for_;
}

void ordered_graph::note(ordered_body& body, step_result& now) noexcept {
  (body.skipped_ ? now.skipped : now.ready).push(body);
}

void ordered_graph::remove(ordered_body& body, bool failed, step_result& now) noexcept {
  for (const access& a : body.touches_) {
    const auto at = things_.find(a.thing);
    if (at == things_.end()) continue;
    thing& t = at->second;
    if (t.writer == &body) {
      t.writer = nullptr;
      t.writer_failed = failed;
    } else if (std::erase(t.readers, &body) != 0) {
      t.reader_failed |= failed;
    }
    if (t.forgotten()) things_.erase(at);
  }
  for (ordered_body* const s : body.successors_) {
    s->skipped_ |= failed;
    if (--s->waits_for_ == 0) note(*s, now);
  }
  --unfinished_;
}

void ordered_graph::remove_skipped(step_result& now) noexcept {
  for (ordered_body* b = now.skipped.front(); b != nullptr; b = b->next_) remove(*b, true, now);
}

void ordered_graph::start_ready(step_result& now, void (*here)(job&) noexcept) noexcept {
  while (ordered_body* const b = now.ready.pop()) {
    if (executor_) {
      executor_.post(*b);  // b may be gone
    } else {
      here(*b);  // b may be gone
    }
  }
}

void ordered_graph::free_skipped(step_result& now) noexcept {
  scope_core& ends = *ends_;
  while (ordered_body* const b = now.skipped.pop()) {
    ends.members().remove(*b->member_);
    delete b;
    ends.ended(nullptr, {});  // this may be gone, unless the caller has an unfinished body
  }
}

void ordered_graph::body_ended(ordered_body& body) noexcept {
  scope_core& ends = *ends_;
  std::exception_ptr error = body.branch_.got().error();
  const std::source_location where = body.at_.where;
  step_result now;
  {
    const std::lock_guard lock(mutex_);
    remove(body, error != nullptr, now);
    remove_skipped(now);
  }
  end_frame(*body.member_);
  ends.members().remove(*body.member_);
  const chain_scope nothing_held{nullptr};  // what the body began on ends with it
  delete &body;
  {
    resume_after these;
    start_ready(now, &bounce);  // not nested: a chain of bodies takes no stack
  }
  free_skipped(now);
  ends.ended(std::move(error), where);  // this may be gone
}

void ordered_graph::forget() noexcept {
  const std::lock_guard lock(mutex_);
  if (unfinished_ == 0) things_.clear();
}

}  // namespace turnstile::detail
