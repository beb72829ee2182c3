// stream.cpp - which lane a stream is; what an await of a stream does apart from its type.

#include "device/engine.hpp"
#include "device/gpu/gpu_runtime.hpp"
#include "device/host_lane.hpp"
#include "executor/or_shared.hpp"

#include <turnstile/detail/claims.hpp>
#include <turnstile/stream.hpp>

#include <stdexcept>

namespace turnstile {

namespace detail {

executor_ref executor_after_device() noexcept { return or_shared(here().runs_on); }

lane_ref make_lane(device where, const stream_options& options) {
  if (where.is_any()) {
    throw std::invalid_argument(
        "turnstile: a stream is on the host or on one GPU, not on any device");
  }
  if (!where.is_host()) {
    device_of_address.store(&gpu_device_of_pointer, relaxed);
    return make_gpu_lane(where.index());
  }
  return lane_ref(new host_lane(or_shared(options.executor), options.polled));
}

}  // namespace detail

stream::stream(device where, const stream_options& options)
    : lane_(detail::make_lane(where, options)) {}

// On a GPU somebody has to look, and then it may as well be who asks.
bool event::ready() const noexcept {
  if (!point_ || point_->is_reached()) return true;
  return detail::engine::the().poll() && point_->is_reached();
}

}  // namespace turnstile
