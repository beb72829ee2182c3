#include "contender/ask.hpp"
#include "support/section_row.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/defer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <latch>
#include <span>
#include <string_view>

namespace {

namespace asio = boost::asio;

// Awaited as what it is, which costs less than any_io_executor.
using pool_executor = asio::thread_pool::executor_type;
constexpr asio::use_awaitable_t<pool_executor> awaited;

// What a coroutine does between two bodies: it goes back to the pool, so that private work keeps no
// other body waiting, by a post or by a defer, which wakes no other thread; or it stays where it
// is, for which there must be none.
enum class between { on_the_pool, on_the_pool_deferred, on_the_strand };

constexpr std::string_view name_of(between bodies) {
  switch (bodies) {
    case between::on_the_pool: return "asio_strand";
    case between::on_the_pool_deferred: return "asio_strand_defer";
    case between::on_the_strand: return "asio_strand_stay";
  }
  return {};
}

// A coroutine goes to the strand for its body. A strand is not held across an await: `held` is left
// out.
template <between Bodies>
class on_strands : public bench::clients_on_threads {
 public:
  static constexpr std::string_view name = name_of(Bodies);

  explicit on_strands(const bench::shape& s)
      : pool_(s.threads), executor_(pool_.get_executor()), strands_(s.sections, executor_) {}

  template <class Client>
  void run(std::span<Client> clients) {
    std::latch unfinished(static_cast<std::ptrdiff_t>(clients.size()));
    for (Client& client : clients) {
      asio::co_spawn(pool_, take_turns(client), [&unfinished](std::exception_ptr failed) {
        if (failed) std::rethrow_exception(failed);
        unfinished.count_down();
      });
    }
    unfinished.wait();
  }

  double bytes_per_section() const noexcept { return strands_.bytes_each(); }

 private:
  using strand = asio::strand<pool_executor>;

  template <class Client>
  asio::awaitable<void, pool_executor> take_turns(Client& client) {
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      auto inside = asio::bind_executor(strands_[client.section()], awaited);
      client.request();
      if constexpr (Bodies != between::on_the_strand) {
        co_await asio::dispatch(inside);
        client.body();
        if constexpr (Bodies == between::on_the_pool) {
          co_await asio::post(pool_, awaited);
        } else {
          co_await asio::defer(pool_, awaited);
        }
      } else {
        co_await asio::post(inside);  // behind those who wait
        client.body();
      }
      client.completed();
    }
  }

  asio::thread_pool pool_;
  pool_executor executor_;
  bench::section_row<strand> strands_;
};

const bool asked = bench::ask_everything<on_strands<between::on_the_pool>>();
const bool asked_to_defer = [] {
  using contender = on_strands<between::on_the_pool_deferred>;
  bench::think::ask<contender>();
  bench::latency::ask<contender>();
  bench::oversubscribed::ask<contender>();
  return true;
}();
const bool asked_to_stay = (bench::counter::ask<on_strands<between::on_the_strand>>(), true);

}  // namespace
