// wait_text.cpp - the wait graph for people: as text, and for Graphviz.

#include "registry/live_sections.hpp"

#include <turnstile/detail/wait_graph.hpp>
#include <turnstile/registry.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace turnstile {

namespace {

using detail::wait_record;

// What sections are called, by their addresses. Taken before the waits, so a section that was made
// in between has no name yet.
class names {
 public:
  names() {
    detail::all_sections().look_at_all([this](const detail::section_core& s, std::uint32_t number) {
      of_[&s] = detail::label_of(s.name(), number);
    });
  }

  std::string of(const wait_record::step& s) const {
    if (!s.scope.empty()) return std::string(s.scope);
    const auto found = of_.find(s.node);
    return found == of_.end() ? "a section" : found->second;
  }

 private:
  std::map<const void*, std::string> of_;
};

std::string place(const wait_record::step& s) {
  std::string text = s.execution;
  if (!text.empty()) text += ", ";
  return text.append(s.where.file_name()).append(":").append(std::to_string(s.where.line()));
}

std::string quoted(std::string_view text) {
  std::string q = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') q += '\\';
    q += c;
  }
  return q + '"';
}

// Nodes of Graphviz: sections of one name are not one.
class numbers {
 public:
  std::string of(const void* node) {
    const std::size_t number = of_.try_emplace(node, of_.size() + 1).first->second;
    return std::string("n").append(std::to_string(number));
  }

 private:
  std::map<const void*, std::size_t> of_;
};

}  // namespace

std::string registry::wait_graph() {
  const names called;
  std::string text;
  for (const wait_record& w : detail::told_waits()) {
    std::string_view joint;
    for (const wait_record::step& s : w.has) {
      text.append(joint).append(called.of(s)).append(" (").append(place(s)).append(")");
      joint = " in ";
    }
    text.append(" waits for ").append(called.of(w.wants));
    text.append(" (").append(place(w.wants)).append(")\n");
  }
  return text;
}

std::string registry::wait_graph_dot() {
  const names called;
  numbers number;
  std::set<std::string> lines;
  const auto node = [&](const wait_record::step& s) {
    const std::string n = number.of(s.node);
    lines.insert("  " + n + " [label=" + quoted(called.of(s)) +
                 (!s.scope.empty() ? ", shape=box" : "") + "];\n");
    return n;
  };
  for (const wait_record& w : detail::told_waits()) {
    const std::string to = node(w.wants);
    for (const wait_record::step& s : w.has) {
      const std::string from = node(s);
      lines.insert("  " + from + " -> " + to + " [label=" + quoted(place(w.wants)) + "];\n");
    }
  }
  std::string text = "digraph waits {\n";
  for (const std::string& line : lines) text += line;
  return text + "}\n";
}

}  // namespace turnstile
