// submit.cpp - executions that nobody's frame waits for, and handles on them.

#include "fuzz/interpreter.hpp"

#include <type_traits>
#include <typeinfo>

using turnstile::task;

namespace fuzz {

void interpreter::submit(const instruction& i) {
  const std::size_t s = i.section % world_.sites.size();
  if (needs_thread(s)) return;
  with_target(*world_.sites[s], [&](auto& target) {
    const bool waits = i.what == op::submit_waiting;
    if (i.result() == 0) {
      return waits ? submit_to<waiting_body<void>>(i, s, target)
                   : submit_to<plain_body<void>>(i, s, target);
    }
    return waits ? submit_to<waiting_body<token>>(i, s, target)
                 : submit_to<plain_body<token>>(i, s, target);
  });
}

template <class Body, class Target>
void interpreter::submit_to(const instruction& i, std::size_t section, Target& target) {
  asked& q = ask_without_waiting(i, section);
  request& r = q.as != nullptr ? *q.as : model_.refuse(section, why_refused(q));
  r.who = request::listener::handle;
  const int before = model_.forbid_bodies(depth());
  auto handle = target.submit(Body{this, &q}, options(q));
  model_.allow_bodies(before);
  expect(handle.ready() ? r.over() : !r.refused, "a handle is ready too early, or too late");
  handle_slot& slot = world_.handles[i.arg % world_.handles.size()];
  if (slot.asked != nullptr) model_.drop(*slot.asked);
  slot.asked = &r;
  slot.inner = q.inner;
  slot.handle = std::move(handle);
}

void interpreter::drop_handle(std::size_t slot) {
  handle_slot& h = world_.handles[slot];
  if (h.asked == nullptr) return;
  model_.drop(*std::exchange(h.asked, nullptr));
  h.handle = handle_slot::none{};
}

void interpreter::move_handle(const instruction& i) {
  handle_slot& from = world_.handles[i.arg % world_.handles.size()];
  handle_slot& to = world_.handles[i.section % world_.handles.size()];
  if (&from == &to) return;
  drop_handle(i.section % world_.handles.size());
  to.handle.swap(from.handle);
  to.asked = std::exchange(from.asked, nullptr);
  to.inner = from.inner;
  from.handle = handle_slot::none{};
}

task<> interpreter::await_handle(actor a, const instruction& i) {
  handle_slot& slot = world_.handles[i.arg % world_.handles.size()];
  if (slot.asked == nullptr) co_return;
  request& r = *slot.asked;
  const bool ready = slot.ready();
  const bool circle = !ready && !r.over() && a.holds->has(r.section);
  expect(!ready || r.over(), "a handle is ready before its body has ended");
  if (!ready && r.gone != reason::none)
    co_return;  // it will be, and only then nobody can be refused
  if (!ready && !circle && !may_wait_for(a, r.section)) co_return;
  auto handle = std::exchange(slot.handle, handle_slot::none{});
  slot.asked = nullptr;
  chain* const inner = slot.inner;  // others may fill the slot meanwhile
  const place home = now();
  outcome got;
  try {
    if (auto* const nothing = std::get_if<turnstile::execution_handle<void>>(&handle)) {
      late wait(*this, turns_between(i), nothing->operator co_await());
      co_await wait;
    } else {
      auto& value = std::get<turnstile::execution_handle<token>>(handle);
      late wait(*this, turns_between(i), value.operator co_await());
      const token t = co_await wait;
      got.value = t.value();
    }
  } catch (...) {
    got.error = std::current_exception();
  }
  check_handle(a, r, got, circle);
  if (!circle && inner != nullptr) a.holds->adopt(*inner);
  check_place(home);
  if (got.error != nullptr && i.passes_errors()) std::rethrow_exception(got.error);
}

void interpreter::check_handle(actor a, request& r, const outcome& got, bool refused_wait) {
  look_at(r.section);
  if (!refused_wait) {
    return model_.deliver(r, got, reason_of(got.error));
  }
  model_.drop(r);  // it goes on by itself
  expect(got.error != nullptr, "a wait that would never end was not refused");
  try {
    std::rethrow_exception(got.error);
  } catch (const turnstile::deadlock_error& e) {
    expect(typeid(e) == typeid(turnstile::deadlock_error), "no re-entry, but refused as such");
    check_path(a, r.section, e);
  } catch (...) {
    fail("refused with an error of another kind");
  }
}

void interpreter::post(const instruction& i) {
  const std::size_t s = i.section % world_.sites.size();
  if (needs_thread(s)) return;
  with_target(*world_.sites[s], [&](auto& target) {
    if (i.what == op::post_waiting) return post_to<waiting_body<void>>(i, s, target);
    if (i.result() == 0) return post_to<plain_body<void>>(i, s, target);
    return post_to<plain_body<token>>(i, s, target);
  });
}

template <class Body, class Target>
void interpreter::post_to(const instruction& i, std::size_t section, Target& target) {
  asked& q = ask_without_waiting(i, section);
  const int before = model_.forbid_bodies(depth());
  if (q.as != nullptr) model_.drop(*q.as);
  reason refused = reason::none;
  try {
    target.post(Body{this, &q}, options(q));
  } catch (...) {
    refused = reason_of(std::current_exception());
  }
  model_.allow_bodies(before);
  expect(refused == why_refused(q), "post after close, or with a stopped token");
}

// More than one drain serves without a break.
void interpreter::post_many(const instruction& i) {
  instruction& one = made_.emplace_back(i);
  one.what = op::post;
  one.flags = 0;
  for (unsigned n = 2u + i.arg * 3u; n != 0; --n) post(one);
}

}  // namespace fuzz
