// submitted.hpp - an execution that nobody's frame waits for: the state behind submit and post.
//
// Shape     word = running | awaited_by | ended | dropped
//
//             running --await--> awaited_by         the waiter is known
//             running --end----> ended              awaiting it is ready; the handle frees the state
//             awaited_by --end--> ended, and the waiter is resumed
//             awaited_by --stop-> running           the waiter takes its wait back (stoppable_wait.hpp)
//             running --drop---> dropped            post starts here
//             dropped --end----> (freed by the body's side)
//             ended   --drop---> (freed by the handle's side)
//
// Edges     H1  exchange(acq_rel) in end -> load(acquire) in ready, CAS in await_suspend, exchange
//               in drop: the result
//           H2  CAS(release) in await_suspend -> exchange(acq_rel) in end: the waiter. Taking it
//               back is relaxed: who waits the next time says so by H2 again
//
// Progress  wait-free; waiting is one CAS.
//
// Dangers   Once the word says ended the state may be gone, unless it was dropped before.
//
// Proof     test/schedule (strand: a handle); test/section, test/fuzz
#pragma once

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/detached.hpp>
#include <turnstile/detail/stoppable_wait.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/detail/wait_graph.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/execute_options.hpp>

#include <coroutine>
#include <cstdint>
#include <exception>
#include <new>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

namespace turnstile {

template <class R>
class execution_handle;

namespace detail {

template <class R>
class handle_awaiter;

// The part of the state that a handle knows.
template <class R>
class submitted_result {
 public:
  submitted_result(const submitted_result&) = delete;
  submitted_result& operator=(const submitted_result&) = delete;

  bool ready() const noexcept { return word_.load(acquire) == ended; }  // H1

  // The handle goes. The state is freed by whoever is second.
  void drop() noexcept {
    switch (word_.exchange(dropped, acq_rel)) {
      case ended: free(); break;  // H1
      case awaited_by: misused("an execution_handle is destroyed while it is awaited");
      default: break;
    }
  }

  [[noreturn]] TURNSTILE_COLD void misused(std::string_view what) const noexcept {
    contract_break(label_of(name_, id_), what, at_.where);
  }

  // A refused submit: the handle is ready at once.
  void refuse(std::exception_ptr error) noexcept {
    got_.fail(std::move(error));
    end();
  }

 protected:
  enum state : std::uint8_t { running, awaited_by, ended, dropped };

  submitted_result(section_core& section, const site& at, state s)
      : section_(&section), at_(at), word_(s), name_(section.name()), id_(section.id()) {}
  virtual ~submitted_result() = default;

  // By the body's side, after the section was left.
  void end() noexcept {
    switch (word_.exchange(ended, acq_rel)) {  // H1, H2
      case awaited_by:
        waiter_->resume();  // this may be gone
        break;
      case dropped: free(); break;
      default: break;  // this may be gone
    }
  }

  // Reached when it has submitted its work; null if it submits none. Then also where that work
  // ends.
  virtual point* submitting() noexcept { return nullptr; }
  virtual point_ref end_of_work() const noexcept { return {}; }

  // By the body's side, when it has ended and before the section is left.
  void body_over() noexcept { over_.store(true, release); }  // G1

  // Of one with a deadline: by whoever sends it, and when its body begins, which that does not end
  // any more.
  void may_expire() noexcept { lasts_.store(false, relaxed); }
  void body_begins() noexcept {
    if (!lasts_.load(relaxed)) lasts_.store(true, release);
  }

  section_core* section_;
  site at_;
  result<R> got_;

 private:
  friend class handle_awaiter<R>;
  friend class execution_handle<R>;

  void free() noexcept {
    if (std::exception_ptr error = got_.error()) report(std::move(error));
    delete this;
  }
  void report(std::exception_ptr error) const noexcept {
    std::string label;
    try {
      label = label_of(name_, id_);
    } catch (const std::bad_alloc&) {  // which may be what there is to report
    }
    report_unobserved(std::move(error), label, at_.where);
  }

  atomic<std::uint8_t> word_;
  atomic<bool> over_{false};                     // of waits for this: wait_graph.hpp
  atomic<bool> lasts_{true};                     // the same
  bool awaited_ = false;                         // the handle's side
  guarded<handle_awaiter<R>*> waiter_{nullptr};  // H2
  const std::string name_;  // the section may be gone when something is reported
  const std::uint32_t id_;
};

template <class R>
class [[nodiscard("nothing is waited for until the result is awaited")]] handle_awaiter
    : private stoppable_wait {
 public:
  explicit handle_awaiter(submitted_result<R>& state) noexcept : state_(&state) {}
  handle_awaiter(const handle_awaiter& other) noexcept : stoppable_wait(), state_(other.state_) {}
  ~handle_awaiter() {
    if (waiting_) misused("a coroutine is destroyed while it waits for a handle");
  }

  bool await_ready() {
    if (state_->awaited_) misused("an execution_handle is awaited twice");
    // Its request is in the section's line: if we hold that section, for ever. Relaxed: had its
    // body ended before we got the section, that came with the section.
    if (here().chain != nullptr && !state_->ready() && !state_->over_.load(relaxed)) {
      refuse_wait_if_held(*state_->section_, state_->at_);
    }
    state_->awaited_ = true;
    return state_->ready();
  }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    this->suspend(h);
    if (chain_ != nullptr) tell_of_wait();
    waiting_ = true;
    const std::stop_token stop = surroundings();
    state_->waiter_ = this;
    std::uint8_t was = submitted_result<R>::running;
    if (state_->word_.compare_exchange_strong(was, submitted_result<R>::awaited_by, release,  // H2
                                              acquire)) {
      return !stop.stop_possible() || listen(stop, &take_back);  // this may be gone
    }
    waiting_ = false;
    end_wait(wait_);
    stay();
    return false;
  }

  R await_resume() {
    const bool withdrawn = was_withdrawn();
    waiting_ = false;
    end_wait(wait_);
    if (withdrawn) {
      state_->awaited_ = false;  // may be awaited again
      throw operation_cancelled();
    }
    return state_->got_.take();
  }

 private:
  friend class submitted_result<R>;
  void resume() noexcept { wait_ended(); }

  static bool take_back(stoppable_wait& w) noexcept {
    auto& self = static_cast<handle_awaiter&>(w);
    std::uint8_t was = submitted_result<R>::awaited_by;
    if (!self.state_->word_.compare_exchange_strong(was, submitted_result<R>::running, relaxed,
                                                    relaxed)) {  // H2
      return false;
    }
    end_wait(self.wait_);
    return true;
  }

  // The section may be gone.
  static std::string label_of_wanted(const wait& w) {
    const auto& state = *static_cast<const handle_wait&>(w).state;
    return label_of(state.name_, state.id_);
  }

  // Until its body has ended, whoever holds its section is in the way.
  void tell_of_wait() {
    wait_.wants = state_->section_;
    wait_.state = state_;
    wait_.listens = true;
    wait_.over = &state_->over_;
    wait_.lasts = &state_->lasts_;
    wait_.may_expire = true;
    wait_.at = &state_->at_;
    wait_.label = &label_of_wanted;
    try {
      begin_wait(wait_, chain_);
    } catch (...) {
      state_->awaited_ = false;  // may be awaited again
      stay();
      throw;
    }
  }

  [[noreturn]] void misused(std::string_view what) const noexcept { state_->misused(what); }

  submitted_result<R>* state_;
  struct handle_wait : wait_with_deadline {
    submitted_result<R>* state;
  };
  handle_wait wait_;
  bool waiting_ = false;
};

template <class Body>
class submitted final : public submitted_result<body_result_t<Body>>,
                        public detached<Body, submitted<Body>, bodies::later> {
  using value = body_result_t<Body>;
  using base = submitted_result<value>;
  using sent = detached<Body, submitted<Body>, bodies::later>;

 public:
  enum class purpose : bool { handle, nobody };

  template <class B>
  submitted(section_core& section, B&& body, const execute_options& options,
            const std::source_location& where, purpose p)
      : base(section, site(options.name, where, options.exclusive_resource_access),
             p == purpose::handle ? base::running : base::dropped),
        sent(std::forward<B>(body), options.uses) {
    if constexpr (submits<Body>) this->submit_to(lane_of(options.on), submitted_);
  }

  // The body never runs inside the call.
  std::exception_ptr send(const execute_options& options) noexcept {
    if (options.deadline != never) this->may_expire();
    try {
      return sent::send(withdrawal_in(options));
    } catch (...) {
      return std::current_exception();
    }
  }

  // After send refused it and nobody has a handle on it.
  void discard() noexcept { delete this; }

  // For detached.
  const site& place() const noexcept { return this->at_; }
  section_core& section() const noexcept { return *this->section_; }
  result<value>& got() noexcept { return this->got_; }
  using base::body_begins;
  using base::body_over;
  using base::end;

 private:
  ~submitted() override = default;

  point* submitting() noexcept override {
    if constexpr (submits<Body>) return &submitted_;
    return nullptr;
  }
  point_ref end_of_work() const noexcept override {
    if constexpr (submits<Body>) return sent::end_of_work();
    return {};
  }

  [[no_unique_address]] std::conditional_t<submits<Body>, submitted_point, no_waiting_body>
      submitted_;
};

// Makes handles.
struct handle_access {
  template <class R>
  static execution_handle<R> to(submitted_result<R>* state) noexcept {
    return execution_handle<R>(state);
  }
};

}  // namespace detail
}  // namespace turnstile
