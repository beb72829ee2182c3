#include "support/shape.hpp"

#include "support/work.hpp"

#include <algorithm>
#include <string_view>
#include <thread>

namespace bench {
namespace {

std::string_view name_of(length l) {
  switch (l) {
    case length::none: return "none";
    case length::ns_215: return "215ns";
    case length::ns_250: return "250ns";
    case length::steps_1000: return "1000steps";
    case length::line_1: return "1line";
    case length::lines_8: return "8lines";
    case length::lines_64: return "64lines";
    case length::lines_8_ns_100: return "8lines_100ns";
    case length::us_5: return "5us";
    case length::us_20: return "20us";
    case length::us_100: return "100us";
  }
  return {};
}

std::string_view name_of(choice c) {
  switch (c) {
    case choice::only: return "only";
    case choice::uniform: return "uniform";
    case choice::skewed: return "skewed";
  }
  return {};
}

}  // namespace

std::string letters_of(const shape& s) {
  std::string letters = "T:" + std::to_string(s.threads) + "/N:" + std::to_string(s.clients) +
                        "/S:" + std::to_string(s.sections);
  letters.append("/B:").append(s.body == length::none ? "tiny" : name_of(s.body));
  letters.append("/W:").append(name_of(s.work));
  if (s.choose != choice::only) letters.append("/C:").append(name_of(s.choose));
  if (s.capacity != 0) letters.append("/K:").append(std::to_string(s.capacity));
  return letters;
}

std::vector<std::size_t> thread_counts() {
  std::vector<std::size_t> counts{1};
  const std::size_t cores = std::thread::hardware_concurrency();
  for (std::size_t n = 2; n <= std::max<std::size_t>(cores, 8); n *= 2) counts.push_back(n);
  return counts;
}

std::vector<std::size_t> several_threads() {
  std::vector<std::size_t> counts = thread_counts();
  counts.erase(counts.begin());
  return counts;
}

std::uint64_t steps_of(length l) {
  switch (l) {
    case length::ns_215: return steps_lasting(215);
    case length::ns_250: return steps_lasting(250);
    case length::steps_1000: return 1000;
    case length::lines_8_ns_100: return steps_lasting(100) / 8;
    default: return 0;
  }
}

std::chrono::microseconds microseconds_of(length l) {
  switch (l) {
    case length::us_5: return std::chrono::microseconds(5);
    case length::us_20: return std::chrono::microseconds(20);
    case length::us_100: return std::chrono::microseconds(100);
    default: return {};
  }
}

std::size_t lines_of(length l) {
  switch (l) {
    case length::line_1: return 1;
    case length::lines_8:
    case length::lines_8_ns_100: return 8;
    case length::lines_64: return 64;
    default: return 0;
  }
}

}  // namespace bench
