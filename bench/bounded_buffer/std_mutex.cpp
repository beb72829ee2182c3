#include "bounded_buffer/bounded_buffer.hpp"
#include "support/crew.hpp"

#include <condition_variable>
#include <mutex>
#include <string_view>

namespace {

using bench::bounded_buffer::consumer;
using bench::bounded_buffer::item;
using bench::bounded_buffer::producer;

// The usual one: a mutex and two condition variables, and a thread for each client.
class std_mutex {
 public:
  static constexpr std::string_view name = "std_mutex";
  static constexpr bool clients_are_threads = true;

  explicit std_mutex(const bench::shape& s) : buffer_(s.capacity), crew_(s.threads) {}

  void run(bench::bounded_buffer::traffic& t) {
    crew_.run([&](std::size_t i) {
      const std::size_t half = t.producers().size();
      i < half ? produce(t.producers()[i]) : consume(t.consumers()[i - half]);
    });
  }

 private:
  void produce(producer& p) {
    while (p.has_more()) put(p.next());
  }
  void consume(consumer& c) {
    while (c.wants_more()) c.got(take());
  }

  void put(item made) {
    {
      std::unique_lock hold(mutex_);
      room_.wait(hold, [this] { return buffer_.has_room(); });
      buffer_.put(made);
    }
    items_.notify_one();
  }

  item take() {
    item taken;
    {
      std::unique_lock hold(mutex_);
      items_.wait(hold, [this] { return buffer_.has_item(); });
      taken = buffer_.take();
    }
    room_.notify_one();
    return taken;
  }

  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable items_;
  bench::bounded_buffer::buffer buffer_;
  bench::crew crew_;
};

const bool asked = bench::bounded_buffer::ask<std_mutex>();

}  // namespace
