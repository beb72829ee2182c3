// section_request.hpp - what every awaitable request to a section has in common.
#pragma once

#include <turnstile/detail/claims.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/looking.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/stand_in.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/detail/trampoline.hpp>
#include <turnstile/detail/wait_graph.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/execute_options.hpp>

#include <coroutine>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <source_location>
#include <string>

namespace turnstile::detail {

// What a request has beside what every one needs. It comes first, so that what whoever serves it
// looks at is in a row with the body behind it: each cache line less is one that need not come over
// from the waiter's core, and back (bench/counter, plain threads; bench/oversubscribed). All of it
// is made when it is needed.
class request_extras {
 protected:
  TURNSTILE_INLINE request_extras() noexcept {}
  TURNSTILE_INLINE ~request_extras() {}

  union {
    resource_list uses_;  // if it declares some that the section may not have claimed yet
  };
  union {
    executor_ref resume_on_;  // if it is sent somewhere
  };
  union {
    withdrawal_sources asked_;  // if it says how it may be withdrawn
  };
  // What the graph knows of the wait. Made when it is told: what need not wait does not pay for it.
  union {
    wait wait_;
  };
  union {
    atomic<bool> over_;  // of a wait that was told
  };
  section_core::place line_;
};

// By what is awaited once.
[[noreturn]] TURNSTILE_COLD inline void execution_misused(
    const section_core& section, bool was_moved_from, const std::source_location& where) noexcept {
  contract_break(
      section.label(),
      was_moved_from ? "an execution is used that was moved from" : "an execution is awaited twice",
      where);
}

// One-shot, movable until it is awaited.
class section_request : protected request_extras, protected suspended<request> {
 public:
  section_core& section() const noexcept { return *section_; }
  const site& place() const noexcept { return at_; }

 protected:
  enum class phase : unsigned char {
    awaited,  // nothing is left to be done for it
    fresh,    // not awaited yet
    moved_from,
    ran,      // awaited; it may be withdrawn, or has come back
    waiting,  // for the section
    queued,   // it has run, and its coroutine lets others go first
    // Those that have run before they are suspended come last.
    left_more,  // at once, and left more behind than a value
    served
  };

  TURNSTILE_INLINE section_request(section_core& section, const execute_options& options,
                                   const std::source_location& where)
      : at_(options.name, where, options.exclusive_resource_access), section_(&section) {
    if (!options.uses.empty()) declare(options.uses);
    if (options.resume_on) [[unlikely]]
      resume_on(options.resume_on);
    if (may_withdraw(options)) withdraw_on(options);
  }

  section_request(section_request&& other) noexcept : at_(other.at_), section_(other.section_) {
    if (other.asks_ != 0) [[unlikely]]
      take_what_is_asked(other);
    if (other.phase_ != phase::fresh) misused(other.phase_);
    other.phase_ = phase::moved_from;
  }

  TURNSTILE_INLINE ~section_request() {
    if (phase_ != phase::awaited) [[unlikely]]
      end_request();
  }

  // What is left to be done for one that was not awaited, or not only that.
  void end_request() noexcept {
    if (phase_ == phase::waiting || phase_ == phase::queued) [[unlikely]]
      destroyed_while_waiting();
    if (withdraws()) end_withdrawal();
    phase_ = phase::awaited;
  }

  // Before anything is claimed. Throws what refuses the request.
  void begin() {
    note_begun();
    if (is_in_chain(here().chain)) [[unlikely]]
      check_chain();
  }
  void note_begun() {
    must_be_fresh();
    phase_ = last_phase();
  }
  void must_be_fresh() const noexcept {
    if (phase_ != phase::fresh) [[unlikely]]
      misused(phase_);
  }
  [[noreturn]] TURNSTILE_COLD void misused(phase p) const noexcept {
    execution_misused(*section_, p == phase::moved_from, at_.where);
  }
  // What phase_ becomes as soon as it is awaited, for refusals. A request whose turn has come is
  // withdrawn no more.
  phase last_phase() const noexcept { return withdraws() ? phase::ran : phase::awaited; }
  static bool is_in_chain(const chain_frame* top) noexcept {
    return top != nullptr && top->mask != 0;
  }

  // The last thing before the request is made. Throws if it was withdrawn already. True: some of
  // what it uses is new, and the request's turn has to keep it; refuse withdraws it.
  TURNSTILE_INLINE bool claim_uses() {
    if (asks_ == 0) [[likely]]
      return false;
    if (withdraws()) refuse_if_withdrawn(*section_, asked_);
    return declares() && claim_declared();
  }
  TURNSTILE_INLINE void keep_uses() noexcept {
    if (!has_new_claims()) [[likely]]
      return;
    asks_ &= static_cast<std::uint8_t>(~asks::new_claims);
    keep_claims(*section_, uses_, at_.exclusive());
  }

  // At most to be withdrawn, and not yet.
  TURNSTILE_INLINE bool asks_for_nothing_now() const noexcept {
    if (asks_ == 0) [[likely]]
      return true;
    return asks_ == asks::withdrawal && asked_.are_far();
  }
  // Nobody withdraws it any more. The token is given back at once: others keep theirs cheaply then
  // (kept_token.hpp).
  TURNSTILE_INLINE void end_withdrawal() noexcept {
    std::destroy_at(&asked_);
    asks_ &= static_cast<std::uint8_t>(~asks::withdrawal);
  }

  // Where it may be limited who waits: sets arrived_.
  void arrive() {
    if (section_->may_refuse()) [[unlikely]] {
      arrive_where_refused();
    } else {
      arrived_ = section_->arrive(line_);
    }
    if (arrived_ == arrival::closed) refuse();
  }

  void withdraw_uses() noexcept {
    if (!has_new_claims()) return;
    asks_ &= static_cast<std::uint8_t>(~asks::new_claims);
    withdraw_claims(*section_, uses_, at_.exclusive());
  }
  // Of one that is refused after it was accepted.
  void leave_no_trace() noexcept;

  void keep(const resource_list& uses) noexcept {
    ::new (static_cast<void*>(&uses_)) resource_list(uses);
    asks_ |= asks::uses;
  }
  bool declares() const noexcept { return (asks_ & asks::uses) != 0; }
  bool has_new_claims() const noexcept { return (asks_ & asks::new_claims) != 0; }
  bool is_sent() const noexcept { return (asks_ & asks::resume_on) != 0; }
  bool withdraws() const noexcept { return (asks_ & asks::withdrawal) != 0; }
  bool must_hop() const noexcept { return is_sent() && resume_on_ != here().runs_on; }

  template <class P>
  void suspend_as(std::coroutine_handle<P> h, step to_start, bool body_may_wait) noexcept {
    suspend_here(h);
    await_turn(to_start, body_may_wait);
  }
  template <class P>
  void suspend_here(std::coroutine_handle<P> h) noexcept {
    this->suspend(h, is_sent() ? resume_on_ : here().runs_on);
    back_to = is_sent() ? nullptr : home_worker();
  }
  void block_here(blocked_thread& me) noexcept {
    this->block(me);
    back_to = nullptr;
  }
  void await_turn(step to_start, bool body_may_wait) noexcept {
    start = to_start;
    may_wait = body_may_wait;
    told_ = false;
    accepted_at = 0;
    stand_in_ = nullptr;
    phase_ = phase::waiting;
  }
  // A thread goes on where it is, whatever it was told.
  void stay_on_thread() noexcept { asks_ &= static_cast<std::uint8_t>(~asks::resume_on); }

  // It may have to go before its turn, or cannot be in line yet; once the coroutine is suspended.
  bool needs_stand_in(bool elsewhere) const noexcept {
    return (elsewhere || arrived_ != arrival::owner) && needs_stand_in();
  }
  bool needs_stand_in() const noexcept {
    return withdraws() || can_be_stopped(chain_) || arrived_ == arrival::outside;
  }
  // Null: there was no memory for it.
  stand_in* try_make_stand_in(const stand_in::calls& c) noexcept;
  // Null: the request waits as any other. Throws bad_alloc if it cannot, and does not wait.
  stand_in* make_stand_in(const stand_in::calls& c);
  // Whatever it found on arrival: it waits from now on, if only for an executor.
  void begin_to_wait() noexcept { arrived_ = arrival::queued; }
  // After it arrived. True: the coroutine stays suspended, and this may be gone. If it is
  // withdrawn, what is new of what it uses stays asked for, which counts as much as what is kept:
  // the section may be gone by then.
  bool wait_by(stand_in& s, bool keeps_token) noexcept;
  enum class [[nodiscard]] line_entry : std::uint8_t {
    waits,      // this may be gone
    is_served,  // in this very call
    withdrawn,  // in this very call: the waiter goes on with the error
  };
  // After it arrived, with its waiter filled in; `own` is this if the waiter may go on in this
  // call, else null. Throws what refuses it.
  line_entry wait_in_line(request* own, bool elsewhere);
  // The end of that, for one that has no stand-in.
  TURNSTILE_INLINE line_entry enter_line(request* own, bool elsewhere) {
    section_core& section = *section_;  // this may be gone after publishing or posting
    if (arrived_ == arrival::owner) {
      if (elsewhere) {
        begin_to_wait();
        section.post_first(line_, *this);
        return line_entry::waits;
      }
      return section.serve_first(line_, *this, own) ? line_entry::is_served : line_entry::waits;
    }
    switch (section.publish(*this, line_, own)) {
      case section_core::published::waiting: return line_entry::waits;
      case section_core::published::own_served: return line_entry::is_served;
      case section_core::published::closed: break;
    }
    refuse_late();
  }
  // After it arrived, with its waiter filled in. `elsewhere`: it may not start on this thread.
  line_entry wait_for_turn(step to_start, bool body_may_wait, bool elsewhere);
  // The same of a thread, which blocks until it may go on.
  void block_for_turn(blocked_thread& me, step to_start, bool body_may_wait, bool elsewhere);
  // By who has `s` pinned, as the last thing. True: the coroutine goes on here, with the error.
  // Otherwise this may be gone.
  bool was_withdrawn_meanwhile(stand_in& s) noexcept;
  // The section was closed already: no need to wait.
  void give_up_closing() noexcept;
  static const stand_in::calls turn_comes_once;
  static void never_let_in(request& r) noexcept;
  static void wait_is_over(request& r) noexcept {
    static_cast<section_request&>(r).turn_has_come();
  }

  // The request was served by this very call: the coroutine need not suspend, unless others wait
  // for the thread.
  template <class P>
  bool stay_here(std::coroutine_handle<P> h) noexcept {
    give_up_waiting();
    return turn_is_over() && give_turn(h);
  }
  // The same for one that may have been set aside meanwhile, behind a stand-in.
  template <class P>
  bool go_on_here(std::coroutine_handle<P> h) noexcept {
    if (stand_in_ == nullptr) return stay_here(h);
    take_wait_back();
    stay();
    return false;
  }
  void give_up_waiting() noexcept {
    take_wait_back();
    stay();
    phase_ = phase::ran;
  }

  // After it arrived, and before anything else is known of it: if it has to wait, the graph is
  // told.
  // Throws deadlock_error if that would never end; its place in line is left to nobody.
  void tell_if_queued() {
    if (arrived_ != arrival::owner && chain_ != nullptr && !ends_by_itself()) [[unlikely]]
      tell_or_leave();
  }
  bool ends_by_itself() const noexcept { return withdraws() && asked_.deadline != never; }

  // By whoever serves it, when its turn has come and before anything is done with the section.
  void turn_has_come() noexcept {
    if (told_) over_.store(true, release);  // G1
  }
  // By whoever serves it: what has been asked to stop does not begin what it waited for, also where
  // it could not be withdrawn at once; nor anything with what a device has lost. A stop around what
  // need not wait counts if it is known to be around.
  bool comes_too_late() const noexcept {
    return section_->is_lost() || is_stopped() ||
           ((arrived_ != arrival::owner || can_be_stopped(chain_)) && is_stopped_by_now(chain_));
  }
  std::exception_ptr cancelled() const noexcept;
  // The same with its deadline, for one that nobody withdraws any more, or not yet, and that has
  // waited for an executor since. Null: it may begin.
  std::exception_ptr withdrawn_by_now() const noexcept;
  // With the section entered: it was asked to stop after it looked, perhaps by the body before.
  TURNSTILE_INLINE bool is_stopped_since(const thread_state& t) const noexcept {
    return (withdraws() || can_be_stopped(t.chain)) && is_stopped_here(t);
  }
  // After arrive said queued: for a moment in place. Who was withdrawn meanwhile stays out.
  TURNSTILE_COLD arrival await_one_body(section_core::place line, thread_state& t) noexcept;
  // By the waiter when it goes on.
  // Throws if it was withdrawn.
  TURNSTILE_INLINE void waited() {
    if (phase_ != phase::awaited) [[unlikely]]
      came_back();
  }
  // The wait, if it was told, is taken back: by the waiter, or who goes on for it.
  void take_wait_back() noexcept {
    if (!told_) return;
    told_ = false;
    end_wait(wait_);
    std::destroy_at(&over_);  // nobody looks at it any more, which the checker then checks
  }

  // The request is served; only the thread is given to others.
  template <class P>
  bool give_turn(std::coroutine_handle<P> h) noexcept {
    this->suspend(h);
    phase_ = phase::queued;
    resume_later(*this);  // this may be gone
    return true;
  }

  // Tells the graph that the chain `by` waits in this section's line. Throws deadlock_error.
  void tell(chain_frame* by) {
    ::new (static_cast<void*>(&over_)) atomic<bool>(false);
    ::new (static_cast<void*>(&wait_)) wait;
    wait_.wants = section_;
    if (withdraws()) wait_.stop = &asked_.stop;
    wait_.listens = can_be_stopped(chain_);
    wait_.over = &over_;
    wait_.at = &at_;
    wait_.label = &label_of_wanted;
    told_ = told_without_search(wait_, by);
    if (!told_) search(by);
  }
  // Before the section is closed: the wait for all that was accepted.
  void tell_of_end() {
    if (chain_ != nullptr) tell_or_stay();
  }
  // After arrive said owner or queued.
  void accepted() noexcept {
    if (section_->watched()) [[unlikely]]
      accepted_watched();
  }

  // The section was closed between arriving and publishing.
  [[noreturn]] TURNSTILE_COLD void refuse_late() {
    give_up_waiting();
    if (section_->recorded()) forget_execution(*section_, at_);
    refuse();
  }

  [[noreturn]] TURNSTILE_COLD void refuse() {
    withdraw_uses();
    section_->count_refusal();
    throw section_closed(section_->label());
  }

  TURNSTILE_COLD void check_chain() {
    check_reentry();
    check_stop();
  }
  TURNSTILE_COLD void check_reentry() {
    refuse_reentry();
    note_order(here().chain, *section_, at_);
  }
  TURNSTILE_COLD void check_stop() {
    if (surrounding_stop(here().chain).stop_requested()) refuse_as_stopped(*section_);
  }
  TURNSTILE_COLD void refuse_reentry() {
    section_->counting_refusal([&] { refuse_if_held(*section_, at_); });
  }

  struct asks {
    static constexpr std::uint8_t uses = 1;
    static constexpr std::uint8_t resume_on = 2;
    static constexpr std::uint8_t withdrawal = 4;
    static constexpr std::uint8_t new_claims = 8;  // of what it uses
  };

  stand_in* stand_in_;  // written by await_turn
  // What every execution writes is in a row: stores leave a core one by one, but two at a time to
  // one line, and these four as one, with the name's length before them (bench/uncontended).
  [[no_unique_address]] site at_;
  phase phase_ = phase::fresh;
  std::uint8_t asks_ = 0;  // most executions ask for nothing, and one word says so
  arrival arrived_ = arrival::owner;
  guarded<bool> told_{false};
  section_core* section_;

 private:
  // What the section has claimed stays claimed: only who records wants to hear it again.
  TURNSTILE_INLINE void declare(const resource_list& uses) noexcept {
    if (section_->recorded() || !uses.claimed_by(section_->id())) [[unlikely]]
      keep_unless_claimed(uses);
  }
  void keep_unless_claimed(const resource_list& uses) noexcept;
  void resume_on(executor_ref e) noexcept {
    ::new (static_cast<void*>(&resume_on_)) executor_ref(e);
    asks_ |= asks::resume_on;
  }
  void withdraw_on(const execute_options& options) {
    ::new (static_cast<void*>(&asked_)) withdrawal_sources(options);
    asks_ |= asks::withdrawal;
  }
  bool is_stopped() const noexcept { return withdraws() && asked_.stop.stop_requested(); }
  TURNSTILE_COLD bool is_stopped_here(const thread_state& t) const noexcept;
  static bool is_stopped_by_now(const chain_frame* chain) noexcept {
    if (chain == nullptr) return false;
    if (!is_member(chain)) return is_stopped_around(chain);
    return static_cast<const member_frame&>(*chain).stop->stop_requested();
  }
  void take_what_is_asked(section_request& other) noexcept;
  void throw_if_withdrawn();
  [[noreturn]] void destroyed_while_waiting() const noexcept;
  static std::string label_of_wanted(const wait& w);
  void arrive_where_refused();
  void accepted_watched() noexcept;
  bool goes_on_here() noexcept;
  void search(chain_frame* by);
  void tell_or_leave();
  void tell_or_stay();
  void came_back() {
    const bool waited = phase_ == phase::waiting;
    phase_ = phase::ran;
    if (!waited) return;
    take_wait_back();
    if (stand_in_ != nullptr) throw_if_withdrawn();
  }
  bool claim_declared() {
    const bool are_new =
        section_->counting_refusal([&] { return claim(*section_, uses_, at_.exclusive()); });
    if (are_new) asks_ |= asks::new_claims;
    return are_new;
  }
};

}  // namespace turnstile::detail
