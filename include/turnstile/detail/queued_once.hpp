// queued_once.hpp - a coroutine that goes through the queue of an executor.
#pragma once

#include <turnstile/detail/config.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/suspended.hpp>

#include <cstdint>

namespace turnstile::detail {

// One-shot, movable until it is awaited, and not to be destroyed between note_queued and note_going_on.
class queued_once : protected suspended<job> {
 protected:
  queued_once() noexcept = default;
  queued_once(queued_once&& other) noexcept {
    if (other.phase_ != phase::fresh) [[unlikely]]
      other.misused();
    other.phase_ = phase::moved_from;
  }
  ~queued_once() {
    if (phase_ == phase::queued) [[unlikely]]
      contract_break("", "a coroutine is destroyed while it is in a queue", {});
  }

  void begin() noexcept {
    if (phase_ != phase::fresh) [[unlikely]]
      misused();
    phase_ = phase::begun;
  }
  // Before it can go on.
  void note_queued() noexcept { phase_ = phase::queued; }
  void note_going_on() noexcept { phase_ = phase::begun; }

 private:
  enum class phase : std::uint8_t { fresh, moved_from, begun, queued };

  [[noreturn]] TURNSTILE_COLD void misused() const noexcept {
    contract_break("",
                   phase_ == phase::moved_from
                       ? "a yield or schedule_on is used that was moved from"
                       : "a yield or schedule_on is awaited twice",
                   {});
  }

  phase phase_ = phase::fresh;
};

}  // namespace turnstile::detail
