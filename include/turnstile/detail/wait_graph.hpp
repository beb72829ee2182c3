// wait_graph.hpp - who waits for what, so that a wait that would never end is refused.
//
// A wait is told to the graph if the chain that waits has anything that others may wait for:
// sections that it holds, or the scope it was spawned in (its root is then a member_frame). It
// points to a section, whoever holds that, or to a scope. A chain that has nothing pays one test.
//
// Shape     Nodes are sections and scopes, by address. A wait w is an edge from every node that its
//           chain has to the one it wants: none of them is given back before w ends.
//             told in the table   under the graph's lock, by each node of its chain
//             told in the frame   member_frame::waits, for a chain that has its scope only: found
//                                 from the scope's list of members. No lock, unless it is a join:
//                                 that leads to a scope which nobody may watch yet, so it searches.
//                                 The frame has room for one: where children inherited it below a
//                                 guard, which may be gone by now, they are told in the table
//           w.over = false --its turn, or end of what it waits for--> true. Set before the node is
//           handed on; such an edge counts no more. The waiter takes the wait back when it goes on.
//           w.stop, or the stop around w.by if w listens to that, is asked for: as good as over.
//           Its withdrawal may only not have got to it yet: it registers for the stop after it was
//           told, and whoever has its place in line pinned lets it go a moment later
//           w.lasts = false --what it waits for has begun--> true, where a deadline may end that
//           before: no edge until then, and whoever closes a cycle with what has begun finds it
//           begun.
//           Each new wait is told first and then looks, under the lock, for a way along the edges
//           back to its own chain. A cycle is closed by some edge that comes last, and its search
//           finds it.
//
// Edges     G1  over.store(release), then the node is handed on (W1, R2, S1), perhaps often, then
//               its holder waits and takes the lock; or that holder is who searches ->
//               over.load(acquire).
//               So the last edge of a way that comes back is not over, because who searches has the
//               node it wants; hence its chain still has what the edge before wants; and so on to
//               the first: all of them were there at one instant
//           G2  waits.store, light_fence, watched.load; watched.store, heavy_fence, waits.load:
//               either the member finds its scope watched and searches under the lock, or whoever
//               watches finds its wait. If the scope is watched from the start, the wait is told
//               under the lock: one that is about to be refused must not make anybody else's a
//               cycle
//           G3  waits.store(null), light_fence, watched.load -> the lock: as G2, so that a wait
//               found in a frame lives until the search that found it is over
//           G4  a join is over when, under the lock, its scope is idle (scope_core): work spawned
//               later finds it over
//
// Progress  The graph's lock is held for a search: over the waits that are told and can be reached.
//           Whoever waits while holding something blocks its thread for that long. In the frame:
//           wait-free.
//
// Dangers   Without memory for its stand-in a request in line is not withdrawn. Once it is asked to
//           stop it waits on, and yet is no edge.
//           Nothing that a wait wants is touched but by its address: a section may be gone once
//           over is set. A scope is touched only while a join of it is told and not over.
//           A guard may be unlocked by any thread meanwhile, so a way that was found is looked at
//           once more.
//           The chain has gone on, and may be gone, when its wait is taken back: another library's
//           promise may bring the coroutine home first, and ask for the result there. So a wait in
//           the table has a share of its chain. One in a frame is of our own coroutine, which asks
//           at once.
//
// Proof     test/schedule (wait graph), model wait_edges; test/registry (deadlock), test/stress
//           (nesting)
//
// Source    wait-for edges published before they are chased: the probes of Chandy, Misra and Haas
//           (1983).
//           Sections as nodes, joins and frames in the same graph are ours.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/chain.hpp>
#include <turnstile/detail/config.hpp>
#include <turnstile/detail/kept_token.hpp>
#include <turnstile/detail/threads.hpp>

#include <array>
#include <cstdint>
#include <source_location>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace turnstile::detail {

class scope_members;
struct wait;

// The root of the chain of spawned work, and of each of its parallel children.
struct alignas(16) member_frame : stop_frame {
  inline member_frame(scope_members& s, const site& where) noexcept;

  scope_members* scope;
  // Children have inherited it below a guard: when that is gone, several may wait with it. Written
  // before they start.
  guarded<bool> is_shared{false};
  atomic<wait*> waits{nullptr};          // G2, G3
  guarded<member_frame*> next{nullptr};  // under the scope's lock
  guarded<member_frame*> previous{nullptr};
};

inline bool is_member(const chain_frame* f) noexcept {
  return !is_hold(f) && f->section == nullptr && (f->mask & alternative) == 0;
}

// The work of a scope that has not ended, and the token that it runs below.
class scope_members {
 public:
  scope_members(std::stop_token stop, std::string_view called) noexcept
      : stop_(std::move(stop)), called_(called) {}
  ~scope_members();
  scope_members(const scope_members&) = delete;
  scope_members& operator=(const scope_members&) = delete;

  void add(member_frame& m) noexcept;
  void remove(member_frame& m) noexcept;

  bool watched() const noexcept { return watched_.load(relaxed); }  // G2, G3

  const std::stop_token& stop() const noexcept { return stop_; }
  std::string_view called() const noexcept { return called_; }  // a literal
  // Relaxed: work spawned after the token was asked for comes after that by the callers' order.
  bool is_stoppable() const noexcept { return stoppable_.load(relaxed); }
  void make_stoppable() noexcept {
    if (!is_stoppable()) stoppable_.store(true, relaxed);
  }

 private:
  friend class wait_graph;

  const std::stop_token stop_;
  const std::string_view called_;
  atomic<bool> stoppable_{false};                    // for good: members made from then on say so
  alignas(cache_line) atomic<bool> watched_{false};  // for good, once somebody's wait can lead here
  alignas(cache_line) mutex lock_;
  guarded<member_frame*> first_{nullptr};
};

inline member_frame::member_frame(scope_members& s, const site& where) noexcept
    : stop_frame{{{nullptr, nullptr, &where, s.is_stoppable() ? stoppable : 0}}, &s.stop()},
      scope(&s) {}

enum class told : std::uint8_t { not_at_all, in_frame, in_table };

// One wait, in the frame of who waits.
struct wait {
  wait() noexcept = default;
  wait(const wait&) noexcept {}  // what is not told yet has nothing to be copied
  wait& operator=(const wait&) = delete;

  // The same, if it is one.
  scope_members* scope() const noexcept {
    return is_join ? static_cast<scope_members*>(const_cast<void*>(wants)) : nullptr;
  }

  // Written by the waiter before it is told.
  const void* wants;
  const kept_token* stop = nullptr;  // withdraws it, if it has one of its own
  const atomic<bool>* over;          // G1
  const site* at;
  std::string (*label)(const wait&);  // what errors call what it wants

  // Written by begin_wait.
  chain_frame* by;  // the chain that waits, without what is gone from its top; in the table a share
  told where = told::not_at_all;
  bool may_expire = false;  // by the waiter, as above: it is a wait_with_deadline
  bool is_join = false;     // as above: it wants a scope
  bool listens = false;     // as above: a stop around it withdraws it
  std::uint8_t links;       // under the lock, as everything from here on: lists that it is in
  std::array<std::uintptr_t, 3> next;
  std::uint64_t seen;          // by the search of that number, which came
  wait* from;                  // from this one, whose node the chain has
  const chain_frame* through;  // in this frame
  wait* behind;                // to be looked at after this one
};

// In what has a deadline, and so apart: others, which are in every awaiter, have no room for it.
struct wait_with_deadline : wait {
  const atomic<bool>* lasts;
};

// A wait of a chain that has its scope only, told in its frame. True: that is all, and end_wait
// follows.
// Otherwise begin_wait does the rest: it is a join, or somebody's wait leads to the scope.
inline bool told_without_search(wait& w, chain_frame* by) noexcept {
  if (!is_member(by) || w.is_join) return false;
  auto& m = static_cast<member_frame&>(*by);
  // A wait that may be refused is told under the lock, so that nobody else is refused because of
  // it.
  if (m.is_shared || m.scope->watched()) return false;
  w.by = by;
  w.seen = 0;
  w.where = told::in_frame;
  m.waits.store(&w, release);  // G2
  light_fence();
  return !m.scope->watched();
}

// A chain is about to wait, of which the caller has a share until it goes on. Throws deadlock_error
// if the wait would never end, and then it is not told. Below an alternative nothing is told.
// Otherwise end_wait follows, by the waiter when it goes on, or by who takes its wait back before.
void begin_wait(wait& w, chain_frame* by);
void end_told_wait(wait& w) noexcept;

inline void end_wait(wait& w) noexcept {
  if (w.where != told::not_at_all) [[unlikely]]
    end_told_wait(w);
}

// A wait that is told, for people. What it wants and what its chain has are only addresses here:
// they may be gone by the time somebody reads this.
struct wait_record {
  struct step {
    const void* node;
    std::string_view scope;  // what it is called, if it is one; else empty
    std::string execution;
    std::source_location where;
  };

  std::vector<step> has;  // innermost first
  step wants;
};

// Those of the table, and those of the work that they join.
std::vector<wait_record> told_waits();

// Keeps every search out, and with it everybody who might tell a wait of a watched scope: G4.
class no_search {
 public:
  no_search() noexcept;
  ~no_search();
  no_search(const no_search&) = delete;
  no_search& operator=(const no_search&) = delete;
};

}  // namespace turnstile::detail
