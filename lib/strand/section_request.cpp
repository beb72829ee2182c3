// section_request.cpp - a request's wait, told to the graph.

#include <turnstile/detail/section_request.hpp>

namespace turnstile::detail {

void section_request::tell(chain_frame* by) {
  wait_.wants = section_;
  wait_.scope = nullptr;
  wait_.over = &wait_.has_ended;
  wait_.at = &at_;
  wait_.name = section_->name();
  wait_.id = section_->id();
  wait_.has_ended.store(false, relaxed);  // nobody else can see it yet
  try {
    begin_wait(wait_, by);
  } catch (...) {
    section_->count_refusal();
    give_up_waiting();
    throw;
  }
}

void section_request::tell_or_stay() {
  try {
    tell(chain_);
  } catch (...) {
    withdraw_uses();
    give_up_waiting();
    throw;
  }
}

void section_request::tell_or_leave() {
  try {
    tell_or_stay();
  } catch (...) {
    section_->give_up(line_);
    throw;
  }
}

}  // namespace turnstile::detail
