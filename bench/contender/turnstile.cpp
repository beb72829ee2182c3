#include "contender/ask.hpp"
#include "lines/lines.hpp"
#include "support/section_row.hpp"

#include <turnstile/turnstile.hpp>

#include <coroutine>
#include <functional>
#include <span>
#include <string_view>

namespace {

// A coroutine waits for the alarm of a run, and goes on on the executor when it rings.
class nap : public turnstile::job {
 public:
  nap(bench::held::run& r, turnstile::executor_ref home) noexcept
      : job(&wake), run_(&r), home_executor_(home) {}

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) {
    sleeper_ = h;
    run_->call_later([this] { home_executor_.post(*this); });
  }
  void await_resume() const noexcept {}

 private:
  static void wake(job& self) noexcept { static_cast<nap&>(self).sleeper_.resume(); }

  bench::held::run* run_;
  turnstile::executor_ref home_executor_;
  std::coroutine_handle<> sleeper_;
};

// Ours. Which ring it has is chosen by the library that this file is compiled for.
class turnstile_section : public bench::clients_on_threads {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME;

  explicit turnstile_section(const bench::shape& s)
      : sections_(s.sections), pool_(static_cast<unsigned>(s.threads)) {}

  template <class Client>
  void run(std::span<Client> clients) {
    turnstile::async_scope scope{{.executor = pool_}};
    for (Client& client : clients) scope.spawn(take_turns(client));
    turnstile::sync_wait(scope.join());
  }

  void hold(bench::held::run& r) {
    turnstile::async_scope scope{{.executor = pool_}};
    for (std::size_t i = 0; i < r.holders(); ++i) scope.spawn(keep_holding(r));
    for (bench::held::task& t : r.tasks()) scope.spawn(work_through(r, t));
    turnstile::sync_wait(scope.join());
  }

  double bytes_per_section() const noexcept { return sections_.bytes_each(); }

 private:
  template <class Client>
  turnstile::task<> take_turns(Client& client) {
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      turnstile::critical_section& section = sections_[client.section()];
      client.request();
      co_await section.execute([&client] { client.body(); });
      client.completed();
    }
  }

  turnstile::task<> keep_holding(bench::held::run& r) {
    const auto hold = [this, &r]() -> turnstile::task<> {
      r.enter();
      co_await nap(r, pool_);
      r.leave();
    };
    while (!r.is_over()) {
      if (r.with_section()) {
        co_await sections_[0].execute(std::ref(hold));
      } else {
        co_await nap(r, pool_);
      }
    }
    r.finish_holder();
  }

  static turnstile::task<> work_through(bench::held::run& r, bench::held::task& t) {
    while (!t.is_done()) {
      t.unit();
      r.look_at_clock();
      co_await turnstile::yield();
    }
    if (!r.finish_task()) co_return;
    while (r.has_holders()) {
      r.look_at_clock();
      co_await turnstile::yield();
    }
  }

  bench::section_row<turnstile::critical_section> sections_;
  turnstile::thread_pool pool_;
};

const bool asked =
    bench::ask_everything<turnstile_section>() && bench::lines::ask<turnstile_section>();

}  // namespace
