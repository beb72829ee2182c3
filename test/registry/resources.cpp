// resources.cpp - two sections that use one thing find out, by TensorFlow's rule.

#include "support/coroutine_types.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <doctest/doctest.h>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

using namespace turnstile;
using detail::resource_identity;
using detail::touch;

namespace {

constexpr bool exclusively = true;
constexpr bool shared = false;

// True: the body ran. False: exclusive_access_error, and it did not.
bool uses(critical_section& cs, const resource_list& things, bool exclusive = exclusively) {
  bool ran = false;
  try {
    sync_wait(cs.execute([&ran] { ran = true; },
                         {.uses = things, .exclusive_resource_access = exclusive}));
  } catch (const exclusive_access_error&) {
    REQUIRE_FALSE(ran);
    return false;
  }
  REQUIRE(ran);
  return true;
}

bool touches(critical_section& cs, const resource_identity& r, bool exclusive = exclusively) {
  bool touched = false;
  const auto body = [&] {
    touch(r);
    touched = true;
  };
  try {
    sync_wait(cs.execute(std::ref(body), {.exclusive_resource_access = exclusive}));
  } catch (const exclusive_access_error&) {
    REQUIRE_FALSE(touched);
    return false;
  }
  REQUIRE(touched);
  return true;
}

struct names {
  std::string resource, owner, claimant, what;
};

names refusal(critical_section& cs, const resource_list& things, bool exclusive = exclusively) {
  try {
    sync_wait(cs.execute([] {}, {.uses = things, .exclusive_resource_access = exclusive}));
  } catch (const exclusive_access_error& e) {
    const exclusive_access_error copy = e;
    return {copy.resource(), copy.owner(), copy.claimant(), copy.what()};
  }
  return {};
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("registry") {
  TEST_CASE("resources: options and references are what they are said to be") {
    static_assert(std::is_aggregate_v<execute_options>);
    static_assert(std::is_trivially_destructible_v<execute_options>);
    static_assert(std::is_trivially_copyable_v<resource_ref>);
    static_assert(std::is_trivially_copyable_v<resource_list>);
    static_assert(std::is_nothrow_default_constructible_v<resource_list>);
    static_assert(!std::is_copy_constructible_v<resource> &&
                  !std::is_move_constructible_v<resource>);
    static_assert(!std::is_convertible_v<std::string_view, resource>);
    static_assert(std::is_convertible_v<const resource&, resource_ref>);
    static_assert(sizeof(resource_identity) == 2 * sizeof(void*));
    static_assert(std::is_base_of_v<std::logic_error, exclusive_access_error>);
    static_assert(std::is_nothrow_copy_constructible_v<exclusive_access_error>);
    static_assert(resource_list().empty());
    CHECK(execute_options{}.exclusive_resource_access);
  }

  TEST_CASE("resources: a list is made of one to eight things, or of a span of as many") {
    resource r;
    const int x = 0;
    const resource_ref ref = r;
    CHECK(resource_list{r}.size() == 1);
    CHECK(resource_list{r, ref, resource_of(x)}.size() == 3);
    CHECK(resource_list{r, r, r, r, r, r, r, r}.size() == 8);
    CHECK_FALSE(std::is_constructible_v<resource_list, resource&, resource&, resource&, resource&,
                                        resource&, resource&, resource&, resource&, resource&>);
    std::vector<resource_ref> many(8, ref);
    CHECK(resource_list{std::span<const resource_ref>(many)}.size() == 8);
    CHECK(resource_list(std::span<const resource_ref>()).empty());
    many.push_back(ref);
    CHECK_THROWS_AS(resource_list{std::span<const resource_ref>(many)}, std::length_error);
  }

  TEST_CASE("resources: exclusive after exclusive is refused") {
    critical_section a, b;
    const resource v;
    CHECK(uses(a, v, exclusively));
    CHECK_FALSE(uses(b, v, exclusively));
  }

  TEST_CASE("resources: shared after exclusive is refused") {
    critical_section a, b;
    const resource v;
    CHECK(uses(a, v, exclusively));
    CHECK_FALSE(uses(b, v, shared));
  }

  TEST_CASE("resources: exclusive after shared is refused") {
    critical_section a, b;
    const resource v;
    CHECK(uses(a, v, shared));
    CHECK_FALSE(uses(b, v, exclusively));
  }

  TEST_CASE("resources: shared after shared is allowed, by any number of sections") {
    std::array<critical_section, 20> all;
    const resource v;
    for (int round = 0; round != 2; ++round) {
      for (critical_section& cs : all) CHECK(uses(cs, v, shared));
    }
    for (critical_section& cs : all) CHECK_FALSE(uses(cs, v, exclusively));
    for (critical_section& cs : all) CHECK(uses(cs, v, shared));
  }

  TEST_CASE("resources: the same section is allowed with any flag, any number of times") {
    critical_section a;
    const resource v;
    for (const bool first : {exclusively, shared}) {
      for (const bool second : {exclusively, shared}) {
        CHECK(uses(a, v, first));
        CHECK(uses(a, v, second));
      }
    }
  }

  TEST_CASE("resources: one exclusive execution counts for ever, whatever comes after it") {
    critical_section a, b;
    const resource v;
    CHECK(uses(a, v, shared));
    CHECK(uses(a, v, exclusively));
    CHECK(uses(a, v, shared));
    CHECK_FALSE(uses(b, v, shared));
  }

  TEST_CASE("resources: the sequence of testMultipleCSExecutionsRequestSameResource") {
    const resource v;
    critical_section cs0, cs1, cs2, cs3;
    CHECK(uses(cs0, v, shared));
    CHECK(uses(cs1, v, shared));  // neither asked for exclusive access
    CHECK(uses(cs1, v, shared));  // the same section once more
    CHECK_FALSE(uses(cs2, v, exclusively));
    CHECK(uses(cs2, v, shared));  // the refused one left nothing
    const resource w;
    CHECK(uses(cs0, w, exclusively));
    CHECK(uses(cs0, w, exclusively));
    CHECK_FALSE(uses(cs3, w, exclusively));
    CHECK_FALSE(uses(cs3, w, shared));
    CHECK(uses(cs0, w, shared));
  }

  TEST_CASE("resources: a refused request leaves no claim, not even on its other resources") {
    critical_section a, b, c;
    const resource v, w, x;
    CHECK(uses(a, v));
    CHECK_FALSE(uses(b, {w, v, x}));
    CHECK(uses(c, {w, x}));
    CHECK_FALSE(uses(b, w));
  }

  TEST_CASE("resources: a refused upgrade leaves the shared claim as it was") {
    critical_section a, b, c;
    const resource v, w;
    CHECK(uses(a, {v, w}, shared));
    CHECK(uses(b, v, shared));
    CHECK_FALSE(uses(a, {w, v}, exclusively));
    CHECK(uses(b, w, shared));
    CHECK(uses(a, {w, v}, shared));
    CHECK(uses(c, {w, v}, shared));
  }

  TEST_CASE("resources: a thing named twice is one") {
    critical_section a, b;
    {
      const resource v;
      CHECK(uses(a, {v, v}));
      CHECK(uses(a, {v, v, v}));
      CHECK_FALSE(uses(b, {v, v}));
    }
    const resource v;
    CHECK(uses(b, v));
  }

  TEST_CASE("resources: a claim outlives its execution, and ends with its section") {
    critical_section b;
    const resource v;
    const int x = 0;
    {
      critical_section a;
      CHECK(uses(a, {v, resource_of(x)}));
      CHECK_FALSE(uses(b, v));
      CHECK_FALSE(uses(b, resource_of(x)));
    }
    CHECK(uses(b, v));
    CHECK(uses(b, resource_of(x)));
  }

  TEST_CASE("resources: of several that share, each takes its own claim with it") {
    const resource v;
    auto a = std::make_unique<critical_section>();
    auto b = std::make_unique<critical_section>();
    critical_section c;
    CHECK(uses(*a, v, shared));
    CHECK(uses(*b, v, shared));
    CHECK(uses(c, v, shared));
    CHECK_FALSE(uses(c, v, exclusively));
    b.reset();
    CHECK_FALSE(uses(c, v, exclusively));
    a.reset();
    CHECK(uses(c, v, exclusively));
  }

  TEST_CASE("resources: a resource that ends takes its claims with it") {
    critical_section a, b;
    alignas(resource) std::byte place[sizeof(resource)];
    const auto make = [&] {
      return std::unique_ptr<resource, void (*)(resource*)>(new (place) resource,
                                                            [](resource* r) { r->~resource(); });
    };
    {
      const auto v = make();
      CHECK(uses(a, *v, shared));
      CHECK(uses(b, *v, shared));
    }
    {
      const auto v = make();  // at the same address, and another one
      CHECK(uses(b, *v, shared));
      CHECK(uses(b, *v, exclusively));
      CHECK_FALSE(uses(a, *v, shared));
    }
  }

  TEST_CASE("resources: one made where another ended owes nothing to who still declares that") {
    critical_section a(section_options{.max_waiters = 1, .on_full = when_full::wait_outside});
    critical_section b;
    std::optional<resource> v(std::in_place);
    async_scope waits;
    async_scope outside;
    section_guard held = support::hold(a);
    SUBCASE("and runs") {
      waits.spawn(a.execute([] {}, {.uses = *v}));
      v.emplace();  // at the same address, and another one
      outside.spawn(a.execute([] {}, {.uses = *v, .exclusive_resource_access = shared}));
      held.unlock();
      sync_wait(waits.join());
      sync_wait(outside.join());
      CHECK(uses(b, *v, shared));
      CHECK_FALSE(uses(b, *v, exclusively));
    }
    SUBCASE("and is refused") {
      waits.spawn(a.execute([] {}));
      outside.spawn(a.execute([] {}, {.uses = *v}));
      v.emplace();
      outside.spawn(a.execute([] {}, {.uses = *v, .exclusive_resource_access = shared}));
      waits.spawn(a.close());
      held.unlock();
      sync_wait(waits.join());
      CHECK_THROWS_AS(sync_wait(outside.join()), section_closed);
      CHECK(uses(b, *v, exclusively));
    }
  }

  TEST_CASE("resources: nested sections on one resource are refused unless both share") {
    for (const bool outer : {exclusively, shared}) {
      for (const bool inner : {exclusively, shared}) {
        critical_section a, b;
        const resource v;
        bool ran = false;
        auto within = [&]() -> task<> {
          co_await b.execute([&] { ran = true; }, {.uses = v, .exclusive_resource_access = inner});
        };
        const auto whole = [&] {
          sync_wait(a.execute(within, {.uses = v, .exclusive_resource_access = outer}));
        };
        if (outer == shared && inner == shared) {
          CHECK_NOTHROW(whole());
          CHECK(ran);
        } else {
          CHECK_THROWS_AS(whole(), exclusive_access_error);
          CHECK_FALSE(ran);
        }
        CHECK(uses(a, v, shared));
      }
    }
  }

  TEST_CASE("resources: an awaitable body and one that has to wait are claimed for as well") {
    critical_section a, b;
    const resource v, w;
    auto wait = []() -> task<> { co_await yield(); };
    sync_wait(a.execute(wait, {.uses = v}));
    CHECK_FALSE(uses(b, v));
    section_guard busy = support::hold(a);
    std::thread later([&] { CHECK(uses(a, w)); });
    support::wait_for_waiters(a, 1);
    CHECK_FALSE(uses(b, w));  // claimed when it was asked for, not when it runs
    busy.unlock();
    later.join();
    CHECK_FALSE(uses(b, w));
  }

  TEST_CASE("resources: nothing is claimed before the request is awaited") {
    critical_section a, b;
    const resource v;
    auto asked = a.execute([] {}, {.uses = v});
    CHECK(uses(b, v));
    CHECK_THROWS_AS(sync_wait(std::move(asked)), exclusive_access_error);
  }

  TEST_CASE("resources: what options refer to is read inside the call") {
    critical_section a, b;
    const resource v;
    auto ask = [&] {
      const std::vector<resource_ref> here{v};
      return a.execute([] {}, {.uses = std::span<const resource_ref>(here)});
    };
    auto asked = ask();
    auto moved = std::move(asked);
    sync_wait(std::move(moved));
    CHECK_FALSE(uses(b, v));
  }

  TEST_CASE(
      "resources: lock claims when it is awaited, and its guard's flag is the one it was given") {
    critical_section a, b, c;
    const resource v, w;
    const resource_identity t, u;
    {
      const section_guard g =
          sync_wait(a.lock({.uses = {v, w}, .exclusive_resource_access = false}));
      touch(t);
    }
    CHECK(uses(b, {v, w}, shared));
    CHECK(touches(b, t, shared));
    CHECK_THROWS_AS(sync_wait(c.lock({.uses = v})), exclusive_access_error);
    CHECK_FALSE(c.statistics().held);
    section_guard busy = support::hold(c);
    std::optional<section_guard> got;
    std::thread later([&] {
      got = sync_wait(c.lock({.uses = resource_ref(u)}));
      got->detach();
    });
    support::wait_for_waiters(c, 1);
    CHECK_FALSE(uses(b, resource_ref(u), shared));
    busy.unlock();
    later.join();
    CHECK_FALSE(uses(b, resource_ref(u), shared));
  }

  TEST_CASE("resources: a refused submit completes its handle, a refused post throws") {
    critical_section a, b;
    const resource v, w;
    thread_pool pool(1);
    const auto ask = [&](critical_section& cs, const resource_list& things) -> task<int> {
      co_return co_await cs.submit([] { return 1; }, {.uses = things});
    };
    CHECK(sync_wait(schedule_on(pool, ask(a, v))) == 1);
    auto refused = b.submit([] { return 1; }, {.uses = {w, v}});
    CHECK(refused.ready());
    CHECK_THROWS_AS(sync_wait(std::move(refused)), exclusive_access_error);
    bool ran = false;
    CHECK_THROWS_AS(b.post([&] { ran = true; }, {.uses = {w, v}}), exclusive_access_error);
    CHECK(uses(a, w));
    a.post([&] { ran = true; }, {.uses = v});
    sync_wait(a.close());
    CHECK(ran);
    CHECK(b.statistics().refused == 2);
    CHECK(b.statistics().executions == 0);
  }

  TEST_CASE("resources: submit and post claim in the call") {
    critical_section a, b;
    const resource v, w;
    section_guard busy = support::hold(a);
    auto handle = a.submit([] {}, {.uses = v});
    a.post([] {}, {.uses = w});
    CHECK_FALSE(uses(b, v));
    CHECK_FALSE(uses(b, w));
    busy.unlock();
    sync_wait(std::move(handle));
    sync_wait(a.close());
    CHECK_FALSE(uses(b, w));
  }

  TEST_CASE("resources: execute_when claims when it is awaited, queued or set aside") {
    for (const bool is_queued : {false, true}) {
      CAPTURE(is_queued);
      critical_section a, b;
      const resource v;
      section_guard busy = is_queued ? support::hold(a) : section_guard();
      bool open = false;
      bool ran = false;
      const auto is_open = [&open] { return open; };
      async_scope scope;
      scope.spawn(a.execute_when(is_open, [&ran] { ran = true; }, {.uses = v}));
      CHECK(a.statistics().waiters == 1);
      CHECK(a.statistics().held == is_queued);
      CHECK_FALSE(uses(b, v));
      open = true;
      busy.unlock();
      CHECK(a.try_execute([] {}));
      sync_wait(scope.join());
      CHECK(ran);
      CHECK_FALSE(uses(b, v));
    }
  }

  TEST_CASE(
      "resources: an execute_when that is refused asks nothing, one withdrawn keeps its claim") {
    critical_section a, b;
    const resource v, w;
    CHECK(uses(a, v));
    bool asked = false;
    const auto asks = [&asked] { return asked = true; };
    CHECK_THROWS_AS(sync_wait(b.execute_when(asks, [] {}, {.uses = {w, v}})),
                    exclusive_access_error);
    CHECK_FALSE(asked);
    CHECK(uses(a, w));
    const resource x;
    std::stop_source stop;
    async_scope scope;
    scope.spawn(a.execute_when([] { return false; }, [] {}, {.uses = x, .stop = stop.get_token()}));
    CHECK(a.statistics().waiters == 1);
    stop.request_stop();
    CHECK_THROWS_AS(sync_wait(scope.join()), operation_cancelled);
    CHECK_FALSE(uses(b, x));
  }

  TEST_CASE("resources: an execution after others claims once the last of those has ended") {
    critical_section a, b;
    const resource v;
    support::gate g;
    bool ran = false;
    const auto body = [&ran] { ran = true; };
    async_scope scope;
    scope.spawn(a.execute(after(g.passed()), body, {.uses = v}));
    CHECK(g.waiting() == 1);
    {
      critical_section before;
      CHECK(uses(before, v));
    }
    section_guard busy = support::hold(a);
    g.open();
    CHECK_FALSE(uses(b, v));  // accepted, and not begun
    CHECK_FALSE(ran);
    busy.unlock();
    sync_wait(scope.join());
    CHECK(ran);
    CHECK_FALSE(uses(b, v));
  }

  TEST_CASE("resources: an execution after others is refused for what was claimed meanwhile") {
    critical_section a, b, c;
    const resource v, w;
    support::gate g;
    bool ran = false;
    const auto body = [&ran] { ran = true; };
    async_scope scope;
    scope.spawn(a.execute(after(g.passed()), body, {.uses = {w, v}}));
    CHECK(uses(b, v));
    g.open();
    CHECK_THROWS_AS(sync_wait(scope.join()), exclusive_access_error);
    CHECK_FALSE(ran);
    CHECK(uses(c, w));
    CHECK(a.statistics().executions == 0);
  }

  TEST_CASE("resources: synchronized claims for its own section") {
    synchronized<int> a{1};
    critical_section b;
    const resource v, w, x;
    CHECK(sync_wait(a.execute([](int& n) { return n; }, {.uses = v})) == 1);
    {
      const auto g = sync_wait(a.lock({.uses = w}));
    }
    CHECK(sync_wait(a.submit([](int& n) { return n; }, {.uses = x})) == 1);
    CHECK_FALSE(uses(b, v));
    CHECK_FALSE(uses(b, w));
    CHECK_FALSE(uses(b, x));
  }

  TEST_CASE("resources: a request refused by close leaves no claim") {
    critical_section a, b;
    const resource v;
    const int x = 0;
    sync_wait(a.close());
    const execute_options how{.uses = {v, resource_of(x)}};
    CHECK_THROWS_AS(sync_wait(a.execute([] {}, how)), section_closed);
    CHECK_THROWS_AS(sync_wait(a.lock(how)), section_closed);
    CHECK_THROWS_AS(sync_wait(a.submit([] {}, how)), section_closed);
    CHECK_THROWS_AS(a.post([] {}, how), section_closed);
    CHECK(uses(b, {v, resource_of(x)}));
  }

  TEST_CASE("resources: a request refused after close leaves the claims of those before it") {
    critical_section a, b;
    const resource v, w;
    CHECK(uses(a, v, shared));
    sync_wait(a.close());
    CHECK_THROWS_AS(sync_wait(a.execute([] {}, {.uses = {v, w}})), section_closed);
    CHECK(uses(b, {v, w}, shared));
    CHECK_FALSE(uses(b, v, exclusively));
    CHECK(uses(b, w, exclusively));
  }

  TEST_CASE("resources: a request that is refused where it would be set aside leaves no claim") {
    support::loop gui;
    std::stop_source source;
    const std::stop_token stop = source.get_token();
    const resource v;
    critical_section a(section_options{.name = "a", .executor = gui, .max_waiters = 1});
    critical_section b;
    async_scope scope;
    const auto may_withdraw = [&](execute_options how) {
      how.stop = stop;
      return how;
    };
    const auto wait = [&](execute_options how) {
      return a.execute_when([] { return false; }, [] {}, how);
    };
    async_scope first;
    first.spawn(wait({}));
    gui.run();
    scope.spawn(wait({.uses = v}));
    gui.run();
    CHECK_THROWS_AS(sync_wait(scope.join()), section_full);
    CHECK(uses(b, v));
    const resource w;
    scope.spawn(wait(may_withdraw({.uses = w})));
    gui.run();
    CHECK_THROWS_AS(sync_wait(scope.join()), section_full);
    CHECK(uses(b, w));
    scope.spawn(a.close());
    gui.run();
    sync_wait(scope.join());
    CHECK_THROWS_AS(sync_wait(first.join()), section_closed);
  }

  TEST_CASE("resources: a request that waited outside until the section was closed leaves none") {
    critical_section a(section_options{.max_waiters = 1, .on_full = when_full::wait_outside});
    critical_section b, c;
    const resource v, w, x, y;
    std::stop_source source;
    const std::stop_token stop = source.get_token();
    async_scope scope;
    const auto refused = [](auto execution) -> task<bool> {
      try {
        co_await std::move(execution);
      } catch (const section_closed&) {
        co_return true;
      }
      co_return false;
    };
    bool all = true;
    const auto note = [&](task<bool> one) -> task<> {
      if (!co_await std::move(one)) all = false;
    };
    section_guard held = support::hold(a);
    scope.spawn(a.execute([] {}));
    scope.spawn(note(refused(a.execute([] {}, {.uses = v}))));
    auto handle = a.submit([] {}, {.uses = w});
    scope.spawn(note(refused(execute(std::tie(a, c), [] {}, {.uses = x}))));
    scope.spawn(a.execute([] {}, {.uses = y, .stop = stop}));
    scope.spawn(a.close());
    source.request_stop();
    held.unlock();
    CHECK_THROWS_AS(sync_wait(std::move(handle)), section_closed);
    CHECK_THROWS_AS(sync_wait(scope.join()), operation_cancelled);
    CHECK(all);
    CHECK(uses(b, v));
    CHECK(uses(b, w));
    CHECK(uses(b, x));
    CHECK_FALSE(uses(b, y));  // it was withdrawn, which is no refusal
  }

  TEST_CASE("resources: a request refused by re-entry leaves no claim") {
    critical_section a, b;
    const resource v;
    auto again = [&]() -> task<> { co_await a.execute([] {}, {.uses = v}); };
    CHECK_THROWS_AS(sync_wait(a.execute(again)), reentry_error);
    CHECK(uses(b, v));
  }

  TEST_CASE(
      "resources: a refused request counts as refused, and the section is as usable as before") {
    critical_section a, b;
    const resource v;
    CHECK(uses(a, v));
    CHECK_FALSE(uses(b, v));
    CHECK(b.statistics().refused == 1);
    CHECK(b.statistics().executions == 0);
    CHECK_FALSE(b.statistics().held);
    CHECK(sync_wait(b.execute([] { return 1; })) == 1);
  }

  TEST_CASE("resources: a body that throws keeps the claim") {
    critical_section a, b;
    const resource v;
    CHECK_THROWS_AS(sync_wait(a.execute([] { throw 1; }, {.uses = v})), int);
    CHECK_FALSE(uses(b, v));
  }

  TEST_CASE("touch: outside every section nothing is claimed") {
    critical_section a, b;
    const resource_identity v;
    touch(v);
    CHECK(touches(a, v));
    touch(v);
    CHECK_FALSE(touches(b, v));
  }

  TEST_CASE("touch: claims for the execution's section, with the execution's flag") {
    for (const bool first : {exclusively, shared}) {
      for (const bool second : {exclusively, shared}) {
        critical_section a, b;
        const resource_identity v;
        CHECK(touches(a, v, first));
        CHECK(touches(a, v, first));
        CHECK(touches(b, v, second) == (first == shared && second == shared));
        CHECK(touches(a, v, shared));
      }
    }
  }

  TEST_CASE("touch: meets what others declared, and the other way round") {
    critical_section a, b;
    const resource_identity v, w;
    CHECK(uses(a, resource_ref(v)));
    CHECK_FALSE(touches(b, v));
    CHECK(touches(a, v));
    CHECK(touches(b, w));
    CHECK_FALSE(uses(a, resource_ref(w)));
  }

  TEST_CASE("touch: counts for the innermost section held") {
    critical_section a, b, c;
    const resource_identity v, w;
    sync_wait(a.execute([&] {
      touch(w);
      sync_wait(b.execute([&] {
        touch(v);
        CHECK_THROWS_AS(touch(w), exclusive_access_error);
      }));
      CHECK_THROWS_AS(touch(v), exclusive_access_error);
    }));
    CHECK_FALSE(touches(a, v));
    CHECK(touches(b, v));
  }

  TEST_CASE("touch: nested sections that both share are allowed") {
    critical_section a, b;
    const resource_identity v;
    const execute_options share{.exclusive_resource_access = false};
    CHECK_NOTHROW(sync_wait(a.execute(
        [&] {
          touch(v);
          sync_wait(b.execute([&] { touch(v); }, share));
          touch(v);
        },
        share)));
  }

  TEST_CASE("touch: a guard's is exclusive unless it was asked for otherwise, until it is let go") {
    critical_section a, b;
    const resource_identity v, w, x;
    {
      std::optional<section_guard> g = a.try_lock();
      touch(v);
      g->unlock();
      touch(w);
    }
    CHECK_FALSE(touches(b, v, shared));
    CHECK(touches(b, w));
    CHECK(a.try_execute([&] { touch(x); }));
    CHECK_FALSE(touches(b, x, shared));
  }

  TEST_CASE("touch: belongs to the chain, not to the thread") {
    critical_section a, b;
    const resource_identity v;
    thread_pool pool(1);
    auto elsewhere = [&]() -> task<> {
      co_await schedule_on(pool, [](const resource_identity& r) -> task<> {
        touch(r);
        co_return;
      }(v));
    };
    sync_wait(a.execute(elsewhere));
    CHECK_FALSE(touches(b, v));
    CHECK(touches(a, v));
  }

  TEST_CASE("several sections: what each of them has claimed stays its own") {
    critical_section a{"a"}, b{"b"};
    const resource_identity of_a, of_b, fresh;
    CHECK(uses(a, resource_ref(of_a)));
    CHECK(uses(b, resource_ref(of_b)));
    for (const resource_list& declared :
         {resource_list{}, resource_list{of_a, of_b}, resource_list{of_a, of_b, fresh}}) {
      const auto both = [&] {
        touch(of_a);
        touch(of_b);
        touch(fresh);
      };
      CHECK_NOTHROW(sync_wait(execute(std::tie(a, b), both, {.uses = declared})));
      CHECK_NOTHROW(sync_wait(execute(std::tie(b, a), both, {.uses = declared})));
    }
    CHECK_FALSE(uses(b, resource_ref(of_a)));
    CHECK_FALSE(uses(a, resource_ref(of_b)));
  }

  TEST_CASE("several sections: what each has claimed is its own in a body of another library too") {
    critical_section a{"a"}, b{"b"};
    const resource_identity of_a, of_b;
    CHECK(uses(a, resource_ref(of_a)));
    CHECK(uses(b, resource_ref(of_b)));
    support::loop on;
    const auto body = [&]() -> support::lazy<support::as_it_is> {
      co_await yield();  // from now on the chain is a copy
      touch(of_a);
      touch(of_b);
    };
    const auto ask = [&]() -> task<> { co_await execute(std::tie(a, b), body); };
    async_scope scope{{.executor = on}};
    scope.spawn(ask());
    on.run();
    CHECK_NOTHROW(sync_wait(scope.join()));
  }

  TEST_CASE("several sections: the one that shares something claims all of it") {
    critical_section a, b, other;
    for (critical_section* first : {&a, &b}) {
      const resource_identity r, touched;
      CHECK(uses(*first, {r, touched}, shared));
      CHECK_NOTHROW(
          sync_wait(execute(std::tie(a, b), [&] { touch(touched); }, {.uses = resource_ref(r)})));
      CHECK(uses(*first, {r, touched}, exclusively));
      CHECK_FALSE(uses(other, resource_ref(r), shared));
      CHECK_FALSE(uses(other, resource_ref(touched), shared));
    }
  }

  TEST_CASE("several sections: a refusal leaves no claim in any of them") {
    critical_section a, b, other;
    const resource shared_in_a, fresh, taken;
    CHECK(uses(a, shared_in_a, shared));
    CHECK(uses(other, taken));
    bool ran = false;
    const execute_options all{.uses = {shared_in_a, fresh, taken}};
    CHECK_THROWS_AS(
        sync_wait(execute(std::tie(a, b), [&] { ran = true; }, all)), exclusive_access_error);
    sync_wait(b.close());
    const execute_options some{.uses = {shared_in_a, fresh}};
    CHECK_THROWS_AS(sync_wait(execute(std::tie(a, b), [&] { ran = true; }, some)), section_closed);
    CHECK_FALSE(ran);
    CHECK(uses(other, fresh));
    CHECK(uses(other, shared_in_a, shared));
  }

  TEST_CASE(
      "several sections: nor does a refusal after a wait, but a request that is withdrawn does") {
    for (const bool is_closed : {true, false}) {
      CAPTURE(is_closed);
      critical_section a, b, other;
      const resource data;
      std::stop_source stop;
      const std::stop_token token = stop.get_token();
      section_guard busy = support::hold(a);
      bool ran = false;
      async_scope scope;
      scope.spawn([](auto request) -> task<> {
        co_await std::move(request);
      }(execute(std::tie(a, b), [&] { ran = true; }, {.uses = data, .stop = token})));
      CHECK(a.statistics().waiters == 1);
      if (is_closed) {
        sync_wait(b.close());
      } else {
        stop.request_stop();
      }
      busy.unlock();
      if (is_closed) {
        CHECK_THROWS_AS(sync_wait(scope.join()), section_closed);
      } else {
        CHECK_THROWS_AS(sync_wait(scope.join()), operation_cancelled);
      }
      CHECK_FALSE(ran);
      CHECK(uses(other, data) == is_closed);
    }
  }

  TEST_CASE("several sections: what is used is where each of them is") {
    critical_section there({.place = device::cuda(0)}), anywhere;
    critical_section late({.place = device::cuda(0)});
    const resource elsewhere("elsewhere", device::cuda(1));
    const execute_options uses_it{.uses = {elsewhere}};
    CHECK_THROWS_AS(
        sync_wait(execute(std::tie(there, anywhere), [] {}, uses_it)), device_mismatch_error);
    CHECK_THROWS_AS(
        sync_wait(execute(std::tie(anywhere, late), [] {}, uses_it)), device_mismatch_error);
  }

  TEST_CASE("addresses: objects without an identity are known by where they are") {
    critical_section a, b;
    const int x = 0;
    std::string y;
    CHECK(uses(a, {resource_of(x), resource_of(y)}));
    CHECK_FALSE(uses(b, resource_of(x)));
    CHECK_FALSE(uses(b, resource_of(y), shared));
    CHECK(uses(a, resource_of(x)));
    const std::array<char, 2> odd{};
    CHECK(uses(a, resource_of(odd[0])));
    CHECK(uses(b, resource_of(odd[1])));
    CHECK_FALSE(uses(a, resource_of(odd[1])));
  }

  TEST_CASE("addresses: share as others do") {
    auto a = std::make_unique<critical_section>();
    critical_section b;
    const int x = 0;
    for (int round = 0; round != 3; ++round) {
      CHECK(uses(*a, resource_of(x), shared));
      CHECK(uses(b, resource_of(x), shared));
    }
    CHECK_FALSE(uses(b, resource_of(x), exclusively));
    a.reset();
    CHECK(uses(b, resource_of(x), exclusively));
  }

  TEST_CASE("addresses: what has an identity of its own keeps it") {
    critical_section a, b;
    const resource v;
    CHECK(uses(a, resource_of(v)));
    CHECK_FALSE(uses(b, v));
  }

  TEST_CASE("addresses: many of them, and threads that come and go") {
    std::vector<int> objects(500);
    for (int round = 0; round != 3; ++round) {
      std::vector<std::jthread> all;
      for (int t = 0; t != 4; ++t) {
        all.emplace_back([&objects, t] {
          critical_section a;
          for (std::size_t i = static_cast<std::size_t>(t); i < objects.size(); i += 4) {
            CHECK(uses(a, resource_of(objects[i])));
          }
        });
      }
    }
    critical_section b;
    for (const int& x : objects) CHECK(uses(b, resource_of(x)));
  }

  TEST_CASE("exclusive_access_error: names the resource, the owner and the claimant") {
    critical_section a{"accounts"}, b{"audit"};
    const resource v{"balance"};
    CHECK(uses(a, v));
    const names n = refusal(b, v);
    CHECK(n.resource == "balance");
    CHECK(n.owner == "accounts");
    CHECK(n.claimant == "audit");
    for (const std::string_view part :
         {"balance", "accounts", "audit", "one section", "exclusive_resource_access = false"}) {
      CHECK(contains(n.what, part));
    }
  }

  TEST_CASE("exclusive_access_error: what has no name is called after its number or its place") {
    critical_section a, b;
    const resource v;
    const int x = 0;
    CHECK(uses(a, {v, resource_of(x)}));
    const names n = refusal(b, v);
    CHECK(n.resource.starts_with("resource at 0x"));
    CHECK(n.owner.starts_with("section #"));
    CHECK(n.claimant.starts_with("section #"));
    CHECK(n.owner != n.claimant);
    CHECK(refusal(b, resource_of(x)).resource.starts_with("resource at 0x"));
  }

  TEST_CASE("exclusive_access_error: of several owners the one that was there first is named") {
    critical_section a{"first"}, b{"second"}, c{"third"};
    const resource v;
    CHECK(uses(a, v, shared));
    CHECK(uses(b, v, shared));
    CHECK(refusal(c, v, exclusively).owner == "first");
    CHECK(refusal(a, v, exclusively).owner == "second");
  }
}
