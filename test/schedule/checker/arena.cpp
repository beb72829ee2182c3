// arena.cpp - operator new for code under the checker.
//
// Freed memory is filled with a pattern that is no address; under the address sanitizer it is
// poisoned, so that plain accesses to it are found too.

#include "schedule/checker/arena.hpp"

#include "schedule/checker/world.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, n) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(at, n) static_cast<void>(0)
#endif

namespace schedule {

namespace {

constexpr std::size_t arena_size = std::size_t{8} << 20;
constexpr std::size_t unit = alignof(std::max_align_t);

alignas(4096) std::byte arena[arena_size];
std::size_t used = 0;
std::size_t live = 0;
bool on_a_fiber = false;

struct header {
  std::size_t size;
};

std::size_t rounded(std::size_t n, std::size_t to) noexcept { return (n + to - 1) / to * to; }

void* take(std::size_t n, std::size_t alignment) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(arena);  // for more than its own alignment
  const std::size_t at = rounded(begin + used + sizeof(header), alignment) - begin;
  if (at + n > arena_size) {
    set_active(false);
    fail("the checker's arena is full: see arena_size");
  }
  used = rounded(at + n, unit);
  ASAN_UNPOISON_MEMORY_REGION(arena + at - sizeof(header), n + sizeof(header));
  const header h{n};
  std::memcpy(arena + at - sizeof(header), &h, sizeof h);
  ++live;
  return arena + at;
}

bool is_ours(const void* p) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  const auto begin = reinterpret_cast<std::uintptr_t>(arena);
  return at >= begin && at < begin + arena_size;
}

void give(void* p) noexcept {
  header h;
  std::memcpy(&h, static_cast<std::byte*>(p) - sizeof(header), sizeof h);
  std::memset(p, 0xDB, h.size);
  ASAN_POISON_MEMORY_REGION(p, h.size);
  --live;
}

void* allocate(std::size_t n, std::size_t alignment) {
  if (on_a_fiber) return take(n, alignment < unit ? unit : alignment);
  void* const p = std::aligned_alloc(alignment, rounded(n, alignment));
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

void release(void* p) noexcept {
  if (is_ours(p)) {
    give(p);
  } else {
    std::free(p);
  }
}

}  // namespace

bool active() noexcept { return on_a_fiber; }
void set_active(bool on) noexcept { on_a_fiber = on; }

void reset_arena() noexcept {
  used = 0;
  live = 0;
}

std::size_t live_objects() noexcept { return live; }

}  // namespace schedule

void* operator new(std::size_t n) {
  return schedule::allocate(n, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t n, std::align_val_t a) {
  return schedule::allocate(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { schedule::release(p); }
void operator delete(void* p, std::size_t) noexcept { schedule::release(p); }
void operator delete(void* p, std::align_val_t) noexcept { schedule::release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { schedule::release(p); }
