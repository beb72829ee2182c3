// cycle_ring.hpp - the baseline: libcds' bounded cycle queue, order restored by ticket.
//
// Shape     The ticket word says where in the order a request stands. Requests go through libcds'
//           VyukovMPSCCycleQueue; when that is full, through a stack that is taken whole. The owner
//           sorts what it takes by ticket into a private list and serves it from there.
//
// Edges     C1  through the queue: libcds publishes with release and takes with acquire
//           C2  through the overflow: CAS(release) in publish -> exchange(acquire) in next
//           W1  through idle, as in ticket_word.hpp
//
// Progress  The owner waits, with back-off, for a request that has its ticket and is not published:
//           this ring blocks a thread there. It is here to be compared with, not to be used.
//
// Dangers   As ticket_word.hpp. Only pointers go through libcds, so no user code runs in its cells.
//
// Proof     test/ring, test/stress; bench/counter against the others
//
// Source    VyukovMPSCCycleQueue of libcds; restoring the order by ticket is ours.
#pragma once

#include <turnstile/detail/ticket_ring.hpp>

#include <cstddef>
#include <memory>

namespace turnstile::detail {

class cycle_ring {
 public:
  using place = ticket_word::place;
  static constexpr bool can_be_kept = true;
  static constexpr bool arrival_is_place = true;

  struct private_side : ticket_word::private_side {
    explicit private_side(std::size_t) noexcept {}
  };

  explicit cycle_ring(std::size_t capacity);
  ~cycle_ring();

  TURNSTILE_INLINE arrival arrive(place& p) noexcept { return word_.arrive(p); }
  arrival try_arrive(place& p) noexcept { return word_.try_arrive(p); }
  arrival close(place& p) noexcept { return word_.close(p); }
  after_publish publish(request& r, place p, private_side& mine) noexcept;
  after_publish publish_last(request& r, place p, private_side& mine) noexcept {
    return publish(r, p, mine);
  }

  TURNSTILE_INLINE bool leave(place p, private_side& mine) noexcept { return word_.leave(p, mine); }
  bool keep(place p, private_side& mine) noexcept { return word_.keep(p, mine); }
  bool let_go(private_side& mine) noexcept { return word_.let_go(mine); }
  void hold_kept(private_side& mine) noexcept { word_.hold_kept(mine); }
  static bool found_kept(place p) noexcept { return ticket_word::found_kept(p); }
  static bool found_any(place p) noexcept { return ticket_word::found_any(p); }
  static bool is_first_at_kept(place p) noexcept { return ticket_word::is_first_at_kept(p); }
  bool is_kept() const noexcept { return word_.is_kept(); }
  // Nobody waits in place here.
  static bool is_next(place) noexcept { return false; }
  static bool take_own(place, private_side&) noexcept { return false; }
  void note_waiting_behind(place p) noexcept { word_.note_waiting_behind(p); }
  static void begin(place p, private_side& mine) noexcept { ticket_word::begin(p, mine); }
  static void finish(private_side& mine) noexcept { ticket_word::finish(mine); }
  // After finish. True: the section was left, as by next. False: next says.
  bool settle(private_side& mine) noexcept { return word_.settle(mine); }
  void account(private_side& mine) noexcept { word_.account(mine); }
  bool has_more(const private_side& mine) const noexcept { return word_.has_more(mine); }
  request* next(private_side& mine) noexcept;
  void put_back(request& r, private_side& mine) noexcept;

  std::size_t pending() const noexcept { return word_.pending(); }
  static std::size_t ended(const private_side& mine) noexcept { return ticket_word::ended(mine); }
  std::size_t most_pending() const noexcept { return word_.most_pending(); }

 private:
  struct cells;

  void collect() noexcept;
  void insert(request& r) noexcept;

  ticket_word word_;
  std::unique_ptr<cells> cells_;
  atomic<request*> overflow_{nullptr};
  guarded<request*> sorted_{nullptr};  // only the owner
  guarded<request*> last_{nullptr};    // its end; only the owner
};

}  // namespace turnstile::detail
