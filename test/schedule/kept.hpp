// kept.hpp - a section that the calling thread keeps. It comes back to it before anybody else is
// there, so that no search goes through that.
#pragma once

#include "schedule/scenario.hpp"

#include <turnstile/critical_section.hpp>
#include <turnstile/detail/thread_state.hpp>

namespace schedule {

inline void ask(turnstile::critical_section& cs) {
  cs.execute_blocking([] {});
}

// As if a turn of this thread ended with the next body.
inline void let_a_turn_end() {
  turnstile::detail::thread_state& t = turnstile::detail::here();
  t.last_in_turn = turnstile::detail::bodies_in_a_turn - 1;
  t.left_in_turn = 0;
}

// With the next body it has come back: the section is kept, or another one is given up for it.
inline void come_close(turnstile::critical_section& cs) {
  let_a_turn_end();
  for (unsigned i = 0; i != turnstile::detail::bodies_in_a_turn; ++i) ask(cs);
}

inline void keep(turnstile::critical_section& cs) {
  come_close(cs);
  ask(cs);
  const turnstile::detail::keeper& mine = *turnstile::detail::here().keeps;
  require(mine.keeps_something() && !mine.is_inside(), "it is not kept");
}

// The calling thread does its own at the same time.
inline void beside(const std::function<void()>& own, std::vector<std::function<void()>> work) {
  std::vector<thread> threads;
  threads.reserve(work.size());
  for (auto& w : work) threads.emplace_back(std::move(w));
  own();
  for (auto& t : threads) t.join();
}

}  // namespace schedule
