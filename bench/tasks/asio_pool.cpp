#include "tasks/tasks.hpp"

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <exception>
#include <latch>
#include <optional>
#include <string_view>
#include <utility>

namespace {

namespace asio = boost::asio;

// Awaited as what it is, which costs less than any_io_executor.
using pool_executor = asio::thread_pool::executor_type;
using awaited = asio::use_awaitable_t<pool_executor>;
using coroutine = asio::awaitable<void, pool_executor>;

// Forks and joins of coroutines are experimental there: only ping_pong.
class asio_pool {
 public:
  static constexpr std::string_view name = "asio_pool";

  explicit asio_pool(const bench::shape& s) : pool_(s.threads) {}

  std::size_t ping_pong(std::size_t hits) {
    bench::tasks::ball ball(hits);
    player ping;
    player pong;
    std::latch waits(1);
    std::latch unfinished(2);
    const auto finish = [&unfinished](std::exception_ptr failed) {
      if (failed) std::rethrow_exception(failed);
      unfinished.count_down();
    };
    using bench::tasks::play;
    asio::co_spawn(pool_, play<coroutine>(ball, 1, pong, ping, &waits), finish);
    waits.wait();
    asio::co_spawn(pool_, play<coroutine>(ball, 0, ping, pong, nullptr), finish);
    unfinished.wait();
    return ball.right();
  }

 private:
  // Waits as a handler, which the other one posts.
  class player {
   public:
    // Suspends this one, and then calls `then`, after which it may run again.
    template <class Then>
    auto wait(Then then) {
      return asio::async_initiate<const awaited&, void()>(
          [this, then](auto handler) {
            waits_.emplace(std::move(handler));
            then();
          },
          awaited());
    }
    void post() {
      auto handler = std::move(*waits_);
      waits_.reset();
      asio::post(std::move(handler));
    }

   private:
    std::optional<asio::async_result<awaited, void()>::handler_type> waits_;
  };

  asio::thread_pool pool_;
};

const bool asked = bench::tasks::ask<asio_pool>();

}  // namespace
