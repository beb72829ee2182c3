// recycled.hpp - memory for frames, of coroutines and of guards: a thread keeps what it frees, to
// give it out again.
//
// Shape     A list for each size, in steps of 64 bytes up to 1 KiB, of at most 64 KiB. It belongs
//           to one thread: a frame goes to the thread that frees it, whichever asked for it. What
//           is larger, and what a list has no room for, is the allocator's as ever. So are all
//           frames where a tool looks for those that are used after their end: under a sanitizer,
//           and in the checker.
//
// Dangers   At first no list has any room: the first frame that is freed arranges for what is kept
//           to be given back at the thread's end. After that there is no room again.
//
// Proof     test/path (allocation)
#pragma once

#include <turnstile/detail/config.hpp>

#include <cstddef>
#include <cstdint>
#include <new>

#if defined(TURNSTILE_THREAD_SEAM) || defined(TURNSTILE_THREAD_SANITIZER) || \
    defined(TURNSTILE_ADDRESS_SANITIZER)
#define TURNSTILE_RECYCLES_FRAMES 0
#else
#define TURNSTILE_RECYCLES_FRAMES 1
#endif

namespace turnstile::detail {

// What one thread keeps.
class spare_frames {
 public:
  static constexpr std::size_t step = 64;
  static constexpr std::size_t largest = 1024;
  static constexpr std::size_t most_bytes = 65536;  // of each size

  constexpr spare_frames() noexcept = default;

  // Throws std::bad_alloc.
  void* take(std::size_t n) {
    if (n > largest) return ::operator new(n);
    list& l = of_size(n);
    spare* const s = l.first;
    if (s == nullptr) [[unlikely]]
      return ::operator new(rounded(n));
    l.first = s->next;
    ++l.room;
    return s;
  }

  void give(void* p, std::size_t n) noexcept {
    if (n > largest) return ::operator delete(p);
    list& l = of_size(n);
    if (l.room == 0) [[unlikely]]
      return give_to_full(p, n);
    push(l, p);
  }

  void give_back_all() noexcept;

 private:
  struct spare {
    spare* next;
  };
  struct list {
    spare* first = nullptr;
    std::uint32_t room = 0;
  };
  enum class state : std::uint8_t { unused, in_use, over };

  static constexpr std::size_t rounded(std::size_t n) noexcept {
    return (n + step - 1) / step * step;
  }
  list& of_size(std::size_t n) noexcept { return lists_[(n - 1) / step]; }

  static void push(list& l, void* p) noexcept {
    l.first = ::new (p) spare{l.first};
    --l.room;
  }

  void give_to_full(void* p, std::size_t n) noexcept;
  void begin() noexcept;

  list lists_[largest / step]{};
  state state_ = state::unused;
};

// The base of what has its memory from there: promises, and the frames of guards.
class recycled {
#if TURNSTILE_RECYCLES_FRAMES
 public:
  static void* operator new(std::size_t n);
  static void operator delete(void* p, std::size_t n) noexcept;
#endif
};

}  // namespace turnstile::detail
