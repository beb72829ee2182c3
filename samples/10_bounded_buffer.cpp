// 10_bounded_buffer - producers wait for room and consumers for items, and nothing is lost.
//
// You learn  how to wait for a condition: a body that runs once the data is as it needs it, while
//            others pass; and that nobody has to be notified.
// Builds on  03_atomic_counter
// Prints     3 producers, 2 consumers: 3000 items came through, 0 of them twice or never
//            never more than 4 at once

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iostream>
#include <optional>
#include <queue>

constexpr std::size_t room = 4;
constexpr int producers = 3;
constexpr int consumers = 2;
constexpr int each = 1000;

struct buffer {
  std::queue<int> items;
  std::size_t most = 0;  // there at once
  int producing = producers;
};

turnstile::synchronized<buffer> shared;

// A condition only looks, at the data and at nothing else. Every body of the section may change the
// data, so after every body the conditions of those who wait are asked again.
bool has_room(const buffer& b) { return b.items.size() < room; }
bool has_item_or_ends(const buffer& b) { return !b.items.empty() || b.producing == 0; }

std::optional<int> take(buffer& b) {
  if (b.items.empty()) return std::nullopt;
  const int item = b.items.front();
  b.items.pop();
  return item;
}

turnstile::task<> produce(int first) {
  for (int item = first; item != first + each; ++item) {
    co_await shared.execute_when(has_room, [item](buffer& b) {
      b.items.push(item);
      b.most = std::max(b.most, b.items.size());
    });
  }
  co_await shared.execute([](buffer& b) { --b.producing; });
}

turnstile::task<> consume(std::array<int, producers * each>& seen) {
  while (const std::optional<int> item = co_await shared.execute_when(has_item_or_ends, take)) {
    ++seen[static_cast<std::size_t>(*item)];  // an item is one consumer's: nobody else writes here
  }
}

int main() {
  std::array<int, producers * each> seen{};
  turnstile::thread_pool pool{2};
  turnstile::async_scope scope{{.executor = pool}};
  for (int i = 0; i != producers; ++i) scope.spawn(produce(i * each));
  for (int i = 0; i != consumers; ++i) scope.spawn(consume(seen));
  turnstile::sync_wait(scope.join());

  const auto once = std::ranges::count(seen, 1);
  std::cout << producers << " producers, " << consumers << " consumers: " << once
            << " items came through, " << producers * each - once << " of them twice or never\n";
  const std::size_t most = turnstile::sync_wait(shared.execute([](buffer& b) { return b.most; }));
  std::cout << (most <= room ? "never" : "at some time") << " more than " << room << " at once\n";
}
