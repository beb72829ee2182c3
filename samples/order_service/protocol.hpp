// protocol.hpp - what clients and the service say to each other: a line for each request, and one
// for its answer, in the same order.
//
//   buy SYMBOL ID QUANTITY PRICE      N placed LEFT [ID:QUANTITY@PRICE]...  what it got, what waits
//   sell SYMBOL ID QUANTITY PRICE     N exists                                such an ID waits
//   cancel SYMBOL ID                  N cancelled LEFT | N unknown
//   depth SYMBOL                      N depth BID QUANTITY ASK QUANTITY       0 0: nobody waits
//   statistics                        statistics REQUESTS FILLS QUANTITY CANCELLED
//
// A symbol is a capital letter, from A on. N counts the requests of one symbol, so the answers say
// in which order they were carried out. What is not understood gets `error`. The last line of a
// service that ends is `closing`: what the client has asked since then was not carried out.
#pragma once

#include "order_book.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace order_service {

struct statistics {
  long requests = 0;
  long fills = 0;
  long quantity = 0;   ///< bought, and sold
  long cancelled = 0;  ///< quantity

  /// Counts one more. Gives how many there are.
  long add(const outcome& done);

  bool operator==(const statistics&) const = default;
};

inline constexpr std::string_view asks_for_statistics = "statistics";
inline constexpr std::string_view closing = "closing";
inline constexpr std::size_t most_symbols = 26;
inline constexpr std::size_t longest_line = 4096;

/// Empty: the line is not a request for one of the first `symbols` books.
std::optional<request> parse(std::string_view line, std::size_t symbols);

/// All of these with the line's end.
void append(std::string& to, const request& asked);
void append(std::string& to, const outcome& done);
void append(std::string& to, const statistics& counted);

}  // namespace order_service
