// 09_deadlock - two chains that take two sections in opposite orders, on purpose.
//
// You learn  that the wait which would close the circle is an error with the way around it, that
//            everybody else goes on, and how to look at who waits for what.
// Builds on  02_two_sections
// Prints     accounts in async_scope waits for orders
//            bob was refused: accounts -> orders -> accounts
//            alice has both
//            nobody waits

#include <turnstile/turnstile.hpp>

#include <iostream>
#include <regex>
#include <string>

turnstile::critical_section accounts{"accounts"};
turnstile::critical_section orders{"orders"};

turnstile::task<> enter(turnstile::critical_section& second, const char* who) {
  co_await turnstile::yield();  // by now the other one has its first section too
  auto body = [who] { std::cout << who << " has both\n"; };
  try {
    co_await second.execute(body, {.name = who});
  } catch (const turnstile::deadlock_error& e) {  // e.what() has the executions and the places too
    std::cout << who << " was refused:";
    const char* joint = " ";
    for (const turnstile::path_step& step : e.path()) {
      std::cout << joint << step.section;
      joint = " -> ";
    }
    std::cout << "\n";
  }
}

turnstile::task<> both(turnstile::critical_section& first, turnstile::critical_section& second,
                       const char* who) {
  auto body = [&] { return enter(second, who); };
  co_await first.execute(body, {.name = who});
}

// The graph names an execution and its place behind each section, in brackets.
std::string sections_only(const std::string& graph) {
  return std::regex_replace(graph, std::regex(R"( \([^)]*\))"), "");
}

int main() {
  turnstile::manual_executor lane;
  turnstile::async_scope work{{.executor = lane}};
  work.spawn(both(accounts, orders, "alice"));
  work.spawn(both(orders, accounts, "bob"));

  // As text; registry::wait_graph_dot() gives the same for Graphviz.
  std::string graph;
  while (graph.empty() && lane.run_one()) graph = turnstile::registry::wait_graph();
  std::cout << sections_only(graph);
  lane.run();
  std::cout << (turnstile::registry::wait_graph().empty() ? "nobody waits\n" : "somebody waits\n");
  turnstile::sync_wait(work.join());
}
