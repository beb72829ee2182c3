// fake_gpu.hpp - a runtime with two GPUs that does what the test says, and no sooner.
//
// Work waits in its stream until step or finish_all, so nothing is ready by default. Calls can be
// made to fail, and what a real runtime would only punish by chance is counted.
#pragma once

#include "device/gpu_api.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <string_view>

namespace fake {

enum class call {
  driver_get_version,
  get_device_count,
  get_device_name,
  set_device,
  get_device,
  stream_create,
  stream_destroy,
  stream_query,
  stream_synchronize,
  stream_is_capturing,
  stream_get_device,
  stream_wait_event,
  event_create,
  event_destroy,
  event_record,
  event_query,
  event_synchronize,
  memcpy_async,
  malloc_async,
  free_async,
  launch_host_func,
  host_alloc,
  device_of_pointer,
  is_pageable,
  exchange_capture_mode,
  peek_at_last_error,
  get_last_error,
};
inline constexpr int calls = static_cast<int>(call::get_last_error) + 1;

std::string_view name(call c);

// What no program should do.
struct misuse {
  int unrecorded = 0;        // asked or waited for an event on which nothing was recorded
  int wrong_device = 0;      // recorded in a stream of another device
  int not_current = 0;       // the thread's device was another one
  int destroyed_twice = 0;   // stream or event
  int after_destroy = 0;     // stream or event
  int recorded_again = 0;    // while it was not reached, or somebody was blocked on it
  int used_after_error = 0;  // recorded again after an error of it
  int freed_twice = 0;
  int strict_look = 0;  // a question by a thread that would spoil captures
  int pageable = 0;     // a copy that would block, or read too early

  int all() const {
    return unrecorded + wrong_device + not_current + destroyed_twice + after_destroy +
           recorded_again + used_after_error + freed_twice + strict_look + pageable;
  }
};

struct alive {
  int streams = 0;
  int events = 0;
  int allocations = 0;

  friend bool operator==(const alive&, const alive&) = default;
};

const turnstile::detail::gpu_api& table();

// All as at the beginning. Nothing may be in use.
void reset();

// With every question everything does one piece; who blocks, does all.
void go_by_itself(bool on);
// Does the next piece of `s`. False: there is none, or it waits for another stream.
bool step(CUstream_st* s);
void finish_all();

inline constexpr int any_device = -1;

// The k-th call from now, of those for a device, fails; a sticky error stays with the device it was
// for.
void fail(call c, int k, int error, int device = any_device);
// Whoever asks that device from now on, or is blocked there, hears of a sticky error.
void lose(int device, int error);
// How often it was called since reset.
int count(call c, int device = any_device);

// A kernel. With an error it is not launched, and the error is this thread's last one.
void launch(CUstream_st* s, std::function<void()> kernel, int error = 0);
void set_last_error(int error);
// Calls the host functions that a lost device has not called.
int call_late();

CUstream_st* new_stream(int device);
void begin_capture(CUstream_st* s);
int device_of(CUstream_st* s);
bool is_destroyed(CUstream_st* s);
int current_device();
// What waits in all streams.
int pending();

misuse misused();
alive living();

}  // namespace fake
