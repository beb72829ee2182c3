#include "device/pipelining.hpp"

#include <turnstile/turnstile.hpp>

#include <string_view>
#include <vector>

namespace {

// One coroutine submits to the stream, and nobody else: the least that the same work takes.
class bare {
 public:
  static constexpr std::string_view name = "bare";

  void run(bench::pipelining::work& all) {
    turnstile::async_scope scope({.executor = client_});
    scope.spawn(submit_all(all));
    turnstile::sync_wait(scope.join());
  }

 private:
  struct place {
    turnstile::event end;
    std::size_t answer = 0;
  };

  turnstile::task<> submit_all(bench::pipelining::work& all) {
    std::vector<place> under_way(all.clients());
    const std::size_t n = all.operations();
    for (std::size_t i = 0; i != n; ++i) {
      place& p = under_way[i % under_way.size()];
      if (i >= under_way.size()) {
        co_await p.end;
        all.take(p.answer);
      }
      all.submit(stream_, p.answer);
      p.end = stream_.record();
    }
    for (place& p : under_way) {
      co_await p.end;
      all.take(p.answer);
    }
  }

  turnstile::thread_pool client_{1};
  turnstile::thread_pool device_{1};
  turnstile::stream stream_{turnstile::device::host(), {.executor = device_}};
};

const bool asked = bench::pipelining::ask<bare>();

}  // namespace
