// wait_graph.cpp - telling waits, and the search for a way back. The protocol is in the header.

#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/wait_graph.hpp>
#include <turnstile/errors.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace turnstile::detail {

namespace {

const void* node_of(const chain_frame& f) noexcept {
  if (f.section != nullptr) return f.section;
  return is_hold(&f) ? static_cast<const hold_frame&>(f).scope
                     : static_cast<const member_frame&>(f).scope;
}

bool is_stopped(const wait& w) noexcept {
  return (w.stop != nullptr && w.stop->stop_requested()) || (w.listens && is_stopped_around(w.by));
}

// Or ends because of a stop, or may end by itself as yet.
bool over(const wait& w) noexcept {
  return w.over->load(acquire) ||  // G1
         is_stopped(w) ||
         (w.may_expire && !static_cast<const wait_with_deadline&>(w).lasts->load(acquire));
}

// The frame in which a chain has a node; null if it has not.
const chain_frame* frame_with(const chain_frame* top, const void* node) noexcept {
  for (const chain_frame* f = top; f != nullptr; f = f->parent) {
    if (node_of(*f) == node && !gone(*f)) return f;
  }
  return nullptr;
}

held_step step_of(const chain_frame& f) { return step_of(label_of(f), *f.at); }

// The chain keeps its frames until it has taken its wait back, which needs the lock.
wait_record record_of(const wait& w) {
  wait_record r;
  r.wants = {w.wants, w.is_join ? w.scope()->called() : std::string_view(),
             std::string(w.at->name()), w.at->where};
  for (const chain_frame* f = w.by; f != nullptr; f = f->parent) {
    if (gone(*f)) continue;
    r.has.push_back({node_of(*f), f->section == nullptr ? scope_called(*f) : std::string_view(),
                     std::string(f->at->name()), f->at->where});
  }
  return r;
}

}  // namespace

// The table of waits, and the search. All of it under the lock.
class wait_graph {
 public:
  void lock() noexcept { lock_.lock(); }
  void unlock() noexcept { lock_.unlock(); }

  void insert(wait& w) noexcept;
  void remove(wait& w) noexcept;

  void forget_watched() noexcept { --watched_scopes_; }

  // The error for a wait that closes a cycle: a way leads from `w` back to its own chain. Nothing
  // if none does.
  std::optional<deadlock_error> refusal(wait& w);

  std::vector<wait_record> all();

 private:
  // An entry of a list: a wait, and which of its lists this is.
  struct entry {
    explicit entry(std::uintptr_t bits) noexcept : bits(bits) {}
    entry(wait& w, std::uintptr_t which) noexcept
        : bits(reinterpret_cast<std::uintptr_t>(&w) | which) {}

    wait& of() const noexcept { return *reinterpret_cast<wait*>(bits & ~std::uintptr_t{3}); }
    std::size_t which() const noexcept { return bits & 3; }
    std::uintptr_t& next() const noexcept { return of().next[which()]; }
    std::uintptr_t bits;
  };

  // As many for the checker: where all nodes share a bucket, may_close never says no.
  static constexpr std::size_t buckets = 1024;
  static std::size_t bucket_of(const void* node) noexcept {
    const auto bits = reinterpret_cast<std::uintptr_t>(node);
    return (bits >> 6 ^ bits >> 16) % buckets;
  }

  static bool is_deep(const wait& w) noexcept;
  void enlist(std::uintptr_t& list, wait& w) noexcept;
  static void strike(std::uintptr_t& list, const wait& w, std::size_t which) noexcept;

  bool may_close(const wait& w) const noexcept;
  bool closed(wait& w) noexcept;
  void begin_at(wait& w) noexcept;
  bool find_way_back(wait& w) noexcept;
  void look_at(wait& u, const chain_frame& through, wait& from) noexcept;
  void look_behind(wait& from) noexcept;
  void look_into(scope_members& s, wait& from) noexcept;
  static bool still_there(const wait& start, const wait* last) noexcept;
  deadlock_error error(const wait& start) const;
  void add_to(std::vector<wait_record>& all, wait& w);

  mutex lock_;
  std::array<std::uintptr_t, buckets> by_node_{};  // waits of chains that have it
  std::uintptr_t deep_ = 0;                        // those of chains of more than three frames
  std::array<std::uint32_t, buckets> wanted_{};    // how many waits in the table want such a node
  std::size_t watched_scopes_ = 0;
  std::uint64_t search_ = 0;
  wait* last_ = nullptr;              // to be looked at
  const wait* found_ = nullptr;       // wants a node of the chain that searches
  const chain_frame* own_ = nullptr;  // which has it in this frame
};

namespace {
constinit wait_graph graph;
}

void wait_graph::enlist(std::uintptr_t& list, wait& w) noexcept {
  w.next[w.links] = list;
  list = entry(w, w.links++).bits;
}

void wait_graph::strike(std::uintptr_t& list, const wait& w, std::size_t which) noexcept {
  std::uintptr_t* at = &list;
  while (&entry(*at).of() != &w || entry(*at).which() != which) at = &entry(*at).next();
  *at = entry(*at).next();
}

bool wait_graph::is_deep(const wait& w) noexcept {
  std::size_t depth = 0;
  for (const chain_frame* f = w.by; f != nullptr; f = f->parent) ++depth;
  return depth > w.next.size();
}

void wait_graph::insert(wait& w) noexcept {
  w.links = 0;
  if (is_deep(w)) {
    enlist(deep_, w);
  } else {
    for (const chain_frame* f = w.by; f != nullptr; f = f->parent) {
      enlist(by_node_[bucket_of(node_of(*f))], w);
    }
  }
  ++wanted_[bucket_of(w.wants)];
}

void wait_graph::remove(wait& w) noexcept {
  --wanted_[bucket_of(w.wants)];
  if (is_deep(w)) return strike(deep_, w, 0);
  std::size_t which = 0;
  for (const chain_frame* f = w.by; f != nullptr; f = f->parent) {
    strike(by_node_[bucket_of(node_of(*f))], w, which++);
  }
}

// Whether any way leads into the chain of `w`, so that a search may find it.
bool wait_graph::may_close(const wait& w) const noexcept {
  if (watched_scopes_ != 0 || w.is_join) return true;
  for (const chain_frame* f = w.by; f != nullptr; f = f->parent) {
    if (wanted_[bucket_of(node_of(*f))] != 0) return true;
  }
  return false;
}

// A way that has ended meanwhile may hide another one, which was not followed where both met. What
// is over stays so: each search that is in vain for that follows fewer.
bool wait_graph::closed(wait& w) noexcept {
  while (find_way_back(w)) {
    if (still_there(w, found_)) return true;
    if (over(w)) return false;
  }
  return false;
}

void wait_graph::begin_at(wait& w) noexcept {
  w.seen = search_;
  w.from = nullptr;
  w.behind = nullptr;
  last_ = &w;
}

// Breadth first, so that the way found is a shortest one.
bool wait_graph::find_way_back(wait& w) noexcept {
  ++search_;
  begin_at(w);
  for (wait* at = &w; at != nullptr; at = at->behind) {
    own_ = frame_with(w.by, at->wants);
    if (own_ != nullptr) {
      found_ = at;
      return true;
    }
    look_behind(*at);
  }
  return false;
}

// `u` is a wait of a chain that has what `from` wants.
void wait_graph::look_at(wait& u, const chain_frame& through, wait& from) noexcept {
  if (u.seen == search_ || over(u)) return;
  u.seen = search_;
  u.from = &from;
  u.through = &through;
  u.behind = nullptr;
  last_->behind = &u;
  last_ = &u;
}

void wait_graph::look_behind(wait& from) noexcept {
  for (entry e(by_node_[bucket_of(from.wants)]); e.bits != 0; e = entry(e.next())) {
    const chain_frame* f = e.of().by;
    for (std::size_t i = e.which(); i != 0; --i) f = f->parent;
    if (node_of(*f) == from.wants && !gone(*f)) look_at(e.of(), *f, from);
  }
  for (entry e(deep_); e.bits != 0; e = entry(e.next())) {
    if (const chain_frame* const f = frame_with(e.of().by, from.wants)) look_at(e.of(), *f, from);
  }
  if (from.is_join) look_into(*from.scope(), from);
}

void wait_graph::look_into(scope_members& s, wait& from) noexcept {
  if (!s.watched_.load(relaxed)) {
    s.watched_.store(true, relaxed);
    ++watched_scopes_;
    heavy_fence();  // G2
  }
  s.lock_.lock();
  for (member_frame* m = s.first_; m != nullptr; m = m->next) {
    if (wait* const w = m->waits.load(acquire)) look_at(*w, *m, from);  // G2
  }
  s.lock_.unlock();
}

bool wait_graph::still_there(const wait& start, const wait* last) noexcept {
  for (const wait* w = last; w != &start; w = w->from) {
    if (over(*w) || gone(*w->through)) return false;
  }
  return !over(start);
}

// From the node wanted, along who has what, to what the searching chain has, and back to the node
// wanted.
deadlock_error wait_graph::error(const wait& start) const {
  std::vector<held_step> way{step_of(start.label(start), *start.at), step_of(*own_)};
  for (const wait* w = found_; w != &start; w = w->from) way.push_back(step_of(*w->through));
  std::ranges::reverse(way);
  return deadlock_error(way);
}

std::vector<wait_record> wait_graph::all() {
  std::vector<wait_record> all;
  ++search_;
  for (entry e(deep_); e.bits != 0; e = entry(e.next())) add_to(all, e.of());
  for (const std::uintptr_t list : by_node_) {
    for (entry e(list); e.bits != 0; e = entry(e.next())) {
      if (e.which() == 0) add_to(all, e.of());
    }
  }
  return all;
}

// With those of the work that it joins, and so on.
void wait_graph::add_to(std::vector<wait_record>& all, wait& w) {
  if (w.seen == search_ || over(w)) return;
  begin_at(w);
  for (wait* at = &w; at != nullptr; at = at->behind) {
    all.push_back(record_of(*at));
    if (at->is_join) look_into(*at->scope(), *at);
  }
}

std::optional<deadlock_error> wait_graph::refusal(wait& w) {
  if (!may_close(w) || !closed(w)) return std::nullopt;
  return error(w);
}

namespace {

// Both under the lock.
void tell(wait& w, chain_frame* by) noexcept {
  w.seen = 0;
  if (is_member(by) && !static_cast<member_frame&>(*by).is_shared) {
    w.by = by;
    w.where = told::in_frame;
    static_cast<member_frame&>(*by).waits.store(&w, relaxed);  // who looks has the lock
  } else {
    w.by = share(by);
    w.where = told::in_table;
    graph.insert(w);
  }
}

// Still: what outlives a when_any or a timeout keeps the mask that it had there.
bool is_below_alternative(const chain_frame* top) noexcept {
  if (!need_not_end(top)) return false;
  for (const chain_frame* f = top; f != nullptr; f = f->parent) {
    const bool is_stop =
        f->section == nullptr &&
        (is_hold(f) ? static_cast<const hold_frame*>(f)->scope == nullptr : !is_member(f));
    if (is_stop && !gone(*f)) return true;
  }
  return false;
}

// Gives the share of the chain that the table had.
[[nodiscard]] chain_frame* take_back(wait& w) noexcept {
  if (std::exchange(w.where, told::not_at_all) == told::in_table) {
    graph.remove(w);
    return w.by;
  }
  static_cast<member_frame*>(w.by)->waits.store(nullptr, relaxed);
  return nullptr;
}

}  // namespace

void begin_wait(wait& w, chain_frame* by) {
  while (by != nullptr && gone(*by)) by = by->parent;
  if (by == nullptr || is_below_alternative(by)) return;
  if (w.where == told::not_at_all && told_without_search(w, by)) return;
  const no_search other;
  if (w.where == told::not_at_all) tell(w, by);
  try {
    if (std::optional<deadlock_error> error = graph.refusal(w)) throw std::move(*error);
  } catch (...) {
    drop(take_back(w));  // not the last share: the caller has one
    throw;
  }
}

void wait_for_searches() noexcept { const no_search begins_before_this; }

void end_told_wait(wait& w) noexcept {
  if (w.where == told::in_frame) {
    member_frame& m = static_cast<member_frame&>(*w.by);
    m.waits.store(nullptr, relaxed);  // G3
    light_fence();
    w.where = told::not_at_all;
    if (m.scope->watched()) wait_for_searches();
    return;
  }
  chain_frame* had = nullptr;
  {
    const no_search other;
    had = take_back(w);
  }
  drop(had);
}

scope_members::~scope_members() {
  if (!watched_.load(relaxed)) return;
  const no_search other;
  graph.forget_watched();
}

void scope_members::add(member_frame& m) noexcept {
  lock_.lock();
  m.next = first_;
  if (m.next != nullptr) m.next->previous = &m;
  first_ = &m;
  lock_.unlock();
}

void scope_members::remove(member_frame& m) noexcept {
  lock_.lock();
  if (m.next != nullptr) m.next->previous = m.previous;
  *(m.previous != nullptr ? &m.previous->next : &first_) = m.next;
  lock_.unlock();
}

std::vector<wait_record> told_waits() {
  const no_search other;
  return graph.all();
}

no_search::no_search() noexcept { graph.lock(); }
no_search::~no_search() { graph.unlock(); }

}  // namespace turnstile::detail
