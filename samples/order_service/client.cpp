#include "client.hpp"

#include "protocol.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <exception>
#include <utility>

namespace order_service {

namespace asio = boost::asio;
using asio::ip::tcp;

client::client(asio::io_context& io, std::size_t number, std::size_t symbols, progress& p)
    : socket_(io),
      symbols_(symbols),
      progress_(p),
      luck_(static_cast<std::minstd_rand::result_type>(number + 1)),
      last_id_(static_cast<std::uint64_t>(number) << 32) {}

asio::awaitable<void> client::connect(unsigned short port) {
  try {
    const tcp::endpoint there(asio::ip::address_v4::loopback(), port);
    co_await socket_.async_connect(there, asio::use_awaitable);
    socket_.set_option(tcp::no_delay(true));
    const std::string first = std::string(asks_for_statistics) + '\n';
    co_await asio::async_write(socket_, asio::buffer(first), asio::use_awaitable);
    co_await line();
  } catch (const std::exception& error) {
    problem_ = error.what();
  }
}

asio::awaitable<void> client::run(std::size_t requests, std::size_t window) {
  if (!problem_.empty()) co_return;  // it has given up before
  try {
    co_await ask(requests, window);
    socket_.close();
  } catch (const std::exception& error) {
    problem_ = error.what();
  }
}

asio::awaitable<void> client::ask(std::size_t requests, std::size_t window) {
  std::vector<request> asked;
  std::string lines;
  while (requests != 0) {
    asked.clear();
    lines.clear();
    for (std::size_t i = std::min(window, requests); i != 0; --i, --requests) {
      asked.push_back(next());
      append(lines, asked.back());
    }
    co_await asio::async_write(socket_, asio::buffer(lines), asio::use_awaitable);
    if (!co_await hear(asked)) co_return;
  }
}

// False: there is no more to be heard.
asio::awaitable<bool> client::hear(const std::vector<request>& asked) {
  for (const request& r : asked) {
    if (!keep(r, co_await line())) co_return false;
  }
  co_return true;
}

asio::awaitable<std::string> client::line() {
  const auto buffer = asio::dynamic_buffer(unread_);
  const std::size_t end =
      co_await asio::async_read_until(socket_, buffer, '\n', asio::use_awaitable);
  std::string got = unread_.substr(0, end);
  unread_.erase(0, end);
  co_return got;
}

bool client::keep(const request& asked, std::string answer) {
  told_to_stop_ = std::string_view(answer).starts_with(closing);
  if (told_to_stop_) return false;
  answered_.push_back({asked, std::move(answer)});
  progress_.one_more();
  return true;
}

// Orders near one price, so that most of them meet others; every third request takes one back.
request client::next() {
  const auto below = [this](std::size_t n) { return static_cast<std::size_t>(luck_()) % n; };
  const std::size_t kind = below(12);
  if (kind < 4 && !own_.empty()) {
    const request& placed = own_[below(own_.size())];
    return {.what = verb::cancel, .symbol = placed.symbol, .id = placed.id};
  }
  if (kind == 4) return {.what = verb::depth, .symbol = below(symbols_)};
  request placed{.what = below(2) == 0 ? verb::buy : verb::sell,
                 .symbol = below(symbols_),
                 .id = ++last_id_,
                 .quantity = static_cast<long>(1 + below(100)),
                 .price = static_cast<long>(990 + below(21))};
  constexpr std::size_t remembered = 32;
  if (own_.size() == remembered) own_.erase(own_.begin());
  own_.push_back(placed);
  return placed;
}

}  // namespace order_service
