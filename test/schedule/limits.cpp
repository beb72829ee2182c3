// limits.cpp - schedules of a section whose waiters are limited: one may wait, and the others are
// outside.

#include "schedule/place.hpp"
#include "schedule/shared_pool.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <functional>
#include <stop_token>
#include <utility>

using namespace schedule;
using namespace turnstile;

namespace {

constexpr section_options one_waits = {
    .ring_capacity = 1, .max_waiters = 1, .on_full = when_full::wait_outside};

// What `f` passes on is served there, and not on the shared pool.
void on_an_executor(std::function<void()> f) {
  client c;
  c.run([](std::function<void()> g) -> task<> {
    g();
    co_return;
  }(std::move(f)));
}

}  // namespace

TEST_SUITE("limits") {
  TEST_CASE("limits: who comes while the section is handed over waits in line, or outside") {
    holds([] {
      place p(one_waits);
      client a;
      client b;
      p.hold();
      a.begin(p.ask(0));
      together(
          {[&] { p.unlock(); }, [&] { require(b.run(p.ask(1)) == ending::ran, "not served"); }});
      require(a.end() == ending::ran && p.n == 2, "not once each");
      p.is_free();
    });
  }

  TEST_CASE("limits: two come at once while the section is left") {
    holds(
        [] {
          place p(one_waits);
          guarded<int> n{0};
          p.hold();
          const auto ask = [&] {
            client c;
            require(c.run(p.cs.execute([&n] { n = n + 1; })) == ending::ran, "not served");
          };
          together({[&] { p.unlock(); }, ask, ask});
          require(n == 2, "not once each");
          p.is_free();
        },
        {.most = {2, 1}});
  }

  TEST_CASE("limits: one outside goes while it is let in, and the one behind it is not forgotten") {
    holds(
        [] {
          place p(one_waits);
          std::array<client, 3> c;
          std::stop_source stop;
          p.hold();
          c[0].begin(p.ask(0));
          c[1].begin(p.ask(1, stop));
          c[2].begin(p.ask(2));
          ending how = ending::none;
          together({[&] { p.unlock(); }, [&] { stop.request_stop(); }, [&] { how = c[1].end(); }});
          require(how == ending::ran || how == ending::cancelled, "ended otherwise");
          for (const int i : {0, 2}) require(c[i].end() == ending::ran, "the wrong one went");
          require(p.n == (how == ending::ran ? 3 : 2), "not once each");
          p.is_free();
        },
        {.most = {1, 1}});
  }

  TEST_CASE("limits: one in line goes, and who is outside has its place") {
    holds(
        [] {
          place p(one_waits);
          client a;
          client b;
          std::stop_source stop;
          p.hold();
          a.begin(p.ask(0, stop));
          b.begin(p.ask(1));
          ending how = ending::none;
          together({[&] { p.unlock(); }, [&] { stop.request_stop(); }, [&] { how = a.end(); }});
          require(b.end() == ending::ran, "the wrong one went");
          require(p.n == (how == ending::ran ? 2 : 1), "not once each");
          p.is_free();
        },
        {.most = {1, 1}});
  }

  TEST_CASE("limits: who comes overtakes nobody who is outside") {
    holds(
        [] {
          place p(one_waits);
          client a;
          client b;
          client c;
          p.hold();
          a.begin(p.ask(0));
          b.begin(p.ask(1));
          together({[&] { p.unlock(); },
                    [&] { require(c.run(p.ask(2)) == ending::ran, "not served"); }});
          require(a.end() == ending::ran && b.end() == ending::ran && p.n == 3, "not once each");
          p.is_free();
        },
        {.most = {2, 1}});
  }

  TEST_CASE("limits: the section closes, and who is outside goes or is refused") {
    holds(
        [] {
          place p(one_waits);
          std::array<client, 4> c;
          client closes;
          std::stop_source stop;
          p.hold();
          c[0].begin(p.ask(0));
          c[1].begin(p.ask(1, stop));
          c[2].begin(p.ask(2));
          c[3].begin(p.ask(3));
          closes.begin(p.cs.close());
          together({[&] { p.unlock(); }, [&] { stop.request_stop(); },
                    [&] { require(closes.end() == ending::ran, "not closed"); }});
          require(c[0].end() == ending::ran && p.n == 1, "what was accepted did not run");
          const ending how = c[1].end();
          require(how == ending::cancelled || how == ending::closed, "ended otherwise");
          for (const int i : {2, 3}) require(c[i].end() == ending::closed, "ended otherwise");
        },
        {.most = {1, 1}});
  }

  TEST_CASE("limits: who has closed the section ends it, while who went lets in who is outside") {
    holds(
        [] {
          shared_place p(2, one_waits);
          client goes;
          client outside;
          client closes;
          std::stop_source stop;
          p.hold();
          goes.begin(p->ask(0, stop));
          outside.begin(p->ask(1));
          closes.begin(p->cs.close());
          beside({[&] { p.unlock(); }, [&] { stop.request_stop(); }}, [&] {
            require(p.end(closes) == ending::ran, "not closed");
            p.end_of_holder();
          });
          const ending how = goes.end();
          require(how == ending::cancelled || how == ending::ran, "ended otherwise");
          require(outside.end() == ending::closed, "ended otherwise");
        },
        {.most = {2, 1}});
  }

  // Both count that they have gone only when the section has been left.
  TEST_CASE("limits: who has closed the section ends it, while one in line and one set aside go") {
    holds(
        [] {
          const shared_pool pool;  // or to this
          shared_place p(2, one_waits);
          client in_line;
          client aside;
          client outside;
          client closes;
          std::stop_source stop_in_line;
          std::stop_source stop_aside;
          p.hold();
          in_line.begin(p->ask(0, stop_in_line));
          aside.begin(p->ask_when(1, stop_aside));
          outside.begin(p->ask(2));
          atomic<bool> is_left{false};
          ending third = ending::none;
          beside({[&] {
                    stop_in_line.request_stop();
                    third = outside.end();  // to whose executor the section may be passed
                  },
                  [&] {
                    on_an_executor([&] {
                      p.unlock();
                      is_left.store(true, detail::seq_cst);
                      is_left.notify_one();
                      stop_aside.request_stop();
                    });
                  }},
                 [&] {
                   is_left.wait(false, detail::acquire);
                   closes.begin(p->cs.close());
                   require(p.end(closes) == ending::ran, "not closed");
                   p.end_of_holder();
                 });
          const ending first = in_line.end();
          require(first == ending::cancelled || first == ending::ran, "ended otherwise");
          const ending second = aside.end();
          require(second == ending::cancelled || second == ending::closed, "ended otherwise");
          require(third == ending::ran || third == ending::closed, "ended otherwise");
        },
        {.most = {1, 0}});
  }

  TEST_CASE("limits: the last one back ends the section that lets it in") {
    holds(
        [] {
          shared_place p(2, one_waits);
          client a;
          client b;
          p.hold();
          a.begin(p->ask(0));
          b.begin(p->ask(1));
          beside({[&] { p.unlock(); }, [&] { require(p.end(b) == ending::ran, "not served"); }},
                 [&] {
                   require(p.end(a) == ending::ran, "not served");
                   p.end_of_holder();
                 });
        },
        {.most = {2, 1}});
  }

  TEST_CASE("limits: the last one back ends the section, and one outside has gone") {
    holds(
        [] {
          shared_place p(2, one_waits);
          client a;
          client b;
          std::stop_source stop;
          p.hold();
          a.begin(p->ask(0));
          b.begin(p->ask(1, stop));
          beside({[&] { p.unlock(); }, [&] { stop.request_stop(); }, [&] { p.end(b); }}, [&] {
            require(p.end(a) == ending::ran, "not served");
            p.end_of_holder();
          });
        },
        {.most = {1, 1}});
  }

  TEST_CASE("limits: where nobody waits outside, who finds no room is refused") {
    holds(
        [] {
          place p({.ring_capacity = 1, .max_waiters = 1});
          guarded<int> n{0};
          std::array<ending, 2> how{};
          p.hold();
          const auto ask = [&](int i) {
            client c;
            how[i] = c.run(p.cs.execute([&n] { n = n + 1; }));
          };
          together({[&] { p.unlock(); }, [&] { ask(0); }, [&] { ask(1); }});
          int ran = 0;
          for (const ending e : how) {
            require(e == ending::ran || e == ending::full, "ended otherwise");
            ran += e == ending::ran ? 1 : 0;
          }
          require(ran != 0 && n == ran, "not once each");
          p.is_free();
        },
        {.most = {2, 1}});
  }
}
