// What it costs that a request may be withdrawn: every client has a token of its own, or one with
// all others, or a deadline. They are made once and withdraw nothing.

#include "contender/ask.hpp"

#include <turnstile/turnstile.hpp>

#include <chrono>
#include <cstddef>
#include <span>
#include <stop_token>
#include <string_view>

namespace {

// Way says with which options a client asks; it is made from the source that all have in common.
template <class Way>
class withdrawable : public bench::clients_on_threads {
 public:
  static constexpr std::string_view name = Way::name;

  explicit withdrawable(const bench::shape& s) : pool_(static_cast<unsigned>(s.threads)) {}

  template <class Client>
  void run(std::span<Client> clients) {
    turnstile::async_scope scope{{.executor = pool_}};
    for (Client& client : clients) scope.spawn(take_turns(client));
    turnstile::sync_wait(scope.join());
  }

  double bytes_per_section() const noexcept { return sizeof(turnstile::critical_section); }

 private:
  template <class Client>
  turnstile::task<> take_turns(Client& client) {
    const Way way(common_);
    const turnstile::execute_options options = way.options();
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      client.request();
      co_await section_.execute([&client] { client.body(); }, options);
      client.completed();
    }
  }

  std::stop_source common_;
  turnstile::critical_section section_;
  turnstile::thread_pool pool_;
};

class own_token {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_stop_token";
  explicit own_token(const std::stop_source&) {}
  turnstile::execute_options options() const { return {.stop = token_}; }

 private:
  std::stop_source source_;
  std::stop_token token_ = source_.get_token();
};

class common_token {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_common_token";
  explicit common_token(const std::stop_source& common) : token_(common.get_token()) {}
  turnstile::execute_options options() const { return {.stop = token_}; }

 private:
  std::stop_token token_;
};

class deadline {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_deadline";
  explicit deadline(const std::stop_source&) {}
  turnstile::execute_options options() const { return {.deadline = tomorrow_}; }

 private:
  bench::clock::time_point tomorrow_ = bench::clock::now() + std::chrono::hours(24);
};

// Where nearly all have to wait.
template <class Way>
bool ask() {
  using contender = withdrawable<Way>;
  for (const std::size_t clients : {64, 1024}) {
    bench::shape s{.threads = 2, .clients = clients, .against = 2};
    bench::add_case<contender, bench::counter::client>("counter", s);
    s.work = bench::length::ns_215;
    bench::add_case<contender, bench::think::client>("think", s);
  }
  return true;
}

// With one client a common token is its own.
const bool asked = (bench::uncontended::ask<withdrawable<own_token>>(),
                    bench::uncontended::ask<withdrawable<deadline>>(),
                    ask<own_token>() && ask<common_token>() && ask<deadline>());

}  // namespace
