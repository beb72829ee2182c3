// client.hpp - one connection that asks, and keeps every answer for the audit.
#pragma once

#include "order_book.hpp"

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace order_service {

struct exchange {
  request asked;
  std::string answer;  ///< with the line's end
};

/// How many answers all clients got, and what to do when there are so many.
struct progress {
  std::atomic<std::size_t> answered{0};
  std::size_t stop_at = 0;  ///< 0: never
  std::function<void()> stop = {};

  void one_more() {
    if (++answered == stop_at) stop();
  }
};

class client {
 public:
  /// `number` tells it apart from others: its orders' ids, and its random numbers.
  client(boost::asio::io_context& io, std::size_t number, std::size_t symbols, progress& p);

  /// When it ends, the service has answered once.
  boost::asio::awaitable<void> connect(unsigned short port);

  /// Asks `requests` times, `window` at once, or until the service says that it ends. Then it hangs
  /// up.
  boost::asio::awaitable<void> run(std::size_t requests, std::size_t window);

  const std::vector<exchange>& answered() const { return answered_; }
  bool was_told_to_stop() const { return told_to_stop_; }
  const std::string& problem() const { return problem_; }

 private:
  boost::asio::awaitable<void> ask(std::size_t requests, std::size_t window);
  boost::asio::awaitable<bool> hear(const std::vector<request>& asked);
  boost::asio::awaitable<std::string> line();
  request next();
  bool keep(const request& asked, std::string answer);

  boost::asio::ip::tcp::socket socket_;
  const std::size_t symbols_;
  progress& progress_;
  std::minstd_rand luck_;
  std::uint64_t last_id_;
  std::string unread_;
  std::vector<request> own_;  // orders it has placed
  std::vector<exchange> answered_;
  bool told_to_stop_ = false;
  std::string problem_;
};

}  // namespace order_service
