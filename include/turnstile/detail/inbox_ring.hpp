// inbox_ring.hpp - the alternative queue: one word, take all by one exchange, flip to order.
//
// Shape     word = newest request* | closed (bit 1) | busy (bit 0)
//
//             0                  idle
//             (none, -, busy)    owned, nobody new waits
//             (r, c, busy)       owned; r is the newest of a chain linked through `next`
//             (none, closed, -)  parked: closed, and the closing request is not published yet
//             (none, closed, busy) for ever after: the closing request was served
//
//             0 --arrive, publish--> (none, -, busy)          the caller owns the section
//             (x, -, busy) --publish r--> (r, -, busy)
//             (x, -, b) --close--> (x, closed, busy)          b = idle: the caller owns it
//             (x, closed, busy) --publish_last r--> (r, closed, busy)
//             (none, closed, -) --publish_last r--> (none, closed, busy)   the caller owns it
//             (x, c, busy) --next--> (none, c, busy)          by the owner, who has the chain
//             (none, c, busy) --next--> (none, c, -)          by the owner: do not touch again
//
//           Private to the owner: `first`, what was collected, in order.
//
// Edges     I1  publish  CAS(release) in push -> fetch_and(acquire) in next: the requests' fields.
//               Pushes are RMWs, so the acquire synchronises with every one in the chain.
//           I2  through idle  CAS(release) that clears busy in next and leave -> CAS(acquire)
//               that sets it in arrive, push and close: effects of all bodies and
//               the private side
//
// Progress  arrive wait-free, publish and close lock-free, next wait-free plus one pass over what
//           it collects.
//           There is no gap: a request is in line by the same CAS that makes it visible.
//
// Dangers   After the CAS to 0 the section may be gone. A request's link is read before it is
//           handed back.
//
// Proof     test/schedule (ring), model inbox_ring; test/ring, test/stress (histories);
//           bench/counter against the others
//
// Source    Treiber stack taken whole and turned round, as in folly::coro::Mutex, cppcoro's
//           async_mutex and Swift's default actor; the closed bit with its closing request is ours.
#pragma once

#include <turnstile/detail/ticket_ring.hpp>

#include <cstddef>
#include <cstdint>

namespace turnstile::detail {

class inbox_ring {
 public:
  struct place {};
  static constexpr bool can_be_kept = false;       // its word has no room to say so
  static constexpr bool arrival_is_place = false;  // only what is published has one

  struct private_side {
    explicit private_side(std::size_t) noexcept {}
    guarded<request*> first{nullptr};  // collected, oldest first
    // Requests that next gave and that are still in waiting_. Relaxed: statistics look at it.
    statistic<std::int32_t> counted{0};
  };

  // One inbox, however many cells are asked for.
  explicit inbox_ring(std::size_t) noexcept {}

  TURNSTILE_INLINE arrival arrive(place&) noexcept {
    std::uintptr_t seen = 0;
    if (word_.compare_exchange_strong(seen, busy, acquire, relaxed)) return arrival::owner;  // I2
    return (seen & closed) != 0 ? arrival::closed : arrival::queued;
  }
  arrival try_arrive(place& p) noexcept { return arrive(p); }
  arrival close(place&) noexcept;
  after_publish publish(request& r, place, private_side& mine) noexcept {
    return push(r, false, mine);
  }
  after_publish publish_last(request& r, place, private_side& mine) noexcept {
    return push(r, true, mine);
  }

  TURNSTILE_INLINE bool leave(place, private_side& mine) noexcept {
    std::uintptr_t seen = busy;
    if (word_.compare_exchange_strong(seen, 0, release, relaxed)) return true;  // I2
    mine.counted.store(0, relaxed);
    return false;
  }
  static bool keep(place, private_side&) noexcept { return false; }
  static bool let_go(private_side&) noexcept { return false; }
  static void hold_kept(private_side&) noexcept {}
  static bool found_kept(place) noexcept { return false; }
  static bool found_any(place) noexcept { return false; }
  static bool is_first_at_kept(place) noexcept { return false; }
  // Nobody waits in place here.
  static bool is_next(place) noexcept { return false; }
  static bool take_own(place, private_side&) noexcept { return false; }
  static bool is_kept() noexcept { return false; }
  static void note_waiting_behind(place) noexcept {}
  static void begin(place, private_side& mine) noexcept { mine.counted.store(0, relaxed); }
  static void finish(private_side&) noexcept {}
  static bool settle(private_side&) noexcept { return false; }
  void account(private_side& mine) noexcept;
  bool has_more(const private_side& mine) const noexcept {
    return mine.first != nullptr || (word_.load(relaxed) & ~flags) != 0;  // next sees what came
  }
  request* next(private_side& mine) noexcept;
  static void put_back(request& r, private_side& mine) noexcept {
    r.next = mine.first;
    mine.first = &r;
    mine.counted.store(mine.counted.load(relaxed) - 1, relaxed);
  }

  // What waiting_ and the word say; `ended` of them have ended since.
  std::size_t pending() const noexcept;
  static std::size_t ended(const private_side& mine) noexcept {
    const std::int32_t n = mine.counted.load(relaxed);
    return n <= 0 ? 0 : static_cast<std::size_t>(n);
  }
  std::size_t most_pending() const noexcept { return most_.load(relaxed); }

 private:
  static constexpr std::uintptr_t busy = 1;
  static constexpr std::uintptr_t closed = 2;
  static constexpr std::uintptr_t flags = busy | closed;

  after_publish push(request& r, bool last, private_side& mine) noexcept;

  atomic<std::uintptr_t> word_{0};
  statistic<std::uint32_t> waiting_{0};  // published and not accounted for: a statistic, relaxed
  statistic<std::uint32_t> most_{0};
};

}  // namespace turnstile::detail
