// lifetime.cpp - where an operation lives, and what becomes of it when its context ends first.

#include "asio/told.hpp"
#include "support/counted.hpp"
#include "support/hold.hpp"

#include <turnstile/asio.hpp>
#include <turnstile/turnstile.hpp>

#include <boost/asio.hpp>
#include <cstddef>
#include <doctest/doctest.h>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <utility>

using namespace turnstile;
namespace asio = boost::asio;
using support::counted;
using support::hold;
using support::told;

namespace {

struct tally {
  int taken = 0;
  int given_back = 0;
};

template <class T>
struct counting {
  using value_type = T;

  explicit counting(tally& t) noexcept : counts(&t) {}
  template <class U>
  counting(const counting<U>& other) noexcept : counts(other.counts) {}

  T* allocate(std::size_t n) {
    ++counts->taken;
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* p, std::size_t n) noexcept {
    ++counts->given_back;
    std::allocator<T>().deallocate(p, n);
  }

  template <class U>
  bool operator==(const counting<U>& other) const noexcept {
    return counts == other.counts;
  }

  tally* counts;
};

// What a context knows: how much work there is, and how many wrappers are left when that is over.
struct context_log {
  asio::io_context context;
  int work = 0;
  int wrappers = 0;
  int wrappers_at_the_end = -1;
};

// An executor of a context that may end with its work. It runs at once what it is given.
struct inner_executor {
  context_log* log;

  asio::execution_context& context() const noexcept { return log->context; }
  void on_work_started() const noexcept { ++log->work; }
  void on_work_finished() const noexcept {
    if (--log->work == 0) log->wrappers_at_the_end = log->wrappers;
  }
  template <class F, class A>
  void dispatch(F f, const A&) const {
    f();
  }
  template <class F, class A>
  void post(F f, const A&) const {
    f();
  }
  template <class F, class A>
  void defer(F f, const A&) const {
    f();
  }
  [[maybe_unused]] friend bool operator==(const inner_executor&,
                                          const inner_executor&) noexcept = default;
};

// Around one, as a strand is, whose last copy still needs the context.
class wrapper {
 public:
  explicit wrapper(inner_executor inner) noexcept : inner_(inner) { ++inner_.log->wrappers; }
  wrapper(const wrapper& other) noexcept : wrapper(other.inner_) {}
  ~wrapper() { --inner_.log->wrappers; }
  wrapper& operator=(const wrapper&) = delete;

  inner_executor get_inner_executor() const noexcept { return inner_; }
  asio::execution_context& context() const noexcept { return inner_.context(); }
  void on_work_started() const noexcept { inner_.on_work_started(); }
  void on_work_finished() const noexcept { inner_.on_work_finished(); }
  template <class F, class A>
  void dispatch(F f, const A& a) const {
    inner_.dispatch(std::move(f), a);
  }
  template <class F, class A>
  void post(F f, const A& a) const {
    inner_.post(std::move(f), a);
  }
  template <class F, class A>
  void defer(F f, const A& a) const {
    inner_.defer(std::move(f), a);
  }
  [[maybe_unused]] friend bool operator==(const wrapper& a, const wrapper& b) noexcept {
    return a.inner_ == b.inner_;
  }

 private:
  inner_executor inner_;
};

// The same two of the newer kind, which says by its copies whether work is outstanding.
template <bool Tracked>
class newer_inner {
 public:
  explicit newer_inner(context_log& l) noexcept : log_(&l) { begin(); }
  newer_inner(const newer_inner& other) noexcept : log_(other.log_) { begin(); }
  ~newer_inner() {
    if (Tracked) inner_executor{log_}.on_work_finished();
  }
  newer_inner& operator=(const newer_inner&) = delete;

  context_log& log() const noexcept { return *log_; }

  asio::execution_context& query(asio::execution::context_t) const noexcept {
    return log_->context;
  }
  newer_inner require(asio::execution::blocking_t::never_t) const noexcept { return *this; }
  newer_inner<true> require(asio::execution::outstanding_work_t::tracked_t) const noexcept {
    return newer_inner<true>(*log_);
  }
  newer_inner<false> require(asio::execution::outstanding_work_t::untracked_t) const noexcept {
    return newer_inner<false>(*log_);
  }
  template <class F>
  void execute(F f) const {
    f();
  }
  [[maybe_unused]] friend bool operator==(const newer_inner& a, const newer_inner& b) noexcept {
    return a.log_ == b.log_;
  }
  [[maybe_unused]] friend bool operator!=(const newer_inner& a, const newer_inner& b) noexcept {
    return !(a == b);
  }

 private:
  void begin() noexcept {
    if (Tracked) ++log_->work;
  }

  context_log* log_;
};

template <class Inner>
class newer_wrapper {
  // After the executor, and gone before it.
  struct still_needs_it {
    context_log* log;
    explicit still_needs_it(context_log& l) noexcept : log(&l) { ++log->wrappers; }
    still_needs_it(const still_needs_it& other) noexcept : still_needs_it(*other.log) {}
    ~still_needs_it() { --log->wrappers; }
    still_needs_it& operator=(const still_needs_it&) = delete;
  };

 public:
  explicit newer_wrapper(const Inner& inner) noexcept : inner_(inner), rest_(inner.log()) {}

  Inner get_inner_executor() const noexcept { return inner_; }
  asio::execution_context& query(asio::execution::context_t c) const noexcept {
    return inner_.query(c);
  }
  template <class P>
    requires requires(const Inner& i, P p) { i.require(p); }
  auto require(P p) const noexcept {
    using other = std::decay_t<decltype(inner_.require(p))>;
    return newer_wrapper<other>(inner_.require(p));
  }
  template <class F>
  void execute(F f) const {
    inner_.execute(std::move(f));
  }
  [[maybe_unused]] friend bool operator==(const newer_wrapper& a, const newer_wrapper& b) noexcept {
    return a.inner_ == b.inner_;
  }
  [[maybe_unused]] friend bool operator!=(const newer_wrapper& a, const newer_wrapper& b) noexcept {
    return !(a == b);
  }

 private:
  Inner inner_;
  still_needs_it rest_;
};

template <class Handler>
auto counted_by(tally& t, Handler h) {
  return asio::bind_allocator(counting<int>(t), std::move(h));
}

template <class T>
struct refusing : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = refusing<U>;
  };
  refusing() = default;
  template <class U>
  refusing(const refusing<U>&) noexcept {}
  T* allocate(std::size_t) { throw std::bad_alloc(); }
};

}  // namespace

TEST_SUITE("asio") {
  TEST_CASE("async_execute: the context's work is over when no copy of a strand is left") {
    context_log log;
    critical_section cs;
    section_guard busy = hold(cs);
    bool over = false;
    const auto start = [&](const auto& on) {
      async_execute(
          cs, [] {}, asio::bind_executor(on, [&over](std::exception_ptr) { over = true; }));
    };
    using newer = newer_wrapper<newer_inner<false>>;
    SUBCASE("of the older kind") { start(wrapper(inner_executor{&log})); }
    SUBCASE("of the newer kind") { start(newer(newer_inner<false>(log))); }
    SUBCASE("of the newer kind, erased") {
      start(asio::any_io_executor(newer(newer_inner<false>(log))));
    }
    CHECK(log.work > 0);
    busy.unlock();
    CHECK(over);
    CHECK(log.work == 0);
    CHECK(log.wrappers_at_the_end == 0);
  }

  TEST_CASE("allocator: what waits lives in the handler's memory, all of which is given back") {
    asio::io_context io;
    critical_section cs;
    tally t;
    told<int> heard;
    section_guard guard = hold(cs);
    async_execute(cs, [] { return 1; }, counted_by(t, asio::bind_executor(io, heard.handler())));
    CHECK(t.taken == 1);
    CHECK(t.given_back == 0);
    guard.unlock();
    CHECK(t.given_back == 1);  // before what goes to the executor takes some
    CHECK(t.taken == 2);
    io.run();
    CHECK(heard.value == 1);
    CHECK(t.given_back == 2);
  }

  TEST_CASE("allocator: nothing is taken before it is given back when the handler is called") {
    asio::io_context io;
    critical_section cs;
    tally t;
    int open_at_the_call = -1;
    async_execute(
        cs, [] {}, counted_by(t, asio::bind_executor(io, [&](std::exception_ptr) {
                                open_at_the_call = t.taken - t.given_back;
                              })));
    io.run();
    CHECK(open_at_the_call == 0);
    CHECK(t.taken == 1);
  }

  TEST_CASE("allocator: one that refuses refuses the call, and nothing was done") {
    critical_section cs;
    section_guard guard = hold(cs);
    CHECK_THROWS_AS(
        async_execute(
            cs, [] {}, asio::bind_allocator(refusing<int>(), [](std::exception_ptr) {})),
        std::bad_alloc);
    CHECK(cs.statistics().waiters == 0);
  }

  TEST_CASE("a context that ends takes along what it has not run: handler, value and error") {
    tally t;
    int calls = 0;
    {
      critical_section cs;
      auto io = std::make_optional<asio::io_context>();
      const auto heard = [&, held = counted(1)](std::exception_ptr, auto&&...) { ++calls; };
      async_execute(
          cs, [] { return std::make_unique<counted>(2); },
          counted_by(t, asio::bind_executor(*io, heard)));
      async_execute(
          cs, []() -> std::unique_ptr<counted> { throw counted(3); },
          counted_by(t, asio::bind_executor(*io, heard)));
      section_guard guard = hold(cs);
      async_execute(cs, [held = counted(4)] {}, counted_by(t, asio::bind_executor(*io, heard)));
      guard.unlock();
      io.reset();
    }
    CHECK(calls == 0);
    CHECK(t.taken == t.given_back);
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("a context that ends takes along a coroutine of its own that was to go on") {
    critical_section cs;
    bool went_on = false;
    {
      asio::io_context io;
      section_guard guard = hold(cs);
      asio::co_spawn(
          io,
          [&]() -> asio::awaitable<void> {
            const counted mine(5);
            co_await async_execute(cs, [] {}, asio::use_awaitable);
            went_on = true;
          },
          asio::detached);
      io.poll();
      guard.unlock();
      CHECK(counted::alive() == 1);
    }
    CHECK_FALSE(went_on);
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("the body ends before the handler begins, whether the section was idle or not") {
    for (const bool is_idle : {true, false}) {
      CAPTURE(is_idle);
      asio::io_context io;
      critical_section cs;
      section_guard guard;
      if (!is_idle) guard = hold(cs);
      auto held = std::make_shared<int>(7);  // const, a copy of it would not move
      auto later = async_execute(cs, [held] {}, asio::deferred);
      long owners = 0;
      std::move(later)(
          asio::bind_executor(io, [&](std::exception_ptr) { owners = held.use_count(); }));
      guard.unlock();
      io.run();
      CHECK(owners == 1);
    }
  }

  TEST_CASE("who queues behind an execution that began at once does not keep its handler") {
    asio::thread_pool pool(1);
    critical_section cs;
    critical_section other;
    section_guard guard = hold(other);
    std::jthread waits;
    auto body = [&] {
      waits = std::jthread([&] {
        cs.execute_blocking([&] { other.execute_blocking([] {}); });  // until the handler has run
      });
      support::wait_for_waiters(cs, 1);
    };
    async_execute(cs, std::ref(body),
                  asio::bind_executor(pool, [&](std::exception_ptr) { guard.unlock(); }));
    pool.join();
    waits.join();
    CHECK(other.statistics().executions == 2);
  }

  TEST_CASE("one that waits apart, at an executor that nobody runs, does not keep the section") {
    manual_executor not_run;
    asio::io_context io;
    critical_section cs;
    bool may_run = false;
    const auto waits_apart = [&]() -> task<> {
      auto is_true = [&] { return may_run; };
      co_await cs.execute_when(is_true, [] {});
    };
    async_scope scope({.executor = not_run});
    scope.spawn(waits_apart());
    not_run.run();
    async_execute(cs, [] {}, asio::bind_executor(io, [](std::exception_ptr) {}));
    io.run();
    cs.execute_blocking([&] { may_run = true; });
    not_run.run();
    sync_wait(scope.join());
  }

  TEST_CASE("what is deferred and never started does nothing") {
    critical_section cs;
    {
      auto later = async_execute(cs, [held = counted(6)] {}, asio::deferred);
      auto awaited = async_execute(cs, [] {}, asio::use_awaitable);
      CHECK(counted::alive() == 1);
    }
    CHECK(counted::alive() == 0);
    CHECK(cs.statistics().executions == 0);
  }
}
