// device.hpp - names of the places where work runs: the host, a GPU.
//
// Behind it: lib/device.
#pragma once

#include <turnstile/detail/config.hpp>
#include <turnstile/detail/linked_cuda.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace turnstile {

class device_error;

/// Names a place where streams run. A name always exists, even if there is no such device: making
/// something there throws then.
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
  /// That GPU if it is available, else the host. Throws as cuda.
  static device cuda_or_host(int index);

  /// Whether streams can be made there; true of any(), which stands for a place that has them. The
  /// first question about a GPU starts the driver, which takes a while, and ends the program if
  /// there is no memory for the answer; a device that was lost stays unavailable.
  bool available() const noexcept { return why_not().empty(); }
  /// Why it is not available, in one sentence; empty if it is. Stays valid.
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

/// Sets the hook that is called, once for each device, when it has failed in a way that no later
/// work on it can survive. Everything that waits for it ends with the same error, and the sections
/// whose data was there stay unusable. A hook that wants to end the process calls `std::abort` or
/// `std::_Exit`, because `std::exit` would wait for the very thread that calls the hook. The
/// default, also set by null, prints one line to stderr.
///
/// Threads    from any thread; the hook is called on whichever thread noticed, outside every lock;
///            it must not wait for a device
void on_device_lost(void (*hook)(device, const device_error&)) noexcept;

/// Ends the use of all GPUs in this process: makes no more streams there, waits until what was
/// submitted is done, for at most `within`, and gives back what the driver lent. Returns the names
/// of the streams that still had work then, including destroyed ones; what waits for these
/// resumes when they are done. Nothing else calls the driver at the end of a process. Work launched
/// through `stream::native_handle` outside a section's body is waited for if the stream still
/// exists, or was given something after it; work of an adopted stream, if that still exists, or if
/// somebody awaits it. Called again, or on two threads at once, it waits for what is left. Not
/// named is a thread that gives something back, or leaves a call of the driver's that blocked it:
/// if `within` is up, it may still be in the driver though no name is returned. In a process that
/// was forked from one that used GPUs it does nothing.
///
/// Threads    from any thread; blocks it. A body that submits work is waited for, so within one
///            this would wait for itself. It may take longer than `within` while the driver blocks:
///            a thread that gives work (CUDA does if about a thousand launches are ahead), one that
///            asks for a GPU for the first time, or this one, where it destroys something
std::vector<std::string> shut_down_devices(std::chrono::nanoseconds within);

}  // namespace turnstile
