// submitted.hpp - an execution that nobody's frame waits for: the state behind submit and post.
//
// Shape     word = running | awaited | ended | dropped
//
//             running --await--> awaited            the waiter is known
//             running --end----> ended              awaiting it is ready; the handle frees the state
//             awaited --end----> ended, and the waiter is resumed
//             running --drop---> dropped            post starts here
//             dropped --end----> (freed by the body's side)
//             ended   --drop---> (freed by the handle's side)
//
// Edges     H1  exchange(acq_rel) in end -> load(acquire) in ready, CAS in wait, exchange in drop:
//               the result
//           H2  CAS(release) in wait -> exchange(acq_rel) in end: the waiter
//
// Progress  wait-free; wait is one CAS.
//
// Dangers   Once the word says ended the state may be gone, unless it was dropped before.
//
// Proof     test/schedule (strand: a handle); test/section, test/fuzz
#pragma once

#include <turnstile/detail/body.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/execute_options.hpp>

#include <coroutine>
#include <cstdint>
#include <exception>
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
    if (word_.exchange(dropped, acq_rel) == ended) free();  // H1
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

  // By the body's side, when it has ended and before the section is left.
  void body_over() noexcept { over_.store(true, release); }  // G1

  section_core* section_;
  site at_;
  result<R> got_;

 private:
  friend class handle_awaiter<R>;

  void free() noexcept {
    if (std::exception_ptr error = got_.error()) {
      report_unobserved(std::move(error), label_of(name_, id_), at_.where);
    }
    delete this;
  }

  atomic<std::uint8_t> word_;
  atomic<bool> over_{false};                     // of waits for this: wait_graph.hpp
  bool awaited_ = false;                         // the handle's side
  guarded<handle_awaiter<R>*> waiter_{nullptr};  // H2
  const std::string name_;  // the section may be gone when something is reported
  const std::uint32_t id_;
};

template <class R>
class [[nodiscard("nothing is waited for until the result is awaited")]] handle_awaiter
    : private suspended<job> {
 public:
  explicit handle_awaiter(submitted_result<R>& state) noexcept : state_(&state) {}
  handle_awaiter(const handle_awaiter&) = default;
  ~handle_awaiter() {
    if (waiting_) misused("a coroutine is destroyed while it waits for a handle");
  }

  bool await_ready() {
    if (std::exchange(state_->awaited_, true)) misused("an execution_handle is awaited twice");
    return state_->ready();
  }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    this->suspend(h);
    // Not ready, so its request is in the section's line: if we hold that section, for ever.
    if (chain_ != nullptr) tell_of_wait();
    waiting_ = true;
    state_->waiter_ = this;
    std::uint8_t was = submitted_result<R>::running;
    if (state_->word_.compare_exchange_strong(was, submitted_result<R>::awaited_by, release,  // H2
                                              acquire)) {
      return true;  // this may be gone
    }
    waiting_ = false;
    end_wait(wait_);
    stay();
    return false;
  }

  R await_resume() {
    waiting_ = false;
    end_wait(wait_);
    return state_->got_.take();
  }

 private:
  friend class submitted_result<R>;
  void resume() noexcept { resume_at_home(*this); }

  // Until its body has ended, whoever holds its section is in the way.
  void tell_of_wait() {
    wait_.wants = state_->section_;
    wait_.scope = nullptr;
    wait_.over = &state_->over_;
    wait_.at = &state_->at_;
    wait_.name = state_->name_;
    wait_.id = state_->id_;
    try {
      begin_wait(wait_, chain_);
    } catch (...) {
      stay();
      throw;
    }
  }

  [[noreturn]] TURNSTILE_COLD void misused(std::string_view what) const noexcept {
    contract_break(label_of(state_->name_, state_->id_), what, state_->at_.where);
  }

  submitted_result<R>* state_;
  wait wait_;
  bool waiting_ = false;
};

template <class Body>
class submitted final : public submitted_result<body_result_t<Body>>, private request {
  using value = body_result_t<Body>;
  using base = submitted_result<value>;
  static constexpr bool may_wait_ = waits<Body>;

 public:
  enum class purpose : bool { handle, nobody };

  template <class B>
  submitted(section_core& section, B&& body, const site& at, purpose p)
      : base(section, at, p == purpose::handle ? base::running : base::dropped),
        body_(std::forward<B>(body)) {
    request::work_ = &deliver;
    request::home_ = {};
    request::start = &begin_body;
    request::back_to = nullptr;
    request::may_wait = may_wait_;
  }

  // False: the section is closed, and nothing was done. The body never runs inside the call.
  bool send() noexcept {
    section_core::place line;
    switch (this->section_->arrive(line)) {
      case arrival::owner: this->section_->post_first(line, *this); return true;
      case arrival::queued:
        return this->section_->publish_only(*this, line) != section_core::published::closed;
      case arrival::closed: break;
    }
    return false;
  }

  // After send refused it and nobody has a handle on it.
  void discard() noexcept { delete this; }

  // For waiting_body.
  const site& place() const noexcept { return this->at_; }
  section_core& section() const noexcept { return *this->section_; }
  request& as_request() noexcept { return *this; }
  result<value>& got() noexcept { return this->got_; }
  chain_frame*& left_behind() noexcept { return left_; }
  using base::body_over;

 private:
  ~submitted() override {
    if (left_ != nullptr) drop_hold(*left_);
  }

  static outcome begin_body(request& r) noexcept {
    auto& self = static_cast<submitted&>(r);
    if constexpr (may_wait_) {
      return self.waiting_.start(self, self.body_, nullptr);
    } else {
      self.left_ = run_held(*self.section_, nullptr, self.at_, [&self] {
        self.got_.run([&self]() -> decltype(auto) { return std::invoke(self.body_); });
      });
      self.body_over();
      return outcome::finished;
    }
  }

  static void deliver(job& j) noexcept { static_cast<submitted&>(j).end(); }

  Body body_;
  chain_frame* left_ = nullptr;
  [[no_unique_address]] std::conditional_t<may_wait_, waiting_body<Body, submitted>,
                                           no_waiting_body> waiting_;
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
