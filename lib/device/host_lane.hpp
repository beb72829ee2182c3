// host_lane.hpp - a stream of the host device: pieces of work that an executor does one after the
// other.
//
// Shape     resting --give----> busy       the first piece: the lane is posted, as a job
//           busy    --job-----> busy       done so many pieces: posted again, for others
//                                      want the thread too
//           busy    --a wait--> busy       nobody runs it; whoever reaches that point
//                                      posts it again
//           busy    --job-----> resting    there are no pieces left
//
//           The list and the state are under one lock. What a piece threw is kept until the next
//           point, by whoever runs the lane.
//           A polled lane does not tell those that wait for a point, but puts it by; the engine
//           finds it.
//
// Progress  giving takes the lock for a list splice. Nobody waits for a piece under the lock.
//
// Dangers   The lane keeps itself while it is busy, and while the engine has it. After a wait has
//           been added the lane may run on another thread, and end.
//
// Proof     test/device, on both kinds of lanes
#pragma once

#include "device/engine.hpp"

#include <turnstile/detail/fifo.hpp>
#include <turnstile/detail/lane.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/executor.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>

namespace turnstile::detail {

class host_lane final : public lane, private job, private point_waiter, private polled {
 public:
  host_lane(executor_ref on, bool is_polled) noexcept;

  void enqueue(std::unique_ptr<lane_work> w) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  point_ref record() override;
  void wait(point& p) override;
  void* allocate(std::size_t bytes) override;
  void deallocate(void* p, std::size_t bytes) noexcept override;
  int begin_submission() override;
  submitted end_submission(int) noexcept override;
  bool can_wait_for(const point&) const noexcept override { return true; }

 private:
  class host_point;
  struct callable;
  struct copying;
  struct waiting;
  struct freed;
  class spare_points;

  struct piece {
    enum class [[nodiscard]] done : bool { yes, later };

    piece() = default;
    piece(const piece&) = delete;
    piece& operator=(const piece&) = delete;
    // Later: somebody else goes on with the lane, which may be gone. This is gone either way.
    virtual done run(host_lane& l) noexcept = 0;

    guarded<piece*> next{nullptr};

   protected:
    ~piece() = default;
  };

  ~host_lane() override;

  static void run_job(job& j) noexcept;
  static void go_on(point_waiter& w) noexcept;
  answer poll() noexcept override;

  void note_error(std::exception_ptr e) noexcept;
  void give(piece& p) noexcept;
  point_ref give_point(host_point& p) noexcept;
  void run() noexcept;
  piece* next_or_rest() noexcept;
  void get_to(host_point& p) noexcept;

  const executor_ref on_;
  const bool is_polled_;
  guarded<std::exception_ptr> error_;  // since the last point
  mutex lock_;
  fifo<piece, &piece::next> pieces_;
  guarded<host_point*> spare_{nullptr};   // for submissions that have begun
  guarded<host_point*> passed_{nullptr};  // polled: passed by, newest first
  guarded<std::uint32_t> awaited_{0};     // polled: points that nobody has been told of
  guarded<bool> is_busy_{false};
};

}  // namespace turnstile::detail
