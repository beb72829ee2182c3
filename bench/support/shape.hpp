// shape.hpp - the letters of a case.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

namespace bench {

inline constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

enum class length {
  none,
  ns_215,
  ns_250,
  steps_1000,
  line_1,
  lines_8,
  lines_64,
  lines_8_ns_100,
  us_5,  // us: by the clock
  us_20,
  us_100,
};
enum class choice { only, uniform, skewed };

struct shape {
  std::size_t threads;           // T
  std::size_t clients;           // N, plain threads or coroutines
  std::size_t against;           // the T of the plain threads that this case is compared with
  length body = length::none;    // B
  length work = length::none;    // W, private, between two requests; of a device: the kernel
  std::size_t sections = 1;      // S
  choice choose = choice::only;  // C
  std::size_t capacity = 0;      // K, of a buffer; 0: there is none
  double round_factor = 1;       // how many times the usual length a round has
};

// The letters as they stand in the name of a case: T:2/N:64/S:1/B:tiny/W:215ns.
std::string letters_of(const shape&);

// How many steps of work.hpp that is on this machine; in a length of lines, for each of them.
std::uint64_t steps_of(length);
// By the clock.
std::chrono::microseconds microseconds_of(length);
// How many cache lines are written; 0: it is no such length.
std::size_t lines_of(length);

// 1, 2, 4 and 8 threads, however few cores there are, and from there on doubled up to their number.
std::vector<std::size_t> thread_counts();
// The same from 2 on.
std::vector<std::size_t> several_threads();

// On plain threads every client is a thread; elsewhere each number of clients is a case.
template <class Contender>
std::vector<std::size_t> clients_on(std::size_t threads,
                                    std::initializer_list<std::size_t> clients) {
  if constexpr (Contender::clients_are_threads) return {threads};
  return clients;
}

}  // namespace bench
