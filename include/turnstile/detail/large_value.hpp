// large_value.hpp - what a variable of any other type holds: a cell with the current block.
//
// The protocol is in value_cell.hpp.
#pragma once

#include <turnstile/detail/value_block.hpp>
#include <turnstile/detail/value_cell.hpp>
#include <turnstile/snapshot.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace turnstile::detail {

template <class T>
class large_value {
  using block = block_of<T>;
  using owned = std::unique_ptr<block>;

 public:
  explicit large_value(T&& initial) : cell_(*new block(std::move(initial))) {}
  ~large_value() { const owned last(of(cell_.detach())); }
  large_value(const large_value&) = delete;
  large_value& operator=(const large_value&) = delete;

  snapshot<T> read() const { return held(cell_.take()); }

  // What may fail comes first: assigning what is prepared only fails inside a change of the
  // thread's own.
  using prepared = owned;
  static prepared prepare(T&& value) { return std::make_unique<block>(std::move(value)); }
  static prepared prepare(const T& value) { return std::make_unique<block>(value); }

  snapshot<T> assign(prepared next) {
    owned old;  // goes after the turn: others need not wait for that
    value_cell::turn turn(cell_);
    return replace(turn, std::move(next), old);
  }

  template <class F>
  snapshot<T> update(F&& f) {
    owned old;
    value_cell::turn turn(cell_);
    if (turn.claim()) return change_in_place(turn, f);
    owned next = prepare(std::as_const(of(&turn.current())->value));
    copies_.fetch_add(1, relaxed);
    std::invoke(f, next->value);
    return replace(turn, std::move(next), old);
  }

  std::optional<snapshot<T>> compare_assign(std::uint64_t version, T&& value) {
    if (cell_.version() != version) return std::nullopt;
    owned next = prepare(std::move(value));
    owned old;
    value_cell::turn turn(cell_);
    if (turn.current().version != version) return std::nullopt;
    return replace(turn, std::move(next), old);
  }

  std::uint64_t version() const noexcept { return cell_.version(); }
  std::uint64_t copies() const noexcept { return copies_.load(relaxed); }

 private:
  // The function may throw half-way: then what it has done so far is the new value.
  template <class F>
  static snapshot<T> change_in_place(value_cell::turn& turn, F&& f) {
    block& b = *of(&turn.current());
    try {
      std::invoke(f, b.value);
    } catch (...) {
      turn.written();
      const snapshot<T> unwanted = held(b);
      throw;
    }
    turn.written();
    return held(b);
  }

  static snapshot<T> replace(value_cell::turn& turn, owned next, owned& old) noexcept {
    block& b = *next.release();
    old.reset(of(turn.publish(b)));
    return held(b);
  }

  static block* of(value_block* b) noexcept { return static_cast<block*>(b); }
  // Takes over a share of `b`.
  static snapshot<T> held(value_block& b) noexcept {
    return snapshot<T>(block_share<T>(static_cast<block&>(b)));
  }

  mutable value_cell cell_;  // reading counts
  statistic<std::uint64_t> copies_{0};
};

}  // namespace turnstile::detail
