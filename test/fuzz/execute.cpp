// execute.cpp - executions that somebody waits for.

#include "fuzz/interpreter.hpp"

#include <type_traits>

using turnstile::task;

namespace fuzz {

task<> interpreter::execute(actor a, const instruction& i) {
  const std::optional<std::size_t> s = choose(a, i);
  if (!s) return yield_once();
  return with_target(*world_.sites[*s], [&](auto& target) {
    const bool waits = i.what == op::execute_waiting;
    switch (i.result()) {
      case 0:
        return waits ? execute_on<waiting_body<void>>(a, i, *s, target)
                     : execute_on<plain_body<void>>(a, i, *s, target);
      case 1:
        return waits ? execute_on<waiting_body<long&>>(a, i, *s, target)
                     : execute_on<plain_body<long&>>(a, i, *s, target);
      default:
        return waits ? execute_on<waiting_body<token>>(a, i, *s, target)
                     : execute_on<plain_body<token>>(a, i, *s, target);
    }
  });
}

template <class Body, class Target>
task<> interpreter::execute_on(actor a, const instruction& i, std::size_t section, Target& target) {
  asked& q = ask(a, i, section, request::kind::body);
  const Body body{this, &q};
  outcome got;
  try {
    if (q.level) {
      late wait(*this, gap(q), target.execute_when(predicate{this, &q}, body, options(q)));
      if constexpr (std::is_void_v<typename Body::value>) {
        co_await wait;
      } else {
        got.value = value_of(co_await wait, q);
      }
    } else {
      late wait(*this, gap(q), target.execute(body, options(q)));
      if constexpr (std::is_void_v<typename Body::value>) {
        co_await wait;
      } else {
        got.value = value_of(co_await wait, q);
      }
    }
  } catch (...) {
    got.error = std::current_exception();
  }
  came_back(a, q, got);
  if (got.error != nullptr && i.passes_errors()) std::rethrow_exception(got.error);
}

void interpreter::came_back(actor a, asked& q, const outcome& got) {
  if (q.said != verdict::accepted) return check_refused(a, q, got.error);
  look_at(q.section);
  model_.deliver(*q.as, got, reason_of(got.error));
  a.holds->adopt(*q.inner);
  check_place(q.resume_on == place::nowhere ? q.home : q.resume_on);
}

void interpreter::try_execute(actor a, const instruction& i) {
  const std::size_t s = i.section % world_.sites.size();
  const tried said = predict_try(s);
  asked& q = asked_.emplace_back();
  q.how = &i;
  q.section = s;
  q.floor = a.floor;
  q.inner = &model_.new_body_chain(a.holds, s);
  q.home = now();
  if (said == tried::closed) q.said = verdict::closed;
  if (said == tried::runs) {
    q.as = &model_.accept(s, request::kind::body);
    q.as->starts_at = now();
    model_.runs_at_once(*q.as);
  }
  q.events = model_.events();
  with_target(*world_.sites[s], [&](auto& target) {
    switch (i.result()) {
      case 0: return try_execute_on<void>(a, q, target);
      case 1: return try_execute_on<long&>(a, q, target);
      default: return try_execute_on<token>(a, q, target);
    }
  });
}

template <class R, class Target>
void interpreter::try_execute_on(actor a, asked& q, Target& target) {
  outcome got;
  bool ran = true;
  try {
    auto answer = target.try_execute(plain_body<R>{this, &q});
    ran = static_cast<bool>(answer);
    if constexpr (!std::is_void_v<R>) {
      if (ran) got.value = value_of(*answer, q);
    }
  } catch (...) {
    got.error = std::current_exception();
  }
  if (q.as != nullptr || q.said == verdict::closed) {
    expect(ran, "an idle section was not given");
    came_back(a, q, got);
  } else {
    expect(!ran && got.error == nullptr, "a section was given that was not idle");
    expect(q.events == model_.events(), "something ran though nothing was given");
  }
  if (got.error != nullptr && q.how->passes_errors()) std::rethrow_exception(got.error);
}

bool interpreter::would_not_wait(actor a, std::size_t section) {
  look_at(section);
  if (a.holds->has(section) || model_.closed(section)) return true;
  return model_.idle(section) && !is_elsewhere(section);
}

void interpreter::wait_in_place(actor a, const instruction& i) {
  const std::size_t s = i.section % world_.sites.size();
  if (!would_not_wait(a, s)) return;
  instruction& plain = made_.emplace_back(i);
  // It stays here, nobody comes between, and it is not withdrawn.
  plain.flags &= static_cast<std::uint8_t>(~(24u | 128u));
  asked& q = ask(a, plain, s, request::kind::body);
  with_target(*world_.sites[s], [&](auto& target) {
    switch (i.result()) {
      case 0: return wait_in_place_on<void>(a, q, target);
      case 1: return wait_in_place_on<long&>(a, q, target);
      default: return wait_in_place_on<token>(a, q, target);
    }
  });
}

template <class R, class Target>
void interpreter::wait_in_place_on(actor a, asked& q, Target& target) {
  outcome got;
  const plain_body<R> body{this, &q};
  try {
    if constexpr (std::is_void_v<R>) {
      turnstile::sync_wait(target.execute(body));
    } else {
      got.value = value_of(turnstile::sync_wait(target.execute(body)), q);
    }
  } catch (...) {
    got.error = std::current_exception();
  }
  came_back(a, q, got);
  if (got.error != nullptr && q.how->passes_errors()) std::rethrow_exception(got.error);
}

}  // namespace fuzz
