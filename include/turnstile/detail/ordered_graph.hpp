// ordered_graph.hpp - who waits for whom among the bodies of an ordered_scope.
//
// Shape     For each thing: the body that writes it last, and those that read it since. A new body
//           gets an edge from each of these that conflicts with it and has not ended; waits_for
//           counts them.
//           What has ended is taken out and leaves behind whether it failed.
//
// Edges     O1  the lock: all of this, and with it what a body did -> the bodies that wait for it
//           The joins, the first error and the end: scope_core.hpp
//
// Progress  Adding and ending take a lock for a few steps of a list for each thing touched.
//
// Dangers   A body starts its successors before it counts as ended, so that the scope cannot end
//           meanwhile. After that neither the scope nor this may be touched.
//
// Proof     test/variable, test/stress; what is below it: test/schedule (scope)
//
// Source    a graph made of what each task says it reads and writes (RAW, WAR, WAW): Jade (Rinard,
//           Scales, Lam, IEEE Computer 1993), StarSs and its OmpSs, OpenMP's `depend`; that bodies
//           behind a failed one are skipped is ours.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/branch.hpp>
#include <turnstile/detail/fifo.hpp>
#include <turnstile/detail/scope_core.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/executor.hpp>

#include <coroutine>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <stop_token>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace turnstile::detail {

struct access {
  const void* thing;
  bool writes;
};

class ordered_graph;

// A body, from add to its end. Then it frees itself.
class ordered_body : private branch_end, private job {
 public:
  ordered_body(branch<void> run, std::vector<access> touches, std::source_location where);

 private:
  friend class ordered_graph;

  static void begin(job& j) noexcept;
  static std::coroutine_handle<> ended_here(branch_end& self) noexcept;

  ordered_graph* graph_ = nullptr;
  branch<void> branch_;
  const std::vector<access> touches_;
  const site at_;
  std::optional<member_frame> member_;     // from add on
  std::vector<ordered_body*> successors_;  // O1
  std::size_t waits_for_ = 0;              // O1
  bool skipped_ = false;                   // O1: something it waits for failed
  guarded<ordered_body*> next_{nullptr};   // O1: in a list of bodies that need not wait
};

class ordered_graph {
 public:
  explicit ordered_graph(executor_ref on)
      : executor_(on),
        ends_(new scope_core(std::stop_source(std::nostopstate), on_failure::go_on,
                             "ordered_scope")) {}
  ~ordered_graph();
  ordered_graph(const ordered_graph&) = delete;
  ordered_graph& operator=(const ordered_graph&) = delete;

  void add(std::unique_ptr<ordered_body> body);
  // If nothing is left: what failed does not matter any more.
  void forget() noexcept;
  scope_core& ends() noexcept { return *ends_; }

 private:
  friend class ordered_body;

  struct thing {
    ordered_body* writer = nullptr;
    std::vector<ordered_body*> readers;
    bool writer_failed = false;
    bool reader_failed = false;

    bool forgotten() const noexcept {
      return writer == nullptr && readers.empty() && !writer_failed && !reader_failed;
    }
  };
  using list = fifo<ordered_body, &ordered_body::next_>;
  // What came of a step: bodies to start, and bodies that will never run.
  struct step_result {
    list ready;
    list skipped;
  };

  void make_room(const ordered_body& body);
  void wait_for(ordered_body* before, ordered_body& body) noexcept;
  void link(ordered_body& body) noexcept;
  void note(ordered_body& body, step_result& now) noexcept;
  void remove(ordered_body& body, bool failed, step_result& now) noexcept;
  void remove_skipped(step_result& now) noexcept;
  void start_ready(step_result& now, void (*here)(job&) noexcept) noexcept;
  void free_skipped(step_result& now) noexcept;
  void body_ended(ordered_body& body) noexcept;

  const executor_ref executor_;
  scope_core* const ends_;  // shared with the bodies that have not ended
  mutex mutex_;
  std::unordered_map<const void*, thing> things_;  // O1
  std::size_t unfinished_ = 0;                     // O1
};

// By value: the body lives in the frame.
template <class Body>
branch<void> make_ordered(Body body) {
  if constexpr (awaitable<std::invoke_result_t<Body&>>) {
    static_cast<void>(co_await std::invoke(body));
  } else {
    static_cast<void>(std::invoke(body));
    co_return;
  }
}

class [[nodiscard("nothing is waited for until the result is awaited")]] ordered_join
    : public join_awaiter {
 public:
  ordered_join(ordered_graph& graph, const std::source_location& where) noexcept
      : join_awaiter(graph.ends(), where), graph_(&graph) {}

  void await_resume() {
    waited();  // throws if it was withdrawn: the next join takes what has failed
    graph_->forget();
    graph_->ends().throw_first_error();
  }

 private:
  ordered_graph* graph_;
};

}  // namespace turnstile::detail
