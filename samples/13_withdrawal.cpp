// 13_withdrawal - three wait for a door that somebody holds, and two of them do not wait to the
// end.
//
// You learn  how to limit a wait by a time and by a token: the waiter gets an error at once,
//            although the section stays held, and nothing changes for its holder or for those
//            behind.
// Builds on  01_first_section
// Prints     3 wait
//            bob gave up: a stop was requested
//            ann gave up: it took too long
//            the door is held, 1 waits, 2 were withdrawn
//            cid is in

#include <turnstile/turnstile.hpp>

#include <chrono>
#include <iostream>
#include <stop_token>

using namespace std::chrono_literals;

turnstile::critical_section door{"door"};

// Takes the token itself: execute_options only refer to one, for the length of a call, and this
// coroutine starts later.
turnstile::task<> enter(const char* who,
                        std::chrono::steady_clock::time_point deadline = turnstile::never,
                        std::stop_token stop = {}) {
  try {
    co_await door.execute([who] { std::cout << who << " is in\n"; },
                          {.stop = stop, .deadline = deadline});
  } catch (const turnstile::deadline_exceeded&) {
    std::cout << who << " gave up: it took too long\n";
  } catch (const turnstile::operation_cancelled&) {
    std::cout << who << " gave up: a stop was requested\n";
  }
}

int main() {
  turnstile::manual_clock clock;  // its time passes when it is told to
  turnstile::manual_executor thread;
  turnstile::async_scope scope{{.executor = thread}};
  std::stop_source bob_goes_home;

  turnstile::section_guard held = door.try_lock().value();
  scope.spawn(enter("ann", clock.now() + 1s));
  scope.spawn(enter("bob", turnstile::never, bob_goes_home.get_token()));
  scope.spawn(enter("cid"));
  thread.run();
  std::cout << door.statistics().waiters << " wait\n";

  bob_goes_home.request_stop();
  thread.run();
  clock.advance(1s);
  thread.run();
  const turnstile::section_statistics now = door.statistics();
  std::cout << "the door is " << (now.held ? "held, " : "free, ") << now.waiters << " waits, "
            << now.withdrawn << " were withdrawn\n";

  held.unlock();
  thread.run();
  turnstile::sync_wait(scope.join());
}
