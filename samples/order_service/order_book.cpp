#include "order_book.hpp"

#include <algorithm>
#include <iterator>

namespace order_service {
namespace {

template <class Side>
level best(const Side& side) {
  if (side.empty()) return {};
  const auto& [price, waiting] = *side.begin();
  level found{price, 0};
  for (const auto& o : waiting) found.quantity += o.quantity;
  return found;
}

template <class Side>
long sum(const Side& side) {
  long all = 0;
  for (const auto& [price, waiting] : side) {
    for (const auto& o : waiting) all += o.quantity;
  }
  return all;
}

}  // namespace

outcome order_book::carry_out(const request& asked) {
  outcome done;
  done.number = ++requests_;
  switch (asked.what) {
    case verb::buy: place(asked, bids_, asks_, done); break;
    case verb::sell: place(asked, asks_, bids_, done); break;
    case verb::cancel: cancel(asked, done); break;
    case verb::depth:
      done.how = verdict::depth;
      done.bid = best(bids_);
      done.ask = best(asks_);
      break;
  }
  return done;
}

long order_book::waiting(verb side) const { return side == verb::buy ? sum(bids_) : sum(asks_); }

template <class Own, class Others>
void order_book::place(const request& asked, Own& own, Others& others, outcome& done) {
  if (positions_.contains(asked.id)) {
    done.how = verdict::exists;
    return;
  }
  done.how = verdict::placed;
  done.left = asked.quantity;
  match(asked, others, done);
  if (done.left == 0) return;
  queue& waiting = own[asked.price];
  waiting.push_back({asked.id, done.left});
  positions_[asked.id] = {asked.what, asked.price, std::prev(waiting.end())};
}

// From the best price on, and of one price the order that has waited longest.
template <class Others>
void order_book::match(const request& asked, Others& others, outcome& done) {
  const auto better = others.key_comp();
  while (done.left != 0 && !others.empty()) {
    auto& [price, waiting] = *others.begin();
    if (better(asked.price, price)) return;  // it wants more than anybody gives
    order& first = waiting.front();
    const long quantity = std::min(done.left, first.quantity);
    done.fills.push_back({first.id, quantity, price});
    done.left -= quantity;
    first.quantity -= quantity;
    if (first.quantity == 0) remove(others, positions_.at(first.id));
  }
}

void order_book::cancel(const request& asked, outcome& done) {
  const auto found = positions_.find(asked.id);
  if (found == positions_.end()) return;
  const position where = found->second;
  done.how = verdict::cancelled;
  done.left = where.at->quantity;
  where.side == verb::buy ? remove(bids_, where) : remove(asks_, where);
}

template <class Side>
void order_book::remove(Side& side, position where) {
  positions_.erase(where.at->id);
  const auto at_price = side.find(where.price);
  at_price->second.erase(where.at);
  if (at_price->second.empty()) side.erase(at_price);
}

}  // namespace order_service
