// overflow.cpp - a fiber that needs more stack than it has says so. A program of its own: the
// handler is installed only where nobody else has one.

#include "support/child_process.hpp"

#include <turnstile/fiber.hpp>
#include <turnstile/manual_executor.hpp>

#include <csignal>
#include <cstdio>

namespace {

[[gnu::noinline]] int go_deep(int calls) {
  volatile char some[512];
  some[0] = static_cast<char>(calls);
  return calls == 0 ? 0 : go_deep(calls - 1) + some[0];
}

void overflow() {
  turnstile::manual_executor here;
  const auto parse = [] { return go_deep(1'000'000); };
  auto f = turnstile::spawn_fiber(here, parse, {.name = "parser", .stack_size = 16384});
  here.run();
}

void write_to_null() {
  turnstile::manual_executor here;
  turnstile::spawn_fiber(here, [] {});
  here.run();
  *static_cast<volatile int*>(nullptr) = 1;
}

// Nothing in the program is at fault, and nothing is tried again.
void get_sent_one() {
  turnstile::manual_executor here;
  turnstile::spawn_fiber(here, [] {});
  here.run();
  kill(getpid(), SIGSEGV);
}

}  // namespace

int main() {
  const auto end = support::in_child(&overflow);
  const bool told = end.says("turnstile: fiber \"parser\": its stack of 16384 bytes overflowed") &&
                    end.one_line();
  const auto other = support::in_child(&write_to_null);
  const auto sent = support::in_child(&get_sent_one);
  std::printf("%sand of another fault: \"%s\"; one that was sent: signal %d\n", end.said.c_str(),
              other.said.c_str(), sent.signal);
  const bool ends = end.signal == SIGSEGV && other.signal == SIGSEGV && sent.signal == SIGSEGV;
  return told && ends && other.said.empty() && sent.said.empty() ? 0 : 1;
}
