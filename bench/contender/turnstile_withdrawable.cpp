// What it costs that a request may be withdrawn: every client has a token of its own, or one with
// all others, or a deadline. They are made once and withdraw nothing.

#include "contender/way_on_pool.hpp"

#include <turnstile/turnstile.hpp>

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string_view>

namespace {

// Options says with which ones a client asks; it is made from the source that all have in common.
template <class Options>
class withdrawable {
 public:
  static constexpr std::string_view name = Options::name;

  template <class Client>
  turnstile::task<> take_turns(Client& client) {
    const Options its(common_);
    const turnstile::execute_options options = its.options();
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      client.request();
      co_await section_.execute([&client] { client.body(); }, options);
      client.completed();
    }
  }

 private:
  std::stop_source common_;
  turnstile::critical_section section_;
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

template <class Options>
using contender = bench::way_on_pool<withdrawable<Options>>;

// Where nearly all have to wait.
template <class Options>
bool ask() {
  for (const std::size_t clients : {64, 1024}) {
    bench::shape s{.threads = 2, .clients = clients, .against = 2};
    bench::add_case<contender<Options>, bench::counter::client>("counter", s);
    s.work = bench::length::ns_215;
    bench::add_case<contender<Options>, bench::think::client>("think", s);
  }
  return true;
}

// With one client a common token is its own.
const bool asked = (bench::uncontended::ask<contender<own_token>>(),
                    bench::uncontended::ask<contender<deadline>>(),
                    ask<own_token>() && ask<common_token>() && ask<deadline>());

}  // namespace
