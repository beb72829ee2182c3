// mirrored_group.hpp - the rendezvous of the replicas of a mirrored value.
//
// Shape     A line of waiting writes for each replica. The heads of all lines are a round. Whoever
//           comes to the last empty line serves: it takes rounds as long as there are any, one
//           after the other, and resumes their writes when it has left. A write that is withdrawn
//           leaves its line; the next one of that replica stands in its place.
//
// Edges     M1  the lock: what came with a write -> whoever serves; the lines, who is in line, and
//           who serves.
//           Executors, or the thread itself, order the served writes before their coroutines go on.
//
// Progress  Arriving takes a lock for a list operation. Combining happens outside it: nobody's
//           thread waits for that.
//
// Dangers   Once it is in line, a write may be served and gone as soon as the lock is released,
//           unless it is its own thread that serves.
//           The first coroutine that is resumed may end the group: so that comes last. Who
//           withdraws another write of that round looks at the lock all the same, so a write that
//           may be withdrawn keeps that.
//
// Proof     test/variable, test/stress
#pragma once

#include <turnstile/aggregation.hpp>
#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/combined.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/for_once.hpp>
#include <turnstile/detail/result.hpp>
#include <turnstile/detail/stoppable_wait.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/detail/trampoline.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/variable.hpp>

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <utility>
#include <vector>

namespace turnstile::detail {

enum class mirrored_change : std::uint8_t { assign, add, subtract };

template <class T>
class mirrored_group;

template <class T>
class [[nodiscard("nothing is written until the result is awaited")]] mirrored_write
    : private stoppable_wait {
 public:
  mirrored_write(mirrored_group<T>& group, std::size_t replica, mirrored_change change, T value)
      : group_(&group), replica_(replica), change_(change), value_(std::move(value)) {}
  mirrored_write(mirrored_write&& other)
      : stoppable_wait(),
        group_(other.group_),
        replica_(other.replica_),
        change_(other.change_),
        value_(std::move(other.value_)),
        once_(std::move(other.once_)) {}

  bool await_ready() noexcept {
    once_.begin();
    return false;
  }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    this->suspend(h);
    once_.note_waiting();
    const std::stop_token stop = surroundings();
    if (stop.stop_possible()) lock_ = group_->lock();
    mirrored_write* const served = group_->serve_with(*this);
    if (served == this && next_ == nullptr) {
      stay();
      return false;
    }
    const bool waits = !stop.stop_possible() || listen(stop, &take_back);
    if (served != nullptr) go_on(served);  // this may be gone, as without them
    return waits;
  }
  snapshot<T> await_resume() {
    once_.note_going_on();
    if (was_withdrawn()) throw operation_cancelled();
    return got_.take();
  }

 private:
  friend class mirrored_group<T>;

  // Whoever serves them too: one of the others may block for it.
  static void go_on(mirrored_write* served) noexcept {
    resume_after these;
    while (served != nullptr) {
      mirrored_write* const next = served->next_;
      served->wait_ended();  // it may be gone
      served = next;
    }
  }

  static bool take_back(stoppable_wait& w) noexcept {
    auto& self = static_cast<mirrored_write&>(w);
    const std::lock_guard locked(*self.lock_);
    if (!self.in_line_) return false;  // the group may be gone
    self.group_->remove(self);
    return true;
  }

  mirrored_group<T>* group_;
  std::shared_ptr<mutex> lock_;  // the group's
  std::size_t replica_;
  mirrored_change change_;
  T value_;                                 // M1
  guarded<mirrored_write*> next_{nullptr};  // M1, then whoever serves
  guarded<bool> in_line_{false};            // M1
  result<snapshot<T>> got_;                 // whoever serves
  for_once<"write of a mirrored value", "waits for replicas"> once_;
};

template <class T>
class mirrored_group {
  using write = mirrored_write<T>;
  using kept = typename kept_value<T>::type;

 public:
  mirrored_group(std::size_t replicas, const T& initial, aggregation how)
      : how_(how),
        values_(detail::replicas_of(initial, replicas, how)),
        lines_(replicas),
        empty_lines_(replicas) {}
  ~mirrored_group() {
    for (const line& l : lines_) {
      if (l.first != nullptr) {
        contract_break("", "a mirrored value is destroyed while a replica waits for others", {});
      }
    }
  }

  // By the replica itself, for its own value.
  void begin_write(std::size_t replica) const {
    require_some(how_);
    require_replica(replica, lines_.size());
    variable_access::touch(values_[replica].own);
  }

  snapshot<T> read(std::size_t replica) const {
    require_replica(replica, lines_.size());
    return values_[replica].own.read();
  }

  const std::shared_ptr<mutex>& lock() const noexcept { return mutex_; }

  // Of its line, by who has the lock and has found it there.
  void remove(write& w) noexcept {
    line& l = lines_[w.replica_];
    write* before = nullptr;
    for (write* at = l.first; at != &w; at = at->next_) before = at;
    write* const after = w.next_;
    if (before == nullptr) {
      l.first = after;
    } else {
      before->next_ = after;
    }
    if (l.last == &w) l.last = before;
    if (l.first == nullptr) ++empty_lines_;
  }

  // All that was served here and now, and is to go on. Null: the write waits, and may be gone.
  write* serve_with(write& w) noexcept {
    std::unique_lock lock(*mutex_);
    enqueue(w);
    if (serving_ || empty_lines_ != 0) return nullptr;
    serving_ = true;
    write* const served = serve_rounds(lock);
    serving_ = false;
    return served;
  }

 private:
  struct line {
    write* first = nullptr;
    write* last = nullptr;
  };

  void enqueue(write& w) noexcept {
    line& l = lines_[w.replica_];
    w.next_ = nullptr;
    w.in_line_ = true;
    if (l.first == nullptr) {
      l.first = &w;
      --empty_lines_;
    } else {
      l.last->next_ = &w;
    }
    l.last = &w;
  }

  // The head of each line, in order. All lines have one.
  write* take_round() noexcept {
    write* round = nullptr;
    for (std::size_t i = lines_.size(); i-- != 0;) {
      line& l = lines_[i];
      write* const head = l.first;
      l.first = head->next_;
      if (l.first == nullptr) ++empty_lines_;
      head->in_line_ = false;
      head->next_ = round;
      round = head;
    }
    return round;
  }

  write* serve_rounds(std::unique_lock<mutex>& lock) noexcept {
    write* all = nullptr;
    while (empty_lines_ == 0) {
      write* const round = take_round();
      lock.unlock();
      serve(*round);
      write* last = round;
      while (last->next_ != nullptr) last = last->next_;
      last->next_ = all;
      all = round;
      lock.lock();
    }
    return all;
  }

  // Only who serves.
  void serve(write& round) noexcept {
    try {
      std::vector<prepared> news = prepare(round);
      write* w = &round;
      for (std::size_t i = 0; i != news.size(); ++i, w = w->next_) {
        w->got_.run([&] { return variable_access::assign(values_[i].own, std::move(news[i])); });
      }
    } catch (...) {
      for (write* w = &round; w != nullptr; w = w->next_) w->got_.fail(std::current_exception());
    }
  }

  using prepared = typename kept::prepared;

  // All that may fail: afterwards all replicas get their value, or none does.
  std::vector<prepared> prepare(const write& round) const {
    T value = changed(round);
    std::vector<prepared> news;
    news.reserve(lines_.size());
    for (std::size_t i = 0; i + 1 != lines_.size(); ++i) {
      news.push_back(kept::prepare(std::as_const(value)));
    }
    news.push_back(kept::prepare(std::move(value)));
    return news;
  }

  T changed(const write& round) const {
    for (const write* w = &round; w != nullptr; w = w->next_) {
      if (w->change_ != round.change_) {
        throw std::logic_error("turnstile: the replicas write a mirrored value in different ways");
      }
    }
    T amount = detail::combined(T(round.value_), lines_.size(), how_, [&round](auto& sum) {
      for (const write* w = round.next_; w != nullptr; w = w->next_) detail::add_to(sum, w->value_);
    });
    if (round.change_ == mirrored_change::assign) return amount;
    T value = *variable_access::read(values_.front().own);
    if constexpr (can_add<T, T>) {
      if (round.change_ == mirrored_change::add) detail::add_to(value, amount);
    }
    if constexpr (can_subtract<T, T>) {
      if (round.change_ == mirrored_change::subtract) detail::subtract_from(value, amount);
    }
    return value;
  }

  const aggregation how_;
  std::deque<replica<T>> values_;  // all the same; who serves writes them
  std::vector<line> lines_;        // M1
  std::size_t empty_lines_;        // M1
  bool serving_ = false;           // M1
  const std::shared_ptr<mutex> mutex_ = std::make_shared<mutex>();
};

}  // namespace turnstile::detail
