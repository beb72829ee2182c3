// stack_pool.hpp - memory for stacks: guarded, and used again.
//
// Sizes are powers of two. Stacks of one size lie side by side in slabs, each above a guard of four
// pages, which a frame would have to be larger than to step over. Given back, they wait in a list,
// the latest first; those beyond the first 256 of a size give their pages back to the system, but
// keep their place.
// Slabs are never unmapped: the address space of the most fibers that were alive at once is kept.
//
// The guard is a mark in the page table where the kernel has that (Linux 6.13, MADV_GUARD_INSTALL).
// Elsewhere it is a mapping without access, which counts as a mapping of its own, and the system
// allows 65530 in all: from about 32,000 stacks on they are not guarded there, and are looked at
// when their fiber waits instead (own_stack.hpp).
#pragma once

#include <cstddef>

namespace turnstile::detail {

struct stack_memory {
  std::byte* bottom;  // its lowest byte; the guard, if there is one, lies below
  std::size_t size;   // bytes
  bool guarded;

  std::byte* top() const noexcept { return bottom + size; }
};

std::size_t page_size() noexcept;
std::size_t guard_size() noexcept;

// At least `size` bytes. Throws bad_alloc.
stack_memory take_stack(std::size_t size);
void give_stack_back(const stack_memory& stack) noexcept;

}  // namespace turnstile::detail
