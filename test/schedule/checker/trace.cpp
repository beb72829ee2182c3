// trace.cpp - an interleaving as text.

#include "schedule/checker/trace.hpp"

#include <array>
#include <cstdio>
#include <fstream>
#include <string_view>
#include <unistd.h>

extern "C" const char __executable_start;  // by the linker

namespace schedule {

namespace {

constexpr std::array short_orders{"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};

std::string source_line(site_id id) {
  if (id == no_site) return {};
  std::ifstream file(site_of(id).file_name());
  std::string line;
  for (std::uint_least32_t n = 0; n != site_of(id).line(); ++n) {
    if (!std::getline(file, line)) return {};
  }
  return line.substr(std::min(line.size(), line.find_first_not_of(' ')));
}

std::string value_text(std::uint64_t value) {
  std::array<char, 24> text;
  std::snprintf(text.data(), text.size(), value < 1000000 ? "%llu" : "0x%llx",
                static_cast<unsigned long long>(value));
  return text.data();
}

std::string what_text(const event& e) {
  std::string text = e.what;
  if (e.order >= 0) {
    text += '(';
    text += short_orders[static_cast<std::size_t>(e.order)];
    text += ')';
  }
  return text;
}

std::string values_text(const event& e) {
  std::string text = value_text(e.before);
  if (e.after != e.before) text += " -> " + value_text(e.after);
  if (e.older != 0) text += ", older than " + std::to_string(e.older);
  return text;
}

}  // namespace

std::string source_of(const void* return_to) {
  std::array<char, 256> text;
  const auto offset = static_cast<const char*>(return_to) - &__executable_start;
  std::snprintf(text.data(), text.size(), "addr2line -i -s -e /proc/%d/exe 0x%llx 2>/dev/null",
                static_cast<int>(getpid()), static_cast<unsigned long long>(offset - 1));
  std::string found = "?";
  std::FILE* const out = popen(text.data(), "r");
  if (out == nullptr) return found;
  while (std::fgets(text.data(), text.size(), out) != nullptr) {
    found = text.data();
    if (!found.starts_with("atomic.hpp")) break;  // the seam, inlined into who uses it
  }
  pclose(out);
  return found.substr(0, found.find_first_of(" \n"));
}

std::string trace::text() const {
  std::string all;
  std::array<char, 512> line;
  for (std::size_t i = 0; i != events_.size(); ++i) {
    const event& e = events_[i];
    const bool turn = i == 0 || events_[i - 1].thread != e.thread;
    if (turn) all += "  --- thread " + std::to_string(e.thread) + '\n';
    std::snprintf(line.data(), line.size(), "  T%d %-22s %-26s @%-3u %-30s %s\n", e.thread,
                  name_of(e.at).c_str(), what_text(e).c_str(), e.place, values_text(e).c_str(),
                  source_line(e.at).c_str());
    all += line.data();
  }
  return all;
}

}  // namespace schedule
