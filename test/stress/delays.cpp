// delays.cpp - when, how long, and how often it happened. Here and not in the header, so that no
// compiler keeps the place of a thread's variables across a co_await.

#include "stress/delays.hpp"

#include "stress/dice.hpp"
#include "stress/history.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace stress {

namespace {

// Relaxed throughout: none of these may order what the library has to order.
using std::memory_order_relaxed;

std::atomic<std::uint32_t> rough{0};
std::atomic<std::uint32_t> one_claim_in{0};
std::atomic<std::uint64_t> times_held_up{0};
std::atomic<std::uint64_t> times_parked{0};
std::atomic<std::uint64_t> times_taken_over{0};

constinit thread_local std::uint32_t numbers = 0;
constinit thread_local record* claimant = nullptr;

std::uint32_t first_number() noexcept {
  static std::atomic<std::uint32_t> threads{0};
  const std::uint32_t n = threads.fetch_add(1, memory_order_relaxed) + 1;
  return (seed() + n * 0x9E3779B9u) | 1;  // never 0, which xorshift would keep
}

std::uint32_t next_number() noexcept {
  std::uint32_t x = numbers == 0 ? first_number() : numbers;
  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  return numbers = x;
}

void spin(std::uint32_t n) noexcept {
  for (; n != 0; --n) std::atomic_signal_fence(std::memory_order_seq_cst);  // keeps the loop
}

void nap(std::uint32_t number) noexcept {
  std::this_thread::sleep_for(std::chrono::microseconds(10 + number % 40));
}

void count(std::atomic<std::uint64_t>& n) noexcept { n.fetch_add(1, memory_order_relaxed); }

// Between claim and publish.
void hold_up() noexcept {
  count(times_held_up);
  const std::uint32_t number = next_number();
  if (number % 2 == 0) {
    std::this_thread::yield();
  } else {
    nap(number >> 8);
  }
}

// The layout of ticket_word.hpp, which keeps it to itself.
constexpr int ticket_shift = 26;
constexpr std::uint64_t closed_bit = std::uint64_t{1} << 25;
constexpr std::uint64_t pending_mask = closed_bit - 1;

}  // namespace

void use(delay_rates rates) noexcept {
  rough.store(rates.rough, memory_order_relaxed);
  one_claim_in.store(rates.one_claim_in, memory_order_relaxed);
}

delay_counts counted_delays() noexcept {
  return {.held_up = times_held_up.load(memory_order_relaxed),
          .parked = times_parked.load(memory_order_relaxed),
          .taken_over = times_taken_over.load(memory_order_relaxed)};
}

void delay() noexcept {
  const std::uint32_t often = rough.load(memory_order_relaxed);
  if (often == 0) return;
  const std::uint32_t number = next_number();
  const std::uint32_t chance = number % 4096;
  if (chance >= often * 64) return;
  if (chance < often) {
    nap(number >> 12);
  } else if (chance < often * 8) {
    std::this_thread::yield();
  } else {
    spin(number >> 26);
  }
}

void expect_claim(record* r) noexcept { claimant = r; }

void claimed(std::uint64_t word) noexcept {
  if (claimant != nullptr) {
    claimant->ticket = word >> ticket_shift;
    claimant->accepted = stamp();
    claimant = nullptr;
  }
  const bool busy = (word & pending_mask) != 0 && (word & closed_bit) == 0;
  const std::uint32_t n = one_claim_in.load(memory_order_relaxed);
  if (busy && n != 0 && next_number() % n == 0) hold_up();
}

void parked() noexcept { count(times_parked); }
void taken_over() noexcept { count(times_taken_over); }

}  // namespace stress
