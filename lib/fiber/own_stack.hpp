// own_stack.hpp - a stack that a function runs on, which can be left in the middle and entered again, on
// any thread.
//
// The only files that know Boost.Context, and what the sanitizers want to be told of a switch.
//
// Dangers  enter returns on the thread that called it, leave perhaps on another one: after it, whatever
//          a function knew of its thread is another thread's. So the state of exceptions, which
//          belongs to a thread, is changed over in enter only.
#pragma once

#include "fiber/stack_pool.hpp"

#include <turnstile/detail/config.hpp>

#include <cstddef>

namespace turnstile::detail {

// What of a thread says which exceptions are caught, and thrown, on it (Itanium C++ ABI, 2.2.2).
struct exceptions_here {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

class own_stack {
 public:
  using function = void (*)(void*) noexcept;

  // `f(arg)` runs when it is entered first. Throws bad_alloc.
  own_stack(std::size_t size, function f, void* arg);
  ~own_stack();
  own_stack(const own_stack&) = delete;
  own_stack& operator=(const own_stack&) = delete;

  // By a thread: until the function leaves, or has returned.
  void enter() noexcept;
  // By the function.
  void leave() noexcept;

  const stack_memory& memory() const noexcept { return memory_; }
  // Only of one without a guard: the function used more than there is.
  bool overflowed() const noexcept;

 private:
  struct entry;

  stack_memory memory_;
  function function_;
  void* argument_;
  void* inside_;             // where the function stands
  void* outside_ = nullptr;  // where the thread stands that has entered
  exceptions_here exceptions_;
  // For sanitizers. Of the thread that has entered:
  const void* outside_bottom_ = nullptr;
  std::size_t outside_size_ = 0;
  void* outside_fake_ = nullptr;
  void* outside_fiber_ = nullptr;
  // and of this:
  void* fake_ = nullptr;
  void* fiber_ = nullptr;
};

}  // namespace turnstile::detail
