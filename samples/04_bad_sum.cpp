// 04_bad_sum - two sections do not protect one variable, and how to be told so.
//
// You learn  that a section keeps out only what goes through the same section, and that bodies
//            which say what they use get an error instead of a wrong sum.
// Builds on  02_two_sections
// Prints     two sections, nothing said: 1 + 5 = 5
//            two sections: "right" may not use "sum", "left" has claimed it
//            one section: 1 + 5 = 6

#include <turnstile/turnstile.hpp>

#include <iostream>

turnstile::resource sum_itself{"sum"};  // stands for `sum` in `uses`
long sum = 0;

// Another coroutine gets the thread between reading and writing, as it might at any time on a pool.
turnstile::task<> add(turnstile::critical_section& section, long n, turnstile::resource_list uses) {
  const auto body = [n]() -> turnstile::task<> {
    const long before = sum;
    co_await turnstile::yield();
    sum = before + n;
  };
  co_await section.execute(body, {.uses = uses});
}

void add_one_and_five(turnstile::critical_section& one, turnstile::critical_section& five,
                      turnstile::resource_list uses) {
  sum = 0;
  turnstile::manual_executor thread;
  turnstile::async_scope scope{{.executor = thread}};
  scope.spawn(add(one, 1, uses));
  scope.spawn(add(five, 5, uses));
  thread.run();
  turnstile::sync_wait(scope.join());
  std::cout << "1 + 5 = " << sum << '\n';
}

int main() {
  turnstile::critical_section left{"left"};
  turnstile::critical_section right{"right"};

  std::cout << "two sections, nothing said: ";
  add_one_and_five(left, right, {});

  std::cout << "two sections: ";
  try {
    add_one_and_five(left, right, sum_itself);
  } catch (const turnstile::exclusive_access_error& error) {
    std::cout << '"' << error.claimant() << "\" may not use \"" << error.resource() << "\", \""
              << error.owner() << "\" has claimed it\n";
  }

  std::cout << "one section: ";
  add_one_and_five(left, left, sum_itself);
}
