// keeper.hpp - a section stays with the thread that keeps coming back to it, which then needs no
// atomic read-modify-write to run a body there.
//
// Shape     A thread has one keeper, and keeps one section at most.
//
//             word = epoch (61 bits) | state
//
//               (e, free)   --keep--------> (e+1, kept)    by its thread, as the section's owner
//               (e, kept)   --want--------> (e, wanted)    by anybody who waits in the section's
//                                                          line, tries or ends it, or makes it
//                                                          special: the first one
//               (e, wanted) --take--------> (e, taken)     by who wanted it, if nobody is inside,
//                                                          or ends it, or by its thread
//               (e, taken)  --count-------> (e, free)      by who took it, with what the number
//                                                          says counted
//               (e, kept)   --let-out-----> (e, free)      by a guard that is inside, wanted or
//                                                          not, where it is unlocked elsewhere than
//                                                          on its thread, or detached
//               (e, kept)   --give-up-----> (e, given)     by its thread, wanted or not
//               (e, kept)   --forget------> (e, free)      by its thread, which is inside and could
//                                                          not keep it
//               (e, given)  --forget------> (e, free)      by its thread, when it has let the
//                                                          section go
//
//             bodies = 2 for each body that its thread has ended in what it kept, ever, and 1
//                      while it is inside. Written by its thread alone. So the same store that says
//                      that nobody is inside any more counts the execution, and a body of the
//                      thread's turn.
//
//           A guard is inside as a body is, until it is unlocked, whatever its thread does
//           meanwhile. Unlocked on another thread it takes the section away, and is an owner as any
//           other one then; its thread finds that out when it next might keep something (free, and
//           inside all the same), and is outside from then on. Until then nobody can take what the
//           guard has, so one store does.
//
//           Whoever makes `taken` or `given` owns the section. In the section, kept_by says whose
//           it is, and a bit of the ticket word says that: what arrives sees it. Who comes first
//           and sees nobody inside takes the section at once, and is its owner as that of an idle
//           one; else it publishes its request as ever, and then wants the section.
//
// Edges     K1  bodies.store(odd), lightest_fence, word.load in enter; bodies.store(even),
//               lightest_fence, word.load in leave  against  word CAS, heavy_fence, bodies.load in
//               revoke: either its thread sees that the section is wanted, or the other one sees
//               that somebody is inside. The lightest fence is one for the compiler alone, which is
//               enough: nobody keeps anything where the heavy one does not reach all threads. A
//               thread that revokes what it keeps itself needs none. Who is inside looks again in
//               the end. So a body never runs beside another owner, and the section is not left to
//               nobody. The changes of the word are relaxed otherwise: they only decide whose it
//               is.
//               What the one who has it must see comes with bodies (K2) and with the ring's edges.
//           K2  bodies.store(release) in leave -> bodies.load(acquire) in revoke: the bodies'
//               effects, and the ring's private side, go to the next owner, and so does what is
//               counted: who sees an even number after it was wanted, and then takes it, has seen
//               the last one
//           K3  word.store(release) in keep -> word.load(acquire) in seen_by: bodies, since and
//               section. What kept_by says is written, relaxed, before the ring's CAS(seq_cst) that
//               sets the bit, and read after the arrival's RMW(acquire) that shows it
//           K4  the ring's CAS(seq_cst), special.load(seq_cst) in section_core::keep  against
//               special RMW(seq_cst), word.load(seq_cst) in set: what a section has to do besides
//               running bodies is seen by whoever keeps it, or takes it away from them. So enter
//               does not look at that.
//           K5  word.store(release) in forget -> word.load(acquire) in gives: what its thread did
//               with the section, which an end that waits for nobody else has to see: who waited
//               there has been withdrawn. Who looks at gives has seen before that the bit is gone.
//               bodies.store(odd, release) in keep and enter -> bodies.load(acquire) in revoke: the
//               same, where its thread is inside of what it keeps by now
//           K6  since.store(release) in keep, bodies.store(release) in leave ->
//               since.load(acquire), bodies.load(acquire) in executions_of: who sees either of a
//               later keeping sees that another section is counted, or since
//           K7  word.store(free, release) in counted and let_out -> word.load(acquire) in may_keep:
//               nothing else is counted here before who has taken the section has read, and added,
//               what was
//           K8  word.store(free) in forget, bodies.store(even, release) in forget_taken ->
//               bodies.load(acquire), word CAS in revoke: who sees that its thread is not inside
//               any more finds the word free, and takes nothing
//           K9  bodies.store(even, release) in forget_taken -> bodies.load(acquire) in is_inside:
//               who sees that a guard, which goes on to hold it, is not inside any more sees that
//               the bit is gone
//
// Progress  enter and leave are wait-free, and plain loads and stores. want and revoke are
//           wait-free, with one system call, and do not depend on the keeping thread: it may be
//           stopped, asleep, busy with its own work, or gone. A waiter waits for the one body that
//           is running at most, as in any section.
//           Who finds it wanted leaves it to who wanted it first: that one takes it, or it has seen
//           somebody inside, who takes it back. Whoever does finds all in line that came while it
//           was kept. So of a thousand that wait for a body one makes the system call, and not
//           each (bench/tried.md).
//           If the system stops that thread between the two, the others wait for it as for a
//           stopped owner.
//
// Order     Who is queued has made `wanted`, or seen it, before anybody can know that it is: so
//           what the keeping thread asks for later, it asks for behind it.
//
// Dangers   Once the number is even again the section's end may come at any moment: the thread
//           looks at its own word then, not at the section. So keepers are in static storage and
//           never freed. The epoch lets whoever comes late with an old look at the word change
//           nothing.
//           Who is inside when it forgets the section (it found it wanted, or could not keep it)
//           says that it is not any more when the word is free: before, who wants it would take it.
//           A guard is inside for as long as it likes, and goes where it likes. So the keeper of a
//           thread that has ended is no other thread's before it is out, and what is counted here
//           was written before the guard went elsewhere.
//           Whoever has published may be gone as well: revoke touches the keeper only, until it
//           owns the section.
//           A thread that gives a section up has no request in it, so nothing else keeps the
//           section from ending meanwhile: the end waits for the bit to go, and then for `given` to
//           be over. That waits for a few steps of another thread, in which no user's code runs.
//
// Proof     model keeping, test/schedule (keeping) with rules; test/section, test/stress (keeping)
//
// Source    biased locks and quickly reacquirable locks (Dice, Moir, Scherer, 2003; Russell,
//           Detlefs, OOPSLA 2006), with the asymmetric fence of membarrier(2). Revoking from the
//           queue, and taking over as its next owner, is ours.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/config.hpp>
#include <turnstile/detail/threads.hpp>

#include <cstdint>

namespace turnstile::detail {

class section_core;

class alignas(cache_line) keeper {
 public:
  constexpr keeper() noexcept = default;
  keeper(const keeper&) = delete;
  keeper& operator=(const keeper&) = delete;

  // What one look saw: enough to want this section later, and nothing else.
  struct sight {
    keeper* by = nullptr;
    const section_core* section = nullptr;
    std::uint64_t epoch = 0;
    std::uint64_t executions = 0;  // of the section, once it is taken
    explicit operator bool() const noexcept { return by != nullptr; }
  };

  // By its thread.

  static constexpr std::uint64_t one_body = 2;
  TURNSTILE_INLINE std::uint64_t bodies() const noexcept { return bodies_.load(relaxed); }
  // What it says while nobody is inside.
  std::uint64_t ended_bodies() const noexcept { return bodies() & ~inside; }

  // True: nobody is inside, and it was not taken when this thread last looked. `now` is bodies()
  // then.
  TURNSTILE_INLINE bool has(const section_core& s, std::uint64_t& now) const noexcept {
    return section_.load(relaxed) == &s && ((now = bodies()) & inside) == 0;
  }
  // After has. True: the caller is inside. False: it is wanted, or taken; see forget.
  TURNSTILE_INLINE bool enter(std::uint64_t now) noexcept {
    bodies_.store(now + inside, release);  // K5
    lightest_fence();                      // K1
    return is_kept(word_.load(relaxed));   // relaxed: its own, or it will not go in
  }
  // `then` is what it said before it went in, and with one_body more if it ran one. True: it is
  // still kept. False: forget. The section may be gone then.
  TURNSTILE_INLINE bool leave(std::uint64_t then) noexcept {
    bodies_.store(then, release);  // K2
    lightest_fence();              // K1
    return is_kept(word_.load(relaxed));
  }
  // Nothing is kept, and what was is counted.
  bool may_keep() const noexcept;
  // As the owner of `s`, by who may keep it: from now on it is inside, and goes out by leave.
  void keep(section_core& s, std::uint64_t executions) noexcept;
  bool keeps_something() const noexcept { return section_.load(relaxed) != nullptr; }
  // A hint, for others.
  bool is_inside() const noexcept { return (bodies_.load(acquire) & inside) != 0; }  // K9
  // Of what it keeps, with those before it was kept.
  std::uint64_t executions() const noexcept {
    return (since_.load(relaxed) + ended_bodies()) / one_body;
  }
  // The section, if it was wanted and the caller is its owner now, who counts and forgets. Null: it
  // was taken.
  section_core* take_back() noexcept;
  // False: nobody is inside, or a guard was, which has been let go elsewhere since.
  bool stays_inside() noexcept;
  // It is not kept any more. By its owner, or who could not keep it.
  void forget() noexcept;
  // The same where it was taken: who did that frees the word.
  void forget_taken() noexcept;
  // By a thread that has no request there. It counts, and forgets it when it has let it go. Null:
  // nothing was kept, or it was taken.
  section_core* give_up() noexcept;

  // By anybody.

  // Nothing: `s` is not kept here any more. The section has to be there meanwhile.
  sight seen_by(const section_core& s) noexcept;
  // True: nobody wanted it before, and the caller is to revoke it.
  static bool want(const sight& seen) noexcept;
  enum class [[nodiscard]] revoked : std::uint8_t {
    taken,   // the caller owns the section
    inside,  // its thread does, and goes on with it; or that is inside of another one by now
    over,    // somebody else has become its owner
  };
  // What is wanted.
  static revoked revoke(sight& seen) noexcept;
  // By a guard that is inside, on any thread, when it has counted: the section is not kept any
  // more, and the guard owns it.
  void let_out() noexcept;
  // By who has taken it: seen.executions is what the section says now.
  static void counted(const sight& taken) noexcept;
  // Its thread is still letting a section go: this one, if it was kept here until just now.
  bool gives() const noexcept;

  // Turns in a row that were this section's alone, one more than before: by the owner, every
  // `bodies_in_a_turn` bodies of this thread.
  std::uint32_t count_turns(const section_core& s, std::uint64_t executions) noexcept;
  // Of `s`, as far as this keeper knows: 0 where it counts for another one. Only to be shown.
  std::uint64_t executions_of(const section_core& s) const noexcept;

  // From 1, and 0 for none.
  static keeper& numbered(std::uint16_t n) noexcept;
  std::uint16_t number() const noexcept;

 private:
  // One bit says whether it is kept: its thread knows that it is of the epoch that it has begun
  // itself.
  enum state : std::uint64_t { free = 0, kept = 1, wanted = 2, taken = 4, given = 6 };
  static constexpr std::uint64_t states = 8;
  static constexpr std::uint64_t inside = 1;  // added to what counts bodies
  static std::uint64_t in(std::uint64_t epoch, state s) noexcept { return epoch * states + s; }
  static bool is_kept(std::uint64_t word) noexcept { return (word & kept) != 0; }

  bool change(std::uint64_t epoch, state from, state to) noexcept;
  void free_word(std::uint64_t epoch) noexcept { word_.store(in(epoch, free), release); }  // K5, K7
  section_core* kept_section() const noexcept {
    return const_cast<section_core*>(section_.load(relaxed));
  }

  atomic<const section_core*> counts_{nullptr};  // the last one, which may be gone
  // With bodies, one_body for each execution of that. May wrap.
  atomic<std::uint64_t> since_{0};
  // Judging by them is all that is done with the candidate and its numbers; only its thread touches
  // them.
  guarded<const section_core*> candidate_{nullptr};
  // What an execution uses here are other words of a line than those it uses of thread_state's
  // first line, and than the first one, at which the thread's own address is. A load waits for an
  // earlier store whose address ends in the same 12 bits (4K aliasing: Intel 64 and IA-32
  // Architectures Optimization Reference Manual), and where the linker puts the keepers is chance
  // (bench/tried.md).
  atomic<std::uint64_t> bodies_{0};
  atomic<std::uint64_t> word_{0};
  atomic<const section_core*> section_{nullptr};  // kept, wanted or taken, until its thread looks
  guarded<std::uint64_t> candidates_executions_{0};
  guarded<std::uint32_t> turns_{0};  // in a row that were the candidate's alone
};

// When a section is kept: after 2^n turns in a row that were one thread's alone. Taking it away
// costs about as much as 1500 executions save (membarrier(2) interrupts the other cores), so n
// grows with each time that it was taken away too soon. Variables for those who try or measure what
// happens: tests have it kept more often, or never.
struct keeping {
  static inline constinit bool is_on = true;
  static inline constinit unsigned most_patience = 12;
  static constexpr std::uint64_t worth_it = 4096;  // executions
};

// This thread's, made when first asked for. Null: there is none left, or the machine has no cheap
// fence.
keeper* keeper_of_this_thread() noexcept;

// By the end of a thread. What it keeps stays so until it is wanted, or the keeper is another
// thread's.
void end_keeping() noexcept;

}  // namespace turnstile::detail
