// stack_pool.cpp - slabs of stacks, and the lists of those that nobody uses.

#include "fiber/stack_pool.hpp"

#include <turnstile/detail/threads.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <mutex>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace turnstile::detail {

namespace {

constexpr int guard_install = 102;  // MADV_GUARD_INSTALL, newer than the headers of Debian 12

constexpr std::size_t smallest = 16384;
constexpr std::size_t slab_bytes = std::size_t{4} << 20;
constexpr std::size_t kept_with_their_pages = 256;  // of each size

// Lies in the topmost bytes of a stack that nobody uses: those are in memory anyway.
struct unused_stack {
  unused_stack* next;
  std::byte* bottom;
  bool guarded;
};

struct stacks_of_a_size {
  unused_stack* newest = nullptr;
  std::size_t unused = 0;
};

// Never destroyed: fibers may still end while the process does.
constinit mutex pool_lock;
constinit std::array<stacks_of_a_size, std::numeric_limits<std::size_t>::digits + 1> by_width{};

stacks_of_a_size& those_of(std::size_t size) noexcept {
  return by_width[static_cast<std::size_t>(std::bit_width(size))];
}

bool put_guard(std::byte* at) noexcept {
  return madvise(at, guard_size(), guard_install) == 0 ||
         mprotect(at, guard_size(), PROT_NONE) == 0;
}

void put(stacks_of_a_size& all, const stack_memory& s) noexcept {
  all.newest = ::new (s.top() - sizeof(unused_stack)) unused_stack{all.newest, s.bottom, s.guarded};
  ++all.unused;
}

// Under the lock.
void add_slab(stacks_of_a_size& all, std::size_t size) {
  const std::size_t stride = guard_size() + size;
  const std::size_t stacks = std::max<std::size_t>(1, slab_bytes / stride);
  void* const got = mmap(nullptr, stacks * stride, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (got == MAP_FAILED) throw std::bad_alloc();
  // One touched page shall not bring in all of a huge one. Where that is not known, so be it.
  madvise(got, stacks * stride, MADV_NOHUGEPAGE);
  auto* guard = static_cast<std::byte*>(got);
  for (std::size_t i = 0; i != stacks; ++i, guard += stride) {
    put(all, {guard + guard_size(), size, put_guard(guard)});
  }
}

// The topmost page stays, with what links it.
void give_pages_back(const stack_memory& s) noexcept {
  if (s.size > page_size()) madvise(s.bottom, s.size - page_size(), MADV_DONTNEED);
}

}  // namespace

std::size_t page_size() noexcept {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t guard_size() noexcept { return 4 * page_size(); }

stack_memory take_stack(std::size_t size) {
  if (size > PTRDIFF_MAX / 2) throw std::bad_alloc();
  size = std::bit_ceil(std::max({size, smallest, page_size()}));
  const std::lock_guard lock(pool_lock);
  stacks_of_a_size& all = those_of(size);
  if (all.newest == nullptr) add_slab(all, size);
  const unused_stack taken = *all.newest;
  all.newest = taken.next;
  --all.unused;
  return {taken.bottom, size, taken.guarded};
}

void give_stack_back(const stack_memory& stack) noexcept {
  const std::lock_guard lock(pool_lock);
  stacks_of_a_size& all = those_of(stack.size);
  if (all.unused >= kept_with_their_pages) give_pages_back(stack);
  put(all, stack);
}

}  // namespace turnstile::detail
