// gpu_device.hpp - a GPU in use: its points and their events, its streams, and whether it is lost.
//
// Shape     word = null (works) | its end
//
//             null --lose--> end, for good, by whoever sees a sticky error first; it calls the hook
//
//           After that no function of the driver is called for it. Its streams find out when they
//           are polled, and everything that waits there ends with the one error.
//
// Edges     L1  store(release) in lose -> load(acquire) in over: the error
//
// Progress  over is wait-free. Taking and returning a point takes a lock for a list splice; a new
//           event is made and destroyed outside it.
//
// Dangers   An event is destroyed only while nobody can wait for it: its point is back here, or it
//           is reached, all streams are closed and no thread is blocked on an event. Who gives a
//           point back may do so at any time, also when the last stream has ended: the end waits
//           for that too, for afterwards the driver may be unloaded.
//
// Proof     test/device
#pragma once

#include "device/gpu/gpu_error.hpp"
#include "device/gpu/gpu_point.hpp"
#include "device/gpu_api.hpp"

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/device.hpp>
#include <turnstile/errors.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace turnstile::detail {

class gpu_stream;

// Why nothing works any more.
struct gpu_end {
  explicit gpu_end(const device_error& why)
      : what(why),
        error(std::make_exception_ptr(why)),
        sentence(kept_for_good(why.what() + std::string_view("turnstile: ").size())) {}

  device_error what;
  std::exception_ptr error;
  std::string_view sentence;
};

// One for each GPU and table, never destroyed: events may outlive everything else.
class gpu_device {
 public:
  // `name` is the model's.
  gpu_device(const gpu_api& api, int index, std::string name);
  gpu_device(const gpu_device&) = delete;
  gpu_device& operator=(const gpu_device&) = delete;

  const gpu_api& api() const noexcept { return api_; }
  device where() const noexcept { return where_; }

  // Null while it works.
  const gpu_end* over() const noexcept;
  void must_work() const;

  // True: with this error the device is at its end, and everybody has been told. Outside all locks.
  bool ends_with(gpu_outcome o, const std::string& place) noexcept;
  // The same without looking whether it is the end, for what may be another device's.
  std::exception_ptr error_of(gpu_outcome o, const std::string& place) const noexcept;
  // What a call gave that failed, as an error. Outside all locks.
  std::exception_ptr failure(gpu_outcome o, const std::string& place) noexcept;
  [[noreturn]] void raise(gpu_outcome o, const std::string& place);

  // On the calling thread.
  gpu_outcome make_current() const noexcept;
  // Of the calling thread, once somebody is told.
  void forget_last_error() const noexcept;
  // What a question gave. "Not ready" may have become the calling thread's last error, where a
  // program would find it that looks whether its own launch has failed.
  int answer(int code) const noexcept;
  // Once for each thread, and again after it has looked at another device: otherwise its questions
  // would spoil the captures of others.
  void prepare_to_look() const noexcept;

  // Not reached, with one share, and an event on which nothing was recorded yet, or on which nobody
  // waits any more.
  // Null: `o` failed.
  gpu_point* take_point(gpu_outcome& o);
  // Without one.
  gpu_point* take_bare_point();
  void give_back(gpu_point& p) noexcept;

  // Pinned memory that copies of other memory go through, with the device current. Null: `o`
  // failed.
  static constexpr std::size_t block_bytes = std::size_t{1} << 20;
  void* take_block(gpu_outcome& o);
  // Once nothing of the driver's uses it. None is freed: that would wait for all that the device
  // does, for whomever.
  void give_back_block(void* block) noexcept;

  // Of a stream.
  std::uint32_t next_number() noexcept;
  // Between begin_destroy and end_destroy. If it fails nobody is told.
  void destroy(CUevent_st* e) const noexcept;
  void destroy(CUstream_st* s) const noexcept;
  // Throws device_error if there shall be no more.
  void add(const std::shared_ptr<gpu_stream>& s);
  // No more streams; those that there are.
  std::vector<std::shared_ptr<gpu_stream>> retire();
  // Afterwards, once the streams have nothing to do: the events that nobody waits for. A thread
  // that is blocked on one of them, or destroys one or a stream, may just be on its way out, and is
  // waited for until then. False: in vain.
  [[nodiscard]] bool destroy_events(steady_clock::time_point until) noexcept;

  // While a thread is blocked on an event of this device.
  void begin_block() noexcept;
  void end_block() noexcept;
  // While a thread destroys what others cannot find any more: begun before they cannot.
  void begin_destroy() noexcept;
  void end_destroy() noexcept;

 private:
  void lose(gpu_outcome o, const std::string& place) noexcept;
  std::unique_ptr<gpu_end> end_of(gpu_outcome o, const std::string& place) const noexcept;
  class destruction;
  gpu_point* unused_or_new();
  void* unused_block();
  bool is_none(const std::uint32_t& threads) noexcept;
  bool wait_until_none(const std::uint32_t& threads, steady_clock::time_point until) noexcept;

  const gpu_api& api_;
  const device where_;
  const std::string model_;
  atomic<const gpu_end*> end_{nullptr};

  mutex lock_;                           // all below
  std::unique_ptr<gpu_end> unsaid_end_;  // if there is no memory for one that says why
  std::vector<std::unique_ptr<gpu_point>> points_;
  gpu_point* unused_ = nullptr;
  std::vector<void*> unused_blocks_;  // with room for all; not in themselves, which CUDA may unmap
  std::size_t blocks_ = 0;
  std::vector<std::weak_ptr<gpu_stream>> streams_;
  std::uint32_t last_number_ = 0;
  std::uint32_t blocked_ = 0;     // threads, on an event
  std::uint32_t destroying_ = 0;  // threads, an event that no point has any more, or a stream
  bool is_retired_ = false;
};

}  // namespace turnstile::detail
