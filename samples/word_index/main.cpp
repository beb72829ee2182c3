// word_index - counts the words of every file in a directory, in parallel.
//
// You learn  how coroutines on several threads share one result through sections, what belongs
//            inside a section and what does not, and that the sum is right: --verify.
// Builds on  02_two_sections
// Prints     the most frequent words and the totals; problems and progress go to stderr
//
// count.hpp draws the parallel part, README.md the rest.

#include "count.hpp"
#include "options.hpp"
#include "report.hpp"
#include "status_line.hpp"
#include "walk.hpp"

#include <algorithm>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace word_index {
namespace {

// The exit status.
constexpr int success = 0;
constexpr int differs = 1;
constexpr int bad_usage = 2;
constexpr int incomplete = 3;

void complain(const std::string& message) { std::cerr << "word_index: " << message << '\n'; }

std::vector<std::string> paths_to_read(const options& chosen) {
  if (!chosen.paths.empty()) return chosen.paths;
  std::vector<std::string> paths = system_headers();
  if (paths.empty()) throw usage_error{"no C++ headers found on this system, name a directory"};
  return paths;
}

void complain_about(const std::vector<skip>& skips, status_line& line) {
  line.clear();
  for (const skip& skipped : skips) complain(sentence(skipped));
}

int verify(const result& parallel, const std::vector<std::string>& files, status_line& line) {
  const std::string found = difference(parallel, count_serially(files, line));
  line.clear();
  if (!found.empty()) {
    complain("a serial run differs, or a file has changed meanwhile: " + found);
    return differs;
  }
  std::cout << "verified: a serial run gives the same totals and the same count for every word\n";
  return success;
}

int count(const options& chosen) {
  status_line line;
  tree found = walk(paths_to_read(chosen), line);
  complain_about(found.skips, line);
  const result counted = count_in_parallel(found.files, chosen.threads, line);
  complain_about(counted.skips, line);

  std::vector<skip>& skips = found.skips;
  skips.insert(skips.end(), counted.skips.begin(), counted.skips.end());
  print_report(std::cout, counted, skips, chosen.top);
  if (chosen.verify && verify(counted, found.files, line) == differs) return differs;
  return std::ranges::any_of(skips, is_failure) ? incomplete : success;
}

int run(int argc, char** argv) {
  const options chosen = parse_options(argc, argv);
  if (!chosen.help) return count(chosen);
  std::cout << help_text();
  return success;
}

int written(int status) {
  if (std::cout.flush()) return status;
  complain("the result could not be written");
  return incomplete;
}

}  // namespace
}  // namespace word_index

int main(int argc, char** argv) {
  using namespace word_index;
  try {
    return written(run(argc, argv));
  } catch (const usage_error& error) {
    complain(std::string{error.what()} + "; --help lists the options");
    return bad_usage;
  } catch (const std::exception& error) {
    complain(error.what());
    return incomplete;
  }
}
