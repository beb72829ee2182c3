#include "tasks/tasks.hpp"

#include <turnstile/turnstile.hpp>

#include <coroutine>
#include <cstddef>
#include <latch>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using turnstile::task;

class turnstile_tasks {
 public:
  static constexpr std::string_view name = "turnstile";

  explicit turnstile_tasks(const bench::shape& s) : pool_(static_cast<unsigned>(s.threads)) {}

  long fib(unsigned n) {
    return turnstile::sync_wait(turnstile::schedule_on(pool_, sum_of_two(n)));
  }
  long skynet(long leaves) {
    return turnstile::sync_wait(turnstile::schedule_on(pool_, sum_below(0, leaves)));
  }

  std::size_t ping_pong(std::size_t hits) {
    bench::tasks::ball ball(hits);
    player ping(pool_);
    player pong(pool_);
    std::latch waits(1);
    turnstile::async_scope scope{{.executor = pool_}};
    scope.spawn(bench::tasks::play<task<>>(ball, 1, pong, ping, &waits));
    waits.wait();
    scope.spawn(bench::tasks::play<task<>>(ball, 0, ping, pong, nullptr));
    turnstile::sync_wait(scope.join());
    return ball.right();
  }

 private:
  // Waits as a job of the pool, which the other one posts.
  class player : public turnstile::job {
   public:
    explicit player(turnstile::thread_pool& pool) noexcept : job(&go_on), pool_(pool) {}

    // Suspends this one, and then calls `then`, after which it may run again.
    template <class Then>
    auto wait(Then then) noexcept {
      struct awaiter {
        bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<> h) noexcept {
          self->waits_ = h;
          auto last = then;
          last();  // this may be gone
        }
        void await_resume() const noexcept {}
        player* self;
        Then then;
      };
      return awaiter{this, then};
    }
    void post() noexcept { pool_.post(*this); }

   private:
    static void go_on(job& self) noexcept { static_cast<player&>(self).waits_.resume(); }

    turnstile::executor_ref pool_;
    std::coroutine_handle<> waits_;
  };

  static task<long> sum_of_two(unsigned n) {
    if (n < 2) co_return n;
    const auto [one, two] =
        co_await turnstile::when_all(turnstile::fork(sum_of_two(n - 1)), sum_of_two(n - 2));
    co_return one + two;
  }

  static task<long> sum_below(long first, long leaves) {
    if (leaves == 1) co_return first;
    const long each = leaves / bench::tasks::children;
    std::vector<turnstile::forked<task<long>>> children;
    children.reserve(bench::tasks::children);
    for (long i = 0; i < bench::tasks::children; ++i) {
      children.push_back(turnstile::fork(sum_below(first + i * each, each)));
    }
    const std::vector<long> sums = co_await turnstile::when_all(std::move(children));
    co_return std::accumulate(sums.begin(), sums.end(), 0L);
  }

  turnstile::thread_pool pool_;
};

const bool asked = bench::tasks::ask<turnstile_tasks>();

}  // namespace
