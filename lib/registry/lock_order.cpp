// lock_order.cpp - predicts deadlocks from the orders in which sections are taken.
//
// A graph of classes: an edge held -> wanted for each section held when another one is asked for.
// Each edge keeps how it was seen: the path, and its gates, the other sections held then. A cycle
// of edges seen in ways that share no gate could happen at the same time, in as many chains, and
// would be a deadlock; two ways with a common gate exclude each other. That is taken for
// granted also where the gate is held by the parent of children of a when_all or when_any, whom it
// does not keep apart: what they could do to each other below it is not predicted.
//
// Requests of several sections take theirs in one order for all, so they are in no cycle with one
// another: one edge of a cycle at least has to be of another kind.
//
// Gates are sections, not classes, for two sections of one class do not exclude each other. Of an
// edge's ways only those with the fewest gates are kept: one with more adds nothing. Of those that
// do not contain one another the first eight are kept.
//
// Ways seen before are known by a hash of the sections held and wanted, which each thread looks up
// in a small table of its own before it takes the lock. Source of the idea: lockdep; the gates are
// Goodlock's (Havelund, 2000).

#include <turnstile/detail/looking.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/registry.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace turnstile {

namespace detail {

namespace {

using sections = std::vector<std::uint32_t>;  // numbers, in order

bool disjoint(const sections& a, const sections& b) noexcept {
  auto in_a = a.begin();
  auto in_b = b.begin();
  while (in_a != a.end() && in_b != b.end()) {
    if (*in_a == *in_b) return false;
    ++*(*in_a < *in_b ? &in_a : &in_b);
  }
  return true;
}

std::string class_of(std::string_view name, std::string_view container) {
  std::string all;
  if (!name.empty() && !container.empty()) all.append(container).append("/");
  return all.append(name);
}

// How an edge was seen.
struct way {
  sections gates;
  std::vector<path_step> path;
  bool declared = false;
  bool tied = false;  // both asked for by one request
};

struct edge {
  static constexpr std::size_t most_ways = 8;  // with gates that do not include one another

  std::deque<way> ways;

  // False: it adds nothing.
  bool add(const way& w) {
    const auto covered_by = [](const way& less, const way& more) {
      return less.declared == more.declared && less.tied <= more.tied &&
             std::ranges::includes(more.gates, less.gates);
    };
    if (std::ranges::any_of(ways, [&](const way& old) { return covered_by(old, w); })) return false;
    std::erase_if(ways, [&](const way& old) { return covered_by(w, old); });
    if (ways.size() >= most_ways && !w.declared) return false;
    if (w.declared) {
      ways.push_front(w);
    } else {
      ways.push_back(w);
    }
    return true;
  }
};

// What is told to the hook, apart from the graph, which may change meanwhile.
struct finding {
  lock_order_report::kind what;
  std::vector<std::string> classes;
  std::vector<path_step> first;
  std::vector<path_step> second;
};

// One step of a cycle that is looked for.
struct leg {
  const std::string* from;
  const way* how;
};

class order_graph {
 public:
  // `w` is how `wanted` was asked for with `held` below it. What that may end in, if it is new.
  std::optional<finding> add(const std::string& held, const std::string& wanted, const way& w) {
    if (held == wanted && (w.tied || may_nest_.contains(held))) return {};
    if (!edges_[held][wanted].add(w)) return {};
    if (held == wanted) return nested(held, w);
    search s{*this, held, {{&held, &w}}, {}, {}};
    if (!s.reach(wanted)) return {};
    return cycle(s.legs, w);
  }

  void allow_nested(std::string_view name) { may_nest_.emplace(name); }

  void declare(std::span<const std::string_view> names, std::source_location where) {
    for (std::size_t inner = 1; inner < names.size(); ++inner) {
      for (const std::string_view outer : names.first(inner)) {
        declare(std::string(outer), std::string(names[inner]), where);
      }
    }
  }

  void forget() {
    edges_.clear();
    told_.clear();
    for (const declaration& d : declared_) seed(d);
  }

 private:
  struct declaration {
    std::string outer;
    std::string inner;
    way how;
  };

  // A cycle back to `goal`, in ways that share no gate with one another. Depth first, and not by
  // recursion: a fiber's stack is small.
  struct search {
    static constexpr int most_steps = 10000;  // more is given up: it is a prediction

    struct step {
      const std::string* to;
      const way* how;
    };
    // A class on the way, and the steps from there that are not tried yet, the next one last.
    struct stop {
      const std::string* at;
      std::vector<step> untried;
    };

    const order_graph& graph;
    const std::string& goal;
    std::vector<leg> legs;
    std::vector<stop> stops;
    std::set<std::string_view> passed;

    bool reach(const std::string& from) {
      enter(from);
      for (int steps = 0; !stops.empty() && steps != most_steps;) {
        stop& here = stops.back();
        if (here.untried.empty()) {
          go_back();
          continue;
        }
        const step next = here.untried.back();
        here.untried.pop_back();
        if (passed.contains(*next.to)) continue;
        ++steps;
        if (!fits(*next.how)) continue;
        legs.push_back({here.at, next.how});
        const bool is_back = *next.to == goal;
        if (is_back && !are_all_tied()) return true;
        if (is_back || !enter(*next.to)) legs.pop_back();
      }
      return false;
    }

    // Not passed yet. False: it leads nowhere.
    bool enter(const std::string& at) {
      const auto out = graph.edges_.find(at);
      if (out == graph.edges_.end()) return false;
      passed.insert(at);
      stops.push_back({&at, {}});
      for (const auto& there : out->second | std::views::reverse) {
        if (there.first != goal) add_steps(there);
      }
      const auto straight = out->second.find(goal);
      if (straight != out->second.end()) add_steps(*straight);
      return true;
    }

    void add_steps(const std::pair<const std::string, edge>& there) {
      for (const way& w : there.second.ways | std::views::reverse) {
        stops.back().untried.push_back({&there.first, &w});
      }
    }

    // The first stop has no leg of its own.
    void go_back() {
      passed.erase(*stops.back().at);
      stops.pop_back();
      if (!stops.empty()) legs.pop_back();
    }

    bool fits(const way& w) const {
      return std::ranges::all_of(legs,
                                 [&](const leg& l) { return disjoint(l.how->gates, w.gates); });
    }

    bool are_all_tied() const {
      return std::ranges::all_of(legs, [](const leg& l) { return l.how->tied; });
    }
  };

  void declare(const std::string& outer, const std::string& inner, std::source_location where) {
    const auto is_it = [&](const declaration& d) { return d.outer == outer && d.inner == inner; };
    auto d = std::ranges::find_if(declared_, is_it);
    if (d == declared_.end()) {
      d = declared_.insert(d, {outer, inner, {{}, {{outer, where}, {inner, where}}, true}});
      told_.erase({outer, inner});
    }
    seed(*d);
    edges_[inner].erase(outer);  // what was seen against it is told when it is seen again
  }

  void seed(const declaration& d) { edges_[d.outer][d.inner].add(d.how); }

  bool is_new(const std::vector<std::string>& classes) {
    std::set<std::string> all(classes.begin(), classes.end());
    return told_.insert(std::move(all)).second;
  }

  std::optional<finding> nested(const std::string& name, const way& w) {
    const auto& ways = edges_[name][name].ways;
    const auto other =
        std::ranges::find_if(ways, [&](const way& old) { return disjoint(old.gates, w.gates); });
    if (other == ways.end() || !is_new({name})) return {};
    return finding{lock_order_report::kind::same_class, {name}, other->path, w.path};
  }

  // legs[0] is held -> wanted, the others lead from wanted back to held.
  std::optional<finding> cycle(const std::vector<leg>& legs, const way& w) {
    finding f{lock_order_report::kind::inversion, {}, {}, w.path};
    for (std::size_t i = 1; i != legs.size(); ++i) {
      const way& how = *legs[i].how;
      f.classes.push_back(*legs[i].from);
      f.first.insert(f.first.end(), how.path.begin(), how.path.end());
      if (how.declared) f.what = lock_order_report::kind::declared;
    }
    f.classes.push_back(*legs[0].from);
    if (!is_new(f.classes)) return {};
    return f;
  }

  std::map<std::string, std::map<std::string, edge>> edges_;
  std::set<std::set<std::string>> told_;
  std::set<std::string, std::less<>> may_nest_;
  std::vector<declaration> declared_;
};

struct order_check {
  mutex lock;
  order_graph graph;
};

// Never destroyed: sections may be used by destructors of static objects.
order_check& checked() {
  static order_check& all = *new order_check;
  return all;
}

// Relaxed: what came before its store is for who calls it, and that comes with the lock
// (add_to_graph).
constinit atomic<lock_order_hook> hook_to_call{nullptr};
// How often it was switched: what threads remember from before is not valid any more.
constinit atomic<std::uint64_t> switched{0};

constinit thread_local std::array<std::uint64_t, 64> seen_here{};

std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  a ^= b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2);
  a *= 0xff51afd7ed558ccd;
  return a ^ (a >> 32);
}

bool is_of(const chain_frame& f, const site& request) noexcept { return f.at == &request; }

std::uint64_t hash_of(const chain_frame* top, const section_core& wanted, const site& at) noexcept {
  std::uint64_t h = mix(switched.load(relaxed) + 1, wanted.id());
  for (const chain_frame* f = top; f != nullptr; f = f->parent) {
    if (holds_section(*f)) h = mix(h, name_of(*f).number + (is_of(*f, at) ? 1ull << 32 : 0));
  }
  return h;
}

bool seen_before(std::uint64_t hash) noexcept {
  std::uint64_t& there = seen_here[hash % seen_here.size()];
  return std::exchange(there, hash) == hash;
}

// What the chain holds, outermost first.
std::vector<const chain_frame*> held_by(const chain_frame* top) {
  std::vector<const chain_frame*> all;
  for (const chain_frame* f = top; f != nullptr; f = f->parent) {
    if (holds_section(*f)) all.push_back(f);
  }
  std::ranges::reverse(all);
  return all;
}

way way_without(const std::vector<const chain_frame*>& held, const chain_frame* from,
                const section_core& wanted, const site& at) {
  way w;
  for (const chain_frame* f : held) {
    w.path.push_back({label_of(*f), f->at->where});
    if (f != from) w.gates.push_back(name_of(*f).number);
  }
  w.tied = is_of(*from, at);
  w.path.push_back({wanted.label(), at.where});
  std::ranges::sort(w.gates);
  return w;
}

std::vector<finding> add_to_graph(const chain_frame* top, const section_core& wanted,
                                  const site& at) {
  const std::string to = class_of(wanted.name(), wanted.container());
  const std::vector<const chain_frame*> held = held_by(top);
  std::vector<finding> all;
  const std::lock_guard lock(checked().lock);
  if (hook_to_call.load(relaxed) == nullptr) return {};  // switched off meanwhile
  for (const chain_frame* f : held) {
    const section_name called = name_of(*f);
    const std::string from = class_of(called.name, called.container);
    if (from.empty()) continue;
    if (auto found = checked().graph.add(from, to, way_without(held, f, wanted, at))) {
      all.push_back(std::move(*found));
    }
  }
  return all;
}

}  // namespace

void note_order(const chain_frame* held, const section_core& wanted, const site& at) noexcept {
  const lock_order_hook hook = hook_to_call.load(relaxed);
  if (hook == nullptr || wanted.name().empty()) return;
  if (seen_before(hash_of(held, wanted, at))) return;
  try {
    for (const finding& f : add_to_graph(held, wanted, at))
      hook({f.what, f.classes, f.first, f.second});
  } catch (...) {  // no memory, or the hook's own trouble: not the program's
  }
}

}  // namespace detail

void registry::check_lock_order(lock_order_hook hook) {
  detail::order_check& check = detail::checked();
  const std::lock_guard lock(check.lock);
  if (hook == nullptr) check.graph.forget();
  detail::switched.fetch_add(1, detail::relaxed);
  detail::hook_to_call.store(hook, detail::relaxed);
}

void registry::allow_nested(std::string_view class_name) {
  detail::order_check& check = detail::checked();
  const std::lock_guard lock(check.lock);
  check.graph.allow_nested(class_name);
}

void registry::declare_order(std::span<const std::string_view> outermost_first,
                             std::source_location where) {
  detail::order_check& check = detail::checked();
  const std::lock_guard lock(check.lock);
  check.graph.declare(outermost_first, where);
  detail::switched.fetch_add(1, detail::relaxed);
}

}  // namespace turnstile
