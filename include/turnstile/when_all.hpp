// when_all.hpp - wait for several awaitables at once.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/branch.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/detail/wait_graph.hpp>

#include <coroutine>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace turnstile {
namespace detail {

// Counts children down. The parent counts as one, so that it can start them all before the last of
// them resumes it.
//
// Edges    N1  left_.fetch_sub(acq_rel): the children's results and first_error_, to whoever comes
//              last and so to the parent
//          failed_ is relaxed: it only picks who writes first_error_
// Dangers  After a fetch_sub that is not the last one, everything here may be gone.
// Proof    test/schedule (when_all)
class countdown {
 public:
  void arm(std::coroutine_handle<> parent, std::size_t children) noexcept {
    parent_ = parent;
    left_.store(children + 1, relaxed);  // nobody else can see it yet
  }

  // Whoever comes last gets the parent, to go on with.
  std::coroutine_handle<> arrive() noexcept {
    const std::coroutine_handle<> parent = parent_;
    if (left_.fetch_sub(1, acq_rel) != 1) return {};  // N1
    return parent;
  }

  void note(std::exception_ptr error) noexcept {
    if (error != nullptr && !failed_.exchange(true, relaxed)) first_error_ = std::move(error);
  }

  void throw_first_error() const {
    if (first_error_ != nullptr) std::rethrow_exception(first_error_);
  }

 private:
  std::coroutine_handle<> parent_;
  atomic<std::size_t> left_{0};
  atomic<bool> failed_{false};
  std::exception_ptr first_error_;
};

template <class A>
class child : private branch_end {
 public:
  using value = kept<awaited<A>>;

  explicit child(A&& a) : branch_end(&ended_here), branch_(make_branch<A>(std::forward<A>(a))) {}
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  // Takes over a share of the parent's chain.
  void run(countdown& siblings, chain_frame* chain) {
    siblings_ = &siblings;
    if (chain != nullptr) chain = side_by_side(chain);
    branch_.prepare(got_, *this, chain);
    branch_.run();
  }

  void adopt_what_it_holds() noexcept {
    if (chain_frame* const left = branch_.take_left()) adopt_holds(*left);
  }

  decltype(auto) take() {
    if constexpr (std::is_void_v<value>) {
      return std::monostate{};
    } else {
      return got_.take();
    }
  }

 private:
  static std::coroutine_handle<> ended_here(branch_end& self) noexcept {
    auto& c = static_cast<child&>(self);
    c.siblings_->note(c.got_.error());
    if (c.member_) {
      end_frame(*c.member_);
      c.member_->scope->remove(*c.member_);
    }
    return c.siblings_->arrive();  // this may be gone
  }

  // Children of work that has its scope only wait side by side, so each is a member itself. Below a
  // guard that may be gone one day they share the work's frame.
  chain_frame* side_by_side(chain_frame* chain) {
    chain_frame* root = chain;
    while (root->parent != nullptr) root = root->parent;
    if (!is_member(root)) return chain;
    auto& work = static_cast<member_frame&>(*root);
    if (root != chain) {
      if (!work.is_shared) work.is_shared = true;  // else they started after it was written
      return chain;
    }
    member_.emplace(*work.scope, *work.at);
    work.scope->add(*member_);
    return &*member_;
  }

  branch<value> branch_;
  result<value> got_;
  countdown* siblings_ = nullptr;
  std::optional<member_frame> member_;
};

template <class... A>
class [[nodiscard("nothing runs until the result is awaited")]] all_of {
 public:
  explicit all_of(A&&... a) : waiting_(std::forward<A>(a)...) {}
  all_of(all_of&& other) : waiting_(std::move(other.waiting_)) {}

  bool await_ready() const noexcept { return sizeof...(A) == 0; }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    std::apply([&](A&... a) { children_.emplace(std::forward<A>(a)...); }, waiting_);
    left_.emplace().arm(h, sizeof...(A));
    std::apply([&](auto&... c) { (c.run(*left_, chain_for(h)), ...); }, *children_);
    return !left_->arrive();
  }

  auto await_resume() {
    if constexpr (sizeof...(A) == 0) {
      return std::tuple<>{};
    } else {
      std::apply([](auto&... c) { (c.adopt_what_it_holds(), ...); }, *children_);
      left_->throw_first_error();
      return std::apply([](auto&... c) { return std::tuple<decltype(c.take())...>{c.take()...}; },
                        *children_);
    }
  }

 private:
  std::tuple<A...> waiting_;
  std::optional<std::tuple<child<A>...>> children_;
  std::optional<countdown> left_;
};

template <class Range>
class [[nodiscard("nothing runs until the result is awaited")]] all_in {
  using element = std::ranges::range_value_t<Range>;
  using value = typename child<element>::value;
  using listed = std::conditional_t<std::is_reference_v<value>,
                                    std::reference_wrapper<std::remove_reference_t<value>>, value>;

 public:
  explicit all_in(Range r) : waiting_(std::move(r)) {}
  all_in(all_in&& other) : waiting_(std::move(other.waiting_)) {}

  bool await_ready() { return std::ranges::empty(waiting_); }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    for (auto&& a : waiting_) children_.emplace_back(std::move(a));
    left_.arm(h, children_.size());
    for (child<element>& c : children_) c.run(left_, chain_for(h));
    return !left_.arrive();
  }

  auto await_resume() {
    for (child<element>& c : children_) c.adopt_what_it_holds();
    left_.throw_first_error();
    if constexpr (!std::is_void_v<value>) {
      std::vector<listed> all;
      all.reserve(children_.size());
      for (child<element>& c : children_) all.push_back(c.take());
      return all;
    }
  }

 private:
  Range waiting_;
  std::deque<child<element>> children_;
  countdown left_;
};

}  // namespace detail

/// Starts all of them, in order, and resumes when all have ended.
///
/// Runs on    each until it first suspends on the awaiting thread, then wherever it is resumed
/// Resumes    where the last one ended
/// Throws     the error that happened first, after all have ended
/// Lifetime   rvalues are kept in the awaiting frame; one frame per child is allocated
template <detail::awaitable... A>
auto when_all(A&&... a) {
  return detail::all_of<A...>(std::forward<A>(a)...);
}

/// The same for a range of awaitables, given by value: a vector of the results, or void.
template <std::ranges::input_range Range>
  requires detail::awaitable<std::ranges::range_value_t<Range>> && (!detail::awaitable<Range>)
auto when_all(Range range) {
  return detail::all_in<Range>(std::move(range));
}

}  // namespace turnstile
