// 06_five_workers - five workers change one tensor, and most of their work is lost; or none.
//
// You learn  that an atomic read and an atomic write do not make an atomic change, and that a
//            section does, also when its body waits in between.
// Builds on  04_bad_sum, 05_snapshots
// Prints     without a section: 3 of 15 updates are left, the sum is 12
//            with a section: 15 of 15 updates are left, the sum is 60

#include <turnstile/turnstile.hpp>

#include <array>
#include <iostream>
#include <numeric>

using tensor = std::array<long, 4>;

constexpr int workers = 5;
constexpr int rounds = 3;

turnstile::variable<tensor> shared{tensor{}, "shared"};

// Adds 1 to every element. Whatever is assigned between the read and the assign is overwritten.
// (Without the wait, shared.update(...) would do all of it in one atomic step.)
turnstile::task<> add_one() {
  tensor next = *shared.read();
  co_await turnstile::yield();  // the thread goes to the next worker
  for (long& element : next) ++element;
  shared.assign(next);
}

turnstile::task<> work_without_section() {
  for (int i = 0; i != rounds; ++i) co_await add_one();
}

turnstile::critical_section section{"tensor"};

// The body is the function itself. The task that it returns is awaited with the section held.
turnstile::task<> work_with_section() {
  for (int i = 0; i != rounds; ++i) co_await section.execute(add_one);
}

// One thread that takes turns: the updates are lost in the same way in every run.
void run_five(const char* how, turnstile::task<> (*work)()) {
  shared.assign(tensor{});
  turnstile::manual_executor thread;
  turnstile::async_scope scope{{.executor = thread}};
  for (int i = 0; i != workers; ++i) scope.spawn(work());
  thread.run();
  turnstile::sync_wait(scope.join());

  const turnstile::snapshot<tensor> now = shared.read();
  std::cout << how << " a section: " << now->front() << " of " << workers * rounds
            << " updates are left, the sum is " << std::accumulate(now->begin(), now->end(), 0L)
            << '\n';
}

int main() {
  run_five("without", work_without_section);
  run_five("with", work_with_section);
}
