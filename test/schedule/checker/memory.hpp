// memory.hpp - the memory of one execution: what a load may see, and which accesses race.
//
// Each atomic has a modification order: its stores in the order they were executed. A store carries
// the view of its thread if it releases; read-modify-writes pass on the view of what they replace
// (release sequences). A load may see any store not older than what its thread knows of the place;
// an acquiring one takes over the view it finds. seq_cst operations are in one order, that of
// execution: none sees less than an earlier one of the same place saw or wrote.
//
// A plain field is two clocks: accesses that conflict have to be ordered by the views.
//
// Not seen  Loads that see stores executed later (load buffering). Stores that come into a place's
//           modification order ahead of ones executed earlier (2+2W); the library's plain stores to
//           one place are ordered by happens-before. Fences, consume: the library has none.
#pragma once

#include "schedule/checker/clocks.hpp"
#include "schedule/checker/sites.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace schedule {

// One store in a modification order.
struct stored {
  std::uint64_t value;
  int released;  // index of a view; -1: none
};

// Where each thread has done something to a place, last.
struct last_accesses {
  clock when;  // 0: never, and the others say nothing
  std::array<site_id, max_threads> at;
  std::array<const void*, max_threads> from;  // plain fields: the code's address

  void set(int thread, std::uint32_t time, site_id site, const void* code) noexcept {
    const auto t = static_cast<std::size_t>(thread);
    when.of[t] = time;
    at[t] = site;
    from[t] = code;
  }
};

struct place {
  const void* at = nullptr;
  bool atomic = false;
  bool ended = false;
  int born_by = 0;
  std::uint32_t born_when = 0;
  std::uint16_t in_views = 0;  // atomics only
  std::uint16_t oldest_for_seq_cst = 0;
  int holder = -1;  // of a mutex
  last_accesses reads{};
  last_accesses writes{};
  std::vector<stored> order;  // atomics only
};

enum class access : std::uint8_t { read, write };

class memory {
 public:
  memory();

  // Forgets everything.
  void reset() noexcept;

  place& begin_life(const void* at) noexcept;
  // Null if the place is not known.
  place* find(const void* at) noexcept;
  place& know(const void* at) noexcept;
  place& know(cell c) noexcept;
  std::size_t number(const place& p) const noexcept {
    return static_cast<std::size_t>(&p - places_.data());
  }

  // The places of a modification order that a load may see: from this one on.
  std::size_t oldest_visible(const place& p, const view& mine, bool seq_cst) const noexcept;
  void see(place& p, view& mine, std::size_t index, std::memory_order o) noexcept;
  void append(place& p, view& mine, std::uint64_t value, std::memory_order o,
              bool continues) noexcept;

  // A step of the thread's clock. False: `at` conflicts with an access that nothing orders before
  // it. Other accesses by the same rule are marked as contended (sites.hpp).
  bool note(place& p, int thread, view& mine, access how, site_id at,
            const void* from = nullptr) noexcept;

  int keep(const view& v) noexcept;
  const view& kept(int released) const noexcept {
    return views_[static_cast<std::size_t>(released)];
  }

  // So that nobody spins on an old value for ever.
  void show_newest(view& mine) const noexcept;

 private:
  struct entry {
    const void* at;
    std::uint32_t life;
    std::uint32_t number;
  };
  static constexpr std::size_t most_places = 4096;
  static constexpr std::size_t table_size = 2 * most_places;

  entry& slot_of(const void* at) noexcept;

  std::vector<place> places_;
  std::size_t used_ = 0;
  std::size_t used_in_views_ = 0;
  std::vector<view> views_;
  std::size_t used_views_ = 0;
  std::vector<entry> table_;
  std::uint32_t life_ = 0;
};

}  // namespace schedule
