// host_lane.cpp - giving and doing pieces of work. The protocol is in the header.

#include "device/host_lane.hpp"

#include <turnstile/detail/config.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/thread_state.hpp>

#include <cstring>
#include <mutex>
#include <new>
#include <utility>

namespace turnstile::detail {

namespace {

// So many pieces, and other jobs of the executor get their turn.
constexpr int most_pieces = limit(64, 2);

}  // namespace

// Kept for the next one when nobody has it any more.
class host_lane::host_point final : public point, public piece {
 public:
  static host_point* make();
  static void put_by(host_point* p) noexcept;

  done run(host_lane& l) noexcept override {
    l.get_to(*this);
    return done::yes;
  }

  // The lane's share ends.
  void is_reached_with(std::exception_ptr error) noexcept { reach(std::move(error)); }

  guarded<host_point*> link{nullptr};
  guarded<std::exception_ptr> went_wrong;  // until it is told

 private:
  void recycle() noexcept override { put_by(this); }
};

// Points that nobody has: what was needed at once is kept for good.
class host_lane::spare_points {
 public:
  static spare_points& the() {  // throws the first time only
    static spare_points& it = *new spare_points;
    return it;
  }

  host_point* take() noexcept {
    const std::lock_guard locked(lock_);
    return first_ == nullptr ? nullptr : std::exchange(first_, first_->link);
  }
  void put(host_point* p) noexcept {
    const std::lock_guard locked(lock_);
    p->link = first_;
    first_ = p;
  }

 private:
  mutex lock_;
  guarded<host_point*> first_{nullptr};
};

host_lane::host_point* host_lane::host_point::make() {
  if (host_point* const p = spare_points::the().take()) {
    p->renew();
    return p;
  }
  return new host_point;
}

void host_lane::host_point::put_by(host_point* p) noexcept { spare_points::the().put(p); }

struct host_lane::callable final : piece {
  explicit callable(std::unique_ptr<lane_work> w) noexcept : work(std::move(w)) {}
  done run(host_lane& l) noexcept override {
    const not_in_fiber it_runs_here;
    try {
      work->run();
    } catch (...) {
      l.note_error(std::current_exception());
    }
    delete this;
    return done::yes;
  }
  std::unique_ptr<lane_work> work;
};

struct host_lane::copying final : piece {
  copying(void* t, const void* f, std::size_t n) noexcept : to(t), from(f), bytes(n) {}
  done run(host_lane&) noexcept override {
    std::memmove(to, from, bytes);
    delete this;
    return done::yes;
  }
  void* to;
  const void* from;
  std::size_t bytes;
};

struct host_lane::waiting final : piece {
  explicit waiting(point& p) noexcept : until(point_ref::more(p)) {}
  done run(host_lane& l) noexcept override {
    const point_ref p = std::move(until);
    delete this;
    return p->add(l) ? done::later : done::yes;
  }
  point_ref until;
};

// Lies before the memory that it frees, which is aligned as a GPU's.
struct host_lane::freed final : piece {
  static constexpr std::size_t header = most_aligned;
  static constexpr std::align_val_t alignment{most_aligned};

  done run(host_lane&) noexcept override {
    this->~freed();
    ::operator delete(static_cast<void*>(this), alignment);
    return done::yes;
  }
};

host_lane::host_lane(executor_ref on, bool is_polled) noexcept
    : lane(device::host()), job(&run_job), point_waiter(&go_on), on_(on), is_polled_(is_polled) {}

host_lane::~host_lane() {
  if (error_ != nullptr) report_unobserved(std::move(error_), "a stream", {});
}

// Keeps the first; nobody takes the others.
void host_lane::note_error(std::exception_ptr e) noexcept {
  if (error_ == nullptr) {
    error_ = std::move(e);
  } else {
    report_unobserved(std::move(e), "a stream", {});
  }
}

void host_lane::give(piece& p) noexcept {
  {
    const std::lock_guard locked(lock_);
    pieces_.push(p);
    if (is_busy_) return;
    is_busy_ = true;
  }
  keep();
  on_.post(*this);
}

void host_lane::enqueue(std::unique_ptr<lane_work> w) { give(*new callable(std::move(w))); }

void host_lane::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) give(*new copying(to, from, bytes));
}

void host_lane::wait(point& p) {
  if (!p.is_reached()) give(*new waiting(p));
}

point_ref host_lane::record() { return give_point(*host_point::make()); }

point_ref host_lane::give_point(host_point& p) noexcept {
  point_ref mine = point_ref::more(p);
  if (is_polled_) {
    bool is_first = false;
    {
      const std::lock_guard locked(lock_);
      is_first = awaited_ == 0;
      awaited_ = awaited_ + 1;
    }
    if (is_first) {
      keep();
      engine::the().watch(*this);
    }
  }
  give(p);
  return mine;
}

// The point is made before the work is given that it comes behind: then nothing can fail any more.
int host_lane::begin_submission() {
  host_point* const p = host_point::make();
  const std::lock_guard locked(lock_);
  p->link = spare_;
  spare_ = p;
  return 0;
}

lane::submitted host_lane::end_submission(int) noexcept {
  host_point* p = nullptr;
  {
    const std::lock_guard locked(lock_);
    p = spare_;
    spare_ = p->link;
  }
  return {give_point(*p), nullptr};
}

void* host_lane::allocate(std::size_t bytes) {
  static_assert(sizeof(freed) <= freed::header);
  if (bytes > static_cast<std::size_t>(-1) - freed::header) throw std::bad_alloc();
  auto* const at = static_cast<std::byte*>(::operator new(freed::header + bytes, freed::alignment));
  ::new (static_cast<void*>(at)) freed;
  return at + freed::header;
}

void host_lane::deallocate(void* p, std::size_t) noexcept {
  void* const at = static_cast<std::byte*>(p) - freed::header;
  give(*static_cast<freed*>(at));
}

void host_lane::run_job(job& j) noexcept { static_cast<host_lane&>(j).run(); }

void host_lane::go_on(point_waiter& w) noexcept {
  auto& self = static_cast<host_lane&>(w);
  self.on_.post(self);
}

void host_lane::run() noexcept {
  for (int n = 0; n != most_pieces; ++n) {
    piece* const p = next_or_rest();
    if (p == nullptr) return drop();
    if (p->run(*this) == piece::done::later) return;  // this may be gone
  }
  on_.post(*this);
}

host_lane::piece* host_lane::next_or_rest() noexcept {
  const std::lock_guard locked(lock_);
  piece* const p = pieces_.pop();
  if (p == nullptr) is_busy_ = false;
  return p;
}

void host_lane::get_to(host_point& p) noexcept {
  std::exception_ptr error = std::exchange(error_, nullptr);
  if (!is_polled_) return p.is_reached_with(std::move(error));
  p.went_wrong = std::move(error);
  const std::lock_guard locked(lock_);
  p.link = passed_;
  passed_ = &p;
}

polled::answer host_lane::poll() noexcept {
  host_point* newest = nullptr;
  answer says{};
  {
    const std::lock_guard locked(lock_);
    newest = std::exchange(passed_, nullptr);
    for (const host_point* p = newest; p != nullptr; p = p->link) awaited_ = awaited_ - 1;
    says = {newest != nullptr, awaited_ != 0};
  }
  host_point* oldest = reversed<host_point, &host_point::link>(newest);
  while (oldest != nullptr) {
    host_point& p = *oldest;
    oldest = p.link;
    p.is_reached_with(std::move(p.went_wrong));  // p may be gone
  }
  if (!says.is_pending) drop();
  return says;
}

}  // namespace turnstile::detail
