// switch.hpp - from one stack to another.
//
// On x86-64 it is written here, to be inlined: what is saved is what the compiler keeps in
// registers at that place, and calls and returns stay in step for the core's return predictor.
// jump_fcontext is a call that ends in a jump: after it, all returns up to the scheduler are
// mispredicted (figures: README.md).
// Elsewhere, and in builds with a sanitizer, Boost.Context does it.
#pragma once

#include <turnstile/detail/config.hpp>

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && defined(__ELF__) && !defined(__CET__) && \
    !defined(TURNSTILE_ADDRESS_SANITIZER) && !defined(TURNSTILE_THREAD_SANITIZER)
#define TURNSTILE_SWITCH_BY_HAND 1
#else
#define TURNSTILE_SWITCH_BY_HAND 0
#include <boost/context/detail/fcontext.hpp>
#endif

namespace turnstile::detail {

// Where a stack was left: all else lies on it.
using stack_place = void*;

// What a function that begins on a new stack is given: where the stack was entered from, and what
// the first switch passed.
using stack_begin = void (*)(stack_place from, void* passed);

#if TURNSTILE_SWITCH_BY_HAND

#if defined(__AVX512F__)
#define TURNSTILE_CLOBBERS_OF_AVX512                                                            \
  , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",   \
      "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", \
      "k7"
#else
#define TURNSTILE_CLOBBERS_OF_AVX512
#endif

// Goes to `to`, and gives where from it was come back. `passed` reaches a function that begins
// there.
[[gnu::always_inline]] inline stack_place switch_to(stack_place to, void* passed) noexcept {
  // rdi, rsi: the arguments of a stack_begin. The red zone below rsp may be in use.
  asm volatile(
      "leaq -128(%%rsp), %%rsp\n\t"
      "pushq %%rbp\n\t"
      "pushq %%rbx\n\t"
      "leaq 1f(%%rip), %%rax\n\t"
      "pushq %%rax\n\t"
      "movq %%rdi, %%rax\n\t"
      "movq %%rsp, %%rdi\n\t"
      "movq %%rax, %%rsp\n\t"
      "popq %%rax\n\t"
      "jmpq *%%rax\n\t"
      "1:\n\t"
      "popq %%rbx\n\t"
      "popq %%rbp\n\t"
      "leaq 128(%%rsp), %%rsp"
      : "+D"(to), "+S"(passed)
      :
      : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc",
        "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "st", "st(1)", "st(2)", "st(3)", "st(4)",
        "st(5)", "st(6)", "st(7)" TURNSTILE_CLOBBERS_OF_AVX512);
  return to;
}

// A stack on which F begins when it is entered first. `top` is a multiple of 16.
template <stack_begin F>
stack_place make_place(std::byte* top, std::size_t) noexcept {
  auto* const at = reinterpret_cast<void**>(top);
  at[-1] = nullptr;  // as if F was called from nowhere
  at[-2] = reinterpret_cast<void*>(F);
  return at - 2;
}

// Rounding and the like, which a called function gives back as it was.
class float_control {
 public:
  static float_control now() noexcept {
    std::uint32_t sse;
    std::uint16_t x87;
    asm volatile("stmxcsr %0" : "=m"(sse));
    asm volatile("fnstcw %0" : "=m"(x87));
    return float_control(sse | std::uint64_t{x87} << 32);
  }
  void put() const noexcept {
    const auto sse = static_cast<std::uint32_t>(both_);
    const auto x87 = static_cast<std::uint16_t>(both_ >> 32);
    asm volatile("ldmxcsr %0" : : "m"(sse));
    asm volatile("fldcw %0" : : "m"(x87));
  }
  friend bool operator==(const float_control&, const float_control&) = default;

 private:
  explicit float_control(std::uint64_t both) noexcept : both_(both) {}

  std::uint64_t both_;  // one word: two would be stored apart and then copied as one, which stalls
};

#else

inline stack_place switch_to(stack_place to, void* passed) noexcept {
  return boost::context::detail::jump_fcontext(to, passed).fctx;
}

template <stack_begin F>
stack_place make_place(std::byte* top, std::size_t size) noexcept {
  return boost::context::detail::make_fcontext(
      top, size, [](boost::context::detail::transfer_t t) { F(t.fctx, t.data); });
}

// jump_fcontext takes care of it.
struct float_control {
  static float_control now() noexcept { return {}; }
  void put() const noexcept {}
  friend bool operator==(const float_control&, const float_control&) = default;
};

#endif

}  // namespace turnstile::detail
