// Says where it runs, measures every case that the command line asked for, and ends with an error
// if any case found a wrong answer.

#include "support/case_table.hpp"
#include "support/round_trip.hpp"
#include "support/work.hpp"

#include <benchmark/benchmark.h>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <thread>

namespace {

#if defined(__clang__)
constexpr std::string_view compiler = "clang " __clang_version__;
#else
constexpr std::string_view compiler = "g++ " __VERSION__;
#endif

#if defined(__OPTIMIZE__) && defined(NDEBUG)
constexpr std::string_view build = "release";
#else
constexpr std::string_view build = "not a release build: its times mean nothing";
#endif

// What was not there when this was built, and what is not there now.
std::string left_out() {
  std::string all = BENCH_LEFT_OUT;
  if (!all.empty() && !bench::left_out_here().empty()) all += "; ";
  return all + bench::left_out_here();
}

// What a reader of the numbers must know, also printed by `--context` alone.
std::map<std::string, std::string> context() {
  return {
      {"build", std::string(build)},
      {"compiler", std::string(compiler)},
      {"cores", std::to_string(std::thread::hardware_concurrency())},
      {"left_out", left_out()},
      {"line_round_trip_ns", std::to_string(bench::line_round_trip().count())},
      {"round_ms", std::to_string(bench::round_milliseconds())},
      {"step_ns", std::to_string(bench::step_nanoseconds())},
      {"steps_in_215ns", std::to_string(bench::steps_lasting(215))},
  };
}

// Takes our own arguments away from Google Benchmark, which would not know them. The result says
// whether only the context is wanted.
bool take_own_arguments(int& argc, char** argv) {
  constexpr std::string_view round_ms = "--round_ms=";
  constexpr std::string_view step_ns = "--step_ns=";
  bool only_context = false;
  int kept = 0;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--context") {
      only_context = true;
    } else if (argument == "--shares") {
      bench::measures_shares() = true;
    } else if (argument.starts_with(round_ms)) {
      bench::round_milliseconds() = std::strtod(argv[i] + round_ms.size(), nullptr);
    } else if (argument.starts_with(step_ns)) {
      bench::given_step_nanoseconds() = std::strtod(argv[i] + step_ns.size(), nullptr);
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return only_context;
}

}  // namespace

int main(int argc, char** argv) {
  const bool only_context = take_own_arguments(argc, argv);
  if (!(bench::round_milliseconds() > 0)) {
    std::cerr << "--round_ms wants a number of milliseconds above 0\n";
    return EXIT_FAILURE;
  }
  if (only_context) {
    for (const auto& [name, value] : context()) std::cout << name << ": " << value << '\n';
    return EXIT_SUCCESS;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  for (const auto& [name, value] : context()) benchmark::AddCustomContext(name, value);
  bench::register_cases();
  benchmark::RunSpecifiedBenchmarks();
  return bench::any_refused() ? EXIT_FAILURE : EXIT_SUCCESS;
}
