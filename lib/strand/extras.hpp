// extras.hpp - what few sections have, made when it is needed. Only for the files of section_core.
#pragma once

#include <turnstile/detail/request.hpp>
#include <turnstile/detail/stand_in.hpp>

#include <memory>

namespace turnstile::detail {

// What `word` points to, made by whoever needs it first.
template <class T>
T& made(atomic<T*>& word) {
  T* known = word.load(acquire);  // X1
  if (known != nullptr) return *known;
  auto fresh = std::make_unique<T>();
  if (!word.compare_exchange_strong(known, fresh.get(), release, acquire)) return *known;  // X1
  return *fresh.release();
}

// Instead of closers: the section is closed, and all that came before has ended.
inline stand_in* const closed_list = reinterpret_cast<stand_in*>(1);

// The last place in line.
struct closing_request : request {
  static bool is_one(const request& r) noexcept { return r.start == &close; }

  closing_request() noexcept {
    start = &close;
    back_to = nullptr;
    may_wait = true;
    accepted_at = 0;
    home_ = {};
  }

 private:
  static outcome close(request&) noexcept { return outcome::closed; }
};

}  // namespace turnstile::detail
