// service.hpp - takes connections on the loopback address, until it is stopped.
#pragma once

#include "market.hpp"
#include "session.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <memory>
#include <vector>

namespace order_service {

class service {
 public:
  /// Port 0: any that is free. Throws boost::system::system_error.
  service(boost::asio::io_context& io, market& m, std::size_t symbols, unsigned short port);

  unsigned short port() const { return acceptor_.local_endpoint().port(); }

  /// Takes no more connections, and ends those there are: then the context runs out of work. What
  /// was read is answered before. From any thread.
  void stop();

 private:
  using strand = session::strand;

  boost::asio::awaitable<void> accept();
  boost::asio::awaitable<void> pause();
  void keep(std::shared_ptr<session> s);

  boost::asio::io_context& io_;
  market& market_;
  const std::size_t symbols_;
  boost::asio::basic_socket_acceptor<boost::asio::ip::tcp, strand> acceptor_;
  std::vector<std::weak_ptr<session>> sessions_;  // on the acceptor's strand
};

}  // namespace order_service
