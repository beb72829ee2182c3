// 05_snapshots - a target network is replaced while others work with the old one.
//
// You learn  how a reader keeps a whole value that nobody can change under it, that a write gives
//            the value it wrote, and when a write has to copy.
// Builds on  03_atomic_counter
// Prints     1000 readers: 0 saw a torn target
//            now: version 100, every weight 100
//            held since the start: version 0, every weight 0
//            nobody holds it: 0 copies for a write; somebody does: 1

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <iostream>

using weights = std::array<float, 256>;

turnstile::variable<weights> target{weights{}, "target"};
std::atomic<int> torn{0};

turnstile::task<> use_target() {
  const turnstile::snapshot<weights> mine = target.read();
  co_await turnstile::yield();  // the target may be replaced meanwhile: mine stays as it is
  if (std::count(mine->begin(), mine->end(), mine->front()) != 256) ++torn;
}

turnstile::task<> train() {
  for (int i = 0; i != 100; ++i) {
    target.update([](weights& all) {
      for (float& w : all) w += 1;
    });
    co_await turnstile::yield();
  }
}

auto copies_for_a_write() {
  const auto before = target.copies();
  target.update([](weights& all) { all[0] = 0; });
  return target.copies() - before;
}

int main() {
  const auto print = [](const char* when, const turnstile::snapshot<weights>& s) {
    std::cout << when << ": version " << s.version() << ", every weight " << s->front() << '\n';
  };
  const auto start = target.read();
  turnstile::thread_pool pool{2};
  turnstile::async_scope scope{{.executor = pool}};
  scope.spawn(train());
  for (int i = 0; i != 1000; ++i) scope.spawn(use_target());
  turnstile::sync_wait(scope.join());
  std::cout << "1000 readers: " << torn << " saw a torn target\n";
  print("now", target.read());
  print("held since the start", start);
  std::cout << "nobody holds it: " << copies_for_a_write() << " copies for a write; ";
  const auto now = target.read();
  std::cout << "somebody does: " << copies_for_a_write() << '\n';
}
