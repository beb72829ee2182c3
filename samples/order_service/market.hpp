// market.hpp - all the books, and what is counted of them.
//
// You learn  what belongs inside a section here: a step in one book, some additions. Reading,
//            writing and what lines mean stay outside.
#pragma once

#include "order_book.hpp"
#include "protocol.hpp"

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace order_service {

/// What keeps coroutines apart that use one book, or the statistics. `task`: sections, too, but
/// entered by coroutines of turnstile's own, one for all that a client asked at once.
enum class guard : std::uint8_t { section, task, strand, mutex };
inline constexpr std::array<std::string_view, 4> guard_names = {"section", "task", "strand",
                                                                "mutex"};

using requests = std::vector<request>;
using outcomes = std::vector<outcome>;

class market {
 public:
  virtual ~market() = default;

  /// One after the other, each in the book of its symbol and then in the statistics.
  virtual boost::asio::awaitable<outcomes> carry_out(requests asked) = 0;
  virtual boost::asio::awaitable<statistics> counted() = 0;
};

/// `on` is where the service runs.
std::unique_ptr<market> make_market(guard how, boost::asio::io_context& on, std::size_t symbols);

}  // namespace order_service
