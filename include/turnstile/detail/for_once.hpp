// for_once.hpp - what is awaited once, movable until then, and not destroyed while it waits.
#pragma once

#include <turnstile/detail/config.hpp>
#include <turnstile/detail/contract.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace turnstile::detail {

// A text as an argument of a template.
template <std::size_t N>
struct literal {
  consteval literal(const char (&of)[N]) noexcept {
    for (std::size_t i = 0; i != N; ++i) text[i] = of[i];
  }
  char text[N]{};
};

// Name is what it is called, Waits what its coroutine does meanwhile; for what notes no wait: its
// parts do that. The last member, so that it is the first to be destroyed.
template <literal Name, literal Waits>
class for_once {
 public:
  for_once() noexcept = default;
  for_once(for_once&& other) noexcept {
    if (other.waits()) [[unlikely]]
      misused(" is moved while it is awaited");
    is_ = std::exchange(other.is_, state::moved_from);
  }
  ~for_once() {
    if (waits()) [[unlikely]]
      destroyed();
  }

  void begin() noexcept {
    if (is_ != state::fresh) [[unlikely]]
      misused(is_ == state::moved_from ? " is used that was moved from" : " is awaited twice");
    is_ = state::begun;
  }
  // Before it can go on.
  void note_waiting() noexcept { is_ = state::waiting; }
  void note_going_on() noexcept { is_ = state::begun; }
  bool waits() const noexcept { return is_ == state::waiting; }

 private:
  enum class state : std::uint8_t { fresh, moved_from, begun, waiting };

  [[noreturn]] TURNSTILE_COLD static void misused(const char* how) noexcept {
    contract_break("", std::string("a ") + Name.text + how, {});
  }
  [[noreturn]] TURNSTILE_COLD static void destroyed() noexcept {
    contract_break("", std::string("a coroutine is destroyed while it ") + Waits.text, {});
  }

  state is_ = state::fresh;
};

}  // namespace turnstile::detail
