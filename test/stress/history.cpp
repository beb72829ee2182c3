// history.cpp - the check.

#include "stress/history.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace stress {

namespace {

constexpr std::array kinds = {"execute", "throwing", "waiting", "throwing later", "nested", "guard",
                              "handle",  "post",     "tried",   "tried guard",    "close"};
constexpr std::array outcomes = {"no answer", "returned", "threw", "posted", "not idle", "refused"};

std::string number(std::uint64_t n) { return n == unknown ? "-" : std::to_string(n); }

std::string described(const record& r) {
  return std::string("#").append(std::to_string(r.id)) + " (section " + std::to_string(r.section) +
         ", " + kinds[static_cast<std::size_t>(r.what)] + ", " +
         outcomes[static_cast<std::size_t>(r.end)] + ", ticket " + number(r.ticket) + ", run " +
         number(r.sequence) + ", asked " + number(r.invoked) + ", in line " + number(r.accepted) +
         ", answered " + number(r.responded) + ", given " + number(r.given) + ", result " +
         number(r.result) + ", got " + number(r.got) + ")";
}

std::string found(std::string_view what, const record& r) {
  return std::string(what) + ": " + described(r);
}

std::string found(std::string_view what, const record& a, const record& b) {
  return found(what, a) + " and " + described(b);
}

bool accepted(const record& r) {
  return r.end == outcome::returned || r.end == outcome::threw || r.end == outcome::posted;
}

bool has_body(const record& r) { return r.what != kind::close; }

std::uint64_t in_line(const record& r) { return r.accepted != 0 ? r.accepted : r.responded; }

class section_history {
 public:
  explicit section_history(std::span<const record> all) : all_(all) {}

  void add(const record& r) { mine_.push_back(&r); }

  std::string first_violation() {
    for (const auto check :
         {&section_history::once, &section_history::alone, &section_history::tickets,
          &section_history::real_time, &section_history::replay, &section_history::closing}) {
      if (std::string what = (this->*check)(); !what.empty()) return what;
    }
    return {};
  }

 private:
  std::string once() {
    if (const record* const r = waits_longest()) return found("was never answered", *r);
    for (const record* r : mine_) {
      if (r->end == outcome::none) continue;
      const std::uint64_t due = accepted(*r) && has_body(*r) ? 1 : 0;
      if (r->runs > due) return found(due == 1 ? "ran more than once" : "ran unasked", *r);
      if (r->runs < due) return found("accepted, and never ran", *r);
    }
    return {};
  }

  const record* waits_longest() const {
    const record* first = nullptr;
    for (const record* r : mine_) {
      if (r->end != outcome::none || r->invoked == 0) continue;
      if (first == nullptr || r->invoked < first->invoked) first = r;
    }
    return first;
  }

  // Also finds the order of the runs, for what follows.
  std::string alone() {
    const auto ran = [](const record* r) { return r->runs != 0; };
    order_.resize(static_cast<std::size_t>(std::ranges::count_if(mine_, ran)));
    for (const record* r : mine_) {
      if (!ran(r)) continue;
      if (r->together_with < all_.size()) {
        return found("ran at the same time", *r, all_[r->together_with]);
      }
      if (r->sequence >= order_.size()) return found("a run is missing before", *r);
      const record*& place = order_[r->sequence];
      if (place != nullptr) return found("ran at the same time", *place, *r);
      place = r;
    }
    return {};
  }

  std::string tickets() {
    const record* before = nullptr;
    for (const record* r : order_) {
      if (r->ticket == unknown) continue;
      if (before != nullptr && before->ticket >= r->ticket) {
        return found("ran against the order of tickets", *before, *r);
      }
      before = r;
    }
    return {};
  }

  // Of those that ran, the one asked for last is enough to look at.
  std::string real_time() {
    const record* last_asked = nullptr;
    for (const record* r : order_) {
      if (last_asked != nullptr && in_line(*r) != 0 && in_line(*r) < last_asked->invoked) {
        return found("ran before one that was in line already", *last_asked, *r);
      }
      if (last_asked == nullptr || last_asked->invoked < r->invoked) last_asked = r;
    }
    return {};
  }

  std::string replay() {
    std::uint64_t value = 0;
    const record* before = nullptr;
    for (const record* r : order_) {
      value = applied(value, r->given);
      if (r->result != value) {
        return before == nullptr ? found("did not begin with the first value", *r)
                                 : found("did not go on with the value left", *before, *r);
      }
      if (r->end != outcome::posted && r->got != r->result) {
        return found("the asker got another result", *r);
      }
      before = r;
    }
    return {};
  }

  std::string closing() {
    for (const record* r : mine_) note_close(*r);
    for (const record* r : mine_) {
      if (accepted(*r) && has_body(*r) && end_seen_ != nullptr &&
          end_seen_->responded < r->invoked) {
        return found("accepted although it was closed", *end_seen_, *r);
      }
      if (r->end == outcome::refused && (close_ == nullptr || r->responded < close_->invoked)) {
        return found("refused although nobody closes", *r);
      }
      if (!has_body(*r) && r->got != order_.size()) {
        return found("went on before, or not at, the end", *r);
      }
    }
    return {};
  }

  // The first who knows that it is closed, and the first who asks for it.
  void note_close(const record& r) {
    const bool knows = r.end == outcome::refused || !has_body(r);
    if (knows && (end_seen_ == nullptr || r.responded < end_seen_->responded)) end_seen_ = &r;
    if (!has_body(r) && (close_ == nullptr || r.invoked < close_->invoked)) close_ = &r;
  }

  std::span<const record> all_;
  std::vector<const record*> mine_;
  std::vector<const record*> order_;  // as they ran
  const record* end_seen_ = nullptr;
  const record* close_ = nullptr;
};

}  // namespace

std::string first_violation(std::span<const record> all) {
  std::vector<section_history> sections;
  for (const record& r : all) {
    while (sections.size() <= r.section) sections.emplace_back(all);
    sections[r.section].add(r);
  }
  for (section_history& s : sections) {
    if (std::string what = s.first_violation(); !what.empty()) return what;
  }
  for (const record& r : all) {
    if (r.invoked == 0) return found("was never asked", r);
  }
  return {};
}

}  // namespace stress
