#include "service.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <tuple>
#include <utility>

namespace order_service {

namespace asio = boost::asio;
using asio::ip::tcp;

service::service(asio::io_context& io, market& m, std::size_t symbols, unsigned short port)
    : io_(io),
      market_(m),
      symbols_(symbols),
      acceptor_(asio::make_strand(io), tcp::endpoint(asio::ip::address_v4::loopback(), port)) {
  asio::co_spawn(acceptor_.get_executor(), accept(), asio::detached);
}

void service::stop() {
  asio::post(acceptor_.get_executor(), [this] {
    acceptor_.close();
    for (const std::weak_ptr<session>& s : sessions_) {
      if (const auto open = s.lock()) open->stop();
    }
  });
}

asio::awaitable<void> service::accept() {
  while (acceptor_.is_open()) {
    session::socket next(asio::make_strand(io_));
    const auto taken = co_await acceptor_.async_accept(next, asio::as_tuple(asio::use_awaitable));
    if (std::get<0>(taken)) {
      co_await pause();  // no more connections can be open, say
      continue;
    }
    next.set_option(tcp::no_delay(true));
    keep(std::make_shared<session>(std::move(next), market_, symbols_));
  }
}

asio::awaitable<void> service::pause() {
  asio::steady_timer wait(acceptor_.get_executor(), std::chrono::milliseconds(50));
  co_await wait.async_wait(asio::as_tuple(asio::use_awaitable));
}

// One that comes when the acceptor was closed is told so.
void service::keep(std::shared_ptr<session> s) {
  std::erase_if(sessions_, [](const std::weak_ptr<session>& old) { return old.expired(); });
  sessions_.push_back(s);
  s->start();
  if (!acceptor_.is_open()) s->stop();
}

}  // namespace order_service
