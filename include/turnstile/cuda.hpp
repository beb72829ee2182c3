// cuda.hpp - streams on GPUs, for programs that also call CUDA themselves. Needs the CUDA toolkit
// and turnstile-cuda; everything else about devices is in device.hpp and stream.hpp.
//
// Behind it: lib/device/cuda.
#pragma once

#include <turnstile/device.hpp>
#include <turnstile/stream.hpp>

#include <cuda_runtime_api.h>

namespace turnstile {

/// A stream that somebody else made and owns, to be awaited and waited for like one of ours. It has
/// to outlive what is given to it here and, if shut_down_devices is called, the stream that this
/// returns. Before CUDA 12.8 its device is taken to be the calling thread's current one.
///
/// Throws     std::invalid_argument, which says why, if it cannot be used: the legacy and the
///            per-thread default stream, because a coroutine may resume on another thread, where
///            those are other streams or wait for all others; a stream that is being captured,
///            because its events are never reached.
///            device_error if its device is lost or not to be had
stream adopt(cudaStream_t s);

/// Throws device_error, with the name and text of the runtime, unless `error` is cudaSuccess.
void check(cudaError_t error);

}  // namespace turnstile
