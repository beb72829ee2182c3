// memory.cpp - views and modification orders. What is modelled is said in the header.

#include "schedule/checker/memory.hpp"

#include <algorithm>
#include <utility>

namespace schedule {

namespace {

bool acquires(std::memory_order o) noexcept {
  return o == std::memory_order_acquire || o == std::memory_order_acq_rel ||
         o == std::memory_order_seq_cst;
}

bool releases(std::memory_order o) noexcept {
  return o == std::memory_order_release || o == std::memory_order_acq_rel ||
         o == std::memory_order_seq_cst;
}

void mark_unknown(const last_accesses& last, const clock& known) noexcept {
  for (std::size_t t = 0; t != last.at.size(); ++t) {
    if (last.when.of[t] > known.of[t]) mark_contended(last.at[t]);
  }
}

}  // namespace

memory::memory() : places_(most_places), views_(1024), table_(table_size) {}

void memory::reset() noexcept {
  used_ = 0;
  used_views_ = 0;
  used_in_views_ = 0;
  ++life_;
}

memory::entry& memory::slot_of(const void* at) noexcept {
  const auto key = reinterpret_cast<std::uintptr_t>(at);
  std::size_t i = (key * 0x9E3779B97F4A7C15u) >> 51;
  while (table_[i].life == life_ && table_[i].at != at) i = (i + 1) % table_size;
  return table_[i];
}

place& memory::begin_life(const void* at) noexcept {
  require(used_ != most_places, "the checker has no room for more places: see most_places");
  entry& e = slot_of(at);
  e = {at, life_, static_cast<std::uint32_t>(used_)};
  place& p = places_[used_];
  p.at = at;
  p.atomic = false;
  p.ended = false;
  p.oldest_for_seq_cst = 0;
  p.born_by = 0;
  p.born_when = 0;
  p.holder = -1;
  p.reads.when = {};
  p.writes.when = {};
  p.order.clear();
  ++used_;
  return p;
}

place* memory::find(const void* at) noexcept {
  const entry& e = slot_of(at);
  return e.life == life_ ? &places_[e.number] : nullptr;
}

// What was made before the execution is known from its first use on.
place& memory::know(const void* at) noexcept {
  place* const p = find(at);
  return p != nullptr ? *p : begin_life(at);
}

// An atomic's first value is there without anybody having released it.
place& memory::know(cell c) noexcept {
  place& p = know(c.at);
  if (!std::exchange(p.atomic, true)) {
    require(used_in_views_ != max_atomics, "the checker has no room for more atomics");
    p.in_views = static_cast<std::uint16_t>(used_in_views_++);
    p.order.push_back({c.value, -1});
  }
  return p;
}

std::size_t memory::oldest_visible(const place& p, const view& mine, bool seq_cst) const noexcept {
  const std::uint16_t known = mine.oldest_at(p.in_views);
  return seq_cst ? std::max(known, p.oldest_for_seq_cst) : known;
}

void memory::see(place& p, view& mine, std::size_t index, std::memory_order o) noexcept {
  const auto i = static_cast<std::uint16_t>(index);
  mine.raise(p.in_views, i);
  const int released = p.order[index].released;
  if (acquires(o) && released >= 0) mine.join(kept(released));
  if (o == std::memory_order_seq_cst) p.oldest_for_seq_cst = std::max(p.oldest_for_seq_cst, i);
}

// `continues`: as part of a read-modify-write, which also hands on what its predecessor released.
void memory::append(place& p, view& mine, std::uint64_t value, std::memory_order o,
                    bool continues) noexcept {
  const auto i = static_cast<std::uint16_t>(p.order.size());
  mine.raise(p.in_views, i);
  int released = continues ? p.order.back().released : -1;
  if (releases(o)) {
    const int before = released;
    released = keep(mine);
    if (before >= 0) views_[static_cast<std::size_t>(released)].join(kept(before));
  }
  p.order.push_back({value, released});
  if (o == std::memory_order_seq_cst) p.oldest_for_seq_cst = i;
}

// Its clock goes on after the question, for a look at all of it soon after a store to a part waits.
bool memory::note(place& p, int thread, view& mine, access how, site_id at,
                  const void* from) noexcept {
  const bool ordered =
      mine.known.covers(p.writes.when) && (how == access::read || mine.known.covers(p.reads.when));
  if (!ordered && p.atomic) {
    mark_contended(at);
    mark_unknown(p.writes, mine.known);
    if (how == access::write) mark_unknown(p.reads, mine.known);
  }
  const std::uint32_t time = ++mine.known.of[static_cast<std::size_t>(thread)];
  (how == access::read ? p.reads : p.writes).set(thread, time, at, from);
  return ordered;
}

int memory::keep(const view& v) noexcept {
  if (used_views_ == views_.size()) views_.resize(views_.size() * 2);
  views_[used_views_].copy(v);
  return static_cast<int>(used_views_++);
}

void memory::show_newest(view& mine) const noexcept {
  for (std::size_t i = 0; i != used_; ++i) {
    const place& p = places_[i];
    if (p.atomic) mine.raise(p.in_views, static_cast<std::uint16_t>(p.order.size() - 1));
  }
}

}  // namespace schedule
