// 15_fail_fast - one of three fails, and the other two do not go on for nothing.
//
// You learn  that the first error in a scope can stop the rest of its work: what waits in the
//            library is withdrawn, what computes looks at a token; and that join throws the cause,
//            not what followed from it.
// Builds on  10_bounded_buffer, 14_first_answer
// Prints     all have ended: out of ink
//            the reader was withdrawn
//            the counting has stopped

#include <turnstile/turnstile.hpp>

#include <exception>
#include <iostream>
#include <stdexcept>
#include <stop_token>

turnstile::synchronized<int> pages{0};

turnstile::task<> write_five() {
  for (int page = 1; page != 6; ++page) {
    if (page == 4) throw std::runtime_error("out of ink");
    co_await pages.execute([](int& written) { ++written; });
  }
}

// Would wait for ever: nobody writes the other two pages.
turnstile::task<> read_five(bool& withdrawn) {
  try {
    co_await pages.execute_when([](const int& written) { return written == 5; }, [](int&) {});
  } catch (const turnstile::operation_cancelled&) {
    withdrawn = true;
    throw;
  }
}

// Waits for nobody, so there is nothing to withdraw.
turnstile::task<> count_on(long& counted, bool& stopped) {
  const std::stop_token stop = co_await turnstile::current_stop_token();
  while (!stop.stop_requested()) {
    ++counted;
    co_await turnstile::yield();
  }
  stopped = true;
}

int main() {
  bool withdrawn = false;
  long counted = 0;  // until somebody fails
  bool stopped = false;
  turnstile::thread_pool pool{2};
  turnstile::async_scope scope{{.fail_fast = true, .executor = pool}};
  scope.spawn(read_five(withdrawn));
  scope.spawn(count_on(counted, stopped));
  scope.spawn(write_five());
  try {
    turnstile::sync_wait(scope.join());
  } catch (const std::exception& e) {
    std::cout << "all have ended: " << e.what() << '\n';
  }
  if (withdrawn) std::cout << "the reader was withdrawn\n";
  if (stopped) std::cout << "the counting has stopped\n";
}
