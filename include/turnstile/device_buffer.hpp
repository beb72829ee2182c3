// device_buffer.hpp - memory on a device, allocated and freed in the order of a stream.
#pragma once

#include <turnstile/detail/lane.hpp>
#include <turnstile/resource.hpp>
#include <turnstile/stream.hpp>

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace turnstile {

/// `n` objects of type T on the device of a stream, uninitialised.
///
/// What is given to that stream from now on may use it; another stream has to wait for an event of
/// that one first. Destroying it frees the memory after everything that stream was given by then.
///
/// Also a resource: `execute_options::uses` takes it, and a section on another device refuses it,
/// but what is on the host only to device executions.
///
/// Threads    used from any thread; moved and ended by one
/// Throws     device_error, std::bad_alloc
/// Lifetime   may outlive the stream. A moved-from buffer may only be assigned to or destroyed
template <class T>
class device_buffer {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
                "a device copies bytes and ends nothing");
  static_assert(alignof(T) <= detail::lane::most_aligned, "a device aligns memory to 256 bytes");

 public:
  device_buffer(stream& s, std::size_t n)
      : lane_(detail::stream_access::lane_of(s)),
        identity_(std::make_unique<detail::resource_identity>("device_buffer", s.where())),
        size_(n) {
    if (n > (std::numeric_limits<std::size_t>::max)() / sizeof(T))
      throw std::bad_array_new_length();
    if (n != 0) data_ = static_cast<T*>(lane_->allocate(n * sizeof(T)));
  }
  device_buffer(device_buffer&& other) noexcept
      : lane_(other.lane_),
        identity_(std::move(other.identity_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  device_buffer& operator=(device_buffer&& other) noexcept {
    device_buffer taken(std::move(other));
    std::swap(lane_, taken.lane_);
    std::swap(identity_, taken.identity_);
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    return *this;
  }
  ~device_buffer() {
    if (data_ != nullptr) lane_->deallocate(data_, size_ * sizeof(T));
  }

  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  device where() const noexcept { return lane_->where(); }

 private:
  friend class resource_ref;

  detail::lane_ref lane_;
  std::unique_ptr<detail::resource_identity> identity_;  // apart, so that the buffer can be moved
  T* data_ = nullptr;
  std::size_t size_;
};

}  // namespace turnstile
