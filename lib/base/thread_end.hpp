// thread_end.hpp - what is done at the end of each thread that has come to need it.
#pragma once

#include <pthread.h>

namespace turnstile::detail {

// Ends come in the opposite order of how they were armed, among other destructors of what is
// thread_local. What those do that come later may ask for the same again, and hears that it is
// over.
template <void (*End)() noexcept>
class at_thread_end {
 public:
  // This thread will not end without it. False: that was before.
  static bool arm() noexcept {
    static thread_local at_thread_end until_it_ends;
    return !is_over_;
  }
  static bool is_over() noexcept { return is_over_; }

 private:
  at_thread_end() noexcept = default;
  ~at_thread_end() {
    is_over_ = true;
    End();
  }

  // Apart from the object, for it is read when that has ended.
  static constinit inline thread_local bool is_over_ = false;
};

// The same after all of those, and never on the thread that ends the process: what is static may
// still ask there. glibc ends what is thread_local first.
template <void (*End)() noexcept>
class after_thread_locals {
 public:
  // False: there is no room for it. Again, if End has been called.
  static bool arm() noexcept {
    if (!is_armed_) [[unlikely]] {
      static const key of_all;
      is_armed_ = of_all.made && pthread_setspecific(of_all.number, &is_armed_) == 0;
    }
    return is_armed_;
  }

 private:
  struct key {
    key() noexcept : made(pthread_key_create(&number, &end) == 0) {}
    pthread_key_t number{};
    const bool made;
  };
  static void end(void*) noexcept {
    is_armed_ = false;
    End();
  }

  static constinit inline thread_local bool is_armed_ = false;
};

}  // namespace turnstile::detail
