// paths.cpp - one way through a section, N times: what check.py counts the instructions of.
//
//     paths PATH N
//
// Nothing here depends on time, or on another thread: two runs with the same N are the same
// instructions.
// Ends with 77 on a machine where no section is ever kept.

#include <turnstile/detail/keeper.hpp>
#include <turnstile/turnstile.hpp>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <stop_token>
#include <string_view>

using namespace turnstile;

// Whoever serves looks at the clock, and looks again the sooner the slower the bodies are, as they
// are here.
// This one stands still.
extern "C" std::int64_t standing_still() asm("__wrap__ZNSt6chrono3_V212steady_clock3nowEv");
extern "C" std::int64_t standing_still() { return 1; }

namespace {

task<> execute(critical_section& cs, long n, long& sum) {
  for (long i = 0; i != n; ++i) co_await cs.execute([&sum] { ++sum; });
}

task<> execute_with(critical_section& cs, std::stop_token stop, long n, long& sum) {
  const execute_options options{.stop = stop};
  for (long i = 0; i != n; ++i) co_await cs.execute([&sum] { ++sum; }, options);
}

task<> lock(critical_section& cs, long n, long& sum) {
  for (long i = 0; i != n; ++i) {
    const section_guard guard = co_await cs.lock();
    ++sum;
  }
}

void uncontended(long n, long& sum) {
  critical_section cs;
  sync_wait(execute(cs, n, sum));
}

void with_a_token(long n, long& sum) {
  critical_section cs;
  const std::stop_source source;
  sync_wait(execute_with(cs, source.get_token(), n, sum));
}

// 64 coroutines queue behind a guard, again and again: its unlocking serves 32, a job of the
// section the others, and both hand them back.
void queued(long n, long& sum) {
  constexpr long coroutines = 64;
  manual_executor home;
  critical_section cs;
  async_scope scope{{.executor = home}};
  for (long i = 0; i != coroutines; ++i) scope.spawn(execute(cs, n / coroutines, sum));
  for (long i = 0; i != n / coroutines; ++i) {
    std::optional<section_guard> busy;
    while (!(busy = cs.try_lock())) home.run_one();
    busy->detach();  // nobody in particular holds it
    home.run();
  }
  home.run();
  sync_wait(scope.join());
}

void blocking(long n, long& sum) {
  critical_section cs;
  for (long i = 0; i != n; ++i) cs.execute_blocking([&sum] { ++sum; });
}

void guards(long n, long& sum) {
  critical_section cs;
  sync_wait(lock(cs, n, sum));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "paths PATH N\n";
    return EXIT_FAILURE;
  }
  const std::string_view path = argv[1];
  const long n = std::atol(argv[2]);
  if (detail::keeper_of_this_thread() == nullptr) return 77;

  long sum = 0;
  bool is_known = true;
  if (path == "kept") {
    uncontended(n, sum);
  } else if (path == "kept, token") {
    with_a_token(n, sum);
  } else if (path == "not kept") {
    detail::keeping::is_on = false;
    uncontended(n, sum);
  } else if (path == "queued") {
    queued(n, sum);
  } else if (path == "blocking, kept") {
    blocking(n, sum);
  } else if (path == "lock, kept") {
    guards(n, sum);
  } else if (path == "lock, not kept") {
    detail::keeping::is_on = false;
    guards(n, sum);
  } else {
    is_known = false;
  }
  if (is_known && sum == n) return EXIT_SUCCESS;
  std::cerr << path << ": " << sum << " bodies ran, not " << n << '\n';
  return EXIT_FAILURE;
}
