#include "bounded_buffer/bounded_buffer.hpp"

#include <turnstile/turnstile.hpp>

#include <string_view>
#include <utility>

namespace {

using bench::bounded_buffer::buffer;
using bench::bounded_buffer::consumer;
using bench::bounded_buffer::item;
using bench::bounded_buffer::producer;
using turnstile::task;

// A request whose condition is not true yet is set aside, and its coroutine holds no thread.
class turnstile_buffer {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME;
  static constexpr bool clients_are_threads = false;

  explicit turnstile_buffer(const bench::shape& s)
      : buffer_(std::in_place, s.capacity), pool_(static_cast<unsigned>(s.threads)) {}

  void run(bench::bounded_buffer::traffic& t) {
    turnstile::async_scope scope{{.executor = pool_}};
    for (producer& p : t.producers()) scope.spawn(produce(p));
    for (consumer& c : t.consumers()) scope.spawn(consume(c));
    turnstile::sync_wait(scope.join());
  }

 private:
  task<> produce(producer& p) {
    while (p.has_more()) {
      const item made = p.next();
      co_await buffer_.execute_when([](const buffer& b) { return b.has_room(); },
                                    [made](buffer& b) { b.put(made); });
    }
  }

  task<> consume(consumer& c) {
    while (c.wants_more()) {
      c.got(co_await buffer_.execute_when([](const buffer& b) { return b.has_item(); },
                                          [](buffer& b) { return b.take(); }));
    }
  }

  turnstile::synchronized<buffer> buffer_;
  turnstile::thread_pool pool_;
};

const bool asked = bench::bounded_buffer::ask<turnstile_buffer>();

}  // namespace
