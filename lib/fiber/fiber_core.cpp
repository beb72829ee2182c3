// fiber_core.cpp - running a fiber's stack, and leaving it. The shape is in the header.

#include "fiber/overflow.hpp"
#include "fiber/own_stack.hpp"

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/delegated_hold.hpp>
#include <turnstile/detail/fiber_core.hpp>
#include <turnstile/detail/first_error.hpp>
#include <turnstile/detail/trampoline.hpp>

#include <cxxabi.h>
#include <optional>

namespace turnstile::detail {

namespace {

// A thread that has not run a fiber yet.
TURNSTILE_COLD void prepare(thread_state& t) noexcept {
  t.exceptions = reinterpret_cast<exceptions_here*>(abi::__cxa_get_globals());
  watch_this_thread();
}

scope_core* make_scope(bool stoppable) {
  auto* const scope = new scope_core(std::stop_source(), on_failure::go_on, "fiber");
  if (stoppable) scope->members().make_stoppable();
  return scope;
}

}  // namespace

fiber_core::fiber_core(work w, const fiber_options& options, const std::source_location& where)
    : borrowed_stack{&call_outside},
      job(&begin),
      stack_(own_stack::make(options.stack_size, &run_work, this)),
      work_(w),
      at_(options.name, where),
      scope_(make_scope(options.stoppable)),
      member_(scope_->members(), at_) {
  coroutine_ = drive(*this).its;
}

void fiber_core::end_stack::operator()(own_stack* s) const noexcept { s->end(); }

fiber_core::~fiber_core() {
  if (coroutine_) coroutine_.destroy();  // it never started
  if (left_ != nullptr) drop_hold(*left_);
}

void fiber_core::report(std::exception_ptr error) noexcept {
  if (is_cancellation(error) && scope_->stop_requested()) return;
  report_unobserved(std::move(error), "", at_.where);
}

void fiber_core::start(executor_ref on) noexcept {
  scope_->add();
  scope_->members().add(member_);
  coroutine_.promise().start_on(&member_);
  on.post(*this);  // this may be gone
}

void fiber_core::begin(job& j) noexcept {
  run_to_suspension(static_cast<fiber_core&>(j).coroutine_);  // j may be gone
}

// Inlined, as all between here and there: each return after a switch is mispredicted.
inline void fiber_core::enter() noexcept {
  thread_state& t = here();  // of the thread, which stays the same on this side
  if (t.exceptions == nullptr) [[unlikely]]
    prepare(t);
  borrowed_stack* const stack_before = std::exchange(t.stack, this);
  fiber_core* const fiber_before = std::exchange(t.fiber, this);
  relay* const transfers_before = std::exchange(t.transfers, transfers_);
  stack_->enter(*t.exceptions);
  t.stack = stack_before;
  t.fiber = fiber_before;
  transfers_ = std::exchange(t.transfers, transfers_before);
  if (stack_->overflowed()) report_overflow(*this);
}

// True: the fiber waits. False: it has ended.
inline bool fiber_core::run() noexcept {
  // Whatever is resumed on its stack goes to the thread's loop and not onto that stack.
  std::optional<trampoline> base;
  if (here().bounce == nullptr) base.emplace();
  for (;;) {
    enter();
    if (call_ == nullptr) return !has_ended_;
    std::exchange(call_, nullptr)(call_with_);
  }
}

fiber_core::coroutine fiber_core::drive(fiber_core& f) {
  while (f.run()) co_await promise::pause{f};
}

void fiber_core::run_work(void* self) noexcept {
  auto& f = *static_cast<fiber_core*>(self);
  f.work_(f);
  if (f.innermost != nullptr) f.innermost->misused("a fiber ends while it holds a delegated_mutex");
  f.has_ended_ = true;
}

// After the coroutine, which took the chain back.
void fiber_core::ended() noexcept {
  left_ = coroutine_.promise().take_left();
  std::exchange(coroutine_, {}).destroy();
  stack_.reset();
  end_frame(member_);
  scope_->members().remove(member_);
  scope_->ended(nullptr, at_.where);
  drop();  // this may be gone
}

// A body that an eager coroutine of another library runs within a fiber's own code is none of that:
// what is around it belongs to this thread.
fiber_core* fiber_core::own_code() noexcept {
  fiber_core* const f = here().fiber;
  const chain_frame* in = f == nullptr ? nullptr : here().chain;
  while (in != nullptr && is_hold(in)) in = in->parent;
  const bool in_body = in != nullptr && in->section != nullptr &&
                       (f->innermost == nullptr || !f->innermost->is_of(*in));
  return in_body ? nullptr : f;
}

fiber_core& fiber_core::running() noexcept {
  fiber_core* const f = own_code();
  if (f == nullptr) {
    contract_break("",
                   here().stack == nullptr
                       ? "turnstile::await is called outside a fiber"
                       : "turnstile::await is called in a body or a coroutine that runs on a "
                         "fiber's stack: co_await there",
                   {});
  }
  return *f;
}

void fiber_core::wait(void* w, wait_step step) noexcept {
  if (here().writes != nullptr) {
    contract_break("", "a fiber waits while it changes a variable", at_.where);
  }
  wait_ = w;
  step_ = step;
  stack_->leave();  // perhaps to another thread
}

void fiber_core::call_outside(borrowed_stack& s, call what, void* with) noexcept {
  auto& f = static_cast<fiber_core&>(s);
  fiber_core* const own_code = here().fiber;
  f.call_with_ = with;
  f.call_ = what;
  f.stack_->leave();
  here().fiber = own_code;
}

}  // namespace turnstile::detail
