// section_core.hpp - the strand of one section: who serves the requests, and for how long.
//
// Behind it: lib/strand. The queue is a ring (ticket_ring.hpp and its alternatives).
//
// Shape     A section is idle or owned. It is owned by one of
//             a thread that serves   from arrive = owner, publish = take_over or take_own, until
//                                    next() gives nothing or it passes the section on
//             a job                  posted when the budget is spent or the section is bound to an
//                                    executor; the request to go on with is put back
//             an awaitable body      suspended; its end goes on serving (body_finished)
//             a section_guard        its unlock goes on serving (release_hold)
//             one of several         several_request.hpp: the end of its body goes on serving
//             nobody yet             parked: the request that is missing will own it, published or
//                                    waiting in place (lib/strand/short_wait.cpp)
//             its device work        held, with nobody who serves it, until that is complete or
//                                    somebody comes who submits more (lib/strand/submissions.hpp)
//             a posted stand-in      stand_in.hpp: who runs or withdraws it owns the section
//             its end                closed and the closing request served
//             a keeper               the thread that comes back to it; whoever comes takes it
//                                    away (keeper.hpp)
//           Ownership is passed on by the ring's edges, or by posting a job (the executor's own
//           release and acquire).
//
// Edges     S1  handshake of an awaitable body (body.hpp): exchange(acq_rel) on both
//               sides; the second one goes on with the section. An end within start only stores.
//           X1  extras: CAS(release) of given_, and of each pointer in them that is made when it is
//               first needed (made, in extras.hpp), and claims.store(release) in set_claims ->
//               load(acquire): what they point to. special_ is set by K4 of keeper.hpp and cleared
//               relaxed: who sees that late does what need not be done any more.
//
// Progress  Serving waits for nothing but the bodies.
//
// Dangers   Account, then resume: a request is handed back only while another one is pending, or
//           after the section was left; the awaiter of the last one may destroy the section.
//           Every function on this path is noexcept: an exception would strand the queue.
//           A body may block its thread for a section that is held below it on the stack: where
//           something is (rests_on_held), that of a thread which blocks anyway runs there.
//
// Proof     test/schedule (strand), models close and ticket_ring; test/path, test/stress
//           (histories), test/fuzz
#pragma once

#include <turnstile/detail/fork_job.hpp>
#include <turnstile/detail/keeper.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/device.hpp>
#include <turnstile/section_options.hpp>
#include <turnstile/section_statistics.hpp>

#if defined(TURNSTILE_RING_INBOX)
#include <turnstile/detail/inbox_ring.hpp>
#elif defined(TURNSTILE_RING_CYCLE)
#include <turnstile/detail/cycle_ring.hpp>
#else
#include <turnstile/detail/ticket_ring.hpp>
#endif

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace turnstile {
class resource_list;
}

namespace turnstile::detail {

#if defined(TURNSTILE_RING_INBOX)
using section_ring = inbox_ring;
#elif defined(TURNSTILE_RING_CYCLE)
using section_ring = cycle_ring;
#else
using section_ring = ticket_ring;
#endif

class batch;
struct closing_request;
class lane;
class point;
template <class T>
class counted_ref;
struct section_claims;
class gate;
class stand_in;
struct stand_in_counts;
class submissions;
class times;

// How many there are that may_refuse. Relaxed: whoever has got hold of one that is limited sees
// that it is counted; a loss that is not seen yet is seen by who becomes the owner.
struct alignas(cache_line) refusing_sections {
  atomic<std::uint32_t> count{0};
};
extern constinit refusing_sections all_that_refuse;

// What errors call a section: its name, or `section #7`.
std::string label_of(std::string_view name, std::uint32_t id);

class section_core : private job {
 public:
  using place = section_ring::place;

  section_core();  // as without any options
  explicit section_core(const section_options& options, std::string_view container = {});
  ~section_core();
  section_core(const section_core&) = delete;
  section_core& operator=(const section_core&) = delete;

  std::string_view name() const noexcept {
    const extras* const e = given();
    return e == nullptr ? std::string_view{} : e->name;
  }
  // The one given to critical_section::open.
  std::string_view container() const noexcept {
    const extras* const e = given();
    return e == nullptr ? std::string_view{} : e->container;
  }
  std::uint32_t id() const noexcept { return id_; }
  std::string label() const { return label_of(name(), id_); }
  section_statistics statistics() const noexcept;

  // What it has claimed, null at first. Set once, by whoever has the lock of claims.hpp.
  section_claims* claims() const noexcept {
    const extras* const e = given();
    return e == nullptr ? nullptr : e->claims.load(acquire);  // X1
  }
  void set_claims(section_claims& all) const;
  // One is about to be of it: C3 of claims.hpp.
  void note_counted_frame() const noexcept {
    if (!has_counted_frames_.load(relaxed)) has_counted_frames_.store(true, relaxed);
  }

  // Where bodies run; empty: anywhere.
  executor_ref executor() const noexcept { return bound() ? bound_to() : executor_ref{}; }
  // True if bodies may not run on this thread: the section has an executor and this is not it.
  bool bound_elsewhere() const noexcept { return bound() && is_elsewhere(); }

  // What few sections are, in one test: bound to an executor that is not here, watched, limited, or
  // lost with its device.
  TURNSTILE_INLINE bool special() const noexcept {
    const std::uint8_t what = special_.load(relaxed);
    return what != 0 && (what != is_bound || is_elsewhere());
  }
  // Somebody wants to know what happens here: lib/registry.
  bool watched() const noexcept { return (special_.load(relaxed) & (is_recorded | is_timed)) != 0; }
  bool recorded() const noexcept { return (special_.load(relaxed) & is_recorded) != 0; }
  bool timed() const noexcept { return (special_.load(relaxed) & is_timed) != 0; }
  void record(bool on) noexcept { set(is_recorded, on, true); }  // in a look at all sections
  void measure(bool on);
  // What was measured; null if nothing ever was.
  const times* measured() const noexcept;

  // For a request that was just accepted in a watched section: gives the moment, or 0.
  std::uint64_t accept_watched(const site& at, const resource_list& uses) noexcept;
  // The owner runs a body, or a guard has the section, without having been queued.
  void begin_tried(const site& at, const resource_list& uses) noexcept;
  // The owner has done with what begin_tried or start_time began.
  void end_time() noexcept;

  // Its waiters are limited: whoever wants to arrive has to be let in.
  bool limited() const noexcept { return (special_.load(relaxed) & is_limited) != 0; }
  gate* limit() const noexcept;
  enum class [[nodiscard]] admission : std::uint8_t { in, outside, full, closed, lost };
  admission admit() noexcept;
  // Only if nobody is in.
  admission admit_if_empty() noexcept;
  std::exception_ptr refusal(admission why) noexcept;  // full, closed or lost; counted
  // Puts one in line, or outside, that arrived so and is pinned. True: it waits, and it and the
  // section may be gone. False: it was withdrawn meanwhile, and the caller brings its request back.
  [[nodiscard]] bool put_in_line(stand_in& s, arrival arrived, place line) noexcept;
  // The same for one that was outside, by whoever lets it in.
  void let_in(stand_in& s) noexcept;

  // It is limited, or lost: asked before arrive. Arriving brings the line of the word over to be
  // changed; a look at the section first would bring it over to be read, and it may be gone again
  // by then (bench/tried.md). So what else is special is asked by who has arrived.
  TURNSTILE_INLINE bool may_refuse() const noexcept {
    return all_that_refuse.count.load(relaxed) != 0 &&
           (special_.load(relaxed) & (is_limited | is_lost_with_device)) != 0;
  }
  TURNSTILE_INLINE arrival arrive(place& p) noexcept {
    const arrival a = ring_.arrive(p);
    return a == arrival::queued && section_ring::is_first_at_kept(p) ? arrive_at_kept() : a;
  }
  // After arrive said queued: one body may be inside that is about to end, and the section is given
  // to who waits for that in place (lib/strand/short_wait.cpp).
  TURNSTILE_COLD arrival await_one_body(place p, thread_state& t) noexcept;
  // By who was given the section so, and cannot go in: it is queued again.
  void park_again() noexcept { static_cast<void>(ring_.next(mine_)); }
  arrival try_arrive(place& p) noexcept {
    const arrival a = ring_.try_arrive(p);
    return a == arrival::queued && ring_.is_kept() ? try_arrive_kept(p) : a;
  }

  // The short way of a thread that keeps the section: it is inside then.
  TURNSTILE_INLINE bool enter_kept(keeper& k, std::uint64_t now) noexcept {
    if (k.enter(now)) [[likely]]
      return true;
    stop_keeping(k);
    return false;
  }
  // After a body, which is counted.
  TURNSTILE_INLINE static void leave_kept(keeper& k, std::uint64_t then) noexcept {
    if (!k.leave(then)) [[unlikely]]
      stop_keeping(k);
  }

  // The uncontended end, after arrive said owner and the body ran.
  TURNSTILE_INLINE void leave(place p, thread_state& t = here()) noexcept {
    count_execution(t);
    if (has_aside_) [[unlikely]]
      return leave_slowly(p);
    if (t.bodies_elsewhere() % bodies_in_a_turn == 0 && section_ring::can_be_kept) [[unlikely]]
      return leave_or_keep(p);
    if (!ring_.leave(p, mine_)) [[unlikely]]
      serve_next();
  }

  // The same where its waiters may be limited, or its bodies run elsewhere by now: a tried
  // execution, and a hold.
  void leave_tried(place p) noexcept {
    if (!limited() && !bound_elsewhere()) return leave(p);
    count_execution();
    leave_slowly(p);
  }

  // The same, where others' bodies may not run before the caller goes on.
  void leave_to_others(place p) noexcept;

  // The same for an owner that runs nothing.
  void leave_unused(place p) noexcept { leave_slowly(p, false); }

  // After arrive said owner: the first request is not served yet.
  // True: `own` was served by this call and is not handed back; its awaiter need not suspend.
  bool serve_first(place p, request& r, request* own) noexcept;
  // The same, on an executor: bodies run inside the call only if that runs jobs within post.
  void post_first(place p, request& r) noexcept;
  // The same: a guard owns the section now, which ends by release_hold.
  void hold_first(place p) noexcept { ring_.begin(p, mine_); }

  // After arrive said queued.
  enum class [[nodiscard]] published : std::uint8_t { waiting, own_served, closed };
  published publish(request& r, place p, request* own) noexcept;
  // The same; what is handed back or goes on is left in `done`.
  published publish(request& r, place p, batch& done) noexcept;
  // The same without ever running a body here.
  published publish_only(request& r, place p) noexcept;

  // After arrive said queued, by who does not want its place any more.
  void give_up(place p) noexcept;
  // By who has left, or was let in and did not arrive.
  void give_up_room() noexcept;

  // Device executions: detail/submission.hpp, lib/strand/submissions.hpp. Those that are queued are
  // published here; their own bodies and others may run within the call.
  published publish_submission(request& r, place p) noexcept;
  // With the stream of its own, so that the first that needs it is refused where its device is not
  // available. Throws bad_alloc, device_error.
  submissions& made_submissions(bool with_lane);
  device where() const noexcept;
  // The device is lost that worked for it. Who becomes the owner of an idle section asks again: it
  // may have been lost since the request was made.
  bool is_lost() const noexcept { return (special_.load(relaxed) & is_lost_with_device) != 0; }
  std::exception_ptr lost_with() const noexcept;
  // By the owner, of what it has submitted; and by whoever has claimed the section.
  bool hands_on_late() const noexcept;
  // Its number.
  std::uint64_t leave_tail(const counted_ref<point>& end, lane& l) noexcept;
  // What its device was to do is lost. By anybody, once, while it cannot end.
  void lose() noexcept;
  void go_on_with_device() noexcept;
  // The work of `r` is complete, for which its body has held the section until now.
  void finished_by_device(request& r) noexcept;

  // Made when the first one is. Throws bad_alloc.
  stand_in_counts& stand_ins() const;
  // By the owner: what waits apart until it may run. After every body those are looked at, oldest
  // first.
  void set_aside(stand_in& s) noexcept;
  // Or it is refused: admission::full.
  bool may_set_aside() const noexcept;
  // Whoever withdrew a posted request owns the section, and leaves it or passes it on.
  void go_past_withdrawn() noexcept;
  // By the job of a posted request.
  void serve_posted(stand_in& s) noexcept;

  // Closing takes a place in line like any request; who gets it adds its closer, and then the
  // section's own closing request is served or published, whose outcome is `closed`.
  void prepare_closing() const;  // throws bad_alloc
  arrival close(place& p) noexcept { return ring_.close(p); }
  void publish_closing(place p) noexcept;
  void serve_closing(place p) noexcept;

  void body_finished(request& r) noexcept;
  void release_hold() noexcept;
  // The same, where others' bodies may not run before the caller goes on.
  void release_to_others() noexcept;
  // By a guard that is inside of what the thread of `by` keeps.
  TURNSTILE_INLINE void release_kept(keeper& by, thread_state& t) noexcept {
    if (&by != t.keeps) [[unlikely]]
      return release_kept_elsewhere(by);
    leave_kept(by, by.ended_bodies() + keeper::one_body);
  }
  // The same: from now on the queue knows that it is held.
  void hold_kept(keeper& by) noexcept;
  // By a guard that came first, without hold_first.
  TURNSTILE_INLINE void release_first(place p, thread_state& t) noexcept {
    if (special_.load(relaxed) != 0 || has_aside_ || has_tail_) [[unlikely]] {
      hold_first(p);
      return release_special_hold();
    }
    leave(p, t);
  }
  // The same in two halves, for who holds several sections. What comes next, and nothing if the
  // section was left; it is owed a serve_on or pass_to_executor.
  request* end_hold(bool executed, batch& done) noexcept;
  void serve_on(request& r, batch& done) noexcept;
  void pass_to_executor(request& r, batch& done, queued where = queued::last) noexcept;

  // Without memory for what few sections have it is not counted.
  void count_refusal() noexcept;
  // What `f` throws is one.
  template <class F>
  decltype(auto) counting_refusal(F f) {
    try {
      return f();
    } catch (...) {
      count_refusal();
      throw;
    }
  }
  void count_withdrawal() const noexcept;
  TURNSTILE_INLINE void count_execution(thread_state& t = here()) noexcept {
    t.count_body_elsewhere();
    add_one(executions_);  // one writer: the owner
  }

  bool add_closer(stand_in& s) noexcept;  // false: closed already
  bool is_closing() const noexcept { return closers() != nullptr; }
  bool has_closed() const noexcept;  // and what it did is seen
  // `posted`: by who may not run users' code.
  enum class way_back : bool { at_home, posted };
  void finish_close(way_back of_closers) noexcept;

 private:
  // What few sections have, apart so that the others stay small. Not the job's own home_: that is
  // written whenever the section is posted.
  struct extras {
    ~extras();
    const std::string name;
    const executor_ref executor;
    const std::string container;
    const device place = device::any();
    const std::size_t max_in_flight = section_options{}.max_in_flight;
    const turnstile::release hand_on = turnstile::release::submission;
    atomic<section_claims*> claims{nullptr};
    atomic<times*> measured{nullptr};
    atomic<stand_in_counts*> stand_ins{nullptr};
    atomic<closing_request*> closing{nullptr};
    atomic<submissions*> device_work{nullptr};
    // Waiters of close, newest first, each behind a stand-in; `closed_list` when it is done.
    atomic<stand_in*> closers{nullptr};
    statistic<std::uint64_t> refused{0};
    guarded<stand_in*> oldest_aside{nullptr};  // only the owner, as has_aside_
    guarded<std::size_t> ring_aside{0};  // the same: how many are in that ring, withdrawn or not
    guarded<bool> asks_there{false};     // the same: posted with one of those, who may ask them
  };

  enum trait : std::uint8_t {
    is_bound = 1,
    is_recorded = 2,
    is_timed = 4,
    is_limited = 8,
    is_lost_with_device = 16,
  };

  static extras* keep(const section_options& options, std::string_view container);
  std::size_t behind_the_first(std::size_t pending) const noexcept;
  std::size_t waiting_in_line(std::size_t pending, const stand_in_counts& c) const noexcept;
  void note_waiters() noexcept;
  stand_in* closers() const noexcept;
  static std::uint8_t traits_of(const section_options& options) noexcept;
  times* measured_here() const noexcept;
  void start_time(std::uint64_t accepted_at) noexcept;
  void count_wait() noexcept;
  void end_or_forget_time(bool executed) noexcept;
  void set(trait what, bool on, bool to_shared = false) noexcept;
  bool bound() const noexcept { return (special_.load(relaxed) & is_bound) != 0; }
  const extras* given() const noexcept { return given_.load(acquire); }  // X1
  // Of a bound section: it has extras from its beginning.
  executor_ref bound_to() const noexcept { return given_.load(relaxed)->executor; }
  bool is_elsewhere() const noexcept { return bound_to() != here().runs_on; }
  static void run_posted(job& self) noexcept;

  void serve_off(request* r, request* own, batch& done, int most_bodies) noexcept;
  void serve(request* r, request* own, batch& done, int most_bodies) noexcept;
  executor_ref who_serves(request& next, const batch& done) const noexcept;
  bool is_elsewhere_for(request& r) const noexcept;
  bool belongs_elsewhere(request& r, const batch& done) const noexcept;
  void note_sent(executor_ref to) noexcept;
  request* serve_one(request* r, request*& own, batch& done) noexcept;
  static void hand_back(request& r, const request* own, batch& done) noexcept;
  void take_over(const request& r, request* own, batch& done) noexcept;
  void serve_or_pass(request* r, batch& done, int most_bodies) noexcept;
  void serve_next() noexcept;
  void send_next(bool to_shared = false) noexcept;
  bool hand_over(request& r, bool keeps_off = false) noexcept;
  void release_special_hold() noexcept;
  void release_kept_elsewhere(keeper& by) noexcept;
  void leave_slowly(place p, bool on_held = rests_on_held()) noexcept;
  void leave_or_keep(place p) noexcept;
  bool is_coming_back() noexcept;
  bool keep(place p) noexcept;
  static void stop_keeping(keeper& k) noexcept;
  static void give_up_kept() noexcept;
  void let_go_kept(bool to_shared = false) noexcept;
  keeper::sight seen_kept() const noexcept;
  bool take_from(keeper::sight& seen) noexcept;
  arrival arrive_at_kept() noexcept;
  arrival try_arrive_kept(place& p) noexcept;
  void take_away_kept(bool to_shared = false) noexcept;
  void end_kept() noexcept;
  void count_kept(std::uint64_t executions) noexcept;
  std::uint64_t executions() const noexcept;
  bool is_kept_unused() const noexcept;
  after_publish publish_in_ring(request& r, place p, bool last = false) noexcept;
  after_publish publish_at_kept(request& r, place p, bool last) noexcept;
  void finish_place() noexcept;
  request* next_awaited() noexcept;
  request* finish_and_next() noexcept;
  bool is_there(stand_in& s) noexcept;
  request* next_after_body(batch& done) noexcept;
  request* next_after(outcome what, batch& done) noexcept;
  bool pass_awake(stand_in& s, executor_ref to, queued where) noexcept;
  stand_in* wake_aside(batch& done) noexcept;
  stand_in* wake_aside_here(batch& done) noexcept;
  executor_ref who_asks(stand_in& s, const batch& done) const noexcept;
  bool ask_on_executor(batch& done) noexcept;
  bool ask_on_executor_again(batch& done) noexcept;
  bool asks_there() const noexcept;
  request* next_after_asking(stand_in& s, batch& done) noexcept;
  stand_in* youngest_aside() const noexcept;
  void take_from_aside(stand_in& s) noexcept;
  void sweep_aside() noexcept;
  void close_aside(batch& done) noexcept;
  void forget_aside() noexcept;
  bool waits_aside() const noexcept;
  stand_in_counts* known_stand_ins() const noexcept;  // null: there were none yet
  void go_on(request* r, batch& done) noexcept;

  submissions* known_submissions() const noexcept;  // null: there were none yet
  submissions& its_submissions() const noexcept;
  void forget_tail(submissions& all) noexcept;
  bool may_finish_place(request*& next) noexcept;
  request* unless_it_waits(request* r, request*& own, batch& done) noexcept;
  void put_back_in_line(request& r, batch& done) noexcept;
  request* next_of_held() noexcept;
  void finish_closing(batch& done) noexcept;
  bool refuse_outside() noexcept;

  // What arriving requests touch; with the job this is the first line.
  [[no_unique_address]] section_ring ring_;
  atomic<std::uint8_t> special_;
  guarded<bool> has_aside_{false};  // only the owner
  guarded<bool> has_tail_{false};   // the same: a device may still work for it
  // The owner's, but it comes with the word's line anyway; less what its keeper has counted.
  statistic<std::uint64_t> executions_{0};
  mutable atomic<extras*> given_;  // made by the constructor, or when needed
  // The line of the ring's cells, and then the owner's.
  [[no_unique_address]] alignas(cache_line) section_ring::private_side mine_;
  guarded<std::uint8_t> patience_{0};  // only the owner: before it is kept, 2 to that many turns
  mutable atomic<bool> has_counted_frames_{false};  // or had, ever
  guarded<bool> is_sent_home_{false};  // only the owner: posted to the executor it is bound to
  atomic<std::uint16_t> kept_by_{0};   // whose it is, while the ring says that it is kept
  std::uint32_t id_;
};

}  // namespace turnstile::detail
