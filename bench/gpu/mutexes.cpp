// mutexes.cpp - threads that share a stream and a mutex.

#include "gpu/work.hpp"
#include "support/crew.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <string_view>

namespace {

using bench::gpu::work;

constexpr std::size_t threads = bench::gpu::mutex_threads;

template <class Client>
class sharing {
 public:
  static constexpr bool clients_are_threads = true;
  static constexpr std::string_view name = Client::name;

  bool run(work& all) {
    std::atomic<bool> right{true};
    threads_.run([&](std::size_t t) {
      for (std::size_t i = 0; i != all.turns(); ++i) {
        if (!clients_[t].take_a_turn(all, mutex_, stream_)) right = false;
      }
    });
    return right;
  }

 private:
  std::mutex mutex_;
  bench::gpu::plain_stream stream_;
  std::array<Client, threads> clients_;
  bench::crew threads_{threads};
};

// Keeps the mutex until the kernel is complete.
class synchronizes {
 public:
  static constexpr std::string_view name = "std_mutex_until_complete";

  static bool take_a_turn(work& all, std::mutex& m, const bench::gpu::plain_stream& s) {
    const std::lock_guard lock(m);
    const std::size_t mine = all.launch(s.get());
    s.synchronize();
    return all.is_there(mine);
  }
};

// Waits outside, for an event of its own, and looks at it all the while: that is the fastest.
class records {
 public:
  static constexpr std::string_view name = "std_mutex";

  records() { turnstile::check(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming)); }
  ~records() { cudaEventDestroy(done_); }
  records(const records&) = delete;
  records& operator=(const records&) = delete;

  bool take_a_turn(work& all, std::mutex& m, const bench::gpu::plain_stream& s) const {
    std::size_t mine = 0;
    {
      const std::lock_guard lock(m);
      mine = all.launch(s.get());
      turnstile::check(cudaEventRecord(done_, s.get()));
    }
    turnstile::check(cudaEventSynchronize(done_));
    return all.is_there(mine);
  }

 private:
  cudaEvent_t done_ = nullptr;
};

const bool asked_synchronizes = bench::gpu::ask_pipelining<sharing<synchronizes>>(threads, threads);
const bool asked_records = bench::gpu::ask_pipelining<sharing<records>>(threads, threads);

}  // namespace
