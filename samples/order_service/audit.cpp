#include "audit.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace order_service {
namespace {

struct entry {
  std::uint64_t number;
  const exchange* said;
};
using entries = std::vector<entry>;

// 0: it has none.
std::uint64_t number_of(const exchange& e) {
  std::uint64_t number = 0;
  std::from_chars(e.answer.data(), e.answer.data() + e.answer.size(), number);
  return number;
}

// One client's requests were carried out in the order in which it asked.
std::string add(const client& c, std::vector<entries>& books) {
  std::vector<std::uint64_t> last(books.size());
  for (const exchange& e : c.answered()) {
    const std::uint64_t number = number_of(e);
    if (number <= std::exchange(last[e.asked.symbol], number)) {
      return "a client's requests were not carried out in its order: " + e.answer;
    }
    books[e.asked.symbol].push_back({number, &e});
  }
  return c.problem();
}

// What became of each order, by what was answered alone, whatever a book thinks.
class ledger {
 public:
  void add(const request& asked, const outcome& done) {
    if (done.how == verdict::placed) {
      order& own = orders_[asked.id] = {asked.what, asked.price, asked.quantity};
      for (const fill& f : done.fills) trade(own, orders_[f.id], f);
    } else if (done.how == verdict::cancelled) {
      order& gone = orders_[asked.id];
      if (gone.left != done.left) is_wrong_ = true;
      gone.left = 0;
    }
  }

  bool is_right(const order_book& book) const {
    long bids = 0;
    long asks = 0;
    for (const auto& [id, o] : orders_) (o.side == verb::buy ? bids : asks) += o.left;
    return !is_wrong_ && bids == book.waiting(verb::buy) && asks == book.waiting(verb::sell);
  }

 private:
  struct order {
    verb side;
    long price;
    long left;
  };

  // At the price of the one that waited, which is not worse than what the other wanted.
  void trade(order& own, order& waited, const fill& f) {
    const bool buys = own.side == verb::buy;
    const bool too_dear = buys ? f.price > own.price : f.price < own.price;
    own.left -= f.quantity;
    waited.left -= f.quantity;
    if (own.side == waited.side || f.price != waited.price || too_dear || own.left < 0 ||
        waited.left < 0) {
      is_wrong_ = true;
    }
  }

  std::unordered_map<std::uint64_t, order> orders_;  // not moved by others that are added
  bool is_wrong_ = false;
};

std::string carry_out_again(entries& said, statistics& counted) {
  std::ranges::sort(said, {}, &entry::number);
  order_book book;
  ledger all;
  for (const entry& e : said) {
    const outcome done = book.carry_out(e.said->asked);
    std::string expected;
    append(expected, done);
    if (expected != e.said->answer) {
      return "the answer was " + e.said->answer + "but one thread says " + expected;
    }
    counted.add(done);
    all.add(e.said->asked, done);
  }
  return all.is_right(book) ? std::string{} : "what was bought is not what was sold";
}

}  // namespace

std::string audit(const std::deque<client>& clients, std::size_t symbols,
                  const statistics& counted_by_service) {
  std::vector<entries> books(symbols);
  for (const client& c : clients) {
    if (std::string found = add(c, books); !found.empty()) return found;
  }
  statistics counted;
  for (entries& said : books) {
    if (std::string found = carry_out_again(said, counted); !found.empty()) return found;
  }
  return counted == counted_by_service ? std::string{} : "the service has counted something else";
}

}  // namespace order_service
