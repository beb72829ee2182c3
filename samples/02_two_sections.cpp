// 02_two_sections - move money between two accounts, each behind its own section.
//
// You learn  how to hold one section while waiting for another, and that asking again for one
//            you already hold is an error that names the way there, not a hang.
// Builds on  01_first_section
// Prints     moved 30: left 70, right 130
//            refused: left -> left
//            nothing moved: left 70, right 130

#include <turnstile/turnstile.hpp>

#include <iostream>
#include <string>

struct account {
  turnstile::critical_section section;
  long balance = 100;
};

// The outer body returns a task, so `from` stays held until `to` had its turn: nobody sees the
// money in neither account, nor in both. If the inner await throws, nothing has changed yet.
//
// Two such transfers in opposite directions could wait for each other. Programs that move money
// both ways should agree on an order in which to enter, or enter both sections at once
// (08_dining_philosophers).
turnstile::task<> move_money(account& from, account& to, long amount) {
  co_await from.section.execute([&]() -> turnstile::task<> {
    co_await to.section.execute([&] { to.balance += amount; });
    from.balance -= amount;
  });
}

std::string names(const turnstile::deadlock_error& error) {
  std::string line;
  for (const turnstile::path_step& step : error.path()) {
    line += (line.empty() ? "" : " -> ") + step.section;
  }
  return line;
}

int main() {
  account left{turnstile::critical_section{"left"}};
  account right{turnstile::critical_section{"right"}};
  const auto print = [&](const char* event) {
    std::cout << event << ": left " << left.balance << ", right " << right.balance << '\n';
  };

  turnstile::sync_wait(move_money(left, right, 30));
  print("moved 30");

  try {
    turnstile::sync_wait(move_money(left, left, 30));
  } catch (const turnstile::reentry_error& error) {
    std::cout << "refused: " << names(error) << '\n';
  }
  print("nothing moved");
}
