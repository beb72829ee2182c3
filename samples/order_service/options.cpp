#include "options.hpp"

#include "protocol.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string>
#include <system_error>

namespace order_service {
namespace {

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

guard guard_called(const std::string& text) {
  const auto found = std::ranges::find(guard_names, text);
  if (found == guard_names.end()) {
    throw usage_error{"--guard wants section, task, strand or mutex, not '" + text + "'"};
  }
  return static_cast<guard>(found - guard_names.begin());
}

struct setting {
  std::string_view name;
  void (*set)(options&, const std::string& value);
};

constexpr std::array<setting, 8> settings = {{
    {"--connections",
     [](options& o, const std::string& v) {
       o.asks.connections = number("--connections", v, 1, 400);
     }},
    {"--requests",
     [](options& o, const std::string& v) {
       o.asks.requests = number("--requests", v, 1, 100'000'000);
     }},
    {"--window",
     [](options& o, const std::string& v) { o.asks.window = number("--window", v, 1, 1000); }},
    {"--symbols",
     [](options& o, const std::string& v) {
       o.asks.symbols = number("--symbols", v, 1, most_symbols);
     }},
    {"--threads",
     [](options& o, const std::string& v) { o.asks.threads = number("--threads", v, 1, 256); }},
    {"--rounds",
     [](options& o, const std::string& v) { o.rounds = number("--rounds", v, 1, 1000); }},
    {"--guard", [](options& o, const std::string& v) { o.how = guard_called(v); }},
    {"--serve",
     [](options& o, const std::string& v) {
       o.serve = static_cast<unsigned short>(number("--serve", v, 0, 65535));
     }},
}};

void apply(options& chosen, const std::string& name, const std::string* value) {
  if (name == "--compare") {
    chosen.compare = true;
  } else if (name == "--help" || name == "-h") {
    chosen.help = true;
  } else if (const auto found = std::ranges::find(settings, name, &setting::name);
             found == settings.end()) {
    throw usage_error{"there is no option " + name};
  } else if (value == nullptr) {
    throw usage_error{name + " wants a value"};
  } else {
    found->set(chosen, *value);
  }
}

bool takes_value(const std::string& name) {
  return std::ranges::find(settings, name, &setting::name) != settings.end();
}

}  // namespace

options parse_options(int argc, char** argv) {
  options chosen;
  std::span<char* const> rest = std::span(argv, static_cast<std::size_t>(argc)).subspan(1);
  while (!rest.empty()) {
    const std::string name = rest.front();
    rest = rest.subspan(1);
    if (!takes_value(name) || rest.empty()) {
      apply(chosen, name, nullptr);
    } else {
      const std::string value = rest.front();
      rest = rest.subspan(1);
      apply(chosen, name, &value);
    }
  }
  return chosen;
}

std::string_view help_text() {
  return R"(usage: order_service [options]

Runs an order book service and clients that load it, in one process over loopback, and checks every
answer. Then it does so once more and stops the service amid the load.

  --connections N  how many clients, 1 to 400 (default: 64)
  --requests N     of all clients together (default: 200000)
  --window N       requests a client sends before it waits for answers (default: 16)
  --symbols N      books, 1 to 26 (default: 4)
  --threads N      of the service (default: 2); the clients share one more
  --guard NAME     what keeps coroutines apart that use one book: section, task (sections, too,
                   from coroutines of turnstile's own), strand or mutex (default: section)
  --compare        all four, in rounds that take turns
  --rounds N       with --compare (default: 5)
  --serve PORT     only the service, until SIGINT or SIGTERM; 0 is any port, which is printed
  --help, -h       print this text

Exit status
  0  every answer was right
  1  one was not, or a client had to give up: it is printed
  2  the command line is wrong
  3  the system refused something, a port say, or descriptors for both ends of all connections
)";
}

}  // namespace order_service
