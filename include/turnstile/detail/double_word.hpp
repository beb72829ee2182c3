// double_word.hpp - a small value and its version, which change together in one step without a
// lock.
//
// Shape     (version, bits), 16 bytes. Every change adds one to the version, so none comes back.
//
// Edges     D1  the exchange (acq_rel) -> load(acquire) of the version and of the bits, and the
//               next exchange: everything before a write is seen by who reads it
//
// Progress  load looks at the version again and goes round if somebody wrote in between; swap_if is
//           one instruction. Lock-free.
//
// Dangers   The halves are read one by one: the bits belong to the version because that was the
//           same before and after, and the loads stay in this order.
//
// Proof     test/variable, test/stress (small values: each once, value and version belong
//           together), also under the thread sanitizer. The checker knows words of 8 bytes only;
//           there, and on processors without the instruction, small values take the way of large
//           ones.
//
// Source    read between two looks at the version: seqlocks, with the orders of Boehm (Can seqlocks
//           get along with programming language memory models?, MSPC 2012); the version is part of
//           what is exchanged, so writers need no lock.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/config.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#if defined(TURNSTILE_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__) && !defined(TURNSTILE_ATOMIC_SEAM)
#define TURNSTILE_DOUBLE_WORD 1
#else
#define TURNSTILE_DOUBLE_WORD 0
#endif

namespace turnstile::detail {

struct versioned_bits {
  std::uint64_t version;
  std::uint64_t bits;
};

template <class T>
inline constexpr bool fits_double_word =
    TURNSTILE_DOUBLE_WORD != 0 && std::is_trivially_copyable_v<T> && sizeof(T) <= 8;

template <class T>
std::uint64_t bits_of(const T& value) noexcept {
  std::uint64_t bits = 0;
  std::memcpy(&bits, std::addressof(value), sizeof value);
  return bits;
}

template <class T>
T value_of(std::uint64_t bits) noexcept {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &bits, sizeof(T));
  return std::bit_cast<T>(bytes);
}

#if TURNSTILE_DOUBLE_WORD
class double_word {
 public:
  explicit double_word(std::uint64_t bits) noexcept : word_{0, bits} {}
  double_word(const double_word&) = delete;
  double_word& operator=(const double_word&) = delete;

  std::uint64_t version() const noexcept {
    return __atomic_load_n(&word_.version, __ATOMIC_ACQUIRE);  // D1
  }

  versioned_bits load() const noexcept {
    for (;;) {
      const std::uint64_t version = __atomic_load_n(&word_.version, __ATOMIC_ACQUIRE);  // D1
      const std::uint64_t bits = __atomic_load_n(&word_.bits, __ATOMIC_ACQUIRE);        // D1
      if (__atomic_load_n(&word_.version, __ATOMIC_RELAXED) == version) return {version, bits};
    }
  }

  // False: `seen` is what is there instead.
  bool swap_if(versioned_bits& seen, versioned_bits next) noexcept;

 private:
  struct alignas(16) pair : versioned_bits {};

  pair word_;
};

// By hand, because compilers call a library for 16 bytes, which may use a lock; the thread
// sanitizer's own operation does, and a load of a half sees through that. It is told instead what
// the instruction does.
inline bool double_word::swap_if(versioned_bits& seen, versioned_bits next) noexcept {
#if defined(TURNSTILE_THREAD_SANITIZER)
  __tsan_release(&word_.version);
#endif
  bool done;
  asm volatile("lock cmpxchg16b %1"  // D1
               : "=@ccz"(done), "+m"(word_), "+a"(seen.version), "+d"(seen.bits)
               : "b"(next.version), "c"(next.bits)
               : "memory");
#if defined(TURNSTILE_THREAD_SANITIZER)
  __tsan_acquire(&word_.version);
#endif
  return done;
}
#endif

}  // namespace turnstile::detail
