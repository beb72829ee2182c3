// client.hpp - one coroutine and the executor that it comes back to, run by whoever waits for its
// end.
#pragma once

#include "schedule/scenario.hpp"

#include <turnstile/detail/branch.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/executor.hpp>
#include <turnstile/task.hpp>

#include <coroutine>
#include <functional>
#include <string_view>
#include <utility>

namespace schedule {

// How a request ended.
enum class ending : std::uint8_t { none, ran, cancelled, expired, closed, full, lost };

template <class A>
turnstile::task<> note(A a, guarded<ending>& how) {
  ending seen = ending::ran;
  try {
    co_await std::move(a);
  } catch (const turnstile::operation_cancelled&) {
    seen = ending::cancelled;
  } catch (const turnstile::deadline_exceeded&) {
    seen = ending::expired;
  } catch (const turnstile::section_closed&) {
    seen = ending::closed;
  } catch (const turnstile::section_full&) {
    seen = ending::full;
  } catch (const turnstile::device_error&) {
    seen = ending::lost;
  }
  require(how == ending::none, "it ended twice");
  how = seen;
}

// Without locks, since those are places where threads switch.
class inbox {
 public:
  inbox() noexcept = default;
  ~inbox() { require(newest_.load(turnstile::detail::acquire) == nullptr, "a job was left"); }
  inbox(const inbox&) = delete;
  inbox& operator=(const inbox&) = delete;

  void post(turnstile::job& j) noexcept {
    turnstile::job* seen = newest_.load(turnstile::detail::relaxed);
    do {
      j.next = seen;
    } while (!newest_.compare_exchange_strong(seen, &j, turnstile::detail::seq_cst,
                                              turnstile::detail::relaxed));
    if (seen == nullptr) newest_.notify_one();  // this may be gone
  }

 protected:
  using job = turnstile::job;

  // What there is now, oldest first.
  void run_all() {
    job* newest = newest_.exchange(nullptr, turnstile::detail::acquire);
    job* oldest = nullptr;
    while (newest != nullptr) {
      job* const older = newest->next;
      newest->next = oldest;
      oldest = std::exchange(newest, older);
    }
    while (oldest != nullptr) {
      job* const one = oldest;
      oldest = one->next;
      one->run();
    }
  }
  void wait_for_some() noexcept {
    while (newest_.load(turnstile::detail::acquire) == nullptr) {
      newest_.wait(nullptr, turnstile::detail::acquire);
    }
  }

 private:
  atomic<job*> newest_{nullptr};
};

class client : public inbox {
 public:
  client() = default;

  // Until it first suspends.
  template <class A>
  void begin(A a) {
    all_.start(note(std::move(a), how_), *this);
  }
  bool has_ended() const noexcept { return all_.is_over; }
  // Until it has ended, and its frame too. What its own thread has posted here has run then.
  ending end() {
    while (!all_.is_over) {
      wait_for_some();
      run_all();
    }
    run_all();
    all_.work.destroy();
    return how_;
  }
  template <class A>
  ending run(A a) {
    begin(std::move(a));
    return end();
  }
  // What is still to be done here, when nobody posts any more: a job whose request was withdrawn.
  void run_rest() { run_all(); }

 private:
  struct root : turnstile::job, turnstile::detail::branch_end {
    root() : turnstile::job(&go), branch_end(&ended) {}
    void start(turnstile::task<> t, client& home) {
      work = turnstile::detail::make_branch<turnstile::task<>>(std::move(t));
      work.prepare(*this, nullptr);
      turnstile::detail::job_access::set_home(*this, home);
      run();
    }
    static void go(turnstile::job& j) noexcept { static_cast<root&>(j).work.run(); }
    static std::coroutine_handle<> ended(turnstile::detail::branch_end& e) noexcept {
      static_cast<root&>(e).is_over = true;
      return {};
    }
    turnstile::detail::branch<void> work;
    guarded<bool> is_over{false};
  };

  root all_;
  guarded<ending> how_{ending::none};
};

// An executor with a thread, as lane; what is posted has run when it ends.
class server : public inbox {
 public:
  server() : runs_([this] { run(); }) {}
  ~server() {
    last end(*this);
    turnstile::executor_ref(*this).post(end);
    runs_.join();
  }

 private:
  struct last : job {
    explicit last(server& s) : job(&go), of(s) {}
    static void go(job& j) noexcept { static_cast<last&>(j).of.is_over_ = true; }
    server& of;
  };

  void run() {
    while (!is_over_) {
      wait_for_some();
      run_all();
    }
  }

  guarded<bool> is_over_{false};
  thread runs_;
};

}  // namespace schedule
