// bodies.cpp - what runs inside a section.

#include "fuzz/interpreter.hpp"

#include <type_traits>

using turnstile::task;

namespace fuzz {

// The data of a section is there for its bodies alone.
void interpreter::see(asked& q, long& data) {
  expect(++data == ++visits_[q.section], "the data of a section was lost");
}

void interpreter::begin(asked& q) {
  look_at(q.section);
  model_.start(*q.as, now(), depth());
}

// The chain of a body holds the section; what it left behind in slots is its awaiter's afterwards.
template <class R>
R interpreter::plain(asked& q) {
  begin(q);
  outcome got;
  try {
    for (const instruction& i : q.how->blocks[0]) {
      look();
      plain_step({q.inner, q.floor}, i);
    }
    if (q.how->throws()) throw thrown{++last_value_};
    if constexpr (!std::is_void_v<R>) got.value = ++last_value_;
  } catch (...) {
    got.error = std::current_exception();
  }
  model_.end(*q.as, got, depth(), is_elsewhere(q.section));
  if (got.error != nullptr) std::rethrow_exception(got.error);
  q.value = got.value;
  if constexpr (std::is_reference_v<R>) {
    return q.value;
  } else if constexpr (!std::is_void_v<R>) {
    return R(q.value);
  }
}

template <class R>
task<R> interpreter::waiting(asked& q) {
  begin(q);
  if (q.how->throws() && q.how->variant()) return waits_not<R>(q);
  return waits<R>(q);
}

template <class R>
task<R> interpreter::waits_not(asked& q) {
  const std::exception_ptr error = std::make_exception_ptr(thrown{++last_value_});
  model_.end(*q.as, {error, 0}, depth(), is_elsewhere(q.section));
  std::rethrow_exception(error);
}

template <class R>
task<R> interpreter::waits(asked& q) {
  outcome got;
  try {
    co_await run_block({q.inner, q.floor}, q.how->blocks[0]);
    if (q.how->throws()) throw thrown{++last_value_};
    if constexpr (!std::is_void_v<R>) got.value = ++last_value_;
  } catch (...) {
    got.error = std::current_exception();
  }
  model_.end(*q.as, got, depth(), is_elsewhere(q.section));
  if (got.error != nullptr) std::rethrow_exception(got.error);
  q.value = got.value;
  if constexpr (std::is_reference_v<R>) {
    co_return q.value;
  } else if constexpr (!std::is_void_v<R>) {
    co_return R(q.value);
  }
}

template void interpreter::plain<void>(asked&);
template token interpreter::plain<token>(asked&);
template long& interpreter::plain<long&>(asked&);
template task<> interpreter::waiting<void>(asked&);
template task<token> interpreter::waiting<token>(asked&);
template task<long&> interpreter::waiting<long&>(asked&);

}  // namespace fuzz
