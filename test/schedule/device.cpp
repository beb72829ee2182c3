// device.cpp - a section and a device that works for it: nothing runs before what it follows,
// nobody is forgotten, and who goes on last may end the section.

#include "schedule/client.hpp"
#include "schedule/ended_by_the_last.hpp"
#include "schedule/kept.hpp"
#include "schedule/lane.hpp"
#include "schedule/shared_pool.hpp"
#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

using namespace schedule;
using namespace turnstile;
using detail::acquire;
using detail::seq_cst;

namespace {

// A device with one lane, whose work is done by a thread of the scenario. With an error, all of it
// fails.
class by_thread : public detail::lane {
 public:
  explicit by_thread(std::exception_ptr error) : lane(device::host()), error_(std::move(error)) {}

  // Until so many points were reached.
  void work(int points) {
    for (int got = 0; points != 0; ++got) {
      while (given_.load(acquire) == got) given_.wait(got, acquire);
      piece* const p = take();
      if (p->work != nullptr) {
        p->work->run();
        delete p;
      } else {
        p->get_there(error_);  // p may be gone
        --points;
      }
    }
  }

  void enqueue(std::unique_ptr<detail::lane_work> w) override { give(*new piece(std::move(w))); }
  void copy(void*, const void*, std::size_t) override {}
  detail::point_ref record() override { return end_submission(0).end; }
  void wait(detail::point&) override {}
  void* allocate(std::size_t) override { return nullptr; }
  void deallocate(void*, std::size_t) noexcept override {}
  bool can_wait_for(const detail::point&) const noexcept override { return true; }
  submitted end_submission(int) noexcept override {
    auto& p = *new piece(nullptr);
    detail::point_ref end = detail::point_ref::more(p);
    give(p);
    return {std::move(end), nullptr};
  }

 private:
  struct piece final : detail::point {
    explicit piece(std::unique_ptr<detail::lane_work> w) : work(std::move(w)) {}
    void get_there(std::exception_ptr error) noexcept { reach(std::move(error)); }
    void recycle() noexcept override { delete this; }
    const std::unique_ptr<detail::lane_work> work;
    guarded<piece*> behind{nullptr};
  };

  void give(piece& p) noexcept {
    lock_.lock();
    *(first_ == nullptr ? &first_ : &last_->behind) = &p;
    last_ = &p;
    lock_.unlock();
    given_.fetch_add(1, seq_cst);
    given_.notify_one();
  }
  piece* take() noexcept {
    lock_.lock();
    piece* const p = first_;
    first_ = p->behind;
    lock_.unlock();
    return p;
  }

  const std::exception_ptr error_;
  detail::mutex lock_;
  guarded<piece*> first_{nullptr};
  guarded<piece*> last_{nullptr};
  atomic<int> given_{0};
};

struct gpu {
  explicit gpu(std::exception_ptr error = nullptr) : lane(new by_thread(std::move(error))) {}

  by_thread* const lane;
  stream s = detail::stream_access::on(detail::lane_ref(lane));
};

constexpr section_options small{.place = device::host(), .ring_capacity = 1};

bool gets_in(critical_section& cs) {
  try {
    return cs.try_execute([] {});
  } catch (const device_error&) {
    return false;
  }
}

// What the device makes of it, in the order in which the bodies ran.
struct counted {
  explicit counted(section_options o = small) : cs(o) {}

  auto submits() {
    return [this](stream& s) {
      const int mine = submitted = submitted + 1;
      s.enqueue([this, mine] {
        require(done + 1 == mine, "out of order");
        done = mine;
      });
    };
  }
  // Only while nobody else's work is under way: else fails with these words.
  auto submits_alone(const char* otherwise) {
    return [this, otherwise](stream& s) {
      require(done == submitted, otherwise);
      submits()(s);
    };
  }
  auto looks() {
    return [this] { require(done == submitted, "the device was not done"); };
  }

  critical_section cs;
  guarded<int> submitted{0};
  guarded<int> done{0};
};

}  // namespace

TEST_SUITE("device") {
  TEST_CASE("device: two submit, and the last one whose work is complete ends the section") {
    holds(
        [] {
          gpu g;
          auto& s = *new ended_by_the_last(2, small);
          const auto ask = [&] {
            client c;
            require(
                c.run(s.cs.execute([&s](stream&) { s.n = s.n + 1; }, {.on = &g.s})) == ending::ran,
                "not served");
            s.leave();
          };
          together({ask, ask, [&] { g.lane->work(2); }});
        },
        {.most = {1, 0}});
  }

  // Who submitted before may be about to hear that its own work is complete.
  TEST_CASE("device: who submitted last ends the section, whoever else has not gone on") {
    holds(
        [] {
          gpu g;
          auto cs = std::make_unique<critical_section>(small);
          atomic<int> begun{0};
          const auto first = [&begun](stream&) {
            begun.store(1, seq_cst);
            begun.notify_one();
          };
          together({[&] {
                      client a;
                      require(a.run(cs->execute(first, {.on = &g.s})) == ending::ran, "not served");
                    },
                    [&] {
                      while (begun.load(acquire) == 0) begun.wait(0, acquire);
                      client b;
                      require(b.run(cs->execute([](stream&) {}, {.on = &g.s})) == ending::ran,
                              "not served");
                      cs.reset();
                    },
                    [&] { g.lane->work(2); }});
        },
        {.most = {2, 0}});
  }

  TEST_CASE("device: a host execution comes while the device works") {
    holds(
        [] {
          gpu g;
          counted n;
          client a;
          client b;
          a.begin(n.cs.execute(n.submits(), {.on = &g.s}));
          together({[&] { require(b.run(n.cs.execute(n.looks())) == ending::ran, "not served"); },
                    [&] { g.lane->work(1); }});
          require(a.end() == ending::ran, "not complete");
          require(n.cs.try_execute([] {}), "not left");
        },
        {.most = {1, 1}});
  }

  TEST_CASE("device: a submission comes to a section that stays with a thread, which asks again") {
    holds(
        [] {
          gpu g;
          counted n;
          keep(n.cs);
          beside([&] { n.cs.execute_blocking(n.looks()); },
                 {[&] {
                    client a;
                    require(a.run(n.cs.execute(n.submits(), {.on = &g.s})) == ending::ran,
                            "not complete");
                  },
                  [&] { g.lane->work(1); }});
          require(n.cs.try_execute([] {}), "not left");
        },
        {.most = {1, 1}});
  }

  TEST_CASE("device: another submission comes while the section is held or let go") {
    holds(
        [] {
          gpu g;
          counted n;
          client a;
          client b;
          a.begin(n.cs.execute(n.submits(), {.on = &g.s}));
          together({[&] {
                      require(b.run(n.cs.execute(n.submits(), {.on = &g.s})) == ending::ran,
                              "not served");
                    },
                    [&] { g.lane->work(2); }});
          require(a.end() == ending::ran, "not complete");
          require(n.done == 2 && n.cs.try_execute([] {}), "not left");
        },
        {.most = {1, 1}});
  }

  TEST_CASE("device: a host execution and a submission come at once") {
    for (const std::size_t cells : {1, 2}) {  // of two it looks for its turn in place
      holds(
          [cells] {
            gpu g;
            counted n({.place = device::host(), .ring_capacity = cells});
            client a;
            a.begin(n.cs.execute(n.submits(), {.on = &g.s}));
            together({[&] {
                        client c;
                        require(c.run(n.cs.execute(n.submits(), {.on = &g.s})) == ending::ran,
                                "not served");
                      },
                      [&] {
                        client c;
                        require(c.run(n.cs.execute(n.looks())) == ending::ran, "not served");
                      },
                      [&] { g.lane->work(2); }});
            require(a.end() == ending::ran, "not complete");
            require(n.done == 2 && n.cs.try_execute([] {}), "not left");
          },
          {.most = {1, 1}});
    }
  }

  TEST_CASE("device: no room for a second submission before the first is complete") {
    holds(
        [] {
          gpu g;
          counted n({.place = device::host(), .ring_capacity = 1, .max_in_flight = 1});
          const auto ask = [&] {
            client c;
            require(
                c.run(n.cs.execute(n.submits_alone("two in flight"), {.on = &g.s})) == ending::ran,
                "not served");
          };
          together({ask, ask, [&] { g.lane->work(2); }});
          require(n.done == 2 && n.cs.try_execute([] {}), "not left");
        },
        {.most = {1, 0}});
  }

  TEST_CASE("device: who asks hears that the device is lost while more of its work ends so") {
    holds(
        [] {
          gpu g(std::make_exception_ptr(device_error(719, "lost", "lost", true)));
          critical_section cs{small};
          client a;
          client b;
          client c;
          const auto submits = [](stream&) {};
          const bool tries = any_of(2) == 1;
          a.begin(cs.execute(submits, {.on = &g.s}));
          b.begin(cs.execute(submits, {.on = &g.s}));
          together({[&] {
                      if (tries) {
                        require(!gets_in(cs), "let in");
                      } else {
                        require(c.run(cs.execute([] {})) == ending::lost, "not refused");
                      }
                    },
                    [&] { g.lane->work(2); }});
          require(a.end() == ending::lost && b.end() == ending::lost, "not told");
          require(cs.statistics().executions == 2, "counted what did not run");
        },
        {.most = {1, 1}});
  }

  TEST_CASE("device: who asks while work is lost which other work follows, of another device") {
    holds(
        [] {
          gpu lost(std::make_exception_ptr(device_error(719, "lost", "lost", true)));
          gpu other;
          critical_section cs{small};
          client a;
          client b;
          client c;
          const auto submits = [](stream&) {};
          a.begin(cs.execute(submits, {.on = &lost.s}));
          b.begin(cs.execute(submits, {.on = &other.s}));
          bool refused = false;
          together({[&] { refused = c.run(cs.execute([] {})) == ending::lost; },
                    [&] { lost.lane->work(1); }, [&] { other.lane->work(1); }});
          require(a.end() == ending::lost && b.end() == ending::ran, "not told");
          require(cs.statistics().executions == (refused ? 2u : 3u), "counted wrongly");
          require(!gets_in(cs), "let in");
        },
        {.most = {1, 0}});
  }

  TEST_CASE("device: a section ends while work is lost which other work has followed") {
    holds(
        [] {
          gpu lost(std::make_exception_ptr(device_error(719, "lost", "lost", true)));
          gpu other;
          auto cs = std::make_unique<critical_section>(small);
          client a;
          client b;
          const auto submits = [](stream&) {};
          a.begin(cs->execute(submits, {.on = &lost.s}));
          b.begin(cs->execute(submits, {.on = &other.s}));
          other.lane->work(1);
          require(b.end() == ending::ran, "not told");
          together({[&] { cs.reset(); }, [&] { lost.lane->work(1); }});
          require(a.end() == ending::lost, "not told");
        },
        {.most = {1, 1}});
  }

  TEST_CASE("device: a section that is handed on at completion") {
    holds(
        [] {
          gpu g;
          counted n({.place = device::host(),
                     .ring_capacity = 1,
                     .hand_on = turnstile::release::completion});
          const bool looks = any_of(2) == 1;
          const auto ask = [&] {
            client c;
            require(c.run(n.cs.execute(n.submits_alone("handed on too soon"), {.on = &g.s})) ==
                        ending::ran,
                    "not served");
          };
          const auto look = [&] {
            client c;
            require(c.run(n.cs.execute(n.looks())) == ending::ran, "not served");
          };
          together({ask, [&] { looks ? look() : ask(); }, [&] { g.lane->work(looks ? 1 : 2); }});
          require(n.done == (looks ? 1 : 2) && n.cs.try_execute([] {}), "not left");
        },
        {.most = {1, 1}});
  }

  // Whoever is told gives the section to the shared pool, with the one that is to be asked.
  TEST_CASE("device: work is complete while one waits apart, and goes or may run then") {
    holds(
        [] {
          const shared_pool pool;
          gpu g;
          counted n;
          client a;
          client b;
          client c;
          std::stop_source stop;
          const auto is_done = [&n] { return n.done == 1; };
          b.begin(n.cs.execute_when(is_done, n.looks(), {.stop = stop.get_token()}));
          a.begin(n.cs.execute(n.submits(), {.on = &g.s}));
          const bool may_go = any_of(2) == 1;
          ending how = ending::none;
          together({[&] {
                      if (may_go) stop.request_stop();
                    },
                    [&] { g.lane->work(1); }, [&] { how = b.end(); }});
          require(how == ending::ran || (may_go && how == ending::cancelled), "ended otherwise");
          require(a.end() == ending::ran, "not complete");
          require(c.run(n.cs.execute(n.looks())) == ending::ran, "not left");
        },
        {.most = {1, 0}});
  }

  TEST_CASE("device: a wait until it is submitted ends so or by a stop, and then begins anew") {
    holds(
        [] {
          const shared_pool pool;
          gpu g;
          lane home;
          critical_section cs(small);
          section_guard busy = support::hold(cs);
          std::optional<execution_handle<void>> handle;
          guarded<bool> has_run{false};
          guarded<int> went_on{0};
          const auto waits = [&]() -> task<> {
            co_await handle->submitted();
            require(has_run, "too soon");
            went_on = went_on + 1;
          };
          handle.emplace(cs.submit([&has_run](stream&) { has_run = true; }, {.on = &g.s}));
          async_scope scope;
          scope.spawn(schedule_on(home, waits()));
          const std::size_t stops = any_of(3);  // before, afterwards, never
          if (stops == 0) scope.request_stop();
          busy.unlock();
          if (stops == 1) scope.request_stop();
          bool withdrawn = false;
          try {
            sync_wait(scope.join());
          } catch (const operation_cancelled&) {
            withdrawn = true;
          }
          if (withdrawn) sync_wait(schedule_on(home, waits()));
          require(went_on == 1, "not once");
          g.lane->work(1);
          sync_wait(*handle);
        },
        {.most = {2, 0}});
  }

  TEST_CASE("device: one that may go waits for the section while another one first submits there") {
    holds([] {
      gpu g;
      counted n;
      client a;
      client b;
      std::stop_source stop;
      section_guard busy = support::hold(n.cs);
      together(
          {[&] { a.begin(n.cs.execute(n.submits(), {.on = &g.s})); },
           [&, token = stop.get_token()] { b.begin(n.cs.execute(n.looks(), {.stop = token})); }});
      busy.unlock();
      g.lane->work(1);
      require(a.end() == ending::ran && b.end() == ending::ran, "not served");
    });
  }

  TEST_CASE("device: two let go of a lane, and its end sees what they did") {
    struct used final : by_thread {
      used() : by_thread(nullptr) {}
      guarded<int> by_one{0};
      guarded<int> by_other{0};
    };
    holds([] {
      auto* const lane = new used;
      std::optional<detail::lane_ref> one(std::in_place, lane);
      std::optional<detail::lane_ref> other(*one);
      together({[&] {
                  lane->by_one = 1;
                  one.reset();
                },
                [&] {
                  lane->by_other = 1;
                  other.reset();
                }});
    });
  }

  TEST_CASE("device: who waits for the tail at the front goes while the device gets there") {
    holds(
        [] {
          gpu g;
          section_options with = small;
          with.max_waiters = any_of(2);  // none said, or one
          counted n(with);
          client a;
          client b;
          std::stop_source stop;
          const std::stop_token token = stop.get_token();
          a.begin(n.cs.execute(n.submits(), {.on = &g.s}));
          b.begin(n.cs.execute(n.looks(), {.stop = token}));
          ending how = ending::none;
          together(
              {[&] { stop.request_stop(); }, [&] { g.lane->work(1); }, [&] { how = b.end(); }});
          require(how == ending::ran || how == ending::cancelled, "ended otherwise");
          require(a.end() == ending::ran, "not complete");
          require(n.cs.try_execute([] {}), "not left");
        },
        {.most = {1, 1}});
  }
}
