// world.hpp - what code under the checker calls: the operations of one execution.
//
// An execution runs a scenario's threads as fibers on the calling thread, one at a time. Before
// each operation that could meet another thread's, the running fiber asks whoever decides
// (choices.hpp) who goes next; what a load may see is decided likewise (memory.hpp). The first
// thing that goes wrong ends the process with a report (trace.hpp), for code that is noexcept
// cannot be unwound.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string_view>

namespace schedule {

using site = std::source_location;

inline constexpr int max_threads = 8;

// True on a fiber of an execution.
bool active() noexcept;

// --- objects ------------------------------------------------------------------------------------

void begin_life(const void* object) noexcept;
void end_life(const void* object) noexcept;

// --- atomics ------------------------------------------------------------------------------------

// An atomic, and its value outside the execution.
struct cell {
  const void* at;
  std::uint64_t value;
};

struct swap_orders {
  std::memory_order success, failure;
  bool weak;
};

std::uint64_t load(cell c, std::memory_order o, const site& at) noexcept;
void store(cell c, std::uint64_t value, std::memory_order o, const site& at) noexcept;
// A read-modify-write is these two; nothing comes between them.
std::uint64_t begin_change(cell c, std::memory_order o, const char* what, const site& at) noexcept;
void finish_change(std::uint64_t value) noexcept;
bool swap_if(cell c, std::uint64_t& expected, std::uint64_t desired, swap_orders orders,
             const site& at) noexcept;
void wait(cell c, std::uint64_t old, std::memory_order o, const site& at) noexcept;
void notify(const void* at, int how_many, const site& from) noexcept;

// --- statistics ---------------------------------------------------------------------------------

void use_statistic(const void* at, std::memory_order o) noexcept;

// --- plain fields -------------------------------------------------------------------------------

[[gnu::noinline]] void read_plain(const void* field) noexcept;
[[gnu::noinline]] void write_plain(const void* field) noexcept;

// --- threads, locks, time -----------------------------------------------------------------------

int start(std::function<void()> work);
void join(int thread) noexcept;
void lock(const void* mutex) noexcept;
void unlock(const void* mutex) noexcept;
// The thread can do nothing until another one has done something.
void pause(std::chrono::nanoseconds time = std::chrono::microseconds(1)) noexcept;
std::chrono::nanoseconds now() noexcept;

// --- scenarios ----------------------------------------------------------------------------------

// Says what went wrong, with the interleaving, and ends the process.
[[noreturn]] void fail(std::string_view what) noexcept;
inline void require(bool holds, std::string_view what) noexcept {
  if (!holds) fail(what);
}
// 0 to n - 1, every one of them in a search.
unsigned any_of(unsigned n) noexcept;

}  // namespace schedule
