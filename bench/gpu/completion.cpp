// completion.cpp - how soon does whoever launched a kernel go on when it is complete?
//
// One client, which launches and waits.

#include "gpu/work.hpp"

#include <turnstile/turnstile.hpp>

#include <coroutine>
#include <cstddef>
#include <string_view>

namespace {

using bench::gpu::work;

// On a worker of a pool.
template <class Client>
class coroutine {
 public:
  static constexpr bool clients_are_threads = false;
  static constexpr std::string_view name = Client::name;

  bool run(work& all) {
    return turnstile::sync_wait(turnstile::schedule_on(pool_, launch_and_wait(all)));
  }

 private:
  turnstile::task<bool> launch_and_wait(work& all) {
    bool right = true;
    for (std::size_t i = 0; i != all.operations(); ++i) {
      const std::size_t mine = all.launch(client_.native());
      co_await client_.completion();
      right = right && all.is_there(mine);
    }
    co_return right;
  }

  turnstile::thread_pool pool_{1};
  Client client_{pool_};
};

class awaits_completion {
 public:
  static constexpr std::string_view name = "turnstile_completion";

  explicit awaits_completion(turnstile::thread_pool&) {}
  cudaStream_t native() const noexcept { return stream_.native_handle(); }
  auto completion() { return stream_.completion(); }

 private:
  turnstile::stream stream_{turnstile::device::cuda(0)};
};

// As a coroutine waits that only CUDA helps: a host function behind the kernel sends it home.
class is_called_back {
 public:
  static constexpr std::string_view name = "host_function";

  explicit is_called_back(turnstile::thread_pool& home) : home_(home) {}

  struct awaiter : turnstile::job {
    awaiter(cudaStream_t on, turnstile::executor_ref to) : job(&wake), stream(on), home(to) {}

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) {
      waits = h;
      const auto post = [](void* self) {
        auto* const a = static_cast<awaiter*>(self);
        const turnstile::executor_ref to = a->home;
        to.post(*a);
      };
      turnstile::check(cudaLaunchHostFunc(stream, post, this));
    }
    void await_resume() const noexcept {}

    static void wake(job& self) noexcept { static_cast<awaiter&>(self).waits.resume(); }

    cudaStream_t stream;
    turnstile::executor_ref home;
    std::coroutine_handle<> waits;
  };

  cudaStream_t native() const noexcept { return stream_.get(); }
  awaiter completion() const { return {stream_.get(), home_}; }

 private:
  turnstile::executor_ref home_;
  bench::gpu::plain_stream stream_;
};

// A thread, which looks at the stream until it is done.
class synchronizes {
 public:
  static constexpr bool clients_are_threads = true;
  static constexpr std::string_view name = "stream_synchronize";

  bool run(work& all) {
    bool right = true;
    for (std::size_t i = 0; i != all.operations(); ++i) {
      const std::size_t mine = all.launch(stream_.get());
      stream_.synchronize();
      right = right && all.is_there(mine);
    }
    return right;
  }

 private:
  bench::gpu::plain_stream stream_;
};

// A thread, which sleeps until an interrupt wakes it.
class blocks {
 public:
  static constexpr bool clients_are_threads = true;
  static constexpr std::string_view name = "blocking_event";

  blocks() {
    turnstile::check(
        cudaEventCreateWithFlags(&done_, cudaEventDisableTiming | cudaEventBlockingSync));
  }
  ~blocks() { cudaEventDestroy(done_); }
  blocks(const blocks&) = delete;
  blocks& operator=(const blocks&) = delete;

  bool run(work& all) {
    bool right = true;
    for (std::size_t i = 0; i != all.operations(); ++i) {
      const std::size_t mine = all.launch(stream_.get());
      turnstile::check(cudaEventRecord(done_, stream_.get()));
      turnstile::check(cudaEventSynchronize(done_));
      right = right && all.is_there(mine);
    }
    return right;
  }

 private:
  bench::gpu::plain_stream stream_;
  cudaEvent_t done_ = nullptr;
};

template <class Contender>
bool ask() {
  return bench::gpu::ask<Contender>("gpu_completion", 1, 1, 1);
}

const bool asked_completion = ask<coroutine<awaits_completion>>();
const bool asked_host_function = ask<coroutine<is_called_back>>();
const bool asked_synchronize = ask<synchronizes>();
const bool asked_blocking_event = ask<blocks>();

}  // namespace
