// fiber_mutex.hpp - fibers of Boost.Fiber, and its mutex.
#pragma once

#include "contender/ask.hpp"
#include "support/crew.hpp"
#include "support/section_row.hpp"

#include <boost/fiber/algo/shared_work.hpp>
#include <boost/fiber/condition_variable.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/fixedsize_stack.hpp>
#include <boost/fiber/future.hpp>
#include <boost/fiber/mutex.hpp>
#include <boost/fiber/operations.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>

namespace bench {

namespace fibers = boost::fibers;

// Boost's scheduler with one ready queue for all threads. As it comes, an idle thread either sleeps
// and is not woken when a fiber becomes ready elsewhere, or spins; here it lets others run.
struct boost_shared_work : fibers::algo::shared_work {
  void suspend_until(const std::chrono::steady_clock::time_point&) noexcept override {
    std::this_thread::yield();
  }
};

class fiber_mutex : public clients_on_threads {
 public:
  static constexpr std::string_view name = "fiber_mutex";

  explicit fiber_mutex(const shape& s)
      : mutexes_(s.sections), crew_(s.threads, [](std::size_t, const auto& rounds) {
          fibers::use_scheduling_algorithm<boost_shared_work>();
          rounds();
        }) {}

  template <class Client>
  void run(std::span<Client> clients) {
    party all(clients.size());
    serve(all, [&] {
      for (Client& client : clients) all.add([this, &client] { take_turns(client); });
    });
  }

  void hold(held::run& r) {
    party all(r.tasks().size() + r.holders());
    serve(all, [&] {
      for (std::size_t i = 0; i < r.holders(); ++i) all.add([this, &r] { keep_holding(r); });
      for (held::task& t : r.tasks()) all.add([&r, &t] { work_through(r, t); });
    });
  }

  double bytes_per_section() const noexcept { return mutexes_.bytes_each(); }

 private:
  // The fibers of a run, and where its threads wait for them while they serve them.
  class party {
   public:
    explicit party(std::size_t fibers) : unfinished_(fibers) {}

    template <class Work>
    void add(Work work) {
      fibers::fiber(fibers::launch::post, std::allocator_arg, fibers::fixedsize_stack(stack_bytes),
                    [this, work] {
                      work();
                      finish_one();
                    })
          .detach();
    }

    void wait() {
      std::unique_lock hold(mutex_);
      over_.wait(hold, [this] { return unfinished_ == 0; });
    }

   private:
    static constexpr std::size_t stack_bytes = 32 * 1024;

    void finish_one() {
      const std::lock_guard hold(mutex_);
      if (--unfinished_ == 0) over_.notify_all();
    }

    fibers::mutex mutex_;
    fibers::condition_variable over_;
    std::size_t unfinished_;
  };

  template <class AddAll>
  void serve(party& all, AddAll add_all) {
    crew_.run([&](std::size_t thread) {
      if (thread == 0) add_all();
      all.wait();
    });
  }

  template <class Client>
  void take_turns(Client& client) {
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      fibers::mutex& mutex = mutexes_[client.section()];
      client.request();
      {
        const std::lock_guard hold(mutex);
        client.body();
      }
      client.completed();
    }
  }

  void keep_holding(held::run& r) {
    while (!r.is_over()) {
      if (r.with_section()) {
        const std::lock_guard hold(mutexes_[0]);
        r.enter();
        nap(r);
        r.leave();
      } else {
        nap(r);
      }
    }
    r.finish_holder();
  }

  // Shared with whoever rings: the fiber may be gone before set_value returns.
  static void nap(held::run& r) {
    const auto rung = std::make_shared<fibers::promise<void>>();
    r.call_later([rung] { rung->set_value(); });
    rung->get_future().wait();
  }

  static void work_through(held::run& r, held::task& t) {
    while (!t.is_done()) {
      t.unit();
      r.look_at_clock();
      boost::this_fiber::yield();
    }
    if (!r.finish_task()) return;
    while (r.has_holders()) {
      r.look_at_clock();
      boost::this_fiber::yield();
    }
  }

  section_row<fibers::mutex> mutexes_;
  crew crew_;
};

}  // namespace bench
