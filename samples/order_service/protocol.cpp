#include "protocol.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <system_error>

namespace order_service {
namespace {

constexpr std::array<std::string_view, 4> verbs = {"buy", "sell", "cancel", "depth"};
constexpr std::array<std::string_view, 5> verdicts = {"placed", "exists", "cancelled", "unknown",
                                                      "depth"};

// The words of a line, one after the other. Asking for what is not there is noted.
class words {
 public:
  explicit words(std::string_view line) : rest_(line) {}

  std::string_view next() {
    const std::string_view word = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(std::min(rest_.size(), word.size() + 1));
    return word;
  }

  template <std::integral N>
  N number(N least) {
    N value = 0;
    const std::string_view word = next();
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, value);
    if (error != std::errc{} || stop != end || value < least) wrong_ = true;
    return value;
  }

  bool well() const { return !wrong_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool wrong_ = false;
};

void put(std::string& to, std::string_view text) { to += text; }
void put(std::string& to, std::integral auto number) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  to.append(digits.data(), end);
}

// With blanks in between.
template <class First, class... Rest>
void put(std::string& to, const First& first, const Rest&... rest) {
  put(to, first);
  ((to += ' ', put(to, rest)), ...);
}

}  // namespace

long statistics::add(const outcome& done) {
  for (const fill& f : done.fills) quantity += f.quantity;
  fills += static_cast<long>(done.fills.size());
  if (done.how == verdict::cancelled) cancelled += done.left;
  return ++requests;
}

std::optional<request> parse(std::string_view line, std::size_t symbols) {
  words in(line);
  const auto what = std::ranges::find(verbs, in.next());
  if (what == verbs.end()) return std::nullopt;
  request asked{.what = static_cast<verb>(what - verbs.begin())};
  const std::string_view symbol = in.next();
  if (symbol.size() != 1 || symbol[0] < 'A') return std::nullopt;
  asked.symbol = static_cast<std::size_t>(symbol[0] - 'A');
  if (asked.symbol >= symbols) return std::nullopt;
  if (asked.what != verb::depth) asked.id = in.number<std::uint64_t>(0);
  if (asked.what == verb::buy || asked.what == verb::sell) {
    asked.quantity = in.number(1L);
    asked.price = in.number(1L);
  }
  return in.well() ? std::optional(asked) : std::nullopt;
}

void append(std::string& to, const request& asked) {
  const std::array<char, 1> symbol = {static_cast<char>('A' + asked.symbol)};
  put(to, verbs[static_cast<std::size_t>(asked.what)],
      std::string_view(symbol.data(), symbol.size()));
  if (asked.what != verb::depth) to += ' ', put(to, asked.id);
  if (asked.quantity != 0) to += ' ', put(to, asked.quantity, asked.price);
  to += '\n';
}

void append(std::string& to, const outcome& done) {
  put(to, done.number, verdicts[static_cast<std::size_t>(done.how)]);
  if (done.how == verdict::placed || done.how == verdict::cancelled) to += ' ', put(to, done.left);
  for (const fill& f : done.fills) {
    to += ' ', put(to, f.id);
    to += ':', put(to, f.quantity);
    to += '@', put(to, f.price);
  }
  if (done.how == verdict::depth) {
    to += ' ';
    put(to, done.bid.price, done.bid.quantity, done.ask.price, done.ask.quantity);
  }
  to += '\n';
}

void append(std::string& to, const statistics& counted) {
  put(to, asks_for_statistics, counted.requests, counted.fills, counted.quantity,
      counted.cancelled);
  to += '\n';
}

}  // namespace order_service
