// case_table.hpp - all cases of an executable, in the order in which they run.
#pragma once

#include "support/shape.hpp"

#include <benchmark/benchmark.h>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

using measurement = std::function<void(benchmark::State&, const shape&)>;

struct bench_case {
  std::string_view question;
  std::string_view contender;
  shape letters;
  measurement measure;
};

// Filled while the program starts, by the contenders' files.
std::vector<bench_case>& cases();

// What cannot be measured on this machine, and why; filled beside the cases.
std::string& left_out_here();

// What is compared with one another runs one after the other, so that a machine that becomes slow
// or fast touches both sides of a ratio.
void register_cases();

// The length of a round that the command line asked for.
double& round_milliseconds();

// Whether it asked for the clients' shares, which take a run of their own.
bool& measures_shares();

// Ends the case, and in the end the program, with an error.
void refuse(benchmark::State& state, const char* why);
bool any_refused();

}  // namespace bench
