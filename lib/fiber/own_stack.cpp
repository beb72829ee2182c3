// own_stack.cpp - the beginning and the end of a stack.

#include "fiber/own_stack.hpp"

#include <cstring>
#include <new>

namespace turnstile::detail {

namespace {

constexpr std::uint64_t untouched = 0x746f7563686d6524;  // in the lowest word of what has no guard

// Stacks begin at different lines of their topmost page. If all began at the same one, those that
// wait would compete for the same few places in the caches, which are chosen by these bits of the
// address.
std::byte* place_in(const stack_memory& m) noexcept {
  constexpr std::size_t apart = 192;
  const auto page =
      static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(m.bottom) / page_size());
  const std::size_t number = (page * 2654435769u) >> 28;  // one of 16, whatever lies between stacks
  constexpr std::size_t taken = (sizeof(own_stack) + cache_line - 1) / cache_line * cache_line;
  return m.top() - number * apart - taken;
}

}  // namespace

own_stack::own_stack(const stack_memory& m, std::byte* top, function f, void* arg) noexcept
    : inside_(make_place<&begin>(top, static_cast<std::size_t>(top - m.bottom))),
      function_(f),
      argument_(arg),
      memory_(m) {
  if (!m.guarded) std::memcpy(m.bottom, &untouched, sizeof untouched);
}

own_stack* own_stack::make(std::size_t size, function f, void* arg) {
  const stack_memory m = take_stack(size);
  std::byte* const place = place_in(m);
  return ::new (place) own_stack(m, place, f, arg);
}

void own_stack::end() noexcept {
  const stack_memory m = memory_;
#if defined(TURNSTILE_THREAD_SANITIZER)
  __tsan_destroy_fiber(fiber_);
#endif
#if defined(TURNSTILE_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(m.bottom, m.size);
#endif
  this->~own_stack();
  give_stack_back(m);
}

void own_stack::begin(stack_place from, void* self) noexcept {
  own_stack& s = *static_cast<own_stack*>(self);
  s.outside_ = from;
#if defined(TURNSTILE_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(nullptr, &s.outside_bottom_, &s.outside_size_);
#endif
  s.function_(s.argument_);
#if defined(TURNSTILE_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(nullptr, s.outside_bottom_, s.outside_size_);
#endif
#if defined(TURNSTILE_THREAD_SANITIZER)
  __tsan_switch_to_fiber(s.outside_fiber_, 0);
#endif
  switch_to(s.outside_, nullptr);
}

bool own_stack::is_lowest_word_touched() const noexcept {
  return std::memcmp(memory_.bottom, &untouched, sizeof untouched) != 0;
}

}  // namespace turnstile::detail
