// gpu_api.hpp - the functions of a GPU's runtime that the library calls, as a table.
//
// One indirect call costs 1 ns, the cheapest of these functions 300. For that, errors can be
// injected without tricks of the linker, and the core of the library never links the runtime. Every
// function gives 0 or an error's number, as CUDA counts them, unless it says otherwise.
#pragma once

#include <cstddef>

struct CUstream_st;
struct CUevent_st;

namespace turnstile::detail {

struct gpu_api {
  int runtime_version;  // 13000 is 13.0

  int (*driver_get_version)(int* version);  // 0: there is no driver
  int (*get_device_count)(int* n);
  int (*get_device_name)(int device, char* to, std::size_t size);
  int (*set_device)(int device);
  int (*get_device)(int* device);

  int (*stream_create)(CUstream_st** s);  // that does not wait for the default stream
  int (*stream_destroy)(CUstream_st* s);  // what was submitted is still done
  int (*stream_query)(CUstream_st* s);
  int (*stream_synchronize)(CUstream_st* s);
  int (*stream_is_capturing)(CUstream_st* s, bool* yes);
  int (*stream_get_device)(CUstream_st* s, int* device);  // null where the runtime has none
  int (*stream_wait_event)(CUstream_st* s, CUevent_st* e);

  int (*event_create)(CUevent_st** e);  // without times
  int (*event_destroy)(CUevent_st* e);
  int (*event_record)(CUevent_st* e, CUstream_st* s);
  int (*event_query)(CUevent_st* e);
  int (*event_synchronize)(CUevent_st* e);  // the thread sleeps

  int (*memcpy_async)(void* to, const void* from, std::size_t bytes, CUstream_st* s);
  int (*malloc_async)(void** p, std::size_t bytes, CUstream_st* s);
  int (*free_async)(void* p, CUstream_st* s);
  int (*launch_host_func)(CUstream_st* s, void (*f)(void*), void* with);
  int (*host_alloc)(void** p, std::size_t bytes);  // pinned, for every device

  // The device whose memory `p` points to; below 0 if any device and the host may use it or it is
  // not known.
  int (*device_of_pointer)(const void* p, int* device);
  // Memory of the host that is not pinned. The driver reads it when it is told to copy, whatever
  // the stream has to do before, and blocks the thread until it has written it.
  int (*is_pageable)(const void* p, bool* yes);
  int (*exchange_capture_mode)(int* mode);
  int (*peek_at_last_error)();
  int (*get_last_error)();  // which is none afterwards, unless it is sticky

  const char* (*error_name)(int error);
  const char* (*error_text)(int error);
};

// What those numbers mean here; cudaError_t in driver_types.h.
namespace gpu_errors {
inline constexpr int success = 0;
inline constexpr int runtime_unloading = 4;
inline constexpr int stub_library = 34;
inline constexpr int insufficient_driver = 35;
inline constexpr int no_device = 100;
inline constexpr int not_ready = 600;
}  // namespace gpu_errors

// The table that GPUs are reached through from now on; null: none. Throws nothing; the table stays
// where it is. Once it is in use another one is only taken after shut_down_devices.
void use_gpu_api(const gpu_api* api) noexcept;

}  // namespace turnstile::detail
