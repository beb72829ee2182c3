// child.hpp - one of several awaitables that run side by side, and the count of those that run.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/branch.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/fifo.hpp>
#include <turnstile/detail/fork_job.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/detail/wait_graph.hpp>
#include <turnstile/executor.hpp>

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace turnstile {

template <class A>
class forked;

namespace detail {

// Counts children down. The last of them is started when nothing is left to be done for the parent,
// so none comes last before.
//
// Edges    N1  left_.fetch_sub(acq_rel), or load(acquire) by whoever finds that it is the last one:
//              the children's results, and what their siblings noted of them, to whoever comes last
//              and so to the parent
// Dangers  After a fetch_sub that is not the last one, everything here may be gone.
// Proof    test/schedule (when_all)
class countdown {
 public:
  void arm(std::coroutine_handle<> parent, std::size_t children) noexcept {
    parent_ = parent;
    left_.store(children, relaxed);  // nobody else can see it yet
  }

  // Whoever comes last gets the parent, to go on with.
  std::coroutine_handle<> arrive() noexcept {
    const std::coroutine_handle<> parent = parent_;
    if (left_.load(acquire) != 1 && left_.fetch_sub(1, acq_rel) != 1) return {};  // N1
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

// What of an awaitable is the child, and whether it is forked (fork.hpp).
template <class A>
struct child_of {
  using what = A;
  static constexpr bool forks = false;
  static A&& part(A&& a) noexcept { return static_cast<A&&>(a); }
};
template <class A>
struct child_of<forked<A>> {
  using what = A;
  static constexpr bool forks = true;
  static A&& part(forked<A>&& f) noexcept { return static_cast<A&&>(f.what_); }
};

// Of a child that is forked.
struct fork_of_child : job {
  ~fork_of_child() {
    if (is_queued) [[unlikely]]
      contract_break("", "a coroutine is destroyed while what it has forked is in a queue", {});
  }
  bool is_queued = false;
};
struct no_fork {};

// Forks that come one after another are posted together: all of them for one exchange.
class forks_to_post {
 public:
  // False: the calling thread runs on nothing.
  bool add(job& j) noexcept {
    const executor_ref on = here().runs_on;
    if (!on) return false;
    job_access::set_home(j, on);
    jobs_.push(j);
    ++n_;
    return true;
  }
  // Before anything else runs. They may be gone then.
  void post() noexcept {
    if (n_ == 0) return;
    const auto jobs = std::exchange(jobs_, {});
    detail::post_forks(here().runs_on, jobs.front(), jobs.back(), std::exchange(n_, 0));
  }

 private:
  fifo<job, &job::next> jobs_;
  std::size_t n_ = 0;
};

// Siblings is a countdown that is told of each child's end: note(which, error).
template <class A, class Siblings>
class child : private branch_end,
              private std::conditional_t<child_of<A>::forks, fork_of_child, no_fork> {
  using what = typename child_of<A>::what;

 public:
  using value = kept<awaited<what>>;

  explicit child(A&& a)
      : branch_end(&ended_here),
        branch_(detail::make_branch<what>(child_of<A>::part(std::forward<A>(a)))) {}
  // Before it is prepared.
  child(child&& other) noexcept : branch_end(&ended_here), branch_(std::move(other.branch_)) {}
  child& operator=(child&&) = delete;

  // Takes over a share of the parent's chain.
  child& prepare(Siblings& siblings, std::size_t which, chain_frame* chain) {
    return prepare(siblings, which, chain, chain);
  }
  // The same on top of the parent's chain.
  child& prepare(Siblings& siblings, std::size_t which, chain_frame* chain, chain_frame* parents) {
    siblings_ = &siblings;
    which_ = which;
    if (chain != nullptr) chain = side_by_side(chain);
    branch_.prepare(*this, chain, parents);
    return *this;
  }

  // Then, until it first suspends, or elsewhere, where it is among `forks`.
  void run(forks_to_post& forks) {
    if (is_among(forks)) return;
    forks.post();
    branch_.run();
  }
  // By the last one's parent: to be returned from its await_suspend. All of this may be gone.
  std::coroutine_handle<> run_last(std::coroutine_handle<> parent, forks_to_post& forks) noexcept {
    const bool is_elsewhere = is_among(forks);
    forks.post();
    return is_elsewhere ? std::noop_coroutine() : branch_.run_after(parent);
  }
  // The same of an only child.
  std::coroutine_handle<> run_alone(std::coroutine_handle<> parent) noexcept {
    forks_to_post one;
    return run_last(parent, one);
  }

  void adopt_what_it_holds() noexcept {
    if (chain_frame* const left = branch_.take_left()) adopt_holds(*left);
  }

  std::exception_ptr error() noexcept { return branch_.got().error(); }

  // As the awaitable gives it; and, of void, as something that can be kept.
  value get() { return branch_.got().take(); }
  decltype(auto) take() {
    if constexpr (std::is_void_v<value>) {
      get();
      return std::monostate{};
    } else {
      return get();
    }
  }

 private:
  bool is_among(forks_to_post& forks) noexcept {
    if constexpr (child_of<A>::forks) {
      this->work_ = &begin;
      this->is_queued = forks.add(*this);
      return this->is_queued;
    } else {
      return false;
    }
  }
  static void begin(job& j) noexcept {
    auto& c = static_cast<child&>(j);
    c.is_queued = false;
    c.branch_.run();  // c may be gone
  }

  static std::coroutine_handle<> ended_here(branch_end& self) noexcept {
    auto& c = static_cast<child&>(self);
    if (c.member_) {
      end_frame(*c.member_);
      c.member_->scope->remove(*c.member_);
    }
    c.siblings_->note(c.which_, c.error());
    return c.siblings_->arrive();  // this may be gone
  }

  // Children of work that has its scope only wait side by side, so each is a member itself. Below a
  // guard that may be gone one day they share the work's frame. Below an alternative no wait is
  // told.
  chain_frame* side_by_side(chain_frame* chain) {
    if (need_not_end(chain)) return chain;
    chain_frame* root = chain;
    while (root->parent != nullptr) root = root->parent;
    if (!is_member(root)) return chain;
    auto& its_work = static_cast<member_frame&>(*root);
    if (root != chain) {
      if (!its_work.is_shared) its_work.is_shared = true;  // else they started after it was written
      return chain;
    }
    member_.emplace(*its_work.scope, *its_work.at);
    its_work.scope->add(*member_);
    return &*member_;
  }

  branch<value> branch_;
  Siblings* siblings_ = nullptr;
  std::size_t which_ = 0;
  std::optional<member_frame> member_;
};

// A range that only shows what is elsewhere: elements that can be copied stay there, and what it
// has with it is kept as long as the children, which may refer to that.
template <class Range>
inline constexpr bool shows_only = std::ranges::view<Range>;
template <class Range>
inline constexpr bool copies_elements =
    shows_only<Range> && std::is_lvalue_reference_v<std::ranges::range_reference_t<Range>> &&
    std::constructible_from<std::ranges::range_value_t<Range>,
                            std::ranges::range_reference_t<Range>>;

template <class Range>
concept range_of_awaitables = std::ranges::input_range<Range> &&
                              awaitable<std::ranges::range_value_t<Range>> && !awaitable<Range>;

// Of an lvalue: a container whose elements cannot be copied with it. Its own copy constructor does
// not say so.
template <class Range>
concept must_be_moved =
    std::is_lvalue_reference_v<Range> && requires(const std::remove_reference_t<Range>& all) {
      requires std::is_const_v<std::remove_reference_t<decltype(*std::ranges::begin(all))>>;
      requires !std::constructible_from<std::ranges::range_value_t<Range>,
                                        decltype(*std::ranges::begin(all))>;
    };

// The children of a range, in its order.
template <class Siblings, class Range>
auto children_of(Range& range) {
  using element = std::ranges::range_value_t<Range>;
  std::vector<child<element, Siblings>> all;
  if constexpr (std::ranges::sized_range<Range>) all.reserve(std::ranges::size(range));
  for (auto&& a : range) {
    if constexpr (copies_elements<Range>) {
      all.emplace_back(element(a));
    } else {
      all.emplace_back(std::move(a));
    }
  }
  return all;
}

// What is left of a range once its children are made.
template <class Range>
struct rest_of_range {
  explicit rest_of_range(Range&) noexcept {}
  static Range& elements(Range& range) noexcept { return range; }
};
template <class Range>
  requires shows_only<Range>
struct rest_of_range<Range> {
  explicit rest_of_range(Range& range) : kept(std::make_unique<Range>(std::move(range))) {}
  Range& elements(Range&) noexcept { return *kept; }
  std::unique_ptr<Range> kept;  // stays where it is: the children may refer to what is in it
};

// Starts all of them, each after `prepare(child, which)`, and gives the last one to go on with in
// the parent's stead. Everything may be gone then.
template <class... C, class Prepare>
std::coroutine_handle<> start_in_order(std::coroutine_handle<> parent, std::tuple<C...>& children,
                                       Prepare prepare) {
  forks_to_post forks;
  return [&]<std::size_t... Is>(std::index_sequence<Is...>) {
    constexpr std::size_t last = sizeof...(C) - 1;
    (prepare(std::get<Is>(children), Is).run(forks), ...);
    return prepare(std::get<last>(children), last).run_last(parent, forks);
  }(std::make_index_sequence<sizeof...(C) - 1>());
}
template <class C, class Prepare>
std::coroutine_handle<> start_in_order(std::coroutine_handle<> parent, std::vector<C>& children,
                                       Prepare prepare) {
  forks_to_post forks;
  const std::size_t last = children.size() - 1;
  for (std::size_t i = 0; i != last; ++i) prepare(children[i], i).run(forks);
  return prepare(children[last], last).run_last(parent, forks);
}

}  // namespace detail
}  // namespace turnstile
