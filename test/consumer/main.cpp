// main.cpp - a program outside the project: it sees the public headers and links the library.
//
// Built by each way into the library that the README names; see build_outside.py.
#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <cstdio>

namespace {

turnstile::critical_section accounts{"accounts"};
long balance = 0;
turnstile::variable<std::size_t> deposits{0};

turnstile::task<long> deposit(long amount) {
  deposits.assign_add(1);
  co_return co_await accounts.execute([&] { return balance += amount; });
}

turnstile::task<> deposit_often(int times) {
  for (int i = 0; i < times; ++i) {
    co_await deposit(1);
  }
}

turnstile::task<> deposit_from_both_sides(turnstile::thread_pool& pool, int times) {
  co_await turnstile::when_all(turnstile::fork(deposit_often(times)),
                               turnstile::schedule_on(pool, deposit_often(times)));
}

// Enough for a stack to overflow where tail calls are missing (include/README.md, Compilers).
constexpr int times_each = 50'000;

// A program and a shared library have to agree on which executor somebody refers to.
turnstile::task<bool> agrees_where_it_runs(turnstile::thread_pool& pool) {
  co_return turnstile::detail::here().runs_on == turnstile::executor_ref(pool);
}

}  // namespace

int main() {
  turnstile::thread_pool pool{2};
  turnstile::sync_wait(deposit_from_both_sides(pool, times_each));
  if (!turnstile::sync_wait(turnstile::schedule_on(pool, agrees_where_it_runs(pool)))) return 2;
  std::printf("%.*s: %ld\n", static_cast<int>(accounts.name().size()), accounts.name().data(),
              balance);
  return balance == 2L * times_each && *deposits.read() == std::size_t{2} * times_each ? 0 : 1;
}
