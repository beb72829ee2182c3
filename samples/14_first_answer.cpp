// 14_first_answer - three places are asked, the first answer is taken, and the others are told to
// stop.
//
// You learn  that when_any withdraws those that come too late, wherever they wait, and goes on when
//            they have ended; and that timeout does the same when its time is over.
// Builds on  13_withdrawal
// Prints     the answer is from near
//            far: turnstile: cancelled, because a stop was requested
//            cache: turnstile: a request to section "cache" was withdrawn, because a stop was requested
//            the cache alone, for 20 ms: turnstile: the time given to this was over
//            whoever holds the cache holds it still

#include <turnstile/turnstile.hpp>

#include <chrono>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using answer = turnstile::task<std::string>;

turnstile::critical_section cache{"cache"};

answer ask_cache() {
  co_return co_await cache.execute([] { return "the cache"; });
}

answer ask_mirror(const char* name, std::chrono::milliseconds distance) {
  co_await turnstile::sleep_for(distance);
  co_return name;
}

// A stop comes as an error out of what is waited for, so everything on the way is cleaned up.
answer noted(answer asked, std::string& end) {
  try {
    co_return co_await std::move(asked);
  } catch (const turnstile::operation_cancelled& e) {
    end = e.what();
    throw;
  }
}

turnstile::task<> ask_all() {
  std::string far;
  std::string busy;
  std::vector<answer> asked;
  asked.push_back(noted(ask_mirror("far", 50ms), far));
  asked.push_back(noted(ask_cache(), busy));
  asked.push_back(ask_mirror("near", 10ms));
  const auto first = co_await turnstile::when_any(std::move(asked));  // first.index is 2
  std::cout << "the answer is from " << first.value << "\nfar: " << far << "\ncache: " << busy
            << '\n';

  try {
    co_await turnstile::timeout(ask_cache(), 20ms);
  } catch (const turnstile::deadline_exceeded& e) {
    std::cout << "the cache alone, for 20 ms: " << e.what() << '\n';
  }
}

int main() {
  turnstile::manual_clock clock;
  turnstile::manual_executor thread;
  turnstile::async_scope scope{{.executor = thread}};
  const turnstile::section_guard held = cache.try_lock().value();

  scope.spawn(ask_all());
  for (thread.run(); clock.pending() != 0; thread.run()) clock.advance(10ms);
  turnstile::sync_wait(scope.join());
  if (cache.statistics().held) std::cout << "whoever holds the cache holds it still\n";
}
