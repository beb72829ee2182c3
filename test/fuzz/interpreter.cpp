// interpreter.cpp - the driver, and which step does what.

#include "fuzz/interpreter.hpp"

#include <algorithm>

using turnstile::task;

namespace fuzz {

namespace {

#if defined(TURNSTILE_RING_INBOX)
constexpr bool inbox = true;
#else
constexpr bool inbox = false;
#endif

interpreter* running = nullptr;

}  // namespace

void run_program(std::span<const std::uint8_t> bytes) {
  const program p = decode(bytes);
  {
    interpreter i(p);
    i.run();
  }
  expect(token::alive() == 0, "a result was not destroyed, or twice");
}

interpreter::interpreter(const program& p)
    : program_(p), world_(p), model_(p.sections.size(), inbox), visits_(p.sections.size()) {
  running = this;
  turnstile::on_unobserved_error(&on_error);
}

interpreter::~interpreter() { turnstile::on_unobserved_error(nullptr); }

void interpreter::run() {
  for (const driver_step& s : program_.steps) {
    drive(s);
    look();
  }
  finish();
}

void interpreter::drive(const driver_step& s) {
  using enum driver_step::kind;
  switch (s.what) {
    case spawn: this->spawn(s); break;
    case run_first: world_.on.run_one(place::first); break;
    case run_second: world_.on.run_one(place::second); break;
    case unlock:
      // In a job, because whoever unlocks serves those who wait.
      in_a_job([this, slot = s.arg % world_.guards.size()] { unlock_slot(slot, 0); });
      break;
    case drop: drop_handle(s.arg % world_.handles.size()); break;
    case stop_token:
      in_a_job([this, slot = s.arg % 4u, renew = s.arg / 16 % 2 == 0] {
        this->stop_token(slot, renew);
      });
      break;
    case advance:
      in_a_job([this, by = 1 + s.arg % 4] { this->advance(std::chrono::milliseconds(by)); });
      break;
    default: run_until_quiet(); break;
  }
}

void interpreter::spawn(const driver_step& s) {
  roots_.emplace_back(new root(world_.on.at(static_cast<place>(s.arg % 3))));
  root& r = *roots_.back();
  r.joined = s.arg / 3 % 4 != 3;
  r.scope.spawn(child({&model_.new_chain(), -1}, s.task, r.end, 0));
}

template <class F>
void interpreter::in_a_job(F f) {
  roots_.emplace_back(new root(world_.on.at(place::first)));
  roots_.back()->scope.spawn([](interpreter& in, F g, ends& e) -> task<> {
    g();
    e.note(nullptr, in.now(), 0);
    co_return;
  }(*this, f, roots_.back()->end));
}

void interpreter::run_until_quiet() {
  while (world_.on.run_one(place::first) || world_.on.run_one(place::second)) {
  }
  look();
  model_.quiet(owned_slots() || model_.anyone_aside());
}

void interpreter::finish() {
  for (;;) {
    run_until_quiet();
    const auto owned =
        std::ranges::find_if(world_.guards, [](const guard_slot& g) { return g.owned != nullptr; });
    if (owned == world_.guards.end()) {
      if (!model_.anyone_aside()) break;
      for (std::uint8_t slot = 0; slot != world_.tokens.size(); ++slot) {
        drive({driver_step::kind::stop_token, slot, {}});
      }
      continue;
    }
    const auto slot = static_cast<std::uint8_t>(owned - world_.guards.begin());
    drive({driver_step::kind::unlock, slot, {}});
  }
  for (std::size_t i = 0; i != world_.handles.size(); ++i) drop_handle(i);
  for (std::unique_ptr<root>& r : roots_) end_of(std::move(r));
  roots_.clear();
  model_.quiet(false);
  look();
}

void interpreter::end_of(std::unique_ptr<root> r) {
  expect(r->end.ended == 1, "a task did not end");
  if (!r->joined) {
    abandoned_ = r->end.first_error;
    r.reset();
    expect(abandoned_ == nullptr, "the error of a scope that nobody joined was not reported");
    return;
  }
  std::exception_ptr error;
  try {
    turnstile::sync_wait(r->scope.join());
  } catch (...) {
    error = std::current_exception();
  }
  expect(error == r->end.first_error, "join threw another error than the first");
}

void interpreter::on_error(std::exception_ptr error, std::string_view section,
                           std::source_location) {
  interpreter& in = *running;
  if (in.abandoned_ != nullptr && error == in.abandoned_) {
    expect(section.empty(), "a scope's error names a section");
    in.abandoned_ = nullptr;
    return;
  }
  const auto named = std::ranges::find_if(
      in.world_.sites, [&section](const auto& s) { return s->label() == section; });
  expect(named != in.world_.sites.end(), "an error names no section");
  expect(in.model_.unobserved(error, reason_of(error),
                              static_cast<std::size_t>(named - in.world_.sites.begin())),
         "an error was reported that somebody took");
}

task<> interpreter::run_block(actor a, const block& b) {
  for (const instruction& i : b) {
    look();
    if (!plain_step(a, i)) co_await step(a, i);
  }
  look();
}

task<> interpreter::step(actor a, const instruction& i) {
  switch (i.what) {
    case op::execute:
    case op::execute_waiting: return execute(a, i);
    case op::lock: return lock(a, i, false);
    case op::lock_into_slot: return lock(a, i, true);
    case op::await_handle: return await_handle(a, i);
    case op::close: return close(a, i);
    case op::all_of_two: return all_of_two(a, i);
    case op::all_in_range: return all_in_range(a, i);
    case op::crowd: return crowd(a, i);
    case op::often: return often(a, i);
    case op::short_life: return short_life(i);
    case op::scope: return nested_scope(a, i);
    case op::schedule: return schedule(a, i);
    default: return yield_once();
  }
}

bool interpreter::plain_step(actor a, const instruction& i) {
  switch (i.what) {
    case op::nothing: return true;
    case op::stop_token: return stop_token(i.arg % 4u, !i.other_executor()), true;
    case op::advance: return advance(std::chrono::milliseconds(1 + i.arg % 4)), true;
    case op::try_lock: return try_lock(a, i), true;
    case op::unlock_slot: return unlock_slot(i.arg % world_.guards.size(), i.result()), true;
    case op::detach_slot: return detach_slot(i.arg % world_.guards.size()), true;
    case op::move_slot: return move_slot(i), true;
    case op::try_execute: return try_execute(a, i), true;
    case op::submit:
    case op::submit_waiting: return submit(i), true;
    case op::drop_handle: return drop_handle(i.arg % world_.handles.size()), true;
    case op::move_handle: return move_handle(i), true;
    case op::post:
    case op::post_waiting: return post(i), true;
    case op::post_many: return post_many(i), true;
    case op::run_one: return others_go_first(1 + i.arg % 4u), true;
    case op::wait_in_place: return wait_in_place(a, i), true;
    case op::fail: throw thrown{++last_value_};
    default: return false;
  }
}

void interpreter::others_go_first(unsigned turns) {
  for (unsigned i = 0; i != turns; ++i) {
    const place one = i % 2 == 0 ? place::first : place::second;
    const place other = i % 2 == 0 ? place::second : place::first;
    if (!world_.on.run_nested(one)) world_.on.run_nested(other);
  }
}

void interpreter::look() {
  for (std::size_t s = 0; s != world_.sites.size(); ++s) look_at(s);
}

void interpreter::look_at(std::size_t section) {
  model_.look(section, world_.sites[section]->statistics());
}

}  // namespace fuzz
