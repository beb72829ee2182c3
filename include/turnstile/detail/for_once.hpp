// for_once.hpp - what is awaited once, and movable until then.
#pragma once

#include <turnstile/detail/config.hpp>
#include <turnstile/detail/contract.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace turnstile::detail {

// Where nothing else would notice it: children that are there tell of it themselves.
class for_once {
 public:
  for_once() noexcept = default;
  for_once(for_once&& other) noexcept : is_(std::exchange(other.is_, state::moved_from)) {}

  void begin(std::string_view what) noexcept {
    if (is_ != state::fresh) [[unlikely]]
      misused(what);
    is_ = state::begun;
  }

 private:
  enum class state : std::uint8_t { fresh, moved_from, begun };

  [[noreturn]] TURNSTILE_COLD void misused(std::string_view what) const noexcept {
    const char* const how =
        is_ == state::begun ? " is awaited twice" : " is used that was moved from";
    contract_break("", "a " + std::string(what) + how, {});
  }

  state is_ = state::fresh;
};

}  // namespace turnstile::detail
