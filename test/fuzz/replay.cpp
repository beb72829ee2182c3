// replay.cpp - runs programs without libFuzzer: those in files, and random ones.
//
//   fuzz_replay [--tell] [--random COUNT --seed N] FILE_OR_FOLDER...
//
// --tell says on stderr what each request does. Random programs come from the seed alone; the
// number of the one that fails is said, and `--only NUMBER` runs just that one.

#include "fuzz/interpreter.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace {

namespace fs = std::filesystem;

std::string running;  // what the program under way is called

void say_which(int) {
  // Not more than write: the process is on its way out, wherever it was.
  const std::string_view before = "fuzz_replay: while running ";
  static_cast<void>(!write(STDERR_FILENO, before.data(), before.size()));
  static_cast<void>(!write(STDERR_FILENO, running.data(), running.size()));
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

void run_file(const fs::path& path) {
  running = path.string() + "\n";
  std::ifstream in(path, std::ios::binary);
  fuzz::expect(in.good(), "cannot be read: " + path.string());
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  fuzz::run_program({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

std::size_t run_path(const fs::path& path) {
  if (!fs::is_directory(path)) return run_file(path), 1;
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(path)) all.push_back(entry.path());
  std::ranges::sort(all);
  for (const fs::path& file : all) run_file(file);
  return all.size();
}

std::vector<std::uint8_t> random_bytes(std::uint64_t seed, std::uint64_t number) {
  std::mt19937_64 dice(seed * 1'000'003 + number);
  std::vector<std::uint8_t> bytes(dice() % 256);
  for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(dice() >> 32);
  return bytes;
}

void run_random(std::uint64_t seed, std::uint64_t number) {
  running = "--seed " + std::to_string(seed) + " --only " + std::to_string(number) + "\n";
  fuzz::run_program(random_bytes(seed, number));
}

std::uint64_t number_after(int& i, int argc, char** argv) {
  fuzz::expect(i + 1 < argc, std::string(argv[i]) + " needs a number");
  return std::strtoull(argv[++i], nullptr, 10);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGABRT, &say_which);
  std::uint64_t seed = 1;
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  std::size_t files = 0;
  for (int i = 1; i != argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--tell") {
      fuzz::telling = true;
    } else if (arg == "--random") {
      end = number_after(i, argc, argv);
    } else if (arg == "--seed") {
      seed = number_after(i, argc, argv);
    } else if (arg == "--only") {
      first = number_after(i, argc, argv);
      end = first + 1;
    } else {
      files += run_path(arg);
    }
  }
  for (std::uint64_t n = first; n < end; ++n) run_random(seed, n);
  std::printf("%zu files and %llu random programs, seed %llu\n", files,
              static_cast<unsigned long long>(end - first), static_cast<unsigned long long>(seed));
}
