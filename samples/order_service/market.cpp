#include "market.hpp"

#include "guarded.hpp"

#include <turnstile/asio.hpp>
#include <turnstile/turnstile.hpp>

#include <deque>
#include <vector>

namespace order_service {
namespace {

template <template <class> class Guarded>
class guarded_market final : public market {
 public:
  guarded_market(asio::io_context& on, std::size_t symbols) : totals_(on.get_executor()) {
    for (std::size_t i = 0; i != symbols; ++i) books_.emplace_back(on.get_executor());
  }

  asio::awaitable<outcomes> carry_out(requests asked) override {
    outcomes all;
    for (const request& each : asked) {
      const auto trade = [&](order_book& book) { return book.carry_out(each); };
      all.push_back(co_await books_[each.symbol].apply(trade));
      const auto count = [&](statistics& totals) { return totals.add(all.back()); };
      co_await totals_.apply(count);
    }
    co_return all;
  }

  asio::awaitable<statistics> counted() override {
    const auto look = [](statistics& totals) { return totals; };
    co_return co_await totals_.apply(look);
  }

 private:
  std::deque<Guarded<order_book>> books_;
  Guarded<statistics> totals_;
};

// A coroutine of Asio's goes through its executor after every await. A task of turnstile's goes on
// at once if the section was idle, and on `jobs_` if it had to wait.
class task_market final : public market {
 public:
  task_market(asio::io_context& on, std::size_t symbols) : jobs_(on), books_(symbols) {}

  // An Asio coroutine cannot await a task by itself. A section of its own, which nobody else asks
  // for, starts it on the context and brings back what it gives.
  asio::awaitable<outcomes> carry_out(requests asked) override {
    turnstile::critical_section own{turnstile::section_options{.executor = jobs_}};
    const auto all = [&] { return carry_out_all(asked); };
    co_return co_await turnstile::async_execute(own, all, asio::use_awaitable);
  }

  asio::awaitable<statistics> counted() override {
    const auto look = [](statistics& totals) { return totals; };
    return turnstile::async_execute(totals_, look, asio::use_awaitable);
  }

 private:
  turnstile::task<outcomes> carry_out_all(const requests& asked) {
    outcomes all;
    for (const request& each : asked) {
      const auto trade = [&](order_book& book) { return book.carry_out(each); };
      all.push_back(co_await books_[each.symbol].execute(trade));
      const auto count = [&](statistics& totals) { return totals.add(all.back()); };
      co_await totals_.execute(count);
    }
    co_return all;
  }

  turnstile::asio_executor jobs_;
  std::vector<turnstile::synchronized<order_book>> books_;
  turnstile::synchronized<statistics> totals_;
};

}  // namespace

std::unique_ptr<market> make_market(guard how, asio::io_context& on, std::size_t symbols) {
  switch (how) {
    case guard::section: return std::make_unique<guarded_market<by_section>>(on, symbols);
    case guard::task: return std::make_unique<task_market>(on, symbols);
    case guard::strand: return std::make_unique<guarded_market<by_strand>>(on, symbols);
    case guard::mutex: break;
  }
  return std::make_unique<guarded_market<by_mutex>>(on, symbols);
}

}  // namespace order_service
