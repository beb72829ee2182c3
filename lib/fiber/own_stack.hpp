// own_stack.hpp - a stack that a function runs on, which can be left in the middle and entered
// again, on any thread.
//
// Dangers  enter returns on the thread that called it, leave perhaps on another one: after it,
//          whatever a function knew of its thread is another thread's. So what belongs to a thread
//          and not to a stack, exceptions and the rounding of numbers, is changed over in enter
//          only.
#pragma once

#include "fiber/stack_pool.hpp"
#include "fiber/switch.hpp"

#include <turnstile/detail/config.hpp>

#include <cstddef>
#include <utility>

#if defined(TURNSTILE_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(TURNSTILE_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace turnstile::detail {

// What of a thread says which exceptions are caught, and thrown, on it (Itanium C++ ABI, 2.2.2).
struct exceptions_here {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

class own_stack {
 public:
  using function = void (*)(void*) noexcept;

  // `f(arg)` runs when it is entered first. It lies at the top of the stack itself. Throws
  // bad_alloc.
  static own_stack* make(std::size_t size, function f, void* arg);
  void end() noexcept;
  own_stack(const own_stack&) = delete;
  own_stack& operator=(const own_stack&) = delete;

  // By a thread, whose exceptions these are: until the function leaves, or has returned.
  [[gnu::always_inline]] inline void enter(exceptions_here& of_thread) noexcept;
  // By the function.
  [[gnu::always_inline]] inline void leave() noexcept;

  const stack_memory& memory() const noexcept { return memory_; }
  // Only of one without a guard: the function used more than there is.
  bool overflowed() const noexcept { return !memory_.guarded && is_lowest_word_touched(); }

 private:
  own_stack(const stack_memory& m, std::byte* top, function f, void* arg) noexcept;
  ~own_stack() = default;
  static void begin(stack_place from, void* self) noexcept;
  bool is_lowest_word_touched() const noexcept;

  stack_place inside_;             // where the function stands
  stack_place outside_ = nullptr;  // where the thread stands that has entered
  exceptions_here exceptions_;
  float_control floats_ = float_control::now();
  const function function_;
  void* const argument_;
  const stack_memory memory_;
#if defined(TURNSTILE_ADDRESS_SANITIZER)
  const void* outside_bottom_ = nullptr;
  std::size_t outside_size_ = 0;
  void* outside_fake_ = nullptr;
  void* fake_ = nullptr;
#endif
#if defined(TURNSTILE_THREAD_SANITIZER)
  void* outside_fiber_ = nullptr;
  void* fiber_ = __tsan_create_fiber(0);
#endif
};

inline void own_stack::enter(exceptions_here& of_thread) noexcept {
  std::swap(of_thread, exceptions_);
  const float_control before = float_control::now();
  if (floats_ != before) floats_.put();
#if defined(TURNSTILE_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(&outside_fake_, memory_.bottom, memory_.size);
#endif
#if defined(TURNSTILE_THREAD_SANITIZER)
  outside_fiber_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber_, 0);
#endif
  inside_ = switch_to(inside_, this);
#if defined(TURNSTILE_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(outside_fake_, nullptr, nullptr);
#endif
  floats_ = float_control::now();
  if (floats_ != before) before.put();
  std::swap(of_thread, exceptions_);
}

inline void own_stack::leave() noexcept {
#if defined(TURNSTILE_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(&fake_, outside_bottom_, outside_size_);
#endif
#if defined(TURNSTILE_THREAD_SANITIZER)
  __tsan_switch_to_fiber(outside_fiber_, 0);
#endif
  outside_ = switch_to(outside_, nullptr);
#if defined(TURNSTILE_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(fake_, &outside_bottom_, &outside_size_);
#endif
}

}  // namespace turnstile::detail
