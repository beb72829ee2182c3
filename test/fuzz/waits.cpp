// waits.cpp - what tasks wait for besides sections: each other, executors, the end of a section.

#include "fuzz/interpreter.hpp"

#include <algorithm>

using turnstile::task;

namespace fuzz {

task<long> interpreter::child(actor a, const block& b, ends& e, long number) {
  std::exception_ptr error;
  try {
    co_await run_block(a, b);
  } catch (...) {
    error = std::current_exception();
  }
  e.note(error, now(), depth());
  if (error != nullptr) std::rethrow_exception(error);
  co_return number;
}

void interpreter::check_ends(const ends& e, std::size_t children, const std::exception_ptr& error) {
  expect(e.ended == children, "went on before all children had ended");
  expect(error == e.first_error, "another error arrived than the one that happened first");
}

// Where the last one ended; but if that was in a job within what starts the children, here.
void interpreter::check_place_after(const ends& e, place home, int before) const {
  const bool while_starting = e.last_depth > before && now() == home;
  expect(now() == e.last || while_starting, "when_all resumed elsewhere than its last child ended");
}

task<> interpreter::all_of_two(actor a, const instruction& i) {
  const place home = now();
  const int before = depth();
  ends e;
  chain& first = model_.new_chain(a.holds);
  chain& second = model_.new_chain(a.holds);
  std::exception_ptr error;
  try {
    auto one = child({&first, a.floor}, i.blocks[0], e, 1);
    auto two = child({&second, a.floor}, i.blocks[1], e, 2);
    const auto [x, y] = co_await turnstile::when_all(std::move(one), std::move(two));
    expect(x == 1 && y == 2, "when_all mixed up results");
  } catch (...) {
    error = std::current_exception();
  }
  a.holds->adopt(first);
  a.holds->adopt(second);
  check_ends(e, 2, error);
  check_place_after(e, home, before);
  if (error != nullptr && i.passes_errors()) std::rethrow_exception(error);
}

task<> interpreter::all_in_range(actor a, const instruction& i) {
  std::vector<const block*> blocks;
  for (const block& b : i.blocks) blocks.push_back(&b);
  return all_of(a, std::move(blocks), i.passes_errors());
}

// Many who want the same section.
task<> interpreter::crowd(actor a, const instruction& i) {
  instruction one = i;
  one.what = op::execute;
  one.flags &= static_cast<std::uint8_t>(~16u);  // gaps would take too long
  const block& b = made_blocks_.emplace_back(block{std::move(one)});
  return all_of(a, std::vector<const block*>(2u + i.arg * 3u, &b), i.passes_errors());
}

task<> interpreter::all_of(actor a, std::vector<const block*> blocks, bool pass_errors) {
  const place home = now();
  const int before = depth();
  ends e;
  std::vector<chain*> chains;
  std::vector<task<long>> children;
  for (const block* const b : blocks) {
    chains.push_back(&model_.new_chain(a.holds));
    children.push_back(child({chains.back(), a.floor}, *b, e, static_cast<long>(children.size())));
  }
  std::exception_ptr error;
  try {
    const std::vector<long> got = co_await turnstile::when_all(std::move(children));
    expect(got.size() == blocks.size(), "when_all lost results");
    for (std::size_t n = 0; n != got.size(); ++n) {
      expect(got[n] == static_cast<long>(n), "when_all mixed up results");
    }
  } catch (...) {
    error = std::current_exception();
  }
  for (chain* const c : chains) a.holds->adopt(*c);
  check_ends(e, blocks.size(), error);
  check_place_after(e, home, before);
  if (error != nullptr && pass_errors) std::rethrow_exception(error);
}

task<> interpreter::often(actor a, const instruction& i) {
  instruction one = i;
  one.what = op::execute;
  const instruction& kept = made_.emplace_back(std::move(one));
  for (unsigned n = 2u + i.arg * 3u; n != 0; --n) co_await execute(a, kept);
}

// Whoever is resumed last may end the section's life, while the one who served it is still busy.
task<> interpreter::short_life(const instruction& i) {
  const place home = now();
  const place bound = static_cast<place>(i.section % 3);
  auto section = std::make_unique<turnstile::critical_section>(turnstile::section_options{
      .executor = world_.on.at(bound), .ring_capacity = std::size_t{1} << i.result()});
  unsigned ran = 0;
  const unsigned posted = home == place::nowhere && bound == place::nowhere ? 0 : i.arg;
  for (unsigned n = 0; n != posted; ++n) {
    section->post([&ran, n] { expect(ran++ == n, "posted bodies out of order"); });
  }
  if (i.variant()) {
    co_await section->close();
  } else {
    auto last = [&ran, posted] { expect(ran == posted, "a posted body did not run"); };
    co_await section->execute(last);
  }
  section.reset();
  expect(ran == posted, "posted bodies ran too late");
  check_place(home);
}

// Its tasks are chains of their own, but this one waits for them with all it holds.
task<> interpreter::nested_scope(actor a, const instruction& i) {
  const place home = now();
  const place there = static_cast<place>(i.section % 3);
  const int floor = std::max(a.floor, a.holds->highest());
  ends e;
  turnstile::async_scope scope({.executor = world_.on.at(there)});
  for (const block& b : i.blocks) scope.spawn(child({&model_.new_chain(), floor}, b, e, 0));
  if (i.variant()) co_await turnstile::yield();
  std::exception_ptr error;
  try {
    co_await join(scope, i);
  } catch (...) {
    error = std::current_exception();
  }
  check_ends(e, i.blocks.size(), error);
  check_place(home);
  co_await scope.join();  // the error is told once
  if (error != nullptr && i.passes_errors()) std::rethrow_exception(error);
}

task<> interpreter::join(turnstile::async_scope& scope, const instruction& i) {
  if (i.other_executor()) {
    // One of them gets the error.
    co_await turnstile::when_all(scope.join(), scope.join());
  } else {
    late wait(*this, turns_between(i), scope.join());
    co_await wait;
  }
}

task<> interpreter::schedule(actor a, const instruction& i) {
  const place home = now();
  const place there = executor_of(i);
  ends e;
  std::exception_ptr error;
  try {
    co_await turnstile::schedule_on(world_.on.at(there), scheduled(a, i, there, e));
  } catch (...) {
    error = std::current_exception();
  }
  check_ends(e, 1, error);
  check_place(home);
  expect(home != place::nowhere || now() == e.last, "resumed elsewhere than it ended");
  if (error != nullptr && i.passes_errors()) std::rethrow_exception(error);
}

task<> interpreter::scheduled(actor a, const instruction& i, place there, ends& e) {
  expect(now() == there, "was not scheduled there");
  static_cast<void>(co_await child(a, i.blocks[0], e, 0));
}

task<> interpreter::yield_once() {
  const place home = now();
  co_await turnstile::yield();
  expect(now() == home, "yield went elsewhere");
}

task<> interpreter::close(actor a, const instruction& i) {
  const std::size_t s = i.section % world_.sites.size();
  const bool reentry = a.holds->has(s);
  if (!i.variant() || (!reentry && !may_wait_for(a, s))) co_return;  // rarely: the section ends
  asked q;
  q.section = s;
  q.home = now();
  look_at(s);
  const bool pending = !model_.ended(s);
  if (reentry) {
    q.said = model_.ask(s, a.holds);
  } else {
    model_.close(s);
  }
  q.events = model_.events();
  std::exception_ptr error;
  try {
    late wait(*this, 0, world_.sites[s]->section().close());
    co_await wait;
  } catch (...) {
    error = std::current_exception();
  }
  if (reentry) {
    check_refused(a, q, error);
  } else {
    expect(error == nullptr, "close failed");
    check_place(q.home);
    look_at(s);
    const bool in_order = pending && !world_.eager() && depth() == 0;
    model_.closed_now(s, in_order ? std::optional(q.home) : std::nullopt);
  }
}

}  // namespace fuzz
