// 03_atomic_counter - a thousand callers draw a number, and no two get the same.
//
// You learn  that an execution gives its caller what its own body returned, so that a section makes
//            a counter; and that one update of one variable is atomic without a section.
// Builds on  01_first_section
// Prints     section: 1000 drawn, 1000 different, from 1 to 1000
//            variable: 1000 drawn, 1000 different, from 1 to 1000

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <array>
#include <iostream>

turnstile::critical_section section{"numbers"};
int last = 0;

// The number comes out of the body. A read of `last` afterwards, outside the section, could find a
// number that somebody else has drawn meanwhile.
turnstile::task<> draw_in_section(int& mine) {
  mine = co_await section.execute([] { return ++last; });
}

turnstile::variable<int> counter{0, "counter"};

// For the same reason a write gives the value it wrote. A section is for what takes several steps.
turnstile::task<> draw_from_variable(int& mine) {
  mine = *counter.assign_add(1);
  co_return;
}

void let_all_draw(const char* name, turnstile::task<> (*draw)(int& mine)) {
  std::array<int, 1000> drawn{};
  turnstile::thread_pool pool{2};
  turnstile::async_scope scope{{.executor = pool}};
  for (int& mine : drawn) scope.spawn(draw(mine));
  turnstile::sync_wait(scope.join());

  std::ranges::sort(drawn);
  const auto repeated = std::ranges::unique(drawn);
  std::cout << name << ": " << drawn.size() << " drawn, " << drawn.size() - repeated.size()
            << " different, from " << drawn.front() << " to " << drawn.back() << '\n';
}

int main() {
  let_all_draw("section", draw_in_section);
  let_all_draw("variable", draw_from_variable);
}
