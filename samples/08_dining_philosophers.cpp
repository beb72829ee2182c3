// 08_dining_philosophers - five who each need two forks at once, and nobody starves.
//
// You learn  how to enter several sections at once: in whatever order they are named, nobody waits
//            in a circle, and the waiting blocks no thread.
// Builds on  02_two_sections
// Prints     each of 5 philosophers ate 1000 times
//            each fork was used 2000 times

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <array>
#include <iostream>
#include <tuple>

constexpr std::size_t seats = 5;
constexpr int meals = 1000;

// A fork is a section with its data: how often it was used.
using table_fork = turnstile::synchronized<int>;

// Everybody takes the left fork first, which with locks would sooner or later hang the table.
turnstile::task<> dine(table_fork& left, table_fork& right, int& eaten) {
  auto eat = [&](int& uses_of_left, int& uses_of_right) {
    ++uses_of_left;
    ++uses_of_right;
    ++eaten;
  };
  while (eaten != meals) co_await turnstile::execute(std::tie(left, right), eat);
}

turnstile::task<> dinner(turnstile::thread_pool& pool) {
  std::array<table_fork, seats> forks;
  std::array<int, seats> eaten{};

  turnstile::async_scope table{{.executor = pool}};
  for (std::size_t seat = 0; seat < seats; ++seat) {
    table.spawn(dine(forks[seat], forks[(seat + 1) % seats], eaten[seat]));
  }
  co_await table.join();

  if (std::ranges::count(eaten, meals) == seats) {
    std::cout << "each of " << seats << " philosophers ate " << meals << " times\n";
  }
  bool even = true;
  for (table_fork& f : forks)
    even = co_await f.execute([](int& uses) { return uses; }) == 2 * meals && even;
  if (even) std::cout << "each fork was used " << 2 * meals << " times\n";
}

int main() {
  turnstile::thread_pool pool{2};
  turnstile::sync_wait(dinner(pool));
}
