// kept_token.hpp - a stop token that a request keeps until it is awaited, mostly without an atomic
// operation.
//
// A copy of a token counts up and down by read-modify-writes, each of which costs as much as half
// an uncontended execution. But a thread asks with the same token again and again. So it keeps one
// itself, in a pin, and counts who refers to that without atomics.
//
// Shape     pin: uses, by its thread alone: references made there, less those given back there.
//           elsewhere = 2 * (references given back by other threads) | closed; counts wrap
//
//             kept by its thread --another token comes, uses == elsewhere--> holds the other token
//                                --uses != elsewhere--> set apart, and freed by its thread later
//                                on: for each
//                                                       that is set apart it looks at two, the
//                                                       oldest first
//             --the thread ends--> closed, elsewhere less uses; freed by who makes it 0
//
// Edges     K1  elsewhere.fetch_add(acq_rel), fetch_sub(acq_rel), load(acquire): what was done with
//               a reference comes before the pin's end, or its next token
//
// Progress  wait-free; another token than the last one costs what a copy does, and perhaps an
//           allocation.
//
// Proof     test/schedule (withdrawal); test/section (withdrawal)
//
// Source    biased reference counting (Choi, Shull, Torrellas, PACT 2018); one pin a thread that
//           takes one token after the other is ours.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/thread_state.hpp>

#include <cstdint>
#include <stop_token>
#include <utility>

namespace turnstile::detail {

struct token_pin {
  std::stop_token token;
  std::uint64_t thread;            // whose it is
  guarded<std::uint32_t> uses{0};  // only that thread
  atomic<std::uint32_t> elsewhere{0};
  // Of those set apart, in a ring; of the kept one, the last of them. Only that thread.
  token_pin* next = nullptr;
};

// By the end of a thread: gives up the pins that it keeps.
void end_kept_tokens() noexcept;

class kept_token {
 public:
  explicit kept_token(const std::stop_token* t) : pin_(t == nullptr ? nullptr : pin(*t)) {}
  kept_token(const kept_token& other)
      : pin_(other.pin_ == nullptr ? nullptr : pin(other.pin_->token)) {}
  kept_token(kept_token&& other) noexcept : pin_(std::exchange(other.pin_, nullptr)) {}
  kept_token& operator=(kept_token&&) = delete;
  ~kept_token() {
    if (pin_ != nullptr) unpin();
  }

  // As if it were not kept any more.
  void let_go() noexcept {
    if (pin_ != nullptr) unpin();
    pin_ = nullptr;
  }

  bool is_none() const noexcept { return pin_ == nullptr; }
  bool stop_requested() const noexcept { return pin_ != nullptr && pin_->token.stop_requested(); }
  std::stop_token get() const noexcept { return pin_ == nullptr ? std::stop_token{} : pin_->token; }

 private:
  static token_pin* pin(const std::stop_token& t) {
    token_pin* const kept = here().kept_token;
    if (kept == nullptr || kept->token != t) [[unlikely]]
      return pin_another(t);
    kept->uses = kept->uses + 1;
    return kept;
  }
  void unpin() noexcept {
    if (here().kept_token != pin_) [[unlikely]]
      return unpin_another(*pin_);
    pin_->uses = pin_->uses - 1;
  }

  static token_pin* pin_another(const std::stop_token& t);
  static void unpin_another(token_pin& p) noexcept;

  token_pin* pin_;
};

}  // namespace turnstile::detail
