// history_check.cpp - the check of histories, on histories made by hand.

#include "stress/history.hpp"

#include <array>
#include <doctest/doctest.h>
#include <string>
#include <vector>

using stress::kind;
using stress::outcome;
using stress::record;

namespace {

// Four requests of one section: asked for one after the other while the first one runs, served in
// line, closed at the end. Each of them has ten stamps of its own.
class right_history {
 public:
  right_history() {
    for (std::uint64_t i = 0; i != 4; ++i) add(i);
    record closing = asked_at(4);
    closing.what = kind::close;
    closing.end = outcome::returned;
    closing.responded = 200;
    closing.got = 4;
    all.push_back(closing);
  }

  std::string violation() const { return stress::first_violation(all); }
  bool says(const std::string& what) const {
    INFO(violation());
    return violation().starts_with(what);
  }

  std::vector<record> all;

 private:
  static record asked_at(std::uint64_t i) {
    record r;
    r.id = static_cast<std::uint32_t>(i);
    r.given = 100 + i;
    r.invoked = 10 + i * 10;
    r.accepted = r.invoked + 1;
    r.ticket = i;
    return r;
  }

  void add(std::uint64_t i) {
    record r = asked_at(i);
    r.end = outcome::returned;
    r.responded = 100 + i;
    r.runs = 1;
    r.sequence = i;
    value_ = stress::applied(value_, r.given);
    r.got = r.result = value_;
    all.push_back(r);
  }

  std::uint64_t value_ = 0;
};

record refused(std::uint32_t id, std::uint64_t invoked) {
  record r;
  r.id = id;
  r.invoked = invoked;
  r.responded = invoked + 1;
  r.end = outcome::refused;
  return r;
}

// Two requests change places in the runs, with all that follows from it.
void swap_runs(std::vector<record>& all, std::size_t a, std::size_t b) {
  std::swap(all[a].sequence, all[b].sequence);
  std::array<const record*, 4> order{};
  for (std::size_t i = 0; i != order.size(); ++i) order[all[i].sequence] = &all[i];
  std::uint64_t value = 0;
  for (const record* r : order) {
    value = stress::applied(value, r->given);
    all[r->id].got = all[r->id].result = value;
  }
}

}  // namespace

TEST_SUITE("history") {
  TEST_CASE("history: a right one is accepted") {
    right_history h;
    CHECK(h.violation() == "");
    CHECK(stress::first_violation({}) == "");
  }

  TEST_CASE("history: right with what was posted, tried in vain, refused, or threw") {
    right_history h;
    h.all[1].end = outcome::posted;
    h.all[1].responded = h.all[1].got = 0;
    h.all[2].end = outcome::threw;
    h.all.push_back(refused(5, 300));
    h.all.push_back(refused(6, 13));
    h.all[6].end = outcome::not_idle;
    CHECK(h.violation() == "");
  }

  TEST_CASE("history: each section has an order of its own") {
    right_history h;
    for (record r : right_history().all) {
      r.id += 5;
      r.section = 1;
      h.all.push_back(r);
    }
    CHECK(h.violation() == "");
    h.all[7].got = 1;
    CHECK(h.says("the asker got another result: #7 (section 1, "));
  }

  TEST_CASE("history: accepted and never ran") {
    right_history h;
    h.all[3].runs = 0;
    CHECK(h.says("accepted, and never ran: #3 "));
  }

  TEST_CASE("history: never answered") {
    right_history h;
    h.all[2].end = outcome::none;
    CHECK(h.says("was never answered: #2 "));
  }

  TEST_CASE("history: of several that were never answered, the one that has waited longest") {
    right_history h;
    h.all[1].end = h.all[3].end = outcome::none;
    h.all[1].invoked = 60;
    CHECK(h.says("was never answered: #3 "));
  }

  TEST_CASE("history: never asked") {
    right_history h;
    h.all.push_back({.id = 5});
    CHECK(h.says("was never asked: #5 "));
  }

  TEST_CASE("history: ran twice") {
    right_history h;
    h.all[2].runs = 2;
    CHECK(h.says("ran more than once: #2 "));
  }

  TEST_CASE("history: refused and ran all the same") {
    right_history h;
    h.all[2].end = outcome::refused;
    CHECK(h.says("ran unasked: #2 "));
  }

  TEST_CASE("history: one saw another inside") {
    right_history h;
    h.all[1].together_with = 3;
    const std::string what = h.violation();
    CHECK(h.says("ran at the same time: #1 "));
    CHECK(what.find("and #3 ") != std::string::npos);
  }

  TEST_CASE("history: two have the same number") {
    right_history h;
    h.all[2].sequence = 1;
    CHECK(h.says("ran at the same time: #1 "));
  }

  TEST_CASE("history: a number is missing") {
    right_history h;
    h.all[3].sequence = 4;
    CHECK(h.says("a run is missing before: #3 "));
  }

  TEST_CASE("history: against the order of tickets") {
    right_history h;
    swap_runs(h.all, 1, 2);
    const std::string what = h.violation();
    CHECK(h.says("ran against the order of tickets: #2 "));
    CHECK(what.find("and #1 ") != std::string::npos);
  }

  TEST_CASE("history: one in line is overtaken by one asked for later") {
    right_history h;
    for (record& r : h.all) r.ticket = stress::unknown;
    swap_runs(h.all, 1, 2);
    CHECK(h.says("ran before one that was in line already: #2 "));
  }

  TEST_CASE("history: one that was answered is overtaken by one asked for later") {
    right_history h;
    for (record& r : h.all) {
      r.ticket = stress::unknown;
      r.accepted = 0;
      r.responded = r.invoked + 1;
    }
    swap_runs(h.all, 0, 3);
    CHECK(h.says("ran before one that was in line already: #3 "));
  }

  TEST_CASE("history: no order is asked of those that were under way together") {
    right_history h;
    for (record& r : h.all) {
      r.ticket = stress::unknown;
      r.accepted = 0;
    }
    swap_runs(h.all, 1, 2);
    CHECK(h.violation() == "");
  }

  TEST_CASE("history: a body did not see what the one before left") {
    right_history h;
    h.all[2].got = h.all[2].result = stress::applied(h.all[0].result, h.all[2].given);
    const std::string what = h.violation();
    CHECK(h.says("did not go on with the value left: #1 "));
    CHECK(what.find("and #2 ") != std::string::npos);
  }

  TEST_CASE("history: the first body saw something else than the beginning") {
    right_history h;
    ++h.all[0].result;
    CHECK(h.says("did not begin with the first value: #0 "));
  }

  TEST_CASE("history: an asker got what was not its own") {
    right_history h;
    h.all[2].got = h.all[1].got;
    CHECK(h.says("the asker got another result: #2 "));
  }

  TEST_CASE("history: accepted after the close was over") {
    right_history h;
    h.all[4].responded = 35;
    CHECK(h.says("accepted although it was closed: #4 "));
  }

  TEST_CASE("history: accepted after another one was refused") {
    right_history h;
    h.all.push_back(refused(5, 15));
    h.all[4].invoked = 14;
    CHECK(h.says("accepted although it was closed: #5 "));
  }

  TEST_CASE("history: refused before anybody closes") {
    right_history h;
    h.all.push_back(refused(5, 45));
    CHECK(h.says("refused although nobody closes: #5 "));
  }

  TEST_CASE("history: refused where nobody ever closes") {
    right_history h;
    h.all[4] = refused(4, 300);
    CHECK(h.says("refused although nobody closes: #4 "));
  }

  TEST_CASE("history: a close that comes back before the end") {
    right_history h;
    h.all[4].got = 3;
    CHECK(h.says("went on before, or not at, the end: #4 "));
  }
}
