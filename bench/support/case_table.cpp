#include "support/case_table.hpp"

#include <algorithm>
#include <string>
#include <tuple>

namespace bench {
namespace {

bool refused = false;

auto place_of(const bench_case& c) {
  const shape& s = c.letters;
  return std::tuple(c.question, s.body, s.work, s.sections, s.choose, s.capacity, s.against,
                    s.threads, s.clients, c.contender);
}

std::string name_of(const bench_case& c) {
  return std::string(c.question).append("/").append(c.contender) + "/" + letters_of(c.letters);
}

void register_one(const bench_case& c) {
  benchmark::RegisterBenchmark(name_of(c).c_str(),
                               [&c](benchmark::State& state) { c.measure(state, c.letters); })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace

std::vector<bench_case>& cases() {
  static std::vector<bench_case> all;
  return all;
}

std::string& left_out_here() {
  static std::string what;
  return what;
}

void register_cases() {
  std::sort(cases().begin(), cases().end(),
            [](const bench_case& a, const bench_case& b) { return place_of(a) < place_of(b); });
  for (const bench_case& c : cases()) register_one(c);
}

double& round_milliseconds() {
  static double length = 40;
  return length;
}

bool& measures_shares() {
  static bool asked = false;
  return asked;
}

void refuse(benchmark::State& state, const char* why) {
  refused = true;
  state.SkipWithError(why);
}

bool any_refused() { return refused; }

}  // namespace bench
