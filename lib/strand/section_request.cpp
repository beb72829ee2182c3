// section_request.cpp - a request's wait, told to the graph.

#include <turnstile/detail/section_request.hpp>

namespace turnstile::detail {

std::string section_request::label_of_wanted(const wait& w) {
  return static_cast<const section_core*>(w.wants)->label();
}

void section_request::keep_unless_claimed(const resource_list& uses) noexcept {
  if (section_->recorded() || !are_claimed(*section_, uses, at_.exclusive())) keep(uses);
}

void section_request::search(chain_frame* by) {
  try {
    begin_wait(wait_, by);
    told_ = true;
  } catch (...) {
    section_->count_refusal();
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
