// device.hpp - names of the places where work runs: the host, a GPU.
//
// Behind it: lib/device.
#pragma once

#include <turnstile/detail/linked_cuda.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace turnstile {

class device_error;

/// Names a place where streams run. A name always exists, also where there is no such device: what
/// is made there throws then.
///
/// Threads    any
class device {
 public:
  /// No place in particular.
  static constexpr device any() noexcept { return device(anywhere); }
  /// This process: what is submitted runs on an executor.
  static constexpr device host() noexcept { return device(on_host); }
  /// The GPU of this number, as CUDA counts those it can see. Throws `std::invalid_argument` below
  /// 0.
  static device cuda(int index);
  /// That GPU if it is available, else the host.
  static device cuda_or_host(int index);

  /// Whether streams can be made there; true of any(), which stands for a place that has them. The
  /// first question about a GPU starts the driver, which takes a while; a device that was lost
  /// stays unavailable.
  bool available() const noexcept { return why_not().empty(); }
  /// Why it is not available, in one sentence; empty if it is. Valid for good.
  std::string_view why_not() const noexcept;
  /// `any`, `host`, `cuda:0`.
  std::string name() const;

  constexpr bool is_any() const noexcept { return index_ == anywhere; }
  constexpr bool is_host() const noexcept { return index_ == on_host; }
  /// Of a GPU, its number; else below 0.
  constexpr int index() const noexcept { return index_; }

  friend constexpr bool operator==(device, device) noexcept = default;

 private:
  static constexpr int anywhere = -2;
  static constexpr int on_host = -1;

  constexpr explicit device(int index) noexcept : index_(index) {}

  int index_;
};

/// Sets who hears, once for each device, that it failed in a way that no later work on it can
/// survive.
/// Everything that waits for it ends with the same error, and the sections whose data was there
/// stay unusable; whether the process goes on is for the hook to say: by `std::abort` or
/// `std::_Exit`, for `std::exit` would wait for the very thread that calls the hook. The default,
/// also set by null, prints one line to stderr.
///
/// Threads    from any thread; the hook is called on whichever thread noticed, outside every lock;
///            it must not wait for a device
void on_device_lost(void (*hook)(device, const device_error&)) noexcept;

/// Ends the use of all GPUs in this process: makes no more streams there, waits until what was
/// submitted is done, for at most `within`, and gives back what the driver lent. Gives the names of
/// the streams that still had work then, also of those that have ended; what waits for those goes
/// on when they are done. Nothing else calls the driver at the end of a process. What was launched
/// with `stream::native_handle` outside of a section's bodies is waited for if the stream is still
/// there, or if something was given to that behind it; what an adopted stream has, while that is
/// still there, or by who awaits it.
///
/// Threads    from any thread; blocks it
std::vector<std::string> shut_down_devices(std::chrono::nanoseconds within);

}  // namespace turnstile
