#include "contender/ask.hpp"
#include "support/section_row.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
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

// A coroutine goes to the strand for its body and back to the pool for the rest, so that private
// work keeps no other body waiting. A strand is not held across an await: `held` is left out.
class asio_strand : public bench::clients_on_threads {
 public:
  static constexpr std::string_view name = "asio_strand";

  explicit asio_strand(const bench::shape& s)
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
  using strand = asio::strand<asio::thread_pool::executor_type>;

  template <class Client>
  asio::awaitable<void> take_turns(Client& client) {
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      auto inside = asio::bind_executor(strands_[client.section()], asio::use_awaitable);
      client.request();
      co_await asio::dispatch(inside);
      client.body();
      co_await asio::post(pool_, asio::use_awaitable);
      client.completed();
    }
  }

  asio::thread_pool pool_;
  asio::thread_pool::executor_type executor_;
  bench::section_row<strand> strands_;
};

const bool asked = bench::ask_everything<asio_strand>();

}  // namespace
