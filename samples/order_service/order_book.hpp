// order_book.hpp - limit orders for one symbol, matched by price, then by time. Knows nothing of
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <unordered_map>
#include <vector>

namespace order_service {

enum class verb : std::uint8_t { buy, sell, cancel, depth };

struct request {
  verb what = verb::depth;
  std::size_t symbol = 0;
  std::uint64_t id = 0;
  long quantity = 0;
  long price = 0;
};

/// What an order got from one that waited.
struct fill {
  std::uint64_t id = 0;  ///< of the one that waited
  long quantity = 0;
  long price = 0;
};

/// The best price of a side, and how much is wanted at it. 0 of it: nobody waits.
struct level {
  long price = 0;
  long quantity = 0;
};

enum class verdict : std::uint8_t { placed, exists, cancelled, unknown, depth };

struct outcome {
  std::uint64_t number = 0;  ///< of the request: 1 is the first one that this book was asked
  verdict how = verdict::unknown;
  long left = 0;  ///< of the order: waits now, or waited until it was cancelled
  std::vector<fill> fills = {};
  level bid = {};
  level ask = {};
};

class order_book {
 public:
  outcome carry_out(const request& asked);

  /// How much waits on a side now.
  long waiting(verb side) const;

 private:
  struct order {
    std::uint64_t id;
    long quantity;
  };
  using queue = std::list<order>;
  template <class Better>
  using prices = std::map<long, queue, Better>;

  // Where an order waits.
  struct position {
    verb side;
    long price;
    queue::iterator at;
  };

  template <class Own, class Others>
  void place(const request& asked, Own& own, Others& others, outcome& done);
  template <class Others>
  void match(const request& asked, Others& others, outcome& done);
  void cancel(const request& asked, outcome& done);
  template <class Side>
  void remove(Side& side, position where);

  std::uint64_t requests_ = 0;
  prices<std::greater<>> bids_;  // the highest first
  prices<std::less<>> asks_;     // the lowest first
  std::unordered_map<std::uint64_t, position> positions_;
};

}  // namespace order_service
