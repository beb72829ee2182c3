// wait_graph.cpp - waits that would never end: one of those on the cycle is refused and everybody
// goes on; and nobody is refused for a wait that ends. Whatever is missed hangs, which the checker
// reports.
//
// Plain threads that hold guards are chains of their own; spawned work on a lane is a member of its
// scope.

#include "schedule/lane.hpp"
#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

using namespace schedule;
using namespace turnstile;

namespace {

constexpr section_options small{.ring_capacity = 1};

// Two sections in one bucket of the graph's table, which goes by bits 6 to 15 and 16 to 25.
struct alignas(1 << 17) alike {
  critical_section one{small};
  std::array<std::byte, (1 << 16) + 64 - sizeof(critical_section)> between;
  critical_section other{small};
};
static_assert(sizeof(critical_section) % 64 == 0 && alignof(critical_section) <= 64);

// How what was asked for came out.
class outcomes {
 public:
  template <class F>
  void of(F&& ask) {
    try {
      std::forward<F>(ask)();
      served_.fetch_add(1, detail::relaxed);
    } catch (const deadlock_error&) {
      note_refusal();
    }
  }
  void note_refusal() noexcept { refused_.fetch_add(1, detail::relaxed); }
  int served() const noexcept { return served_.load(detail::seq_cst); }
  int refused() const noexcept { return refused_.load(detail::seq_cst); }

 private:
  atomic<int> served_{0};
  atomic<int> refused_{0};
};

void enter(critical_section& cs) {
  sync_wait(cs.execute([] {}));
}

task<> ask_for(critical_section& cs) {
  co_await cs.execute([] {});
}

task<> ask_to_be_stopped(critical_section& cs, std::stop_token stop, outcomes& all) {
  try {
    co_await cs.execute([] {}, {.stop = stop});
  } catch (const operation_cancelled&) {
  } catch (const deadlock_error&) {
    all.note_refusal();
  }
}

void hold_and_ask(critical_section& held, critical_section& wanted, outcomes& all) {
  section_guard g = sync_wait(held.lock());
  all.of([&] { enter(wanted); });
}

// Runs on its own from the first suspension on, and knows nothing of the library.
struct detached {
  struct promise_type {
    detached get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };
};

detached on_its_own(critical_section& cs, atomic<int>& left) {
  co_await cs.execute([] {});
  left.fetch_sub(1, detail::seq_cst);
  left.notify_all();
}

void wait_for_none(atomic<int>& left) {
  for (int seen = 0; (seen = left.load(detail::acquire)) != 0;) left.wait(seen, detail::acquire);
}

struct sections {
  critical_section a{small};
  critical_section b{small};
  critical_section c{small};
};

// The work waits for `a`, which we hold, and side by side for `b`, which it then gets.
void join_while_two_wait(const std::function<task<>()>& work, sections& all) {
  async_scope scope;
  outcomes joins;
  {
    section_guard ours = sync_wait(all.a.lock());
    section_guard gate = support::hold(all.b);
    scope.spawn(work());
    gate.unlock();
    joins.of([&] { sync_wait(scope.join()); });
  }
  joins.of([&] { sync_wait(scope.join()); });
  require(joins.refused() == 1, "the work waits for what we hold");
}

}  // namespace

TEST_SUITE("wait graph") {
  TEST_CASE("wait graph: two take two sections in opposite order, and one of them is refused") {
    holds([] {
      critical_section a(small);
      critical_section b(small);
      outcomes all;
      together({[&] { hold_and_ask(a, b, all); }, [&] { hold_and_ask(b, a, all); }});
      require(all.served() + all.refused() == 2, "somebody has no answer");
      require(all.refused() <= 1, "both were refused");
    });
  }

  TEST_CASE("wait graph: bodies that wait in one section for the other") {
    holds([] {
      critical_section a(small);
      critical_section b(small);
      outcomes all;
      const auto inside = [&](critical_section& outer, critical_section& inner) {
        all.of([&] { sync_wait(outer.execute([&] { return ask_for(inner); })); });
      };
      together({[&] { inside(a, b); }, [&] { inside(b, a); }});
      require(all.served() + all.refused() == 2, "somebody has no answer");
      require(all.refused() <= 1, "both were refused");
    });
  }

  TEST_CASE("wait graph: three in a ring") {
    holds(
        [] {
          critical_section a(small);
          critical_section b(small);
          critical_section c(small);
          outcomes all;
          together({[&] { hold_and_ask(a, b, all); }, [&] { hold_and_ask(b, c, all); },
                    [&] { hold_and_ask(c, a, all); }});
          require(all.served() + all.refused() == 3, "somebody has no answer");
          require(all.refused() <= 1, "two were refused");
        },
        {.most = {2, 1}});
  }

  TEST_CASE("wait graph: everybody takes them in the same order, and nobody is refused") {
    holds([] {
      critical_section a(small);
      critical_section b(small);
      outcomes all;
      together({[&] { hold_and_ask(a, b, all); }, [&] { hold_and_ask(a, b, all); }});
      require(all.served() == 2, "refused though there was no cycle");
    });
  }

  TEST_CASE("wait graph: one lets go of a section before it asks for the other") {
    holds([] {
      critical_section a(small);
      critical_section b(small);
      outcomes all;
      together({[&] { hold_and_ask(a, b, all); },
                [&] {
                  section_guard g = sync_wait(b.lock());
                  g.unlock();
                  all.of([&] { enter(a); });
                }});
      require(all.served() == 2, "refused though there was no cycle");
    });
  }

  TEST_CASE("wait graph: who holds another section of the same bucket is not in the way") {
    holds([] {
      const auto both = std::make_unique<alike>();
      critical_section b(small);
      critical_section c(small);
      async_scope scope;
      section_guard before = support::hold(c);
      section_guard gate = support::hold(both->other);
      const auto first = [&]() -> task<> {
        section_guard g = co_await b.lock();
        co_await c.execute([] {});
        co_await both->other.execute([] {});
      };
      const auto second = [&]() -> task<> {
        section_guard g = co_await both->one.lock();
        co_await b.execute([] {});
      };
      scope.spawn(first());
      scope.spawn(second());
      before.unlock();
      gate.unlock();
      outcomes all;
      all.of([&] { sync_wait(scope.join()); });
      require(all.served() == 1, "refused though there was no cycle");
    });
  }

  TEST_CASE("wait graph: the outermost of two that are held is wanted") {
    holds([] {
      critical_section a(small);
      critical_section b(small);
      critical_section c(small);
      outcomes all;
      section_guard inner = support::hold(b);
      inner.unlock();
      together({[&] {
                  section_guard outer = sync_wait(a.lock());
                  hold_and_ask(b, c, all);
                },
                [&] { hold_and_ask(c, a, all); }});
      require(all.served() + all.refused() == 2, "somebody has no answer");
      require(all.refused() <= 1, "both were refused");
    });
  }

  TEST_CASE("wait graph: the innermost of two that are held is wanted") {
    holds([] {
      critical_section a(small);
      critical_section b(small);
      critical_section c(small);
      outcomes all;
      together({[&] {
                  section_guard outer = sync_wait(a.lock());
                  hold_and_ask(b, c, all);
                },
                [&] { hold_and_ask(c, b, all); }});
      require(all.served() + all.refused() == 2, "somebody has no answer");
      require(all.refused() <= 1, "both were refused");
    });
  }

  TEST_CASE("wait graph: more are held than a wait is listed by") {
    holds([] {
      critical_section a(small);
      critical_section b(small);
      critical_section c(small);
      critical_section d(small);
      critical_section e(small);
      outcomes all;
      together({[&] {
                  section_guard first = sync_wait(a.lock());
                  section_guard second = sync_wait(b.lock());
                  section_guard third = sync_wait(c.lock());
                  hold_and_ask(d, e, all);
                },
                [&] { hold_and_ask(e, b, all); }});
      require(all.served() + all.refused() == 2, "somebody has no answer");
      require(all.refused() <= 1, "both were refused");
    });
  }

  TEST_CASE("wait graph: children side by side, one of them holds a guard") {
    holds(
        [] {
          critical_section a(small);
          critical_section b(small);
          critical_section c(small);
          outcomes all;
          const auto child = [&](critical_section& held, critical_section& wanted) -> task<> {
            section_guard g = co_await held.lock();
            co_await wanted.execute([] {});
          };
          const auto both = [&]() -> task<> { co_await when_all(child(b, c), ask_for(b)); };
          together({[&] { all.of([&] { sync_wait(a.execute(both)); }); },
                    [&] { hold_and_ask(c, a, all); }});
          require(all.served() + all.refused() == 2, "somebody has no answer");
          require(all.refused() <= 1, "both were refused");
        },
        {.most = {2, 1}});
  }

  // The first one has had `b` when the second one holds it, and waits in nobody's way.
  TEST_CASE(
      "wait graph: a wait that was served does not count, though its waiter has not gone on") {
    holds(
        [] {
          lane one;
          async_scope scope;
          critical_section a(small);
          critical_section b(small);
          section_guard gate = support::hold(b);
          const auto first = [&]() -> task<> {
            section_guard g = co_await a.lock();
            co_await b.execute([] {}, {.resume_on = executor_ref(one)});
          };
          const auto second = [&]() -> task<> { co_await b.execute([&] { return ask_for(a); }); };
          scope.spawn(first());
          scope.spawn(second());
          gate.unlock();
          sync_wait(scope.join());
        },
        {.most = {2, 1}});
  }

  TEST_CASE("wait graph: the same, and it had the section as a guard") {
    holds(
        [] {
          lane one;
          async_scope scope;
          critical_section a(small);
          critical_section b(small);
          section_guard gate = support::hold(b);
          const auto first = [&]() -> task<> {
            section_guard g = co_await a.lock();
            section_guard inner = co_await b.lock({.resume_on = executor_ref(one)});
            inner.unlock();
          };
          const auto second = [&]() -> task<> { co_await b.execute([&] { return ask_for(a); }); };
          scope.spawn(first());
          scope.spawn(second());
          gate.unlock();
          sync_wait(scope.join());
        },
        {.most = {2, 1}});
  }

  TEST_CASE("wait graph: a handle's body has ended, and its section goes on to who wants ours") {
    holds(
        [] {
          lane serves;
          critical_section a(small);
          critical_section s({.executor = executor_ref(serves), .ring_capacity = 1});
          outcomes all;
          section_guard ours = sync_wait(a.lock());
          auto handle = s.submit([] {});
          thread other([&] { all.of([&] { sync_wait(s.execute([&] { return ask_for(a); })); }); });
          all.of([&] { sync_wait(std::move(handle)); });
          ours.unlock();
          other.join();
          require(all.served() == 2, "refused though there was no cycle");
        },
        {.most = {2, 1}});
  }

  TEST_CASE("wait graph: a handle is awaited, and who has its section wants ours") {
    holds(
        [] {
          lane serves;
          critical_section a(small);
          critical_section s({.executor = executor_ref(serves), .ring_capacity = 1});
          outcomes all;
          section_guard ours = sync_wait(a.lock());
          auto before = s.submit([&] { return ask_for(a); });
          auto handle = s.submit([] {});
          all.of([&] { sync_wait(std::move(handle)); });
          ours.unlock();
          all.of([&] { sync_wait(std::move(before)); });
          require(all.served() + all.refused() == 2, "somebody has no answer");
        },
        {.most = {2, 1}});
  }

  TEST_CASE("wait graph: a join from inside, while its work asks for what we hold") {
    holds([] {
      lane works;
      critical_section a(small);
      async_scope scope({.executor = executor_ref(works)});
      outcomes joins;
      scope.spawn(ask_for(a));
      {
        section_guard ours = sync_wait(a.lock());
        joins.of([&] { sync_wait(scope.join()); });
      }
      outcomes after;
      after.of([&] { sync_wait(scope.join()); });
      require(after.refused() == 0, "two were refused");
    });
  }

  TEST_CASE("wait graph: the same, and the work holds a guard") {
    holds(
        [] {
          lane works;
          critical_section a(small);
          critical_section b(small);
          async_scope scope({.executor = executor_ref(works)});
          const auto work = [&]() -> task<> {
            section_guard g = co_await b.lock();
            co_await a.execute([] {});
          };
          scope.spawn(work());
          outcomes all;
          {
            section_guard ours = sync_wait(a.lock());
            all.of([&] { sync_wait(scope.join()); });
          }
          all.of([&] { sync_wait(scope.join()); });
          require(all.refused() <= 1, "two were refused");
        },
        {.most = {2, 1}});
  }

  TEST_CASE("wait graph: the same, and the work waits for its children") {
    holds(
        [] {
          lane works;
          critical_section a(small);
          critical_section b(small);
          async_scope scope({.executor = executor_ref(works)});
          const auto work = [&]() -> task<> { co_await when_all(ask_for(b), ask_for(a)); };
          scope.spawn(work());
          outcomes all;
          {
            section_guard ours = sync_wait(a.lock());
            all.of([&] { sync_wait(scope.join()); });
          }
          all.of([&] { sync_wait(scope.join()); });
          require(all.refused() <= 1, "two were refused");
        },
        {.most = {2, 1}});
  }

  TEST_CASE("wait graph: the same, and both its children wait") {
    holds([] {
      sections three;
      const auto work = [&]() -> task<> { co_await when_all(ask_for(three.a), ask_for(three.b)); };
      join_while_two_wait(work, three);
    });
  }

  TEST_CASE("wait graph: the same, and its children began below a guard that is gone") {
    holds([] {
      sections three;
      const auto work = [&]() -> task<> {
        section_guard g = co_await three.c.lock();
        const auto first = [&]() -> task<> {
          g.unlock();
          co_await three.a.execute([] {});
        };
        co_await when_all(first(), ask_for(three.b));
      };
      join_while_two_wait(work, three);
    });
  }

  TEST_CASE("wait graph: from a join through its work and somebody else's section, and back") {
    holds(
        [] {
          lane works;
          critical_section a(small);
          critical_section b(small);
          async_scope scope({.executor = executor_ref(works)});
          outcomes all;
          scope.spawn(ask_for(b));
          together({[&] {
                      {
                        section_guard ours = sync_wait(a.lock());
                        all.of([&] { sync_wait(scope.join()); });
                      }
                      all.of([&] { sync_wait(scope.join()); });
                    },
                    [&] { hold_and_ask(b, a, all); }});
          require(all.served() + all.refused() == 3, "somebody has no answer");
        },
        {.most = {1, 1}});
  }

  TEST_CASE("wait graph: work of one scope joins another one, whose work joins the first") {
    holds(
        [] {
          lane one;
          lane other;
          async_scope first({.executor = executor_ref(one)});
          async_scope second({.executor = executor_ref(other)});
          outcomes all;
          const auto join = [&](async_scope& scope) -> task<> {
            try {
              co_await scope.join();
            } catch (const deadlock_error&) {
              all.of([]() { throw; });
            }
          };
          together({[&] { first.spawn(join(second)); }, [&] { second.spawn(join(first)); }});
          sync_wait(first.join());
          sync_wait(second.join());
        },
        {.most = {1, 0}});
  }

  // Whoever joins goes on at an instant at which nothing ran, and then its join is in nobody's way;
  // or it takes the error of what it waited for.
  TEST_CASE(
      "wait graph: a join ends while new work is spawned that asks for what its chain holds") {
    holds(
        [] {
          lane works;
          critical_section a(small);
          async_scope scope;
          outcomes first;
          outcomes second;
          scope.spawn(schedule_on(works, []() -> task<> { co_return; }()));
          thread spawns;
          {
            section_guard ours = sync_wait(a.lock());
            spawns = thread([&] { scope.spawn(ask_for(a)); });
            first.of([&] { sync_wait(scope.join()); });
          }
          spawns.join();
          second.of([&] { sync_wait(scope.join()); });
          require(first.served() + first.refused() == 1, "somebody has no answer");
          require(second.served() + second.refused() == 1, "somebody has no answer");
          require(second.refused() == 0, "refused because of a join that was over");
        },
        {.most = {2, 1}});
  }

  TEST_CASE("wait graph: a member's wait ends while a search looks at it") {
    holds(
        [] {
          lane works;
          critical_section a(small);
          critical_section s(small);
          async_scope scope({.executor = executor_ref(works)});
          section_guard gate = support::hold(s);
          scope.spawn(ask_for(s));
          together({[&] { gate.unlock(); },
                    [&] {
                      section_guard ours = sync_wait(a.lock());
                      sync_wait(scope.join());
                    }});
        },
        {.most = {2, 0}});
  }

  TEST_CASE(
      "wait graph: the first wait that a search finds is stopped meanwhile, and there is another "
      "one") {
    holds(
        [] {
          lane works;
          critical_section a(small);
          std::stop_source stop;
          async_scope scope({.executor = executor_ref(works)});
          outcomes all;
          together({[&] {
                      section_guard ours = sync_wait(a.lock());
                      scope.spawn(ask_to_be_stopped(a, {}, all));
                      scope.spawn(ask_to_be_stopped(a, stop.get_token(), all));
                      all.of([&] { sync_wait(scope.join()); });
                    },
                    [&] { stop.request_stop(); }});
          sync_wait(scope.join());
          require(all.refused() != 0, "nobody is told that one of them waits for what we hold");
        },
        {.most = {2, 0}});
  }

  TEST_CASE("wait graph: a guard is unlocked by the work that then wants another section") {
    holds(
        [] {
          lane works;
          critical_section a(small);
          critical_section b(small);
          async_scope scope({.executor = executor_ref(works)});
          outcomes all;
          section_guard given = sync_wait(a.lock());
          const auto work = [&]() -> task<> {
            given.unlock();
            co_await b.execute([] {});
          };
          scope.spawn(work());
          thread other([&] { hold_and_ask(b, a, all); });
          all.of([&] { sync_wait(scope.join()); });
          other.join();
          require(all.served() == 2, "refused though there was no cycle");
        },
        {.most = {2, 1}});
  }

  TEST_CASE("wait graph: a section is closed by who holds another one") {
    holds([] {
      critical_section a(small);
      critical_section b(small);
      outcomes all;
      together({[&] {
                  section_guard g = sync_wait(a.lock());
                  all.of([&] { sync_wait(b.close()); });
                },
                [&] {
                  try {
                    hold_and_ask(b, a, all);
                  } catch (const section_closed&) {
                    all.of([] {});
                  }
                }});
      require(all.served() + all.refused() == 2, "somebody has no answer");
      require(all.refused() <= 1, "both were refused");
    });
  }

  // `b` is closed and made again at the same place by one of two who close it, before the other one
  // has gone on.
  TEST_CASE("wait graph: what was closed is no way to a section that comes in its place") {
    holds([] {
      critical_section a(small);
      std::optional<critical_section> b(small);
      async_scope scope;
      section_guard gate = support::hold(*b);
      const auto first = [&]() -> task<> {
        section_guard g = co_await a.lock();
        co_await b->close();
      };
      const auto second = [&]() -> task<> {
        co_await b->close();
        b.reset();
        b.emplace(small);
        co_await b->execute([&] { return ask_for(a); });
      };
      const bool turned_round = any_of(2) == 1;
      if (turned_round) scope.spawn(second());
      scope.spawn(first());
      if (!turned_round) scope.spawn(second());
      gate.unlock();
      sync_wait(scope.join());
    });
  }

  TEST_CASE("wait graph: the place of who is refused is passed over, in order") {
    holds(
        [] {
          lane serves;
          critical_section a({.executor = executor_ref(serves), .ring_capacity = 1});
          critical_section b(small);
          outcomes all;
          guarded<int> n{0};
          const auto count = [&](int expected) -> task<> {
            co_await a.execute([&n, expected] {
              require(n == expected, "out of order");
              n = n + 1;
            });
          };
          together({[&] { hold_and_ask(a, b, all); }, [&] { hold_and_ask(b, a, all); },
                    [&] {
                      async_scope scope;
                      scope.spawn(count(0));
                      scope.spawn(count(1));
                      sync_wait(scope.join());
                    }});
          require(n == 2, "not everybody was served");
          require(all.refused() <= 1, "both were refused");
        },
        {.most = {1, 0}});
  }

  TEST_CASE("wait graph: two children copy the chain that they have in common") {
    holds(
        [] {
          lane one;
          lane other;
          critical_section a(small);
          critical_section b(small);
          atomic<int> left{2};
          const auto child = [&]() -> task<> {
            on_its_own(b, left);
            co_return;
          };
          const auto both = [&]() -> task<> {
            co_await when_all(schedule_on(one, child()), schedule_on(other, child()));
          };
          section_guard gate = support::hold(b);
          sync_wait(a.execute(both));
          gate.unlock();
          wait_for_none(left);
        },
        {.most = {1, 1}});
  }

  TEST_CASE("wait graph: a foreign coroutine is served within its own call") {
    holds([] {
      critical_section a(small);
      critical_section b(small);
      critical_section c(small);
      atomic<int> left{1};
      const auto body = [&]() -> task<> {
        section_guard g = co_await c.lock();
        on_its_own(b, left);
      };
      section_guard gate = support::hold(b);
      together({[&] { sync_wait(a.execute(body)); }, [&] { gate.unlock(); }});
      wait_for_none(left);
    });
  }

  TEST_CASE(
      "wait graph: children leave guards to their parent, and what they started still waits") {
    holds([] {
      critical_section a(small);
      critical_section b(small);
      critical_section c(small);
      critical_section wanted(small);
      atomic<int> left{1};
      section_guard gate = support::hold(wanted);
      const auto child = [&](critical_section& cs, bool starts) -> task<section_guard> {
        section_guard g = co_await cs.lock();
        if (starts) on_its_own(wanted, left);
        co_return g;
      };
      const auto parent = [&]() -> task<> {
        section_guard g = co_await a.lock();
        co_await when_all(child(b, false), child(c, true));
        gate.unlock();
      };
      sync_wait(parent());
      wait_for_none(left);
    });
  }

  TEST_CASE("wait graph: a body has ended, and what it started still waits") {
    holds(
        [] {
          critical_section a(small);
          critical_section b(small);
          critical_section c(small);
          outcomes all;
          atomic<int> left{1};
          section_guard gate = support::hold(b);
          const auto body = [&] { on_its_own(b, left); };
          auto* const starts = new task<>(
              [](critical_section& cs, auto b) -> task<> { co_await cs.execute(b); }(a, body));
          sync_wait(std::move(*starts));
          delete starts;
          together({[&] { hold_and_ask(c, a, all); }, [&] { hold_and_ask(a, c, all); },
                    [&] { gate.unlock(); }});
          wait_for_none(left);
          require(all.served() + all.refused() == 2, "somebody has no answer");
        },
        {.most = {1, 1}});
  }
}
