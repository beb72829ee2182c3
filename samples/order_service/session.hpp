// session.hpp - one connection: lines in, answers out, in the same order.
#pragma once

#include "market.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace order_service {

/// Everything of it happens on a strand of its own: the coroutine, and the wish to end.
class session : public std::enable_shared_from_this<session> {
 public:
  using strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  using socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, strand>;

  session(socket s, market& m, std::size_t symbols);

  void start();

  /// What has been read is answered; then the connection ends in an orderly way. From any thread.
  void stop();

 private:
  boost::asio::awaitable<void> run();
  boost::asio::awaitable<void> answer_until_the_end();
  boost::asio::awaitable<bool> read();
  boost::asio::awaitable<void> answer(std::string_view line);
  boost::asio::awaitable<void> answer_requests();
  boost::asio::awaitable<bool> write();
  boost::asio::awaitable<void> say_goodbye();
  boost::asio::awaitable<void> read_to_the_end();

  socket socket_;
  market& market_;
  const std::size_t symbols_;
  std::string in_;
  std::string out_;
  requests asked_;  // not answered yet
  bool is_reading_ = false;
  bool is_stopping_ = false;
};

}  // namespace order_service
