// registry.hpp - looking in: which sections there are, what they do, and in which order they are
// taken.
//
// Behind it: lib/registry.
#pragma once

#include <turnstile/critical_section.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/section_statistics.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace turnstile {

/// A section that was alive during the call.
struct section_record {
  std::uint64_t id;       ///< the number of `section #7`
  std::string name;       ///< empty if it has none
  std::string container;  ///< as given to critical_section::open, else empty
  section_statistics statistics;
};

/// An accepted execution; a lock and a tried one count as well.
struct execution_record {
  std::string name;     ///< execute_options::name
  std::string section;  ///< as in errors: its name, or `section #7`
  std::uint64_t section_id;
  std::vector<std::string> resources;  ///< names of what it declared
  bool exclusive;
  std::source_location where;
};

/// How often something took how long: buckets by powers of two of nanoseconds.
struct time_histogram {
  static constexpr std::size_t bucket_count = 48;

  std::uint64_t count = 0;
  std::chrono::nanoseconds sum{0};
  /// `buckets[0]`: 0 ns; `buckets[i]`: from 2^(i-1) ns to less than 2^i ns, the last one all above.
  std::array<std::uint64_t, bucket_count> buckets{};

  static std::size_t bucket_of(std::chrono::nanoseconds time) noexcept;
  /// The time that `share` of all, from 0 to 1, did not exceed, rounded up to a bucket's end. 0 if
  /// there are none.
  std::chrono::nanoseconds percentile(double share) const noexcept;
};

struct section_times {
  time_histogram wait;  ///< from acceptance to the start of the body, or to the guard
  time_histogram hold;  ///< from there to the release
};

/// Sections taken in an order that can end in a deadlock. Valid during the call of the hook.
struct lock_order_report {
  enum class kind : std::uint8_t {
    inversion,   ///< the other way round, or around a cycle of more
    same_class,  ///< two sections of one class, one inside the other
    declared,    ///< against an order given to declare_order
  };

  kind what;
  /// The classes around the cycle, the one just wanted first.
  std::span<const std::string> classes;
  /// What was seen earlier, outermost section first and the one wanted last. Of a longer cycle all
  /// that lead from the class just wanted to the one held, one after the other. What was declared
  /// is two steps.
  std::span<const path_step> first;
  /// What was asked for just now, in the same order.
  std::span<const path_step> second;
};

using lock_order_hook = void (*)(const lock_order_report&);

/// What the library knows of itself, for people and tests to look at.
///
/// Threads    every member from any thread, while sections are made, used and destroyed. A section
///            that is being looked at is destroyed when that look has ended
/// Throws     bad_alloc: sections, executions and both wait graphs, for what they give;
///            keep_executions, check_lock_order, allow_nested and declare_order, for what they
///            remember; keep_times
/// Progress   a call blocks its thread while another thread looks. Nothing that uses a section
///            waits for that; executions that are recorded take a lock each
class registry {
 public:
  /// The sections that are alive, the oldest first.
  static std::vector<section_record> sections();

  /// Keeps the last `last_n` executions from now on, of all sections. 0, the default: none, and
  /// what was kept is forgotten. Costs nothing where it is off. An execution that was made before
  /// this call and is awaited after it is recorded without resources if its section had claimed
  /// them.
  static void keep_executions(std::size_t last_n);
  /// What is kept, the oldest first. Refused requests are not among them, nor executions for which
  /// there was no memory.
  static std::vector<execution_record> executions();

  /// Begins to measure how long `section` is waited for and held, or stops it. What was measured
  /// stays until the section ends. Costs nothing where it is off; may throw bad_alloc.
  static void keep_times(critical_section& section, bool on = true);
  /// What was measured: of each body and each guard, and of no request that ended without one. A
  /// body's wait is told with its hold. The numbers are consistent only while nothing happens in
  /// the section.
  static section_times times(const critical_section& section);

  /// Who waits for what, a line for each wait: what its chain of awaits holds, innermost first, and
  /// what it wants. Only waits that others may wait for: of chains that hold something, and of the
  /// work that those join.
  static std::string wait_graph();
  /// The same for Graphviz: an arrow from each section held to the one wanted; scopes are boxes.
  static std::string wait_graph_dot();

  /// Predicts deadlocks that have not happened yet: calls `hook` when sections with names are taken
  /// in an order that, taken at the same time by two chains, would be one. Null, the default: off,
  /// and what was seen is forgotten, all but the annotations.
  ///
  /// A class is a name with its container: all sections of that name. Unnamed sections have none.
  /// What was only tried cannot wait, so it is no step of a cycle, but counts as held afterwards.
  /// Several sections of one request are taken by age, bound ones last: that order is checked
  /// against code that nests them, not among such requests. Orders made under one common section,
  /// whatever its name, exclude each other and are not reported. Nor are those of children of one
  /// when_all or when_any under a section that their parent holds, which does not keep them apart.
  /// Orders that never met in time are: that is what makes it a prediction.
  ///
  /// Threads    the hook is called on the thread that asks, once for each inversion, before the
  ///            request is made. What it throws is dropped
  static void check_lock_order(lock_order_hook hook);

  /// Sections of this class may be taken inside one another, such as parent and child. `class_name`
  /// is `name`, or `container/name`.
  static void allow_nested(std::string_view class_name);

  /// Sections of these classes are taken in this order only, outermost first; the first one against
  /// it is reported, even if the right way was never seen.
  static void declare_order(std::span<const std::string_view> outermost_first,
                            std::source_location where = std::source_location::current());
};

}  // namespace turnstile
