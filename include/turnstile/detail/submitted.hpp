// submitted.hpp - an execution that nobody's frame waits for: the state behind submit and post.
//
// Shape     word = running | awaited_by | ended | dropped
//
//             running --await--> awaited_by         the waiter is known
//             running --end----> ended              awaiting it is ready; the handle frees it
//             awaited_by --end--> ended, and the waiter is resumed
//             awaited_by --stop-> running           the waiter takes its wait back
//                                                   (stoppable_wait.hpp)
//             running --drop---> dropped            post starts here
//             dropped --end----> (freed by the body's side)
//             ended   --drop---> (freed by the handle's side)
//
// Edges     H1  exchange(acq_rel) in end -> load(acquire) in ready, CAS in await_suspend, exchange
//               in drop: the result, and the guards that the body left behind
//           H2  CAS(release) in await_suspend -> exchange(acq_rel) in end: the waiter. Taking it
//               back is relaxed: who waits the next time says so by H2 again
//
// Progress  wait-free; waiting is one CAS.
//
// Dangers   Once the word says ended the state may be gone, unless it was dropped before.
//
// Proof     test/schedule (strand: a handle); test/section, test/fuzz
#pragma once

#include <turnstile/detail/completion_awaiter.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/detached.hpp>
#include <turnstile/detail/for_once.hpp>
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
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace turnstile {

template <class R>
class execution_handle;

namespace detail {

template <class R>
class handle_awaiter;
template <class R>
class submitted_awaiter;
template <class R>
struct handle_wait;

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
  virtual ~submitted_result() {
    if (left_ != nullptr) drop_hold(*left_);
  }

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

  // Told when it has submitted its work; null if it submits none. Then also where that work ends.
  virtual submitted_mark* submitting() noexcept { return nullptr; }
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
  chain_frame* left_ = nullptr;  // guards that the body left behind

 private:
  friend class handle_awaiter<R>;
  friend class submitted_awaiter<R>;
  friend struct handle_wait<R>;
  friend class execution_handle<R>;

  // Its request is in the section's line: whoever holds that section, would wait for ever. Relaxed:
  // had its body ended before we got the section, that came with the section.
  void refuse_wait_inside() const {
    if (here().chain != nullptr && !ready() && !over_.load(relaxed)) {
      refuse_wait_if_held(*section_, at_);
    }
  }

  // By who awaits it, whose are the guards that the body left behind.
  R take() {
    if (chain_frame* const left = std::exchange(left_, nullptr)) adopt_holds(*left);
    return got_.take();
  }

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

// What such a wait is in the graph.
template <class R>
struct handle_wait : wait_with_deadline {
  // Until the body has ended, whoever holds its section is in the way. Throws deadlock_error.
  void begin(const submitted_result<R>& s, chain_frame* chain) {
    if (chain == nullptr) return;
    state = &s;
    wants = s.section_;
    listens = true;
    over = &s.over_;
    lasts = &s.lasts_;
    may_expire = true;
    at = &s.at_;
    label = &label_of_wanted;
    detail::begin_wait(*this, chain);
  }

 private:
  // The section may be gone.
  static std::string label_of_wanted(const wait& w) {
    const auto& s = *static_cast<const handle_wait&>(w).state;
    return label_of(s.name_, s.id_);
  }

  const submitted_result<R>* state;
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
    state_->refuse_wait_inside();
    state_->awaited_ = true;
    return state_->ready();
  }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    this->suspend(h);
    tell_of_wait();
    waiting_ = true;
    const std::stop_token stop = surroundings();
    state_->waiter_ = this;
    std::uint8_t was = submitted_result<R>::running;
    if (state_->word_.compare_exchange_strong(was, submitted_result<R>::awaited_by, release,  // H2
                                              acquire)) {
      return !stop.stop_possible() || listen(stop, &take_back);  // this may be gone
    }
    waiting_ = false;
    detail::end_wait(wait_);
    stay();
    return false;
  }

  R await_resume() {
    const bool withdrawn = was_withdrawn();
    waiting_ = false;
    detail::end_wait(wait_);
    if (withdrawn) {
      state_->awaited_ = false;  // may be awaited again
      throw operation_cancelled();
    }
    return state_->take();
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
    detail::end_wait(self.wait_);
    return true;
  }

  void tell_of_wait() {
    try {
      wait_.begin(*state_, chain_);
    } catch (...) {
      state_->awaited_ = false;  // may be awaited again
      stay();
      throw;
    }
  }

  [[noreturn]] void misused(std::string_view what) const noexcept { state_->misused(what); }

  submitted_result<R>* state_;
  handle_wait<R> wait_;
  bool waiting_ = false;
};

// co_await handle.submitted(). It goes on as from an event: nobody's thread runs it within the
// telling.
template <class R>
class [[nodiscard("nothing is waited for until the result is awaited")]] submitted_awaiter
    : private stoppable_wait,
      private submitted_waiter {
 public:
  explicit submitted_awaiter(submitted_result<R>& state) noexcept : state_(&state) {}
  submitted_awaiter(submitted_awaiter&& other) noexcept
      : stoppable_wait(), submitted_waiter(), state_(other.state_), once_(std::move(other.once_)) {}

  bool await_ready() {
    once_.begin();
    mark_ = state_->submitting();
    if (mark_ == nullptr || mark_->is_told() || state_->ready()) return true;
    state_->refuse_wait_inside();
    return false;
  }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    this->suspend(h, executor_after_device());
    tell_of_wait();
    once_.note_waiting();
    const std::stop_token stop = surroundings();
    if (mark_->add(*this)) {
      return !stop.stop_possible() || listen(stop, &take_back);  // this may be gone
    }
    once_.note_going_on();
    detail::end_wait(wait_);
    stay();
    return false;
  }

  void await_resume() {
    const bool withdrawn = was_withdrawn();
    once_.note_going_on();
    detail::end_wait(wait_);
    if (withdrawn) throw operation_cancelled();
  }

 private:
  void go_on() noexcept override { wait_ended(); }  // there is a home: it posts

  static bool take_back(stoppable_wait& w) noexcept {
    auto& self = static_cast<submitted_awaiter&>(w);
    if (!self.mark_->take_back(self)) return false;
    detail::end_wait(self.wait_);
    return true;
  }

  void tell_of_wait() {
    try {
      wait_.begin(*state_, chain_);
    } catch (...) {
      stay();
      throw;
    }
  }

  submitted_result<R>* state_;
  submitted_mark* mark_ = nullptr;
  handle_wait<R> wait_;
  for_once<"wait for a submission", "waits for a submission"> once_;
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

  // The body never runs inside the call, unless its executor runs jobs within post.
  std::exception_ptr send(const execute_options& options) noexcept {
    if (options.deadline != never) this->may_expire();
    try {
      return sent::send(withdrawal_sources(options));
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
  chain_frame*& left_behind() noexcept { return this->left_; }
  using base::body_begins;
  using base::body_over;
  using base::end;

 private:
  ~submitted() override = default;

  submitted_mark* submitting() noexcept override {
    if constexpr (submits<Body>) return &submitted_;
    return nullptr;
  }
  point_ref end_of_work() const noexcept override {
    if constexpr (submits<Body>) return sent::end_of_work();
    return {};
  }

  [[no_unique_address]] std::conditional_t<submits<Body>, submitted_mark, no_waiting_body>
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
