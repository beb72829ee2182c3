// table.cpp - the functions of CUDA's runtime, for the rest of the library.
//
// A program that links this gets GPUs without a call of its own: the table is handed over before
// main, and no function of it is called by that. See linked_cuda.hpp for how it is linked at all.

#include "device/gpu_api.hpp"

#include <turnstile/detail/linked_cuda.hpp>

#include <cstring>
#include <cuda_runtime_api.h>

namespace turnstile::detail {

namespace {

int get_device_name(int device, char* to, std::size_t size) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess && size != 0) {
    std::strncpy(to, properties.name, size - 1);
    to[size - 1] = '\0';
  }
  return error;
}

int stream_is_capturing(CUstream_st* s, bool* yes) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(s, &status);
  if (error == cudaSuccess) *yes = status != cudaStreamCaptureStatusNone;
  return error;
}

#if CUDART_VERSION >= 12080
int stream_get_device(CUstream_st* s, int* device) { return cudaStreamGetDevice(s, device); }
#else
constexpr int (*stream_get_device)(CUstream_st*, int*) = nullptr;
#endif

// In a stream of its own, which ends with the scope.
class blocking_wait {
 public:
  blocking_wait() {
    is_made_ = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess &&
               cudaEventCreateWithFlags(
                   &reached_, cudaEventDisableTiming | cudaEventBlockingSync) == cudaSuccess;
  }
  ~blocking_wait() {
    if (reached_ != nullptr) cudaEventDestroy(reached_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  blocking_wait(const blocking_wait&) = delete;
  blocking_wait& operator=(const blocking_wait&) = delete;

  int until(CUevent_st* e) {
    if (is_made_ && comes_behind(e)) return cudaEventSynchronize(reached_);
    cudaGetLastError();  // no memory, say, which is no error of `e`
    return cudaEventSynchronize(e);
  }

 private:
  bool comes_behind(CUevent_st* e) {
    return cudaStreamWaitEvent(stream_, e, cudaEventWaitDefault) == cudaSuccess &&
           cudaEventRecord(reached_, stream_) == cudaSuccess;
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t reached_ = nullptr;
  bool is_made_ = false;
};

// A thread sleeps only for an event that was made for that, and of those no more than 28 to 56 can
// be recorded ahead before the driver blocks whoever records the next one (H200, driver 580). So
// there is one at a time, for a thread that is about to sleep for long.
int event_synchronize(CUevent_st* e) { return blocking_wait().until(e); }

int device_of_pointer(const void* p, int* device) {
  cudaPointerAttributes found{};
  const cudaError_t error = cudaPointerGetAttributes(&found, p);
  if (error == cudaSuccess) *device = found.type == cudaMemoryTypeDevice ? found.device : -1;
  return error;
}

int is_pageable(const void* p, bool* yes) {
  cudaPointerAttributes found{};
  const cudaError_t error = cudaPointerGetAttributes(&found, p);
  if (error == cudaSuccess) *yes = found.type == cudaMemoryTypeUnregistered;
  return error;
}

int exchange_capture_mode(int* mode) {
  auto as_enum = static_cast<cudaStreamCaptureMode>(*mode);
  const cudaError_t error = cudaThreadExchangeStreamCaptureMode(&as_enum);
  if (error == cudaSuccess) *mode = as_enum;
  return error;
}

// The lambdas make an int of an enumeration, or add a constant.
constexpr gpu_api runtime{
    .runtime_version = CUDART_VERSION,

    .driver_get_version = [](int* version) -> int { return cudaDriverGetVersion(version); },
    .get_device_count = [](int* n) -> int { return cudaGetDeviceCount(n); },
    .get_device_name = &get_device_name,
    .set_device = [](int device) -> int { return cudaSetDevice(device); },
    .get_device = [](int* device) -> int { return cudaGetDevice(device); },

    .stream_create = [](CUstream_st** s) -> int {
      return cudaStreamCreateWithFlags(s, cudaStreamNonBlocking);
    },
    .stream_destroy = [](CUstream_st* s) -> int { return cudaStreamDestroy(s); },
    .stream_query = [](CUstream_st* s) -> int { return cudaStreamQuery(s); },
    .stream_synchronize = [](CUstream_st* s) -> int { return cudaStreamSynchronize(s); },
    .stream_is_capturing = &stream_is_capturing,
    .stream_get_device = stream_get_device,
    .stream_wait_event = [](CUstream_st* s, CUevent_st* e) -> int {
      return cudaStreamWaitEvent(s, e, cudaEventWaitDefault);
    },

    .event_create = [](CUevent_st** e) -> int {
      return cudaEventCreateWithFlags(e, cudaEventDisableTiming);
    },
    .event_destroy = [](CUevent_st* e) -> int { return cudaEventDestroy(e); },
    .event_record = [](CUevent_st* e, CUstream_st* s) -> int { return cudaEventRecord(e, s); },
    .event_query = [](CUevent_st* e) -> int { return cudaEventQuery(e); },
    .event_synchronize = &event_synchronize,

    .memcpy_async = [](void* to, const void* from, std::size_t bytes, CUstream_st* s) -> int {
      return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s);
    },
    .malloc_async = [](void** p, std::size_t bytes, CUstream_st* s) -> int {
      return cudaMallocAsync(p, bytes, s);
    },
    .free_async = [](void* p, CUstream_st* s) -> int { return cudaFreeAsync(p, s); },
    .launch_host_func = [](CUstream_st* s, void (*f)(void*), void* with) -> int {
      return cudaLaunchHostFunc(s, f, with);
    },
    .host_alloc = [](void** p, std::size_t bytes) -> int {
      return cudaHostAlloc(p, bytes, cudaHostAllocPortable);
    },

    .device_of_pointer = &device_of_pointer,
    .is_pageable = &is_pageable,
    .exchange_capture_mode = &exchange_capture_mode,
    .peek_at_last_error = []() -> int { return cudaPeekAtLastError(); },
    .get_last_error = []() -> int { return cudaGetLastError(); },

    .error_name = [](int error) { return cudaGetErrorName(static_cast<cudaError_t>(error)); },
    .error_text = [](int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); },
};

static_assert(gpu_errors::success == cudaSuccess);
static_assert(gpu_errors::runtime_unloading == cudaErrorCudartUnloading);
static_assert(gpu_errors::stub_library == cudaErrorStubLibrary);
static_assert(gpu_errors::insufficient_driver == cudaErrorInsufficientDriver);
static_assert(gpu_errors::no_device == cudaErrorNoDevice);
static_assert(gpu_errors::not_ready == cudaErrorNotReady);

}  // namespace

}  // namespace turnstile::detail

bool turnstile_cuda() noexcept {
  static const bool handed_over =
      (turnstile::detail::use_gpu_api(&turnstile::detail::runtime), true);
  return handed_over;
}

namespace {

const bool at_start = turnstile_cuda();

}  // namespace
