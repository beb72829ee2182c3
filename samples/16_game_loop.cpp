// 16_game_loop - the loop of a game decides when others change its world: between two frames.
//
// You learn  that the bodies of a bound section run on its executor and nowhere else, so that
//            whoever runs the executor decides when, and may look at the data in between without
//            asking.
// Builds on  03_atomic_counter, 06_five_workers
// Prints     6 monsters came home in 395 steps
//            each step was taken by the main thread, 0 of them while a frame was drawn
//            never more than 2 jobs between two frames

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <array>
#include <iostream>
#include <iterator>
#include <queue>
#include <thread>
#include <utility>

constexpr int width = 40;
constexpr int height = 20;
constexpr int jobs_in_a_frame = 2;

struct cell {
  int x, y;
  friend bool operator==(cell, cell) = default;
};
constexpr cell home{0, 0};

// Never changes, so anybody may read it: walls with a door at one end and the other in turn.
bool is_wall(cell c) {
  if (c.x < 0 || c.y < 0 || c.x == width || c.y == height) return true;
  return c.x % 8 == 7 && c.y != (c.x % 16 == 7 ? height - 1 : 0);
}

// What a worker computes: the next step of a shortest way home.
cell step_towards_home(cell from) {
  constexpr std::array<cell, 4> neighbours = {{{1, 0}, {-1, 0}, {0, 1}, {0, -1}}};
  std::array<bool, width * height> seen{};
  std::queue<cell> next({home});  // from home, so what finds `from` is its next step
  for (;; next.pop()) {
    const cell at = next.front();
    for (const cell d : neighbours) {
      const cell c{at.x + d.x, at.y + d.y};
      if (c == from) return at;
      if (is_wall(c) || std::exchange(seen[static_cast<std::size_t>(c.y * width + c.x)], true)) {
        continue;
      }
      next.push(c);
    }
  }
}

// The main thread's. It reads and draws this without a section: bodies run when it says so.
struct world {
  std::array<cell, 6> monsters = {{{39, 3}, {30, 10}, {21, 0}, {20, 19}, {9, 9}, {3, 4}}};
  bool is_drawn = false;
  int steps = 0, by_others = 0, while_drawn = 0;
} now;

turnstile::manual_executor frame_work;
turnstile::critical_section section{{.name = "world", .executor = frame_work}};

turnstile::task<> walk_home(cell& monster, std::thread::id main_thread) {
  for (cell at = monster; at != home;) {
    at = step_towards_home(at);         // on a thread of the pool, beside the others
    co_await section.execute([&, at] {  // on the main thread
      monster = at;
      ++now.steps;
      if (std::this_thread::get_id() != main_thread) ++now.by_others;
      if (now.is_drawn) ++now.while_drawn;
    });
  }
}

// A real one would draw, and wait for the screen. True: all are at home.
bool draw() {
  now.is_drawn = true;
  const bool over = std::ranges::count(now.monsters, home) == std::ssize(now.monsters);
  std::this_thread::yield();
  now.is_drawn = false;
  return over;
}

int main() {
  turnstile::thread_pool pool{2};
  turnstile::async_scope scope{{.executor = pool}};
  for (cell& monster : now.monsters) scope.spawn(walk_home(monster, std::this_thread::get_id()));

  int most_jobs = 0;
  while (!draw()) {
    int jobs = 0;
    while (jobs != jobs_in_a_frame && frame_work.run_one()) ++jobs;
    most_jobs = std::max(most_jobs, jobs);
  }
  turnstile::sync_wait(scope.join());

  std::cout << now.monsters.size() << " monsters came home in " << now.steps << " steps\n"
            << (now.by_others == 0 ? "each" : "not each") << " step was taken by the main thread, "
            << now.while_drawn << " of them while a frame was drawn\n"
            << (most_jobs <= jobs_in_a_frame ? "never" : "at some time") << " more than "
            << jobs_in_a_frame << " jobs between two frames\n";
}
