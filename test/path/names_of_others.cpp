// names_of_others.cpp - another library has functions of the same names beside its types: ours are
// called all the same.

#include <turnstile/turnstile.hpp>

#include <chrono>
#include <coroutine>
#include <doctest/doctest.h>
#include <tuple>
#include <utility>
#include <vector>

// Found by argument, they would fit everything. folly::coro has a get_awaiter, cppcoro a when_all
// and a sync_wait.
namespace another {

#define TAKES(name)                 \
  template <class... T, class... A> \
  void name(A&&...) = delete

// clang-format off
TAKES(add_one); TAKES(add_to); TAKES(adopt); TAKES(adopt_holds); TAKES(after); TAKES(all_below);
TAKES(allocator_of); TAKES(any_surrounding_stop); TAKES(are_claimed); TAKES(argument);
TAKES(arguments); TAKES(as_task); TAKES(ask_for_surrounding_stop); TAKES(async_execute);
TAKES(begin_turn); TAKES(begin_wait); TAKES(bits_of); TAKES(bounce);
TAKES(call_and_await); TAKES(can_be_stopped);
TAKES(chain_for); TAKES(check); TAKES(children_of); TAKES(claim); TAKES(claimed_at_all);
TAKES(combined); TAKES(context_executor); TAKES(current_stop_token); TAKES(cut_holds);
TAKES(divided); TAKES(drop); TAKES(drop_hold); TAKES(end_claims); TAKES(end_copy);
TAKES(end_frame); TAKES(end_told_wait); TAKES(end_wait); TAKES(execute); TAKES(execute_after);
TAKES(fork); TAKES(frame_on); TAKES(gone); TAKES(has_come); TAKES(here); TAKES(holds_section);
TAKES(home_worker); TAKES(identity_of); TAKES(innermost_frame); TAKES(innermost_held);
TAKES(invoke); TAKES(is_cancellation); TAKES(is_changed_here); TAKES(is_hold);
TAKES(is_member); TAKES(keep);
TAKES(keep_claims); TAKES(label_of); TAKES(labels_of); TAKES(lane_of); TAKES(later);
TAKES(let_go); TAKES(limit); TAKES(make_branch); TAKES(make_hold); TAKES(make_ordered);
TAKES(make_stand_in); TAKES(mask_of); TAKES(may_hold_sections); TAKES(may_withdraw);
TAKES(name_of); TAKES(need_not_end); TAKES(note_order); TAKES(pause); TAKES(post);
TAKES(off_this_stack);
TAKES(post_forks); TAKES(prefetch_request); TAKES(prefetch_to_write); TAKES(push_hold);
TAKES(raise_to); TAKES(reads); TAKES(refuse_elsewhere); TAKES(refuse_if_changed_here);
TAKES(refuse_if_expired);
TAKES(refuse_if_held); TAKES(refuse_if_withdrawn); TAKES(refuse_wait_if_held); TAKES(replicas_of);
TAKES(report_unobserved); TAKES(require_host_body); TAKES(require_some); TAKES(resource_of);
TAKES(resume_at_home); TAKES(resumes_here); TAKES(run_held); TAKES(run_to_suspension);
TAKES(reversed);
TAKES(schedule_on); TAKES(scope_called); TAKES(share); TAKES(share_hold); TAKES(sleep_for);
TAKES(sleep_until); TAKES(spawn_fiber); TAKES(start_in_order); TAKES(step_of); TAKES(stop_on);
TAKES(submits); TAKES(subtract_from); TAKES(surrounding_stop); TAKES(sync_wait); TAKES(timeout);
TAKES(told_waits); TAKES(told_without_search); TAKES(touch); TAKES(touch_held); TAKES(track);
TAKES(transfer); TAKES(turn_is_over); TAKES(unclaimed); TAKES(value_of); TAKES(when_all);
TAKES(wait_and_execute); TAKES(when_any); TAKES(whole_nanoseconds); TAKES(withdraw_claims);
TAKES(writes); TAKES(yield);
// clang-format on

#undef TAKES

struct value {
  int n = 0;

  value& operator+=(const value& v) {
    n += v.n;
    return *this;
  }
  value& operator-=(const value& v) {
    n -= v.n;
    return *this;
  }
  friend value operator/(const value& v, double by) { return {static_cast<int>(v.n / by)}; }
};

struct ready {
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  value await_resume() const noexcept { return {3}; }
};

struct body {
  value operator()() const { return {4}; }
};

struct waiting_body {
  ready operator()() const { return {}; }
};

struct device_body {
  value operator()(turnstile::stream&) const { return {5}; }
};

struct adds {
  int operator()(const value& v) const { return v.n + 10; }
};

struct gives_itself {
  value operator()(const value& v) const { return v; }
};

struct says_yes {
  bool operator()() const { return true; }
  bool operator()(const value&) const { return true; }
};

}  // namespace another

using namespace std::chrono_literals;

namespace {

turnstile::task<another::value> gives() { co_return co_await another::ready{}; }

std::vector<turnstile::task<another::value>> two_of_them() {
  std::vector<turnstile::task<another::value>> two;
  two.push_back(gives());
  two.push_back(gives());
  return two;
}

turnstile::task<int> all_of_it() {
  turnstile::critical_section cs;
  turnstile::critical_section other;
  turnstile::synchronized<another::value> held(another::value{1});
  int sum = 0;
  const auto add = [&sum](another::value v) { sum += v.n; };
  add(co_await another::ready{});
  add(co_await gives());
  add(co_await cs.execute(another::body{}));
  add(co_await cs.execute(another::waiting_body{}));
  add(co_await cs.execute(another::device_body{}));
  add(co_await cs.submit(another::body{}));
  add(co_await turnstile::execute(std::tie(cs, other), another::body{}));
  sum += co_await cs.execute(turnstile::after(another::ready{}), another::adds{});
  sum += co_await held.execute(another::adds{});
  add(std::get<0>(co_await turnstile::when_all(another::ready{}, gives())));
  add(std::get<0>((co_await turnstile::when_any(another::ready{})).value));
  add(co_await turnstile::timeout(another::ready{}, 1h));
  add(co_await turnstile::schedule_on(turnstile::thread_pool::shared(), another::ready{}));
  add(co_await turnstile::fork(another::ready{}));
  add(co_await cs.execute_when(another::says_yes{}, another::body{}));
  add(co_await held.execute_when(another::says_yes{}, another::gives_itself{}));
  add(co_await held.submit(another::gives_itself{}));
  add((co_await turnstile::when_all(two_of_them()))[1]);
  add((co_await turnstile::when_any(two_of_them())).value);
  co_return sum;
}

}  // namespace

TEST_SUITE("path") {
  TEST_CASE("names of others: what is found beside a user's types is not called") {
    CHECK(turnstile::sync_wait(all_of_it()) == 77);
    turnstile::critical_section cs;
    CHECK(cs.execute_blocking(another::device_body{}).n == 5);
    CHECK(turnstile::sync_wait(another::ready{}).n == 3);
    turnstile::async_scope scope;
    scope.spawn(another::ready{});
    turnstile::sync_wait(scope.join());
    turnstile::ordered_scope in_order;
    in_order.add({}, another::body{});
    turnstile::sync_wait(in_order.join());
    turnstile::variable<another::value> small(another::value{1});
    small.assign(another::value{2});
    CHECK(small.read()->n == 2);
    turnstile::per_replica<another::value> counts(2, another::value{3},
                                                  turnstile::aggregation::mean);
    CHECK(counts.read().n == 3);
    turnstile::mirrored<another::value> both(2, another::value{1}, turnstile::aggregation::sum);
    turnstile::sync_wait(turnstile::when_all(both.assign_add(0, another::value{2}),
                                             both.assign_add(1, another::value{2})));
    CHECK(both.read(0)->n == 5);
    auto f = turnstile::thread_pool::shared().spawn_fiber(
        [] { return turnstile::await(another::ready{}).n; });
    CHECK(turnstile::sync_wait(std::move(f)) == 3);
  }
}
