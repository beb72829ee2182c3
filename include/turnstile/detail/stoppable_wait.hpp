// stoppable_wait.hpp - the wait of a coroutine that ends by itself, or because a stop is asked for.
//
// Shape     Two may end it: what it waits for, and the callback of a stop. Both first take it, at
//           the one place where what it waits for has it: a list under its lock, or a word. Whoever
//           gets it there has ended the wait; the other one does nothing.
//           The callback can only be registered once the wait is there to be taken, and so the
//           coroutine may be on its way while its own await_suspend still registers. Hence, of
//           those two the second one goes on with it:
//
//             word = nobody --wait ended--------> one
//                    nobody --await_suspend-----> one
//                    one    --the other of them-> one, and goes on with the coroutine
//
//           Where nothing can ask for a stop, nothing is registered and the word is one from the
//           start.
//
// Edges     K1  word.exchange(acq_rel) by both: how the wait ended, and the registration, to
//               whoever goes on
//
// Progress  wait-free. The coroutine ends the registration before it goes on, which blocks its
//           thread while the callback is being called on another one: for a take and a post.
//
// Dangers   After an exchange that is not the second one, everything here may be gone; without a
//           stop that is so from the moment the wait can be taken.
//           The callback may be called within its registration, and on any thread: it resumes
//           nobody, but posts to the executor the coroutine left, or to the shared pool.
//
// Proof     test/schedule (withdrawal); test/resume
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/chain.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/detail/trampoline.hpp>

#include <cstdint>
#include <optional>
#include <stop_token>

namespace turnstile::detail {

class stoppable_wait : protected suspended<job> {
 protected:
  // True: the wait was there to be taken, and is over for everybody else.
  using taking = bool (*)(stoppable_wait&) noexcept;

  stoppable_wait() noexcept = default;
  ~stoppable_wait() = default;
  stoppable_wait(const stoppable_wait&) = delete;
  stoppable_wait& operator=(const stoppable_wait&) = delete;

  // After suspend, before the wait can be taken. Gives what may stop it: if that can be, listen
  // follows.
  std::stop_token surroundings() noexcept {
    std::stop_token stop = any_surrounding_stop(chain_);
    word_.store(stop.stop_possible() ? nobody : one, relaxed);  // nobody else can see it yet
    return stop;
  }

  // Once the wait can be taken. False: it is over already, and the coroutine goes on here.
  bool listen(const std::stop_token& stop, taking take_back) noexcept {
    listener_.emplace(stop, call{this, take_back});
    if (!is_second()) return true;  // this may be gone
    stay();
    return false;
  }

  // By what was waited for, once it has taken the wait.
  void wait_ended() noexcept {
    if (is_second()) resume_at_home(*this);  // this may be gone
  }

  // When the coroutine goes on. True: because of a stop.
  bool was_withdrawn() noexcept {
    listener_.reset();
    return withdrawn_;
  }

 private:
  enum : std::uint8_t { nobody, one };

  struct call {
    stoppable_wait* wait;
    taking take_back;
    void operator()() const noexcept {
      if (take_back(*wait)) wait->withdraw();
    }
  };

  bool is_second() noexcept { return word_.exchange(one, acq_rel) == one; }  // K1
  void withdraw() noexcept;

  atomic<std::uint8_t> word_{one};
  guarded<bool> withdrawn_{false};
  std::optional<stop_callback<call>> listener_;
};

}  // namespace turnstile::detail
