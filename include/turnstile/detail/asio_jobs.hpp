// asio_jobs.hpp - the jobs that wait for an executor of Asio's, and the handler that runs them.
//
// Shape     Under the lock: the jobs in order, and `called`: a handler is on its way. One is
//           whenever a job waits.
//
//             (none, not called) --post----> (jobs, called)   the poster gives Asio the handler
//             (jobs, called)     --post----> (jobs, called)
//             (jobs, called)     --handler-> takes one; if there are more, gives Asio the next
//                                            handler before it runs that one, so other threads go
//                                            on with them; then takes more, `most_in_a_row` in all
//
//           shares = the asio_executor, each handler, and the memory of one of them, `block`, in
//           which Asio keeps the one on its way. So posting does not allocate, unless the executor
//           does without the handler's allocator, as any_io_executor.
//
// Edges     J1  shares.fetch_sub(acq_rel): all that others did comes before the end
//           J2  block_used.store(release) in deallocate -> exchange(acquire) in allocate: the
//               memory
//
// Progress  posting blocks a thread for a step of a list; Asio's own lock is taken once for a
//           handler
//
// Dangers   Once the lock is released a job may run, and end the asio_executor's life: the
//           handler's share is taken under it.
//
// Proof     test/asio (executor)
#pragma once

#include <turnstile/detail/asio_names.hpp>
#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/fifo.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/executor.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

namespace turnstile::detail {

template <class Executor>
class asio_jobs {
 public:
  explicit asio_jobs(const Executor& e) : executor_(e) {}
  asio_jobs(const asio_jobs&) = delete;
  asio_jobs& operator=(const asio_jobs&) = delete;

  // Without memory for a handler this ends the program: whoever waits for the job would be lost.
  void post(job* first, job* last) noexcept {
    const std::lock_guard lock(mutex_);
    jobs_.append(*first, *last);
    // Under the lock: once the job can be taken, it may end the context.
    if (must_call()) asio::post(executor_, handler(*this));
  }

  void drop() noexcept {
    if (shares_.fetch_sub(1, acq_rel) == 1) delete this;  // J1
  }

 private:
  // The others of the executor's threads, and its other handlers, get a turn that soon.
  static constexpr int most_in_a_row = 16;

  template <class T>
  class memory {
   public:
    using value_type = T;

    explicit memory(asio_jobs& j) noexcept : jobs_(&j) {}
    template <class U>
    memory(const memory<U>& other) noexcept : jobs_(other.jobs_) {}

    T* allocate(std::size_t n) { return static_cast<T*>(jobs_->allocate(n * sizeof(T))); }
    void deallocate(T* p, std::size_t) noexcept { jobs_->deallocate(p); }

    template <class U>
    bool operator==(const memory<U>& other) const noexcept {
      return jobs_ == other.jobs_;
    }

   private:
    template <class U>
    friend class memory;

    asio_jobs* jobs_;
  };

  // Has a share.
  class handler {
   public:
    explicit handler(asio_jobs& j) noexcept : jobs_(&j) {}
    handler(handler&& other) noexcept : jobs_(std::exchange(other.jobs_, nullptr)) {}
    handler& operator=(handler&&) = delete;
    ~handler() {
      if (jobs_ != nullptr) jobs_->drop();
    }

    using allocator_type = memory<void>;
    allocator_type get_allocator() const noexcept { return allocator_type(*jobs_); }

    void operator()() const noexcept { jobs_->run(); }

   private:
    asio_jobs* jobs_;
  };

  // Under the lock. True: the caller gives Asio a handler, whose share is taken here.
  bool must_call() noexcept {
    if (jobs_.empty() || called_) return false;
    called_ = true;
    shares_.fetch_add(1, relaxed);
    return true;
  }

  void run() noexcept {
    bool begins = true;
    for (int n = 0; n != most_in_a_row; ++n) {
      job* const j = take(begins);
      if (j == nullptr) return;
      begins = false;
      j->run();
    }
  }

  // Null: there is none. `begins`: by the handler that was on its way.
  job* take(bool begins) noexcept {
    job* taken = nullptr;
    bool call = false;
    {
      const std::lock_guard lock(mutex_);
      if (begins) called_ = false;
      taken = jobs_.pop();
      if (taken == nullptr) return nullptr;
      call = must_call();
    }
    if (call) asio::post(executor_, handler(*this));
    return taken;
  }

  void* allocate(std::size_t bytes) {
    if (bytes > sizeof block_) return ::operator new(bytes);
    if (block_used_.exchange(true, acquire)) return ::operator new(bytes);  // J2
    shares_.fetch_add(1, relaxed);
    return block_;
  }
  void deallocate(void* p) noexcept {
    if (p != block_) return ::operator delete(p);
    block_used_.store(false, release);  // J2
    drop();
  }

  const Executor executor_;
  mutex mutex_;
  fifo<job, &job::next> jobs_;
  guarded<bool> called_{false};
  atomic<std::uint32_t> shares_{1};
  atomic<bool> block_used_{false};
  alignas(std::max_align_t) std::byte block_[128];
};

}  // namespace turnstile::detail
