// kept_token.cpp - a thread's pins, when they change hands or end. The protocol is in the header.

#include "base/thread_end.hpp"

#include <turnstile/detail/kept_token.hpp>

#include <memory>

namespace turnstile::detail {

namespace {

constexpr std::uint32_t closed = 1;
constexpr std::uint32_t one_elsewhere = 2;

bool is_free(token_pin& p) noexcept {
  return p.elsewhere.load(acquire) == p.uses * one_elsewhere;  // K1
}

// Its thread is done with it, and whoever gives back the last reference frees it.
void close(token_pin& p) noexcept {
  const std::uint32_t uses = p.uses;
  const std::uint32_t was = p.elsewhere.fetch_sub(uses * one_elsewhere - closed, acq_rel);  // K1
  if (was == uses * one_elsewhere) delete &p;
}

void append(token_pin*& last, token_pin& p) noexcept {
  p.next = last == nullptr ? &p : std::exchange(last->next, &p);
  last = &p;
}

token_pin& take_first(token_pin*& last) noexcept {
  token_pin& first = *last->next;
  if (&first == last) {
    last = nullptr;
  } else {
    last->next = first.next;
  }
  return first;
}

// However many somebody refers to, it costs no more; and few are left that nobody does.
void free_some(token_pin*& last_apart) noexcept {
  for (int i = 0; i != 2 && last_apart != nullptr; ++i) {
    token_pin& one = take_first(last_apart);
    if (is_free(one)) {
      delete &one;
    } else {
      append(last_apart, one);
    }
  }
}

token_pin* keep(const std::stop_token& t) {
  token_pin*& kept = here().kept_token;
  if (kept != nullptr && is_free(*kept)) {
    kept->token = t;
  } else {
    auto fresh = std::make_unique<token_pin>(t, thread_number());
    if (kept != nullptr) {
      token_pin*& last_apart = fresh->next = kept->next;
      free_some(last_apart);
      append(last_apart, *kept);
    }
    kept = fresh.release();
  }
  kept->uses = 1;
  kept->elsewhere.store(0, relaxed);  // nobody refers to it
  return kept;
}

}  // namespace

void end_kept_tokens() noexcept {
  here().number = 0;
  token_pin* const kept = std::exchange(here().kept_token, nullptr);
  if (kept == nullptr) return;
  token_pin* last_apart = kept->next;
  close(*kept);
  while (last_apart != nullptr) close(take_first(last_apart));
}

token_pin* kept_token::pin_another(const std::stop_token& t) {
  if (at_thread_end<&end_kept_tokens>::arm()) return keep(t);
  // By the end of a thread: a pin of nobody's, with one reference.
  auto* const p = new token_pin{t, 0};
  p->elsewhere.store(closed - one_elsewhere, relaxed);
  return p;
}

void kept_token::unpin_another(token_pin& p) noexcept {
  if (p.thread == here().number && p.thread != 0) {
    p.uses = p.uses - 1;  // set apart
    return;
  }
  if (p.elsewhere.fetch_add(one_elsewhere, acq_rel) == closed - one_elsewhere) delete &p;  // K1
}

}  // namespace turnstile::detail
