// section_row.hpp - the sections of a case side by side, and the memory they take.
#pragma once

#include <algorithm>
#include <cstddef>
#include <malloc.h>
#include <memory>

namespace bench {

inline std::size_t heap_in_use() noexcept {
  const auto heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

// An array of things that can be neither copied nor moved, each made with the same arguments.
template <class Section>
class section_row {
 public:
  template <class... Args>
  explicit section_row(std::size_t size, Args&... args) {
    const std::size_t before = heap_in_use();
    first_ = std::allocator<Section>{}.allocate(capacity_ = size);
    while (size_ < size) std::construct_at(first_ + size_++, args...);
    bytes_ = heap_in_use() - before;
  }
  ~section_row() {
    while (size_ > 0) std::destroy_at(first_ + --size_);
    std::allocator<Section>{}.deallocate(first_, capacity_);
  }
  section_row(const section_row&) = delete;
  section_row& operator=(const section_row&) = delete;

  Section& operator[](std::size_t index) noexcept { return first_[index]; }

  // What a section takes when it is new, with all it allocated.
  double bytes_each() const noexcept {
    const double allocated = static_cast<double>(bytes_) / static_cast<double>(capacity_);
    return std::max(allocated, static_cast<double>(sizeof(Section)));
  }

 private:
  Section* first_;
  std::size_t size_ = 0;
  std::size_t capacity_;
  std::size_t bytes_;
};

}  // namespace bench
