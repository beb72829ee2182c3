// coroutines_on_pool.hpp - locks for coroutines that are written here, in the manner of well-known
// ones: their clients are coroutines of ours on a pool of ours. What differs from our section is
// the lock, and that the pool is not told of its bodies: a worker that does little else is helped
// nevertheless (lib/executor/pace.hpp), as beside any lock that is not ours.
//
// A lock has a name, is made from the pool, and has bool try_acquire(), bool
// get_in_line(waiting_coroutine&), which is false if it is the caller's already, and release().
#pragma once

#include "contender/ask.hpp"
#include "support/section_row.hpp"

#include <turnstile/turnstile.hpp>

#include <coroutine>
#include <cstddef>
#include <span>
#include <string_view>

namespace bench {

// A coroutine that waits for a lock, in its own frame, as a job that lets it go on.
class waiting_coroutine : public turnstile::job {
 public:
  waiting_coroutine() noexcept : job(&go_on) {}
  void suspend(std::coroutine_handle<> h) noexcept { waits_ = h; }
  void resume_here() noexcept { waits_.resume(); }  // this may be gone

  waiting_coroutine* behind = nullptr;  // the lock's to use

 private:
  static void go_on(job& self) noexcept { static_cast<waiting_coroutine&>(self).resume_here(); }

  std::coroutine_handle<> waits_;
};

template <class Lock>
class acquisition : waiting_coroutine {
 public:
  explicit acquisition(Lock& l) noexcept : lock_(&l) {}
  bool await_ready() const noexcept { return lock_->try_acquire(); }
  bool await_suspend(std::coroutine_handle<> h) noexcept {
    suspend(h);
    return lock_->get_in_line(*this);
  }
  void await_resume() const noexcept {}

 private:
  Lock* lock_;
};

template <class Lock>
class coroutines_on_pool : public clients_on_threads {
 public:
  static constexpr std::string_view name = Lock::name;

  explicit coroutines_on_pool(const shape& s)
      : pool_(static_cast<unsigned>(s.threads)), locks_(s.sections, pool_) {}

  template <class Client>
  void run(std::span<Client> clients) {
    turnstile::async_scope scope{{.executor = pool_}};
    for (Client& client : clients) scope.spawn(take_turns(client));
    turnstile::sync_wait(scope.join());
  }

  double bytes_per_section() const noexcept { return locks_.bytes_each(); }

 private:
  template <class Client>
  turnstile::task<> take_turns(Client& client) {
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      Lock& lock = locks_[client.section()];
      client.request();
      co_await acquisition(lock);
      client.body();
      lock.release();
      client.completed();
    }
  }

  turnstile::thread_pool pool_;
  section_row<Lock> locks_;
};

}  // namespace bench
