// 01_first_section - many coroutines, one number, and no update is lost.
//
// You learn  how a coroutine runs a function alone, and that waiting for it blocks no thread.
// Builds on  nothing
// Prints     1000 deposits of 1: the balance is 1000

#include <turnstile/turnstile.hpp>

#include <iostream>

turnstile::critical_section account{"account"};
long balance = 0;

turnstile::task<> deposit(long amount) {
  co_await account.execute([&] { balance += amount; });
}

turnstile::task<> make_deposits(turnstile::thread_pool& pool) {
  turnstile::async_scope scope{{.executor = pool}};
  for (int i = 0; i < 1000; ++i) scope.spawn(deposit(1));
  co_await scope.join();
}

int main() {
  turnstile::thread_pool pool{2};
  turnstile::sync_wait(make_deposits(pool));
  std::cout << "1000 deposits of 1: the balance is " << balance << '\n';
}
