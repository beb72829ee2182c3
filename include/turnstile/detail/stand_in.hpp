// stand_in.hpp - what stands in line for a request that may be withdrawn.
//
// A request lives in the awaiting frame, which goes as soon as the coroutine goes on, and nobody
// but the owner of a section can take anything out of its line. So a request that may have to go
// before its turn is not in line itself: a node of its own stands there, is left behind when the
// request is withdrawn, and is passed over when its turn comes. Only requests that have to wait and
// can be withdrawn pay for one.
//
// Shape     word = pins (count) | awaiter_done | section_done | posted | withdrawn | taken | asked
//
//             pinned      by who needs the section or the frame for a moment: the thread that puts
//                         it into the line, the owner whose turn it is to look at it
//             asked       to go: a stop was requested, the deadline has come, or the section is
//                         closed; the first reason stays
//             withdrawn   it will not run, and its awaiter is being brought back
//             taken       it runs, and whoever asks now comes too late
//             posted      the owner has given the section away with it, as a job of an executor
//
//             (0, -)            --ask-----> withdrawn   by a source, who brings the awaiter back
//             (n, -)            --ask-----> asked
//             (1, asked)        --unpin---> withdrawn   by whoever unpins, who brings it back
//             (n, -)            --pin-----> (n+1, -)    by the owner; a withdrawn one: passed over
//             (n, not asked)    --take----> (n-1, taken, section_done)
//             (n, not asked)    --post----> (n, posted), and is unpinned when the executor has it
//             (n, posted)       --job-----> (n+1, -)    who runs the job owns the section
//             (withdrawn, was posted)                   who withdraws it owns the section instead
//
//           Given up by whoever finds that awaiter and section are done and nobody has it pinned:
//           that thread keeps some for its next requests (lib/strand/spares.hpp).
//
// Edges     A1  every change is CAS(acq_rel): what the one party did before, the next one sees. The
//               owner's private side goes through posted to whoever owns the section next.
//           A2  the sources are gone before awaiter_done: stop_callback's destructor and
//               timer::cancel wait for a call that is being made.
//
// Progress  ask, pin, take, post, unpin lock-free. A withdrawn request is brought back at once,
//           unless somebody has it pinned: for as long as a thread takes to publish, or an owner to
//           find the next in line; and a body longer where a thread without an executor leaves
//           several sections (several_request.hpp).
//
// Dangers   A withdrawn request keeps nobody alive: its awaiter may end the section. So the owner
//           gives up its pin only with the results: when another one is pinned, or after the
//           section was left. And who publishes never serves others with its pin.
//           The frame is touched only with a pin, or once taken.
//           A source never runs user code: what it brings back, or passes on, it posts.
//
// Proof     test/schedule (withdrawal), model withdrawal; test/section (withdrawal), test/stress
//
// Source    a state that either side may win: abortable queue locks (Scott, PODC 2002); pins, and
//           ownership that goes with a posted node, are ours.
#pragma once

#include <turnstile/detail/config.hpp>
#include <turnstile/detail/fork_job.hpp>
#include <turnstile/detail/kept_token.hpp>
#include <turnstile/detail/request.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/detail/timer.hpp>
#include <turnstile/execute_options.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <stop_token>
#include <string>

namespace turnstile::detail {

class section_core;

// What a request says of its own withdrawal, if anything.
struct withdrawal_sources {
  explicit withdrawal_sources(const execute_options& o)
      : stop(o.stop.token()), deadline(o.deadline) {}

  bool are_any() const noexcept { return !stop.is_none() || deadline != never; }
  // Without a look at the clock: certainly not now.
  bool are_far() const noexcept { return deadline == never && !stop.stop_requested(); }

  kept_token stop;
  std::chrono::steady_clock::time_point deadline;
};

inline bool may_withdraw(const execute_options& o) noexcept {
  return o.stop.token() != nullptr || o.deadline != never;
}

enum class withdrawal : std::uint8_t { none, cancelled, expired, closed };

class gate;

// What statistics say of requests that stand-ins stand for. Apart from the section, for it may end
// while somebody who has withdrawn a request still counts that.
struct stand_in_counts {
  atomic<std::uint32_t> shares{1};
  statistic<std::uint64_t> withdrawn{0};
  statistic<std::uint64_t> closed{0};        // set aside when the section was closed
  statistic<std::uint32_t> left_in_line{0};  // of nobody by now, and not passed over yet
  atomic<std::uint32_t> aside{0};            // relaxed: only its owner ends a section
  // That waited at once, while some were set aside: as far as anybody looked.
  statistic<std::size_t> most{0};
  gate* limit = nullptr;  // from the section's beginning, if its waiters are limited

  stand_in_counts() noexcept = default;
  ~stand_in_counts();
  void share() noexcept { shares.fetch_add(1, relaxed); }
  void drop() noexcept {
    if (shares.fetch_sub(1, acq_rel) == 1) delete this;
  }
  // By the owner, and by who asks for statistics.
  void note(std::size_t waiting) noexcept { raise_to(most, waiting); }
};

class alignas(cache_line) stand_in final : public request {
 public:
  // What a request has that may be withdrawn.
  struct calls {
    // Withdrawn, and not brought back yet; the section may be gone.
    void (*over)(request&) noexcept;
    bool (*may_run)(request&) noexcept;               // may it run now? null: always
    outcome (*no_room)(request&) noexcept = nullptr;  // it may not, and too many are set aside
    void (*never_in)(request&) noexcept = nullptr;    // pinned: it was closed before it was in line
  };

  // Of nobody: to be passed over.
  stand_in() noexcept;
  stand_in(const stand_in&) = delete;
  stand_in& operator=(const stand_in&) = delete;
  ~stand_in();

  // Pinned by the caller, of a fresh or a spare one. Throws bad_alloc.
  void stand_for(request& who, section_core& section, const calls& c);

  static bool is_one(const request& r) noexcept { return r.start == &step; }
  static stand_in& of(request& r) noexcept { return static_cast<stand_in&>(r); }
  request& behind() const noexcept { return *who_; }

  // The sources. By who made it, before anybody else sees it.
  void listen_to(const withdrawal_sources& own) noexcept;
  void listen_to(std::stop_token surrounding) noexcept;

  // By the owner, who looks at it. False: it was withdrawn.
  [[nodiscard]] bool pin() noexcept;
  // The same, without a pin. False: it may be by now.
  bool is_withdrawn() const noexcept { return (word_.load(relaxed) & withdrawn) != 0; }
  // By the owner, if it was: the section needs it no more. This may be gone.
  void pass_over() noexcept { add(section_done); }
  // By the owner, pinned. True: it runs, and this may be gone. False: it is to be unpinned.
  [[nodiscard]] bool take() noexcept;
  // By the owner, pinned: gives the section away, to be served on `to`. False as in take. Otherwise
  // the section and this may be gone.
  [[nodiscard]] bool post(executor_ref to, queued where) noexcept;
  // By whoever has pinned it. True: it was withdrawn, and the caller brings `who` back, which keeps
  // this. False: this may be gone.
  [[nodiscard]] bool unpin() noexcept;
  bool may_run() noexcept {
    return is_awake || calls_->may_run == nullptr || calls_->may_run(*who_);
  }
  // By the owner, pinned and not unpinned before the section is left: it will not run any more.
  // True: it was not asked to go before.
  bool close() noexcept;
  // By who has it pinned, instead of putting it into line: the same.
  void close_outside() noexcept;

  // Whoever has made room.
  static void let_in(gate& g) noexcept;

  // By who has it pinned: the graph shall see it waiting no more.
  void tell_over() noexcept { calls_->over(*who_); }

  bool is_somebodys() const noexcept { return who_ != nullptr; }

  // By the awaiter's side, when it goes on: the error if it was withdrawn. This may be gone.
  std::exception_ptr let_go() noexcept;

  // Only the owner, with a pin; who withdraws it looks.
  enum class position : std::uint8_t { line, aside, outside, neither };
  guarded<position> stands{position::line};
  guarded<bool> is_awake{false};  // it was set aside, and may run now

 private:
  static constexpr std::uint32_t asked_bits = 3;  // a withdrawal
  static constexpr std::uint32_t taken = 4;
  static constexpr std::uint32_t withdrawn = 8;
  static constexpr std::uint32_t posted = 16;
  static constexpr std::uint32_t section_done = 32;
  static constexpr std::uint32_t awaiter_done = 64;
  static constexpr std::uint32_t one_pin = 128;

  struct on_stop {
    stand_in* self;
    void operator()() const noexcept { self->ask(withdrawal::cancelled); }
  };
  using listener = stop_callback<on_stop>;

  static outcome step(request& r) noexcept;
  static void run_job(job& j) noexcept;
  static void expire(timer& t) noexcept;

  void count(withdrawal why, bool was_in_line) noexcept;
  static bool nobody_needs(std::uint32_t w) noexcept {
    return w / one_pin == 0 && (w & (section_done | awaiter_done)) == (section_done | awaiter_done);
  }

  std::exception_ptr error(withdrawal why) const noexcept;
  void ask(withdrawal why) noexcept;
  bool change(std::uint32_t& seen, std::uint32_t to) noexcept;
  void add(std::uint32_t bit) noexcept;
  void give_up() noexcept;
  void end(std::uint32_t was) noexcept;
  bool own_again() noexcept;

  // With the timer it is found again.
  struct alarm : timer {
    explicit alarm(stand_in& s) noexcept : timer(&expire), self(&s) {}
    stand_in* self;
  };

  // With the request these are two cache lines, which the owner fetches from who asked.
  atomic<std::uint32_t> word_;
  request* who_;
  section_core* section_;
  const calls* calls_;
  stand_in_counts* counts_;  // a share

 public:
  guarded<stand_in*> older{nullptr};
  guarded<stand_in*> younger{nullptr};
  guarded<stand_in*> next_unpinned{nullptr};  // only who set it aside
  guarded<stand_in*> next_spare{nullptr};     // only the thread that keeps it

 private:
  std::string label_;  // the section may be gone when an error is made
  std::optional<listener> own_;
  std::optional<listener> around_;
  std::optional<alarm> alarm_;
};

// Null: there is no memory for it, and the request waits as any other.
stand_in* make_stand_in(request& who, section_core& section, const stand_in::calls& c) noexcept;

// A request that need not be queued any more: operation_cancelled, deadline_exceeded.
[[noreturn]] void refuse_as_stopped(const section_core& section);
void refuse_if_expired(const section_core& section, std::chrono::steady_clock::time_point deadline);
inline void refuse_if_withdrawn(const section_core& section, const withdrawal_sources& asks) {
  if (asks.stop.stop_requested()) [[unlikely]]
    refuse_as_stopped(section);
  if (asks.deadline != never) refuse_if_expired(section, asks.deadline);
}

}  // namespace turnstile::detail
