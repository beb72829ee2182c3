#include "tasks/tasks.hpp"

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/defer.hpp>
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

// How one makes the other run. A post is for what goes on beside one's own work, and wakes a
// thread. What is deferred goes on after it, on the same thread if no other one takes it first.
enum class handed_over { by_post, by_defer };

// Forks and joins of coroutines are experimental there: only ping_pong.
template <handed_over How>
class asio_pool {
 public:
  static constexpr std::string_view name =
      How == handed_over::by_post ? "asio_pool" : "asio_pool_defer";

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
  // Waits as a handler, which the other one posts, or defers.
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
      if constexpr (How == handed_over::by_post) {
        asio::post(std::move(handler));
      } else {
        asio::defer(std::move(handler));
      }
    }

   private:
    std::optional<asio::async_result<awaited, void()>::handler_type> waits_;
  };

  asio::thread_pool pool_;
};

const bool asked = bench::tasks::ask<asio_pool<handed_over::by_post>>() &&
                   bench::tasks::ask<asio_pool<handed_over::by_defer>>();

}  // namespace
