// device_under_test.hpp - the kinds of devices that one set of tests runs on.
#pragma once

#include "device/gpus.hpp"

#include <turnstile/device.hpp>
#include <turnstile/manual_executor.hpp>
#include <turnstile/stream.hpp>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <doctest/doctest.h>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

namespace support {

struct device_under_test {
  enum class kind : std::uint8_t { host, polled_host, fake_gpu, gpu };

  kind is;

  std::string_view name() const {
    switch (is) {
      case kind::host: return "the host";
      case kind::polled_host: return "the host, polled";
      case kind::fake_gpu: return "a GPU that is not there";
      case kind::gpu: return "a GPU";
    }
    return {};
  }
  bool is_host() const { return is == kind::host || is == kind::polled_host; }
  turnstile::device where() const {
    return is_host() ? turnstile::device::host() : turnstile::device::cuda(0);
  }
  turnstile::stream make_stream(turnstile::executor_ref on = {}) const {
    return turnstile::stream(where(), {.executor = on, .polled = is == kind::polled_host});
  }
};

inline bool gpu_is_required() {
  const char* const wanted = std::getenv("TURNSTILE_REQUIRE_GPU");
  return wanted != nullptr && std::string_view(wanted) == "1";
}

inline const std::vector<device_under_test>& devices_under_test() {
  using kind = device_under_test::kind;
  static const std::vector<device_under_test> all = [] {
    std::vector<device_under_test> found{{kind::host}, {kind::polled_host}};
    // There is one table of GPUs in a process.
    const bool is_there = turnstile::device::cuda(0).available();
    found.push_back({is_there ? kind::gpu : kind::fake_gpu});
    return found;
  }();
  return all;
}

template <class F>
void on_each_device(F test) {
  for (const device_under_test& d : devices_under_test()) {
    INFO("on ", d.name());
    std::optional<device_tests::gpus> not_there;
    if (d.is == device_under_test::kind::fake_gpu) {
      not_there.emplace();
      fake::go_by_itself(true);
    }
    test(d);
  }
}

template <class Predicate>
void wait_until(Predicate is_so) {
  while (!is_so()) std::this_thread::yield();
}

// What a stream is given from now on is not begun before this lets it go.
class brake {
 public:
  brake(const device_under_test& d, turnstile::stream& s) {
    if (d.is_host()) {
      turnstile::stream nobody_runs(turnstile::device::host(), {.executor = unrun_});
      s.wait(nobody_runs.record());
    } else if (d.is == device_under_test::kind::fake_gpu) {
      fake::go_by_itself(false);
    } else {
      s.enqueue([off = is_off_] { off->wait(false); });
    }
  }
  ~brake() { let_go(); }
  brake(const brake&) = delete;
  brake& operator=(const brake&) = delete;

  void let_go() {
    unrun_.run();
    fake::go_by_itself(true);
    is_off_->store(true);
    is_off_->notify_one();
  }

 private:
  turnstile::manual_executor unrun_;
  std::shared_ptr<std::atomic<bool>> is_off_ = std::make_shared<std::atomic<bool>>(false);
};

using ids = std::vector<int>;

inline ids first_numbers(int n) {
  ids all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace support
