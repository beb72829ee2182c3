// kept_token.cpp - a thread's pins, when they change hands or end. The protocol is in the header.

#include <turnstile/detail/kept_token.hpp>

#include <memory>

namespace turnstile::detail {

namespace {

constexpr std::int32_t closed = 1;
constexpr std::int32_t one_elsewhere = 2;

constinit atomic<std::uint64_t> threads_known{0};

bool is_free(token_pin& p) noexcept {
  return p.elsewhere.load(acquire) == p.uses * one_elsewhere;  // K1
}

// Its thread is done with it, and whoever gives back the last reference frees it.
void close(token_pin& p) noexcept {
  const std::int32_t uses = p.uses;
  const std::int32_t was = p.elsewhere.fetch_sub(uses * one_elsewhere - closed, acq_rel);  // K1
  if (was == uses * one_elsewhere) delete &p;
}

// What a thread has, until it ends.
class token_keeper {
 public:
  token_keeper() noexcept { here().number = threads_known.fetch_add(1, relaxed) + 1; }
  ~token_keeper() {
    here().number = 0;
    if (token_pin* const p = std::exchange(here().kept_token, nullptr)) close(*p);
    while (apart_ != nullptr) close(*std::exchange(apart_, apart_->next));
    ended_ = true;
  }

  token_pin* keep(const std::stop_token& t) {
    token_pin*& kept = here().kept_token;
    if (kept != nullptr && is_free(*kept)) {
      kept->token = t;
    } else {
      auto fresh = std::make_unique<token_pin>(t, here().number);
      if (kept != nullptr) set_apart(*kept);
      kept = fresh.release();
    }
    kept->uses = 1;
    kept->elsewhere.store(0, relaxed);  // nobody refers to it
    return kept;
  }

  bool has_ended() const noexcept { return ended_; }

 private:
  void set_apart(token_pin& p) noexcept {
    p.next = apart_;
    apart_ = &p;
    for (token_pin** at = &apart_; *at != nullptr;) {
      token_pin* const one = *at;
      if (is_free(*one)) {
        *at = one->next;
        delete one;
      } else {
        at = &one->next;
      }
    }
  }

  token_pin* apart_ = nullptr;
  bool ended_ = false;
};

}  // namespace

token_pin* kept_token::pin_another(const std::stop_token& t) {
  static thread_local token_keeper keeper;
  if (!keeper.has_ended()) return keeper.keep(t);
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
