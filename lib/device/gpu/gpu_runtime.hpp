// gpu_runtime.hpp - the table that GPUs are reached through, which of them are available, and their
// end.
#pragma once

#include "device/gpu/gpu_error.hpp"
#include "device/gpu_api.hpp"

#include <turnstile/detail/lane.hpp>
#include <turnstile/device.hpp>

#include <string_view>

namespace turnstile::detail {

struct gpu_end;

// Why the GPU of this number cannot be used, in one sentence; empty if it can. Valid for good.
std::string_view gpu_why_not(int index) noexcept;

// Throws device_error with that sentence.
lane_ref make_gpu_lane(int index);
// Throws std::invalid_argument, which says why, for a stream that cannot be used.
lane_ref adopt_gpu_stream(CUstream_st* s);

// The number of the GPU whose memory it is; below 0: none in particular, or it is not known.
int gpu_device_of_pointer(const void* p) noexcept;

// Tells the hook of on_device_lost. Outside all locks.
void tell_device_lost(device d, const device_error& why) noexcept;

// In a process that was forked after GPUs were asked for: everything ends with this. Else null.
const gpu_end* end_by_fork() noexcept;

// device_error: shut_down_devices was called.
[[noreturn]] void throw_shut_down();

}  // namespace turnstile::detail
