// lane.hpp - what a stream is, whatever the device: work that is done in the order it was given.
//
// Behind it: lib/device (host_lane: an executor does the work), lib/device/gpu (gpu_lane: a GPU
// does).
#pragma once

#include <turnstile/detail/point.hpp>
#include <turnstile/device.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>

struct CUstream_st;

namespace turnstile::detail {

// A callable given to a stream.
struct lane_work {
  lane_work() = default;
  lane_work(const lane_work&) = delete;
  lane_work& operator=(const lane_work&) = delete;
  virtual ~lane_work() = default;
  virtual void run() = 0;
};

// Shared by the stream, and by itself as long as it has work. Members that are not noexcept throw
// device_error if the device is lost or refuses. From any thread; calls of one thread keep their
// order.
class lane {
 public:
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  device where() const noexcept { return where_; }
  virtual CUstream_st* native() const noexcept { return nullptr; }

  virtual void enqueue(std::unique_ptr<lane_work> w) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  // A point that is reached when all that was given before is done. An error of what was given
  // since the point before is that point's.
  virtual point_ref record() = 0;
  // The same for who ends what the work before uses when it hears of a failure: as long as that is
  // not done, the failure is the point's error.
  virtual point_ref record_to_wait() { return record(); }
  // What is given from now on is not begun before `p` is reached.
  virtual void wait(point& p) = 0;

  // Memory that may be used by what is given from now on, and is free for others after what was
  // given.
  static constexpr std::size_t most_aligned = 256;  // as CUDA's
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* p, std::size_t bytes) noexcept = 0;

  // Around a body that gives work to native() by itself, on one thread: what refuses it, and what
  // was that thread's last error before; and then the point behind that work, and what went wrong
  // meanwhile or with recording it (then all of it is done, or the point says when).
  virtual int begin_submission() { return 0; }
  struct submitted {
    point_ref end;  // null: there is nothing to wait for
    std::exception_ptr error;
  };
  virtual submitted end_submission(int error_before) noexcept = 0;
  // Whether wait(p) can be asked for; else somebody has to wait for `p` first.
  virtual bool can_wait_for(const point& p) const noexcept = 0;

  void keep() noexcept { shares_.fetch_add(1, relaxed); }
  void drop() noexcept {
    if (shares_.fetch_sub(1, acq_rel) == 1) end();
  }

 protected:
  explicit lane(device where) noexcept : where_(where) {}
  virtual ~lane() = default;

 private:
  virtual void end() noexcept { delete this; }

  const device where_;
  atomic<std::uint32_t> shares_{1};
};

using lane_ref = counted_ref<lane>;

}  // namespace turnstile::detail
