// own_new.hpp - replaces the global operator new. Included once, by a program that defines
// before_allocation, which is called before each and may throw.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace support {

void before_allocation();

inline void* allocate(std::size_t n) {
  before_allocation();
  if (void* const p = std::malloc(n == 0 ? 1 : n)) return p;
  throw std::bad_alloc();
}

inline void* allocate(std::size_t n, std::align_val_t a) {
  before_allocation();
  const auto align = static_cast<std::size_t>(a);
  if (void* const p = std::aligned_alloc(align, (n + align - 1) / align * align)) return p;
  throw std::bad_alloc();
}

}  // namespace support

void* operator new(std::size_t n) { return support::allocate(n); }
void* operator new[](std::size_t n) { return support::allocate(n); }
void* operator new(std::size_t n, std::align_val_t a) { return support::allocate(n, a); }
void* operator new[](std::size_t n, std::align_val_t a) { return support::allocate(n, a); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
