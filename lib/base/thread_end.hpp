// thread_end.hpp - what is done at the end of each thread that has come to need it.
//
// Ends come in the opposite order of how they were armed, among other destructors of what is
// thread_local. What those do that come later may ask for the same again, and hears that it is
// over.
#pragma once

namespace turnstile::detail {

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

}  // namespace turnstile::detail
