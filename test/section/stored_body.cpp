// Whatever a body captures arrives whole, however it is copied on the way.

#include <turnstile/turnstile.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>
#include <tuple>
#include <utility>

using namespace turnstile;

namespace {

template <std::size_t size>
std::array<unsigned char, size> some_bytes() {
  std::array<unsigned char, size> bytes{};
  for (std::size_t i = 0; i != size; ++i) bytes[i] = static_cast<unsigned char>(7 * size + i + 1);
  return bytes;
}

template <std::size_t size>
bool arrives_at_once() {
  critical_section cs;
  std::array<unsigned char, size> got{};
  sync_wait(cs.execute([&got, bytes = some_bytes<size>()] { got = bytes; }));
  return got == some_bytes<size>();
}

template <std::size_t size>
bool arrives_as_a_copy() {
  critical_section cs;
  std::array<unsigned char, size> got{};
  const auto body = [&got, bytes = some_bytes<size>()] { got = bytes; };
  sync_wait(cs.execute(body));
  return got == some_bytes<size>();
}

template <std::size_t size>
bool arrives_after_a_move_and_a_wait() {
  critical_section cs;
  manual_executor home;
  std::array<unsigned char, size> got{};
  section_guard holds = sync_wait(cs.lock());
  async_scope waits({.executor = home});
  auto made = cs.execute([&got, bytes = some_bytes<size>()] { got = bytes; });
  waits.spawn(std::move(made));
  home.run();
  CHECK(cs.statistics().waiters == 1);
  holds.unlock();
  home.run();
  sync_wait(waits.join());
  return got == some_bytes<size>();
}

template <std::size_t size>
bool arrives() {
  return arrives_at_once<size>() && arrives_as_a_copy<size>() &&
         arrives_after_a_move_and_a_wait<size>();
}

template <std::size_t... less_one>
bool all_arrive(std::index_sequence<less_one...>) {
  return (arrives<less_one + 1>() && ...);
}

}  // namespace

TEST_CASE("stored_body: bytes of each number up to 72 arrive") {
  CHECK(all_arrive(std::make_index_sequence<72>()));
}

TEST_CASE("stored_body: whatever operators a body has, and whatever its members are") {
  struct hides_its_address {
    int* operator&() const { return nullptr; }
    void operator()() const { *to = more; }
    long* to;
    long more;
  };
  struct moves_only {
    explicit moves_only(long& sum) : to(&sum) {}
    moves_only(moves_only&&) = default;
    void operator()() const { *to += first + second; }
    long* to;
    const int first = 3;
    volatile int second = 4;
  };
  critical_section cs;
  long sum = 0;
  sync_wait(cs.execute(hides_its_address{&sum, 5}));
  sync_wait(cs.execute(moves_only(sum)));
  CHECK(sum == 12);
}

TEST_CASE("stored_body: what has an alignment of its own keeps it") {
  struct alignas(32) wide {
    std::uint64_t first = 1;
    std::uint8_t last = 2;
  };
  critical_section cs;
  bool aligned = false;
  std::uint64_t sum = 0;
  sync_wait(cs.execute([&aligned, &sum, w = wide{}] {
    aligned = reinterpret_cast<std::uintptr_t>(&w) % alignof(wide) == 0;
    sum = w.first + w.last;
  }));
  CHECK(aligned);
  CHECK(sum == 3);
}

TEST_CASE("stored_body: predicate and data, several sections, and what is posted") {
  critical_section cs;
  critical_section other;
  synchronized<long> data(5);
  long a = 1;
  long b = 2;
  long c = 3;
  sync_wait(cs.execute_when([&a, &b] { return a + b == 3; }, [&a, &b, &c] { c = a + b; }));
  sync_wait(data.execute([&a, &b](long& x) { x += a + b; }));
  sync_wait(execute(std::tie(cs, other), [&a, &b, &c] { a = b + c; }));
  sync_wait(cs.submit([&a, &b, &c] { c += a * b; }));
  cs.post([&a, &b, &c] { b = a + c; });
  sync_wait(cs.close());
  CHECK(a == 5);
  CHECK(c == 13);
  CHECK(b == 18);
  CHECK(sync_wait(data.execute([](long& x) { return x; })) == 8);
}
