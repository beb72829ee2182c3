// ticket_ring.hpp - the default queue in front of a section.
//
// Shape     A ticket (ticket_word.hpp) says where in the order a request stands; cell[ticket mod N]
//           is where the owner finds it.
//
//             cell = nothing    nobody with a ticket of this residue waits here
//                  | parked     the owner has left; the next publisher in this cell takes over
//                  | request*   newest of a chain linked through `next`
//
//             nothing|chain --publish--> chain      by a producer
//             parked        --publish--> nothing    by a producer, who owns the section then
//             parked        --take_own-> nothing    the same, by one that has not published yet and
//                                                   found nobody but one inside
//             chain         --collect--> nothing    by the owner
//             nothing       --take-----> parked     by the owner, who leaves with it
//
//           A cell is a chain, so the ring never fills up, never allocates and never refuses.
//           Private to the owner: stashes, what was taken out of the cells, each in ticket order
//           and a ring: it is known by its last one, which the first one follows, for what comes
//           goes behind the last one and what goes is the first one. Ticket t is in stash[t mod 4]:
//           so two cells share one of those that lie inside the section, and all of it is three
//           lines.
//
// Edges     R1  publish   CAS(release) in publish -> exchange(acquire) in collect
//               the owner sees the request's fields. Later pushes on the same cell are RMWs and
//               continue the release sequence, so one acquire covers the whole chain.
//           R2  hand-over through park  CAS(release, nothing -> parked) in take ->
//               CAS(acquire, parked -> nothing) in publish and take_own: as W1, for the private
//               side and the effects of all bodies
//           The look at a cell before exchange is relaxed: only a hint which RMW to try.
//
// Progress  publish  lock-free; only tickets N apart and the owner meet in a cell
//           take_own wait-free
//           next     wait-free but for one retry per publisher that gets in between. A request that
//                    stopped between arrive and publish hides those behind it (the gap): the owner
//                    parks and leaves. No thread waits for another, but the section waits for a
//                    stalled peer: it is not lock-free as a whole.
//
// Dangers   After the CAS to parked the section may be gone: it is the last touch. That is why the
//           mark is in the cell that the missing request will come to, and no second word is looked
//           at: one RMW decides who goes on.
//           Any publisher in the parked cell takes over, not only the one waited for. A mark naming
//           its ticket would have to stay below later publishers' chains, where the same bits could
//           come back with another meaning. Whoever takes over early finds the same gap and parks
//           again, once per publisher.
//           Who takes its own has nothing for the stash, so it has to be the one that is missing.
//           It is: all before it but the one that it found inside have ended, and a gap at that one
//           would be marked in another cell, if there are two.
//
// Proof     test/schedule (ring), model ticket_ring; test/ring, test/stress (histories);
//           bench/counter says what it costs
//
// Source    chains in cells and the parked mark are ours.
#pragma once

#include <turnstile/detail/request.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/detail/ticket_word.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace turnstile::detail {

enum class [[nodiscard]] after_publish : std::uint8_t {
  nothing,    // whoever serves the section will see it; the request may be gone already
  take_over,  // the caller owns the section; its request is among those that next() gives
  closed,     // refused: the section was closed meanwhile (not by every ring)
};

class ticket_ring {
 private:
  using cell = atomic<std::uintptr_t>;

 public:
  using place = ticket_word::place;
  static constexpr bool can_be_kept = true;
  static constexpr bool arrival_is_place = true;  // even before it is published

  static constexpr std::size_t cells_inside = 8;
  static constexpr std::size_t stashes_inside = limit(std::size_t{4}, std::size_t{2});

 private:
  // More than lie inside, and as many stashes.
  struct many {
    explicit many(std::size_t capacity)
        : cells(new cell[capacity]{}), stashes(new guarded<request*>[capacity] {}) {}
    const std::unique_ptr<cell[]> cells;
    const std::unique_ptr<guarded<request*>[]> stashes;
  };
  struct alignas(cache_line) cells_line {
    cell cells[cells_inside]{};  // or in the first one a many, which does not change
  };

 public:
  // What lies beside the ring, so that the word, the cells, and what only the owner touches have
  // lines of their own.
  class private_side : private cells_line, public ticket_word::private_side {
   public:
    explicit private_side(std::size_t capacity)
        : log2_stashes_(static_cast<std::uint8_t>(std::countr_zero(
              capacity > cells_inside ? capacity : (std::min)(capacity, stashes_inside)))) {
      if (is_allocated()) [[unlikely]]
        allocate(capacity);
    }
    ~private_side() {
      if (is_allocated()) [[unlikely]]
        delete others();
    }
    private_side(const private_side&) = delete;
    private_side& operator=(const private_side&) = delete;

   private:
    friend class ticket_ring;
    TURNSTILE_COLD void allocate(std::size_t capacity);
    bool is_allocated() const noexcept { return log2_stashes_ > std::countr_zero(stashes_inside); }
    many* others() const noexcept { return std::bit_cast<many*>(cells[0].load(relaxed)); }
    // The last one that is in there.
    guarded<request*>& stash_of(std::uint64_t ticket) noexcept {
      const std::size_t i = ticket & ((std::uint64_t{1} << log2_stashes_) - 1);
      return is_allocated() ? others()->stashes[i] : stashes_[i];
    }

    guarded<request*> stashes_[stashes_inside]{};
    const std::uint8_t log2_stashes_;
  };

  // `capacity` cells, a power of two. More than lie inside are allocated.
  explicit ticket_ring(std::size_t capacity) noexcept
      : log2_cells_(static_cast<std::uint8_t>(std::countr_zero(capacity))) {}
  ticket_ring(const ticket_ring&) = delete;
  ticket_ring& operator=(const ticket_ring&) = delete;

  // Producer side: see ticket_word. What was queued is then published, or takes its own.
  TURNSTILE_INLINE arrival arrive(place& p) noexcept { return word_.arrive(p); }
  arrival try_arrive(place& p) noexcept { return word_.try_arrive(p); }
  arrival close(place& p) noexcept { return word_.close(p); }
  // Who arrived at `p` was queued, and may take_own before it publishes: the section is parked for
  // it when the one that is inside leaves.
  bool is_next(place p) const noexcept { return ticket_word::found_one(p) && log2_cells_ != 0; }
  // True: the caller owns the section, as if it had come first, and publishes nothing.
  bool take_own(place p, private_side& mine) noexcept;
  after_publish publish(request& r, place p, private_side& mine) noexcept;
  after_publish publish_last(request& r, place p, private_side& mine) noexcept {
    return publish(r, p, mine);
  }

  // Owner side.
  TURNSTILE_INLINE bool leave(place p, private_side& mine) noexcept { return word_.leave(p, mine); }
  bool keep(place p, private_side& mine) noexcept { return word_.keep(p, mine); }
  bool let_go(private_side& mine) noexcept { return word_.let_go(mine); }
  void hold_kept(private_side& mine) noexcept { word_.hold_kept(mine); }
  static bool found_kept(place p) noexcept { return ticket_word::found_kept(p); }
  static bool found_any(place p) noexcept { return ticket_word::found_any(p); }
  static bool is_first_at_kept(place p) noexcept { return ticket_word::is_first_at_kept(p); }
  bool is_kept() const noexcept { return word_.is_kept(); }
  void note_waiting_behind(place p) noexcept { word_.note_waiting_behind(p); }
  static void begin(place p, private_side& mine) noexcept { ticket_word::begin(p, mine); }
  static void finish(private_side& mine) noexcept { ticket_word::finish(mine); }
  // After finish. True: the section was left, as by next. False: next says.
  bool settle(private_side& mine) noexcept { return word_.settle(mine); }
  void account(private_side& mine) noexcept { word_.account(mine); }
  bool has_more(const private_side& mine) const noexcept { return word_.has_more(mine); }
  // The next request in order. Null: the section was left, idle or parked. Do not touch it then.
  request* next(private_side& mine) noexcept;
  // Undoes next, or begin: whoever calls next next gets `r`.
  void put_back(request& r, private_side& mine) noexcept;

  std::size_t pending() const noexcept { return word_.pending(); }
  static std::size_t ended(const private_side& mine) noexcept { return ticket_word::ended(mine); }
  std::size_t most_pending() const noexcept { return word_.most_pending(); }

 private:
  static constexpr std::uintptr_t nothing = 0;
  static constexpr std::uintptr_t parked = 1;

  cell& cell_of(std::uint64_t ticket, private_side& mine) const noexcept {
    const std::size_t i = ticket & ((std::uint64_t{1} << log2_cells_) - 1);
    return log2_cells_ <= std::countr_zero(cells_inside) ? mine.cells[i] : mine.others()->cells[i];
  }
  static void prefetch_newest(const private_side& mine) noexcept;
  static void collect(cell& from, private_side& mine) noexcept;
  static void put(request* chain, private_side& mine) noexcept;
  static void insert(request& r, request& after) noexcept {
    r.next = after.next;
    after.next = &r;
  }

  [[no_unique_address]] ticket_word word_;
  std::uint8_t log2_cells_;
};

}  // namespace turnstile::detail
