#include "bounded_buffer/bounded_buffer.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/concurrent_channel.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <exception>
#include <latch>
#include <string_view>

namespace {

namespace asio = boost::asio;

using bench::bounded_buffer::consumer;
using bench::bounded_buffer::item;
using bench::bounded_buffer::producer;

// Awaited as what it is, which costs less than any_io_executor.
using pool_executor = asio::thread_pool::executor_type;
constexpr asio::use_awaitable_t<pool_executor> awaited;

// The channel is the buffer; it has a mutex inside, which is held for a moment. Whoever finds room,
// or an item, does not go through the queue of the pool, as an operation of Asio's would.
class asio_channel {
 public:
  static constexpr std::string_view name = "asio_channel";
  static constexpr bool clients_are_threads = false;

  explicit asio_channel(const bench::shape& s)
      : pool_(s.threads), channel_(pool_.get_executor(), s.capacity) {}

  void run(bench::bounded_buffer::traffic& t) {
    std::latch unfinished(static_cast<std::ptrdiff_t>(t.producers().size() * 2));
    const auto finish = [&unfinished](std::exception_ptr failed) {
      if (failed) std::rethrow_exception(failed);
      unfinished.count_down();
    };
    for (producer& p : t.producers()) asio::co_spawn(pool_, produce(p), finish);
    for (consumer& c : t.consumers()) asio::co_spawn(pool_, consume(c), finish);
    unfinished.wait();
  }

 private:
  using channel =
      asio::experimental::concurrent_channel<pool_executor, void(boost::system::error_code, item)>;

  asio::awaitable<void, pool_executor> produce(producer& p) {
    while (p.has_more()) {
      const item made = p.next();
      if (channel_.try_send(boost::system::error_code(), made)) continue;
      co_await channel_.async_send({}, made, awaited);
    }
  }

  asio::awaitable<void, pool_executor> consume(consumer& c) {
    while (c.wants_more()) {
      item got{};
      const auto take = [&got](boost::system::error_code, item i) { got = i; };
      if (!channel_.try_receive(take)) got = co_await channel_.async_receive(awaited);
      c.got(got);
    }
  }

  asio::thread_pool pool_;
  channel channel_;
};

const bool asked = bench::bounded_buffer::ask<asio_channel>();

}  // namespace
