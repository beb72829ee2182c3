// section_request.cpp - a request's wait, told to the graph.

#include <turnstile/detail/section_request.hpp>

namespace turnstile::detail {

void section_request::tell() {
  wait_.wants = section_;
  wait_.scope = nullptr;
  wait_.over = &over_;
  wait_.at = &at_;
  wait_.name = section_->name();
  wait_.id = section_->id();
  try {
    begin_wait(wait_, chain_);
  } catch (...) {
    section_->count_refusal();
    give_up_waiting();
    throw;
  }
}

void section_request::tell_or_leave() {
  try {
    tell();
  } catch (...) {
    section_->give_up(line_);
    throw;
  }
}

}  // namespace turnstile::detail
