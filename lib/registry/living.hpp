// living.hpp - which objects of a kind are alive, each with a number, while they come and go.
//
// Shape     A number is given once (it wraps after 4 billion; an old chunk in the way is passed
//           over).
//           It says where the object stands: chunk, and slot in the chunk.
//
//             slot = nobody | object | object + looked_at
//
//             nobody --add----> object              by the constructor
//             object --look---> object + looked_at  by the one reader
//             object + looked_at --end of look--> object
//             object --remove-> nobody              by the destructor, which waits for the look at
//                                                   this very object, if there is one
//
//           left = numbers of a chunk that are not over yet, and one while a reader is in it. At 0
//           the chunk is freed. Whoever was given a number keeps its chunk, made or not made yet.
//
// Edges     E1  store(release) in add -> load(acquire) in look: the reader sees a whole object. The
//               CAS after it only asks whether that is still there: a slot has one object in its
//               life
//           E2  store(seq_cst) at the end of a look -> CAS(acquire) in remove: the look is over. In
//               one order with notify_one's look for somebody who waits, or both could miss each
//               other
//           E3  fetch_sub(acq_rel) in leave: the last one frees the chunk after all others' touches
//           E4  store(release) of a block or a place -> load(acquire) in add: the block, the chunk.
//               remove comes after add
//           E5  store in add, light_fence, what the adder reads next  against  what a reader
//               stored, heavy_fence, load in look: so a switch that is set before all are looked
//               at, and read by whoever was just added, misses nobody. For chunks made meanwhile
//               the mutex says the same.
//
// Progress  add and remove are wait-free but for one in 1024, which makes or frees a chunk under a
//           lock held for a few steps. remove waits for a look at the object that ends, and for
//           nothing else. Readers wait for each other.
//
// Dangers   A reader never waits while it looks, and destroys nothing of the kind.
//
// Proof     test/schedule (looking); test/registry
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/config.hpp>
#include <turnstile/detail/threads.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

namespace turnstile::detail {

template <class T>
class living {
 public:
  constexpr living() noexcept = default;
  ~living() {
    while (oldest_ != nullptr) delete std::exchange(oldest_, static_cast<chunk*>(oldest_)->newer);
    for (auto& b : blocks_) delete b.load(relaxed);
  }
  living(const living&) = delete;
  living& operator=(const living&) = delete;

  // Gives its number, from 1 on. `object` is whole: others may look at it from now on.
  std::uint32_t add(T& object) {
    for (;;) {
      const std::uint64_t n = given_.fetch_add(1, relaxed);  // relaxed: only distinct
      atomic<std::uintptr_t>& place = place_to_make(n);
      std::uintptr_t there = place.load(acquire);  // E4
      if (there == 0) [[unlikely]]
        there = make(place, n);
      if ((there & round_mask) != round_of(n)) [[unlikely]]
        continue;
      slot_in(*chunk_at(there), n).store(word_of(object), release);  // E1
      light_fence();                                                 // E5
      return static_cast<std::uint32_t>(n + 1);
    }
  }

  // Before `object` ends.
  void remove(T& object, std::uint32_t number) noexcept {
    const std::uint32_t n = number - 1;
    chunk& c = *chunk_at(place_of(n).load(relaxed));  // seen by add: E4
    atomic<std::uintptr_t>& slot = slot_in(c, n);
    std::uintptr_t seen = word_of(object);
    while (!slot.compare_exchange_strong(seen, 0, acquire, relaxed)) {  // E2
      slot.wait(seen, relaxed);
      seen = word_of(object);
    }
    leave(c);
  }

  // f(object, number) for each that is alive all the time, the oldest chunk first, and for some
  // that come or go meanwhile. One reader at a time.
  template <class F>
  void look_at_all(F f) {
    const std::lock_guard alone(readers_);
    heavy_fence();  // E5
    for (visit v(*this); v.at() != nullptr; v.go_on()) {
      std::uint32_t number = v.at()->first;
      for (auto& slot : v.at()->slots) look(slot, number++, f);
    }
  }

  std::size_t chunks() {
    const std::lock_guard lock(chunks_);
    std::size_t n = 0;
    for (chunk* c = oldest_; c != nullptr; c = c->newer) ++n;
    return n;
  }

  static constexpr std::size_t per_chunk = limit(std::size_t{1024}, std::size_t{2});

 private:
  static constexpr std::size_t per_block = limit(std::size_t{2048}, std::size_t{2});
  static constexpr std::size_t blocks = limit(std::size_t{2048}, std::size_t{2});
  static constexpr std::uint64_t numbers = std::uint64_t{per_chunk} * per_block * blocks;
  static constexpr std::uintptr_t looked_at = 1;
  static constexpr std::uintptr_t round_mask = cache_line - 1;

  static_assert(alignof(T) > looked_at);

  struct alignas(cache_line) chunk {
    chunk(atomic<std::uintptr_t>& p, std::uint64_t n) noexcept
        : place(&p), first(static_cast<std::uint32_t>(n - n % per_chunk + 1)) {}

    atomic<std::uintptr_t>* const place;  // where it is found
    const std::uint32_t first;            // number
    atomic<std::uint32_t> left{static_cast<std::uint32_t>(per_chunk)};
    guarded<chunk*> newer{nullptr};  // chunks_
    guarded<chunk*> older{nullptr};  // chunks_
    std::array<atomic<std::uintptr_t>, per_chunk> slots{};
  };
  struct block {
    std::array<atomic<std::uintptr_t>, per_block> places{};  // chunk + round of its numbers
  };

  // The chunk that a reader is in.
  class visit {
   public:
    explicit visit(living& all) : all_(&all), at_(all.enter(nullptr)) {}
    ~visit() {
      if (at_ != nullptr) all_->leave(*at_);
    }
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;

    chunk* at() const noexcept { return at_; }
    void go_on() {
      chunk* const next = all_->enter(at_);
      all_->leave(*std::exchange(at_, next));
    }

   private:
    living* all_;
    chunk* at_;
  };

  struct end_of_look {
    ~end_of_look() {
      slot.store(object, seq_cst);  // E2
      slot.notify_one();            // the chunk stays: a reader is in it
    }
    atomic<std::uintptr_t>& slot;
    std::uintptr_t object;
  };

  static std::uintptr_t word_of(T& object) noexcept {
    return reinterpret_cast<std::uintptr_t>(&object);
  }
  static chunk* chunk_at(std::uintptr_t there) noexcept {
    return reinterpret_cast<chunk*>(there & ~round_mask);
  }
  static std::uintptr_t round_of(std::uint64_t n) noexcept { return (n / numbers) & round_mask; }
  static atomic<std::uintptr_t>& slot_in(chunk& c, std::uint64_t n) noexcept {
    return c.slots[n % per_chunk];
  }
  atomic<block*>& block_of(std::uint64_t n) noexcept {
    return blocks_[n % numbers / per_chunk / per_block];
  }
  static atomic<std::uintptr_t>& place_in(block& b, std::uint64_t n) noexcept {
    return b.places[n / per_chunk % per_block];
  }

  atomic<std::uintptr_t>& place_of(std::uint64_t n) noexcept {
    return place_in(*block_of(n).load(relaxed), n);  // seen before: E4
  }
  atomic<std::uintptr_t>& place_to_make(std::uint64_t n) {
    block* const there = block_of(n).load(acquire);  // E4
    return place_in(there != nullptr ? *there : make_block(n), n);
  }

  TURNSTILE_COLD block& make_block(std::uint64_t n) {
    const std::lock_guard lock(chunks_);
    if (block_of(n).load(relaxed) == nullptr) block_of(n).store(new block, release);  // E4
    return *block_of(n).load(relaxed);
  }

  TURNSTILE_COLD std::uintptr_t make(atomic<std::uintptr_t>& place, std::uint64_t n) {
    const std::lock_guard lock(chunks_);
    if (const std::uintptr_t there = place.load(relaxed); there != 0) return there;
    chunk* const c = new chunk(place, n);
    chunk* const before = newest_;
    c->older = before;
    (before == nullptr ? oldest_ : before->newer) = c;
    newest_ = c;
    const std::uintptr_t there = reinterpret_cast<std::uintptr_t>(c) | round_of(n);
    place.store(there, release);  // E4
    return there;
  }

  void leave(chunk& c) noexcept {
    if (c.left.fetch_sub(1, acq_rel) == 1) free(c);  // E3
  }

  TURNSTILE_COLD void free(chunk& c) noexcept {
    {
      const std::lock_guard lock(chunks_);
      chunk* const older = c.older;
      chunk* const newer = c.newer;
      (older == nullptr ? oldest_ : older->newer) = newer;
      (newer == nullptr ? newest_ : newer->older) = older;
      c.place->store(0, relaxed);  // who finds nothing takes the lock
    }
    delete &c;
  }

  // The next chunk after `c`, or the first one, and the reader is in it.
  chunk* enter(chunk* c) {
    const std::lock_guard lock(chunks_);
    chunk* next = c == nullptr ? oldest_ : c->newer;
    while (next != nullptr && !keep(*next)) next = next->newer;
    return next;
  }

  // False: it is about to be freed.
  static bool keep(chunk& c) noexcept {
    std::uint32_t left = c.left.load(relaxed);
    do {
      if (left == 0) return false;
    } while (!c.left.compare_exchange_weak(left, left + 1, relaxed, relaxed));  // the list has it
    return true;
  }

  template <class F>
  static void look(atomic<std::uintptr_t>& slot, std::uint32_t number, F& f) {
    std::uintptr_t object = slot.load(acquire);  // E1
    if (object == 0) return;
    if (!slot.compare_exchange_strong(object, object | looked_at, relaxed, relaxed)) return;
    const end_of_look end{slot, object};
    f(*reinterpret_cast<T*>(object), number);
  }

  atomic<std::uint64_t> given_{0};
  std::array<atomic<block*>, blocks> blocks_{};
  mutex chunks_;
  guarded<chunk*> oldest_{nullptr};  // chunks_
  guarded<chunk*> newest_{nullptr};  // chunks_
  mutex readers_;
};

}  // namespace turnstile::detail
