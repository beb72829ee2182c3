// gpu_point.hpp - a place in a GPU's stream: an event of the runtime, and what ends there.
#pragma once

#include "device/gpu/gpu_call.hpp"
#include "device/gpu/gpu_error.hpp"

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/point.hpp>

#include <exception>
#include <utility>

namespace turnstile::detail {

class gpu_device;

// Belongs to its device for good, and is used again.
class gpu_point final : public point {
 public:
  explicit gpu_point(gpu_device& on) noexcept : device_(on) {}

  CUevent_st* native() const noexcept override { return event_.load(relaxed); }

 private:
  friend class gpu_device;
  friend class gpu_stream;

  void recycle() noexcept override;

  // It is never recorded again. Under the lock of the stream's list, or before anybody sees it.
  void spoil(gpu_outcome why) noexcept {
    if (!failure_.failed()) failure_ = why;
    spoilt_ = true;
  }
  // What starts anew with each record.
  void begin(gpu_calls calls, std::exception_ptr owed, bool inner) noexcept {
    calls_ = calls;
    owed_ = std::move(owed);
    failure_ = {};
    inner_ = inner;
  }

  gpu_device& device_;
  atomic<CUevent_st*> event_{
      nullptr};  // changes only while nobody shares the point, or it is reached
  guarded<gpu_point*> next_{nullptr};  // in the stream's list, or in the device's
  gpu_calls calls_;                    // since the point before
  std::exception_ptr owed_;            // by what was given since then and has no place to throw
  gpu_outcome failure_;                // of looking for it
  bool spoilt_ = false;                // its event can say nothing
  bool inner_ = false;                 // nobody was given it: its error is the next one's
};

}  // namespace turnstile::detail
