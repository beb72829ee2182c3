// asio.cpp - the same for a program on Boost.Asio, or on Asio alone (asio_alone.cpp): what asio.hpp
// needs is there, too.
#include <turnstile/asio.hpp>
#include <turnstile/turnstile.hpp>

#include <cstdio>

#if defined(TURNSTILE_ASIO_STANDALONE)
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/use_awaitable.hpp>
#else
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace asio = boost::asio;
#endif

namespace {

turnstile::synchronized<long> balance{0};

asio::awaitable<void> deposit_often(int times) {
  for (int i = 0; i < times; ++i) {
    co_await turnstile::async_execute(balance, [](long& b) { ++b; }, asio::use_awaitable);
  }
}

turnstile::task<> deposit_more_often(int times) {
  for (int i = 0; i < times; ++i) {
    co_await balance.execute([](long& b) { ++b; });
  }
}

}  // namespace

int main() {
  asio::io_context io;
  turnstile::asio_executor on_io{io};
  turnstile::async_scope scope{{.executor = on_io}};
  asio::co_spawn(io, deposit_often(1000), asio::detached);
  scope.spawn(deposit_more_often(1000));
  io.run();
  turnstile::sync_wait(scope.join());
  const long sum = balance.try_execute([](long& b) { return b; }).value();
  std::printf("balance: %ld\n", sum);
  return sum == 2000 ? 0 : 1;
}
