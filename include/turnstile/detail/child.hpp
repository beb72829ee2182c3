// child.hpp - one of several awaitables that run side by side, and the count of those that run.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/branch.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/detail/wait_graph.hpp>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace turnstile::detail {

// Counts children down. The parent counts as one, so that it can start them all before the last of
// them resumes it.
//
// Edges    N1  left_.fetch_sub(acq_rel): the children's results, and what their siblings noted of them,
//              to whoever comes last and so to the parent
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

 private:
  std::coroutine_handle<> parent_;
  atomic<std::size_t> left_{0};
};

// What is kept of a child's value: nothing of void, a wrapper of a reference.
template <class T>
struct as_value_of {
  using type = T;
};
template <>
struct as_value_of<void> {
  using type = std::monostate;
};
template <class T>
struct as_value_of<T&> {
  using type = std::reference_wrapper<T>;
};
template <class T>
using as_value = typename as_value_of<T>::type;

// Siblings is a countdown that is told of each child's end: note(which, error).
template <class A, class Siblings>
class child : private branch_end {
 public:
  using value = kept<awaited<A>>;

  explicit child(A&& a) : branch_end(&ended_here), branch_(make_branch<A>(std::forward<A>(a))) {}
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  // Takes over a share of the parent's chain.
  void run(Siblings& siblings, std::size_t which, chain_frame* chain) {
    run(siblings, which, chain, chain);
  }
  // The same on top of the parent's chain.
  void run(Siblings& siblings, std::size_t which, chain_frame* chain, chain_frame* parents) {
    siblings_ = &siblings;
    which_ = which;
    if (chain != nullptr) chain = side_by_side(chain);
    branch_.prepare(got_, *this, chain, parents);
    branch_.run();
  }

  void adopt_what_it_holds() noexcept {
    if (chain_frame* const left = branch_.take_left()) adopt_holds(*left);
  }

  std::exception_ptr error() const noexcept { return got_.error(); }

  decltype(auto) take() {
    if constexpr (std::is_void_v<value>) {
      got_.take();
      return std::monostate{};
    } else {
      return got_.take();
    }
  }

 private:
  static std::coroutine_handle<> ended_here(branch_end& self) noexcept {
    auto& c = static_cast<child&>(self);
    if (c.member_) {
      end_frame(*c.member_);
      c.member_->scope->remove(*c.member_);
    }
    c.siblings_->note(c.which_, c.got_.error());
    return c.siblings_->arrive();  // this may be gone
  }

  // Children of work that has its scope only wait side by side, so each is a member itself. Below a
  // guard that may be gone one day they share the work's frame. Below an alternative no wait is told.
  chain_frame* side_by_side(chain_frame* chain) {
    if (need_not_end(chain)) return chain;
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
  Siblings* siblings_ = nullptr;
  std::size_t which_ = 0;
  std::optional<member_frame> member_;
};

}  // namespace turnstile::detail
