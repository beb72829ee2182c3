// delegated_mutex.cpp - who locks: a fiber, or a thread.

#include <turnstile/delegated_mutex.hpp>
#include <turnstile/detail/blocked_thread.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/delegated_hold.hpp>
#include <turnstile/detail/hold.hpp>
#include <turnstile/detail/lock_request.hpp>
#include <turnstile/detail/trampoline.hpp>

#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <utility>

namespace turnstile {

namespace {

using detail::delegated_hold;
using detail::fiber_core;

static_assert(alignof(delegated_hold) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

// The fiber's innermost hold, in memory that is used again.
class new_hold {
 public:
  template <class... Args>
  explicit new_hold(fiber_core& f, Args&&... args) : fiber_(f), memory_(std::move(f.spare_hold)) {
    if (memory_ == nullptr) memory_ = std::make_unique<std::byte[]>(sizeof(delegated_hold));
    hold_ = ::new (memory_.get()) delegated_hold(std::forward<Args>(args)..., f.innermost);
  }
  ~new_hold() {
    if (memory_ == nullptr) return;
    std::destroy_at(hold_);
    fiber_.spare_hold = std::move(memory_);
  }
  new_hold(const new_hold&) = delete;
  new_hold& operator=(const new_hold&) = delete;

  delegated_hold* operator->() const noexcept { return hold_; }

  // It lives until `end`.
  void keep() noexcept {
    fiber_.innermost = hold_;
    static_cast<void>(memory_.release());
  }

  static void end(fiber_core& f) noexcept {
    delegated_hold* const h = std::exchange(f.innermost, f.innermost->outer());
    std::destroy_at(h);
    f.spare_hold.reset(reinterpret_cast<std::byte*>(h));
  }

 private:
  fiber_core& fiber_;
  std::unique_ptr<std::byte[]> memory_;
  delegated_hold* hold_;
};

// A thread's, which blocks until it has its guard.
class blocking_lock : private detail::lock_request {
 public:
  blocking_lock(detail::section_core& section, const std::source_location& where)
      : lock_request(section, detail::default_execution, where) {}

  section_guard run() {
    const detail::not_in_fiber this_is_a_threads;
    hold_ = detail::make_hold(detail::here(), *section_, at_);  // before anything is asked for
    hold_->came = detail::hold_frame::way::in_line;
    wait();
    waited();
    if (refusal_ != nullptr) std::rethrow_exception(std::move(refusal_));
    return detail::guard_access::own(*section_, *std::exchange(hold_, nullptr), detail::here());
  }

 private:
  // As blocking_execution's. A guard is no body, so the section's executor has no part in it.
  void wait() {
    detail::trampoline before_it(true);
    begin();
    arrive();
    block_for_turn(me_, &grant, true, false);
  }

  detail::blocked_thread me_;
};

bool holds(const fiber_core& f, const delegated_mutex& m) noexcept {
  const delegated_hold* h = f.innermost;
  while (h != nullptr && &h->mutex() != &m) h = h->outer();
  return h != nullptr;
}

}  // namespace

delegated_mutex::~delegated_mutex() {
  if (held_.owns_lock()) misused("a delegated_mutex is destroyed while a thread holds it");
}

void delegated_mutex::lock() {
  fiber_core* const f = detail::fiber_core::own_code();
  if (f == nullptr) {
    // Who holds others waits, if it has to, in an order that is looked at; what is only tried is
    // not.
    std::optional<section_guard> at_once;
    if (!detail::may_hold_sections(detail::here().chain)) {
      at_once = section_->own_if_idle(where_, true);
    }
    hold(at_once ? std::move(*at_once) : blocking_lock(section_->core_, where_).run());
    return;
  }
  new_hold hold(*f, *this, section_->core_, where_);
  hold->acquire(*f);
  hold.keep();
}

bool delegated_mutex::try_lock() {
  if (fiber_core* const f = detail::fiber_core::own_code()) return try_lock_in(*f);
  // As lock, also where bodies may not run: who tries several in turn would try for ever.
  std::optional<section_guard> got = section_->own_if_idle(where_, true);
  if (!got) return false;
  hold(std::move(*got));
  return true;
}

void delegated_mutex::hold(section_guard guard) noexcept {
  held_ = std::move(guard);
  by_ = &detail::here();
}

bool delegated_mutex::try_lock_in(fiber_core& f) {
  new_hold hold(f, *this, section_->core_, where_);
  detail::section_core::place line;
  if (!section_->arrive_if_idle(line, where_)) return false;
  hold->acquired(line);
  hold.keep();
  return true;
}

void delegated_mutex::unlock() noexcept {
  fiber_core* const f = detail::fiber_core::own_code();
  if (f != nullptr && holds(*f, *this)) {
    if (&f->innermost->mutex() != this) {
      misused("a delegated_mutex is unlocked before another one that the fiber locked later");
    }
    f->innermost->release(*f);
    new_hold::end(*f);
    return;
  }
  if (!held_.owns_lock() || by_ != &detail::here()) {
    misused("a delegated_mutex is unlocked by who has not locked it");
  }
  section_guard mine = std::move(held_);  // it is the next holder's once the section is free
  // Bodies of others might ask for what the caller has locked besides, with a std::scoped_lock of
  // both or in a condition_variable_any. Where an executor runs the caller, they are served here
  // all the same: all of its threads may come to wait for this.
  if (!detail::here().runs_on) detail::guard_access::unlock_to_others(mine);
}

void delegated_mutex::misused(std::string_view what) const noexcept {
  detail::contract_break(section_->core_.label(), what, where_);
}

}  // namespace turnstile
