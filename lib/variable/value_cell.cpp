// value_cell.cpp - the rarer ways of a variable's word. The protocol is in the header.

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/value_cell.hpp>

#include <stdexcept>

namespace turnstile::detail {

void refuse_inside_its_own_change() {
  throw std::logic_error("turnstile: a variable is used by the function that changes it");
}

value_cell::value_cell(value_block& first) : word_(word_of(first)), current_(&first) {}

std::uint64_t value_cell::word_of(const value_block& b) {
  const auto address = reinterpret_cast<std::uintptr_t>(&b);
  const std::uint64_t word = (address / alignof(value_block)) << (taken_bits + 1);
  if (block_in(word) != &b) contract_break("", "an address has more than 48 bits", {});
  return word;
}

void value_cell::arrange(std::uint64_t was) {
  value_block& b = *block_in(was);
  if ((was & being_written) != 0) {
    if (is_changed_here(this)) {
      word_.fetch_sub(1, relaxed);  // the mark is ours, so the block is still the current one
      refuse_inside_its_own_change();
    }
    wait_for(b);
  }
  settle(b);
}

// The caller has a share of b, so that nobody can begin another change of it.
void value_cell::wait_for(const value_block& b) const noexcept {
  for (;;) {
    const std::uint64_t now = word_.load(acquire);  // V2
    if (block_in(now) != &b || (now & being_written) == 0) return;
    word_.wait(now, relaxed);
  }
}

// The caller has a share of b, so that this cannot be the last one.
void value_cell::settle(value_block& b) noexcept {
  std::uint64_t now = word_.load(relaxed);
  while (block_in(now) == &b && (now & being_written) == 0 && taken_in(now) >= enough) {
    const std::uint64_t n = taken_in(now);
    b.shares.fetch_add(static_cast<std::int64_t>(n), relaxed);
    if (word_.compare_exchange_weak(now, now - n, release, relaxed)) return;  // V5
    b.shares.fetch_sub(static_cast<std::int64_t>(n), relaxed);
  }
}

void value_cell::raise_to(std::uint64_t version) noexcept {
  std::uint64_t seen = newest_.load(relaxed);
  while (seen < version && !newest_.compare_exchange_weak(seen, version, release, relaxed)) {  // V6
  }
}

value_block* value_cell::let_go_of(std::uint64_t word) noexcept {
  value_block* const b = block_in(word);
  const std::int64_t n = static_cast<std::int64_t>(taken_in(word)) - value_block::attached;
  return b->shares.fetch_add(n, acq_rel) + n == 0 ? b : nullptr;  // V4
}

value_block* value_cell::detach() noexcept {
  // relaxed: whoever ends a variable comes after everybody who used it
  return let_go_of(word_.load(relaxed));
}

value_cell::turn::turn(value_cell& cell) : written_here{&cell, here().writes} {
  refuse_if_changed_here(&cell);
  cell.turns_.lock();
  here().writes = this;
}

value_cell::turn::~turn() {
  here().writes = outer;
  cell().turns_.unlock();
}

bool value_cell::turn::claim() noexcept {
  value_cell& c = cell();
  value_block& b = *c.current_;
  const auto held = [&b](std::uint64_t word) {
    return static_cast<std::int64_t>(taken_in(word)) + b.shares.load(acquire) !=  // V3
           value_block::attached;
  };
  if (held(c.word_.load(relaxed))) return false;
  const std::uint64_t was = c.word_.fetch_add(being_written, acquire);  // V5
  taken_ = taken_in(was);
  if (held(was)) {
    give_up();
    return false;
  }
  b.shares.store(value_block::attached, relaxed);  // nobody else can see it
  b.version = b.version + 1;
  return true;
}

void value_cell::turn::give_up() noexcept {
  atomic<std::uint64_t>& word = cell().word_;
  word.fetch_sub(being_written, seq_cst);  // V2
  // Also who took before: it may have been on its way to wait for a mark that is gone, and saw
  // this.
  word.notify_all();
}

void value_cell::turn::written() noexcept {
  value_cell& c = cell();
  const std::uint64_t version = current().version;
  const std::uint64_t was = c.word_.fetch_sub(being_written + taken_ - 1, seq_cst);  // V2
  if (taken_in(was) != taken_) c.word_.notify_all();
  c.newest_.store(version, release);  // V6
}

value_block* value_cell::turn::publish(value_block& next) noexcept {
  value_cell& c = cell();
  const std::uint64_t version = current().version + 1;
  next.version = version;
  c.current_ = &next;
  const std::uint64_t was = c.word_.exchange(word_of(next) + 1, release);  // V1
  c.newest_.store(version, release);                                       // V6
  return c.let_go_of(was);
}

}  // namespace turnstile::detail
