// own_stack.cpp - switching, and saying so.

#include "fiber/own_stack.hpp"

#include <boost/context/detail/fcontext.hpp>
#include <cstdint>
#include <cstring>
#include <cxxabi.h>
#include <utility>

#if defined(TURNSTILE_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(TURNSTILE_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace turnstile::detail {

namespace {

namespace context = boost::context::detail;

constexpr std::uint64_t untouched = 0x746f7563686d6524;  // in the lowest word of what has no guard

// Declared const where it is, so it must not be called by what changes threads.
void exchange_exceptions(exceptions_here& with) noexcept {
  auto& of_thread = *reinterpret_cast<exceptions_here*>(abi::__cxa_get_globals());
  std::swap(of_thread, with);
}

}  // namespace

struct own_stack::entry {
  static void run(context::transfer_t from) noexcept {
    own_stack& s = *static_cast<own_stack*>(from.data);
    s.outside_ = from.fctx;
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
    context::jump_fcontext(s.outside_, nullptr);
  }
};

own_stack::own_stack(std::size_t size, function f, void* arg)
    : memory_(take_stack(size)),
      function_(f),
      argument_(arg),
      inside_(context::make_fcontext(memory_.top(), memory_.size, &entry::run)) {
  if (!memory_.guarded) std::memcpy(memory_.bottom, &untouched, sizeof untouched);
#if defined(TURNSTILE_THREAD_SANITIZER)
  fiber_ = __tsan_create_fiber(0);
#endif
}

own_stack::~own_stack() {
#if defined(TURNSTILE_THREAD_SANITIZER)
  __tsan_destroy_fiber(fiber_);
#endif
#if defined(TURNSTILE_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(memory_.bottom, memory_.size);
#endif
  give_stack_back(memory_);
}

void own_stack::enter() noexcept {
  exchange_exceptions(exceptions_);
#if defined(TURNSTILE_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(&outside_fake_, memory_.bottom, memory_.size);
#endif
#if defined(TURNSTILE_THREAD_SANITIZER)
  outside_fiber_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber_, 0);
#endif
  inside_ = context::jump_fcontext(inside_, this).fctx;
#if defined(TURNSTILE_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(outside_fake_, nullptr, nullptr);
#endif
  exchange_exceptions(exceptions_);
}

void own_stack::leave() noexcept {
#if defined(TURNSTILE_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(&fake_, outside_bottom_, outside_size_);
#endif
#if defined(TURNSTILE_THREAD_SANITIZER)
  __tsan_switch_to_fiber(outside_fiber_, 0);
#endif
  outside_ = context::jump_fcontext(outside_, nullptr).fctx;
#if defined(TURNSTILE_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(fake_, &outside_bottom_, &outside_size_);
#endif
}

bool own_stack::overflowed() const noexcept {
  return !memory_.guarded && std::memcmp(memory_.bottom, &untouched, sizeof untouched) != 0;
}

}  // namespace turnstile::detail
