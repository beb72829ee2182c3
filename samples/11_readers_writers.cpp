// 11_readers_writers - readers read at the same time; a writer writes alone, before later readers.
//
// You learn  how short bodies at a door make another kind of lock: readers enter and leave through
//            the section and are not in it while they read; a writer that waits keeps new readers
//            out.
// Builds on  10_bounded_buffer
// Prints     ann asks
//            ann reads 0
//            bob asks
//            bob reads 0
//            the writer asks
//            cid asks
//            ann leaves, still 0
//            bob leaves, still 0
//            the writer wrote 1
//            cid reads 1
//            cid leaves, still 1

#include <turnstile/turnstile.hpp>

#include <iostream>

struct door {
  int readers = 0;
  int writers_waiting = 0;
};

turnstile::synchronized<door> entrance;
long page = 0;  // read between enter and leave, written in the body of write_next

turnstile::task<> enter() {
  co_await entrance.execute_when([](const door& d) { return d.writers_waiting == 0; },
                                 [](door& d) { ++d.readers; });
}

turnstile::task<> leave() {
  co_await entrance.execute([](door& d) { --d.readers; });
}

// While its body runs nobody comes through the door, so a writer need not leave. One that may be
// withdrawn while it waits would have to take back that it waits.
turnstile::task<long> write_next() {
  co_await entrance.execute([](door& d) { ++d.writers_waiting; });
  co_return co_await entrance.execute_when([](const door& d) { return d.readers == 0; },
                                           [](door& d) {
                                             --d.writers_waiting;
                                             return ++page;
                                           });
}

turnstile::task<> reader(const char* who) {
  std::cout << who << " asks\n";
  co_await enter();
  std::cout << who << " reads " << page << '\n';
  co_await turnstile::yield();  // the thread goes to the others
  std::cout << who << " leaves, still " << page << '\n';
  co_await leave();
}

turnstile::task<> writer() {
  std::cout << "the writer asks\n";
  const long written = co_await write_next();
  std::cout << "the writer wrote " << written << '\n';
}

// One thread that takes turns, so that they meet at the door in the same way in every run.
int main() {
  turnstile::manual_executor thread;
  turnstile::async_scope scope{{.executor = thread}};
  scope.spawn(reader("ann"));
  scope.spawn(reader("bob"));
  scope.spawn(writer());
  scope.spawn(reader("cid"));
  thread.run();
  turnstile::sync_wait(scope.join());
}
