// gpus.hpp - for tests: two GPUs for as long as this lives, and what happened to them.
#pragma once

#include "device/engine.hpp"
#include "device/fake_gpu.hpp"
#include "device/gpu_api.hpp"

#include <turnstile/device.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/stream.hpp>

#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace device_tests {

// On whatever thread it becomes true.
template <class F>
void until(F f) {
  while (!f()) std::this_thread::yield();
}

// What `f()` throws; empty if nothing.
template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

// A callable of a stream that the driver has begun, here on a thread of its own, and that runs until
// it may end.
class running_callable {
 public:
  void give_to(turnstile::stream& s) {
    stream_ = s.native_handle();
    s.enqueue([this] {
      runs_ = true;
      until([this] { return may_end_.load(); });
    });
  }
  void begin() {
    driver_ = std::thread([this] { fake::step(stream_); });
    until([this] { return runs_.load(); });
  }
  void end() {
    may_end_ = true;
    driver_.join();
  }

 private:
  CUstream_st* stream_ = nullptr;
  std::atomic<bool> runs_ = false;
  std::atomic<bool> may_end_ = false;
  std::thread driver_;
};

// A table in use. In the end all is shut down, nothing may be left and nothing been misused.
class gpus {
 public:
  enum class afterwards { nothing_is_left, memory_is_left, lost };

  explicit gpus(const turnstile::detail::gpu_api& api = fake::table(),
                afterwards what = afterwards::nothing_is_left)
      : api_(api), afterwards_(what) {
    fake::reset();
    turnstile::detail::use_gpu_api(&api_);
  }
  ~gpus() {
    fake::go_by_itself(true);
    CHECK(turnstile::shut_down_devices(std::chrono::seconds(30)).empty());
    turnstile::detail::use_gpu_api(nullptr);
    fake::finish_all();
    CHECK(fake::misused().all() == 0);
    if (afterwards_ == afterwards::lost) return;
    fake::alive left = fake::living();
    if (afterwards_ == afterwards::memory_is_left) left.allocations = 0;
    CHECK(left.streams == 0);
    CHECK(left.events == 0);
    CHECK(left.allocations == 0);
  }
  gpus(const gpus&) = delete;
  gpus& operator=(const gpus&) = delete;

 private:
  const turnstile::detail::gpu_api api_;
  const afterwards afterwards_;
};

// Collects the devices that are lost, as long as it lives. One at a time.
class losses {
 public:
  losses() {
    all().seen.clear();
    turnstile::on_device_lost(&note);
  }
  ~losses() { turnstile::on_device_lost(nullptr); }
  losses(const losses&) = delete;
  losses& operator=(const losses&) = delete;

  std::vector<turnstile::device> seen() const {
    const std::lock_guard lock(all().mutex);
    return all().seen;
  }

 private:
  struct store {
    std::mutex mutex;
    std::vector<turnstile::device> seen;
  };

  static store& all() {
    static store s;
    return s;
  }
  static void note(turnstile::device d, const turnstile::device_error& e) {
    const std::lock_guard lock(all().mutex);
    CHECK(e.lost());
    all().seen.push_back(d);
  }
};

}  // namespace device_tests
