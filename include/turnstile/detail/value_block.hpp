// value_block.hpp - one value that does not change while anybody else can see it, and who holds it.
//
// shares counts who holds the block. As long as the block is a variable's, what the variable has
// lent is counted in its own word (value_cell.hpp), so shares begins at `attached` and only says by
// how much that number has to be corrected.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/config.hpp>

#include <cstdint>
#include <utility>

namespace turnstile::detail {

struct alignas(cache_line) value_block {
  // More than anybody can hold: a block that a variable has is never the last holder's.
  static constexpr std::int64_t attached = std::int64_t{1} << 62;

  void hold() noexcept { shares.fetch_add(1, relaxed); }  // relaxed: the caller holds one already
  // True: that was the last one, and the caller frees the block.
  bool let_go() noexcept { return shares.fetch_sub(1, acq_rel) == 1; }  // V3, V4

  atomic<std::int64_t> shares{attached};
  guarded<std::uint64_t> version{0};  // written before V1, or between V3 and V2; read after
};

template <class T>
struct block_of : value_block {
  template <class... Args>
  explicit block_of(Args&&... args) : value(std::forward<Args>(args)...) {}

  T value;  // as version
};

// A share of a block, of a value that does not change. Empty after it was moved from.
template <class T>
class block_share {
 public:
  // Takes over the share that `b` stands for.
  explicit block_share(block_of<T>& b) noexcept : block_(&b) {}
  block_share(const block_share& other) noexcept : block_(other.block_) {
    if (block_ != nullptr) block_->hold();
  }
  block_share(block_share&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  block_share& operator=(block_share other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~block_share() {
    if (block_ != nullptr && block_->let_go()) delete block_;
  }

  const T& value() const noexcept { return block_->value; }
  std::uint64_t version() const noexcept { return block_->version; }

 private:
  block_of<T>* block_;
};

}  // namespace turnstile::detail
