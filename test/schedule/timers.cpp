// timers.cpp - calls against cancels, sleeps against stops. A manual_clock is what calls here.

#include "schedule/lane.hpp"
#include "support/foreign.hpp"
#include "support/stoppable.hpp"

#include <turnstile/detail/timer.hpp>
#include <turnstile/turnstile.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

using namespace schedule;
using namespace turnstile;
using namespace std::chrono_literals;
using support::stoppable;

namespace {

struct counted_timer : detail::timer {
  counted_timer() noexcept : timer(&count) {}
  static void count(detail::timer& t) noexcept {
    auto& self = static_cast<counted_timer&>(t);
    self.calls = self.calls + 1;
  }
  guarded<int> calls{0};
};

// Its call says that it is over, and whoever hears that may end it.
struct telling_timer : detail::timer {
  explicit telling_timer(atomic<int>& o) noexcept : timer(&tell), over(&o) {}
  static void tell(detail::timer& t) noexcept {
    atomic<int>& over = *static_cast<telling_timer&>(t).over;
    over.fetch_add(1, detail::seq_cst);
    over.notify_all();
  }
  atomic<int>* over;
};

void wait_for(const atomic<int>& n, int end) {
  for (int seen = 0; (seen = n.load(detail::acquire)) != end;) n.wait(seen, detail::acquire);
}

// A coroutine that sleeps below something that can be stopped, and the executor it comes back to:
// run by whoever wants to know how it ended.
class sleeper {
 public:
  void begin(const std::stop_token& stop, detail::time_point until) {
    struct first : job {
      explicit first(std::function<void()> w) : job(&go), work(std::move(w)) {}
      static void go(job& j) noexcept { static_cast<first&>(j).work(); }
      std::function<void()> work;
    };
    first j([&, this] {
      const stoppable around(stop);
      sleeps_.emplace(sleep(until));
    });
    executor_ref(jobs_).post(j);
    jobs_.run_one();
  }
  // It goes on here, if it can.
  void go_on() { jobs_.run(); }
  // Once whatever ends it is over.
  void end() {
    go_on();
    require(times_ == 1, "it did not end once");
  }
  bool was_stopped() const { return stopped_; }

 private:
  support::foreign sleep(detail::time_point until) {
    try {
      co_await sleep_until(until);
    } catch (const operation_cancelled&) {
      stopped_ = true;
    }
    times_ = times_ + 1;
  }

  manual_executor jobs_;
  std::optional<support::foreign> sleeps_;
  guarded<int> times_{0};
  guarded<bool> stopped_{false};
};

}  // namespace

TEST_SUITE("timers") {
  TEST_CASE("timer: a call against its cancel, and the timer ends right after that") {
    holds([] {
      manual_clock clock;
      auto t = std::make_unique<counted_timer>();
      t->start(clock.now() + 1s);
      together({[&] { clock.advance(1s); },
                [&] {
                  const bool cancelled = t->cancel();
                  require((t->calls == 0) == cancelled, "cancel and call disagree");
                  t.reset();
                }});
      require(clock.pending() == 0, "a timer was left");
    });
  }

  TEST_CASE("timer: a call ends the timer, and another one comes in its place") {
    holds([] {
      manual_clock clock;
      atomic<int> over{0};
      auto t = std::make_unique<telling_timer>(over);
      t->start(clock.now() + 1s);
      together({[&] { clock.advance(1s); },
                [&] {
                  wait_for(over, 1);
                  std::destroy_at(t.get());
                  std::construct_at(t.get(), over);
                  t->start(clock.now() + 1s);
                  require(t->cancel(), "called before its time");
                }});
    });
  }

  TEST_CASE("timer: two are called one after the other, and the first one's cancel comes between") {
    holds([] {
      manual_clock clock;
      counted_timer first;
      counted_timer second;
      const auto at = clock.now() + 1s;
      first.start(at);
      second.start(at);
      together({[&] { clock.advance(1s); },
                [&] {
                  const bool cancelled = first.cancel();
                  require((first.calls == 0) == cancelled, "cancel and call disagree");
                }});
      require(!second.cancel() && second.calls == 1, "the second one is not called");
    });
  }

  TEST_CASE("timer: one is started while the clock passes its time") {
    holds([] {
      manual_clock clock;
      counted_timer t;
      const auto at = clock.now() + 1s;
      together({[&] { clock.advance(1s); }, [&] { t.start(at); }});
      require(!t.cancel() && t.calls == 1, "not called");
    });
  }

  TEST_CASE("timer: one is started while another one's call is made, and both are due") {
    holds([] {
      manual_clock clock;
      counted_timer first;
      counted_timer second;
      const auto at = clock.now() + 1s;
      first.start(at);
      together({[&] { clock.advance(1s); }, [&] { second.start(at); }});
      require(!first.cancel() && first.calls == 1, "the first one is not called");
      require(!second.cancel() && second.calls == 1, "the second one is not called");
    });
  }

  TEST_CASE("timer: two move the clock, and each timer is called once before both are back") {
    holds([] {
      manual_clock clock;
      counted_timer first;
      counted_timer second;
      const auto begin = clock.now();
      first.start(begin + 1s);
      second.start(begin + 2s);
      together({[&] { clock.advance_to(begin + 1s); }, [&] { clock.advance_to(begin + 2s); }});
      require(first.calls == 1 && second.calls == 1, "not called once");
      require(clock.now() == begin + 2s, "the clock went back");
      require(!first.cancel() && !second.cancel(), "called and cancelled");
    });
  }

  TEST_CASE("timer: one is cancelled while the one before it is called") {
    holds([] {
      manual_clock clock;
      counted_timer first;
      counted_timer second;
      first.start(clock.now() + 1s);
      second.start(clock.now() + 1s);
      together({[&] { clock.advance(1s); },
                [&] {
                  const bool cancelled = second.cancel();
                  require((second.calls == 0) == cancelled, "cancel and call disagree");
                }});
      require(!first.cancel() && first.calls == 1, "the other one is not called");
    });
  }

  TEST_CASE("timer: two are cancelled at once, and one that is between them is called") {
    holds([] {
      manual_clock clock;
      std::array<counted_timer, 3> all;
      const auto begin = clock.now();
      for (int i = 0; i != 3; ++i) all[static_cast<std::size_t>(i)].start(begin + i * 1s);
      require(all[0].calls == 1, "what is due is not called at once");
      all[0].cancel();
      all[0].start(begin + 3s);
      together({[&] { require(all[0].cancel(), "called too early"); },
                [&] { require(all[2].cancel(), "called too early"); }, [&] { clock.advance(1s); }});
      require(all[1].calls == 1 && clock.pending() == 0, "called and cancelled are mixed up");
      all[1].cancel();
    });
  }

  TEST_CASE("timer: two move the clock, and one is cancelled") {
    holds([] {
      manual_clock clock;
      counted_timer first;
      auto second = std::make_unique<counted_timer>();
      const auto begin = clock.now();
      first.start(begin + 1s);
      second->start(begin + 2s);
      together({[&] { clock.advance_to(begin + 1s); }, [&] { clock.advance_to(begin + 2s); },
                [&] {
                  const bool cancelled = second->cancel();
                  require((second->calls == 0) == cancelled, "cancel and call disagree");
                  second.reset();
                }});
      require(!first.cancel() && first.calls == 1, "the other one is not called");
    });
  }

  TEST_CASE("sleep: its time comes while it falls asleep") {
    holds([] {
      manual_clock clock;
      sleeper s;
      const auto at = clock.now() + 1s;
      together({[&] { clock.advance(1s); }, [&] { s.begin({}, at); }});
      s.end();
      require(!s.was_stopped() && clock.pending() == 0, "a timer was left");
    });
  }

  TEST_CASE("sleep: it goes on where its time came, and takes back what could have stopped it") {
    holds([] {
      manual_clock clock;
      sleeper s;
      const std::stop_source source;
      const auto at = clock.now() + 1s;
      together({[&] {
                  clock.advance(1s);
                  s.go_on();
                },
                [&] { s.begin(source.get_token(), at); }});
      s.end();
      require(!s.was_stopped() && clock.pending() == 0, "a timer was left");
    });
  }

  TEST_CASE("sleep: it is stopped while it falls asleep") {
    holds([] {
      const manual_clock clock;
      sleeper s;
      std::stop_source source;
      const auto at = clock.now() + 1s;
      together({[&] { source.request_stop(); }, [&] { s.begin(source.get_token(), at); }});
      s.end();
      require(s.was_stopped() && clock.pending() == 0, "a timer was left");
    });
  }

  TEST_CASE("sleep: its time comes and it is stopped while it falls asleep") {
    holds([] {
      manual_clock clock;
      sleeper s;
      std::stop_source source;
      const auto at = clock.now() + 1s;
      together({[&] { source.request_stop(); }, [&] { clock.advance(1s); },
                [&] { s.begin(source.get_token(), at); }});
      s.end();
      require(clock.pending() == 0, "a timer was left");
    });
  }

  TEST_CASE("sleep: it sleeps, and then its time and a stop come at once") {
    holds([] {
      manual_clock clock;
      sleeper s;
      std::stop_source source;
      s.begin(source.get_token(), clock.now() + 1s);
      together({[&] { source.request_stop(); }, [&] { clock.advance(1s); }});
      s.end();
      require(clock.pending() == 0, "a timer was left");
    });
  }

  TEST_CASE("sleep: it goes on on another thread while its time and a stop come at once") {
    const auto scenario = [] {
      manual_clock clock;
      lane there;
      std::stop_source source;
      together({[&] { source.request_stop(); }, [&] { clock.advance(1s); },
                [&] {
                  const stoppable around(source.get_token());
                  try {
                    sync_wait(schedule_on(there, sleep_for(1ns)));
                  } catch (const operation_cancelled&) {
                  }
                }});
      require(clock.pending() == 0, "a timer was left");
    };
    holds(scenario, {.most = {1, 0}});
    holds(scenario, {.random_executions = 5000});
  }
}
