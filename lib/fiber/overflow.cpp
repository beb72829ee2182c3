// overflow.cpp - the handler, and what it prints. Only what may be called in a handler.

#include "fiber/overflow.hpp"

#include "fiber/own_stack.hpp"

#include <turnstile/detail/config.hpp>
#include <turnstile/detail/fiber_core.hpp>
#include <turnstile/detail/thread_state.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <unistd.h>

namespace turnstile::detail {

namespace {

class line {
 public:
  line& operator<<(std::string_view text) noexcept {
    const std::size_t n = std::min(text.size(), text_.size() - used_);
    std::memcpy(text_.data() + used_, text.data(), n);
    used_ += n;
    return *this;
  }
  line& operator<<(std::size_t number) noexcept {
    std::array<char, 20> digits;
    std::size_t at = digits.size();
    do {
      digits[--at] = static_cast<char>('0' + number % 10);
    } while ((number /= 10) != 0);
    return *this << std::string_view(digits.data() + at, digits.size() - at);
  }
  ~line() {
    // Nothing is left to be done if that fails.
    static_cast<void>(!::write(STDERR_FILENO, text_.data(), used_));
  }

 private:
  std::array<char, 512> text_;
  std::size_t used_ = 0;
};

void print(const fiber_core& f) noexcept {
  const site& at = f.place();
  line() << "turnstile: fiber \"" << at.name() << "\": its stack of " << f.stack().memory().size
         << " bytes overflowed; fiber_options::stack_size makes it larger (" << at.where.file_name()
         << ":" << at.where.line() << ")\n";
}

#if !defined(TURNSTILE_ADDRESS_SANITIZER) && !defined(TURNSTILE_THREAD_SANITIZER)

void on_fault(int, siginfo_t* fault, void*) {
  if (const auto* const f = static_cast<const fiber_core*>(here().stack)) {
    const std::byte* const bottom = f->stack().memory().bottom;
    const auto* const at = static_cast<const std::byte*>(fault->si_addr);
    if (at < bottom && at >= bottom - guard_size()) print(*f);
  }
  // The instruction is tried again, and the process ends as it would have. What somebody has sent
  // came from none: it is sent once more.
  struct sigaction by_default{};
  by_default.sa_handler = SIG_DFL;
  sigaction(SIGSEGV, &by_default, nullptr);
  if (fault->si_code <= 0) raise(SIGSEGV);
}

bool install_handler() noexcept {
  struct sigaction now{};
  if (sigaction(SIGSEGV, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 ||
      now.sa_handler != SIG_DFL) {
    return false;
  }
  struct sigaction ours{};
  ours.sa_sigaction = &on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  return sigaction(SIGSEGV, &ours, nullptr) == 0;
}

// The stack that this thread's handler runs on, for as long as the thread lives.
class handler_stack {
 public:
  handler_stack() noexcept : memory_(new(std::nothrow) std::byte[bytes]) {
    stack_t now{};
    if (memory_ == nullptr || sigaltstack(nullptr, &now) != 0) return;
    if ((now.ss_flags & SS_DISABLE) == 0) return;  // it has one
    stack_t ours{};
    ours.ss_sp = memory_.get();
    ours.ss_size = bytes;
    installed_ = sigaltstack(&ours, nullptr) == 0;
  }
  ~handler_stack() {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    if (installed_) sigaltstack(&none, nullptr);
  }
  handler_stack(const handler_stack&) = delete;
  handler_stack& operator=(const handler_stack&) = delete;

 private:
  static constexpr std::size_t bytes = 16384;

  const std::unique_ptr<std::byte[]> memory_;
  bool installed_ = false;
};

#endif

}  // namespace

#if defined(TURNSTILE_ADDRESS_SANITIZER) || defined(TURNSTILE_THREAD_SANITIZER)
void watch_this_thread() noexcept {}
#else
void watch_this_thread() noexcept {
  static const bool installed = install_handler();
  if (installed) static thread_local handler_stack until_it_ends;
}
#endif

void report_overflow(const fiber_core& f) noexcept {
  print(f);
  std::abort();
}

}  // namespace turnstile::detail
