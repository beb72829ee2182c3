#include "options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <system_error>
#include <thread>

namespace word_index {
namespace {

// A thread has one file open at a time, and 1024 open files is the usual limit of a process.
constexpr std::size_t most_threads = 256;
constexpr std::size_t most_top = 1'000'000'000;

using words = std::span<const char* const>;  // the part of the command line still to be read

std::size_t number(const std::string& name, const std::string& text, std::size_t least,
                   std::size_t most) {
  std::size_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < least || value > most) {
    throw usage_error{name + " wants a whole number from " + std::to_string(least) + " to " +
                      std::to_string(most) + ", not '" + text + "'"};
  }
  return value;
}

struct flag {
  std::string_view name;
  void (*set)(options&);
};

constexpr std::array<flag, 3> flags = {{
    {"--verify", [](options& chosen) { chosen.verify = true; }},
    {"--help", [](options& chosen) { chosen.help = true; }},
    {"-h", [](options& chosen) { chosen.help = true; }},
}};

struct setting {
  std::string_view name;
  void (*set)(options&, const std::string& value);
};

constexpr std::array<setting, 2> settings = {{
    {"--threads",
     [](options& chosen, const std::string& value) {
       chosen.threads = number("--threads", value, 1, most_threads);
     }},
    {"--top", [](options& chosen,
                 const std::string& value) { chosen.top = number("--top", value, 0, most_top); }},
}};

std::string take(words& rest) {
  const std::string first = rest.front();
  rest = rest.subspan(1);
  return first;
}

// `word` is --name, --name=value, or --name with its value in the next word.
void apply(options& chosen, const std::string& word, words& rest) {
  const std::size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const bool has_value = equals != word.npos;

  if (const auto chosen_flag = std::ranges::find(flags, name, &flag::name);
      chosen_flag != flags.end()) {
    if (has_value) throw usage_error{name + " takes no value"};
    return chosen_flag->set(chosen);
  }
  const auto chosen_setting = std::ranges::find(settings, name, &setting::name);
  if (chosen_setting == settings.end()) throw usage_error{"there is no option " + name};
  if (!has_value && rest.empty()) throw usage_error{name + " wants a value"};
  chosen_setting->set(chosen, has_value ? word.substr(equals + 1) : take(rest));
}

}  // namespace

options parse_options(int argc, char** argv) {
  options chosen;
  chosen.threads = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, most_threads);
  words rest = words{argv, static_cast<std::size_t>(argc)}.subspan(1);
  bool only_paths = false;
  while (!rest.empty()) {
    const std::string word = take(rest);
    if (only_paths || !word.starts_with('-')) {
      chosen.paths.push_back(word);
    } else if (word == "--") {
      only_paths = true;
    } else {
      apply(chosen, word, rest);
    }
  }
  return chosen;
}

std::string_view help_text() {
  return R"(usage: word_index [options] [PATH...]

Counts the words in every file below the given files and directories, in parallel, and prints the
most frequent ones and the totals. Without a PATH it reads this system's C++ headers.

  --threads N   read on N threads, 1 to 256 (default: one for each processor)
  --top N       print the N most frequent words (default: 10)
  --verify      count again on a single thread and compare
  --help, -h    print this text

A word is a longest run of letters, digits and underscores; bytes outside ASCII count as letters.
What cannot be counted is named on stderr and skipped: paths that do not exist, files and
directories that cannot be read, loops of links, what was met before under another name,
devices, fifos and sockets, and files with a zero byte in their first 65536 bytes.

Exit status
  0  everything was counted, apart from what is no text (loops, repeats, devices, binary files)
  1  --verify found a difference
  2  the command line is wrong, or there is nothing to read
  3  a path does not exist or cannot be read, or the result could not be written
)";
}

}  // namespace word_index
