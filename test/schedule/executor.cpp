// executor.cpp - the real pool: queues, thieves, sleep and waking, and its end.
//
// Its queues have 4 places here and a worker looks round once before it lies down (limit in
// detail/threads.hpp), so that few steps reach what takes thousands elsewhere.

#include "executor/even_out.hpp"
#include "executor/fork_stack.hpp"
#include "executor/hand_back.hpp"
#include "executor/injector.hpp"
#include "executor/mailbox.hpp"
#include "executor/run_queue.hpp"
#include "executor/sleepers.hpp"
#include "executor/worker.hpp"
#include "schedule/scenario.hpp"

#include <turnstile/detail/fork_job.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

using namespace schedule;
using namespace turnstile;

namespace {

// How many jobs have run, and somebody who waits for that.
class tally {
 public:
  void add() noexcept {
    n_.fetch_add(1, detail::seq_cst);
    n_.notify_all();
  }
  void wait_for(int n) noexcept {
    for (int seen = 0; (seen = n_.load(detail::acquire)) != n;) n_.wait(seen, detail::acquire);
  }
  int now() const noexcept { return n_.load(detail::relaxed); }

 private:
  atomic<int> n_{0};
};

struct counted_job : job {
  explicit counted_job(tally& t) noexcept : job(&count), ran(&t) {}
  static void count(job& j) noexcept {
    auto& self = static_cast<counted_job&>(j);
    self.times = self.times + 1;
    self.ran->add();
  }
  guarded<int> times{0};
  tally* ran;
};

struct step : job {
  explicit step(std::function<void()> w) : job(&go), work(std::move(w)) {}
  static void go(job& j) noexcept { static_cast<step&>(j).work(); }
  std::function<void()> work;
};

void run_all(detail::run_queue& mine) {
  while (job* const j = mine.take()) j->run();
}

void steal_and_run(detail::run_queue& to, detail::run_queue& from) {
  if (job* const j = to.steal_from(from)) j->run();
  run_all(to);
}

void append_making_room(detail::run_queue& mine, std::span<counted_job> jobs) {
  for (counted_job& j : jobs) {
    while (mine.room() == 0) mine.take()->run();
    mine.append(&j, 1);
  }
}

// Behind its own one.
void take_some_and_run(detail::run_queue& to, job& own, detail::run_queue& from,
                       std::uint32_t most) {
  to.append(&own, 1);
  to.take_from(from, most);
  run_all(to);
}

[[nodiscard]] bool push_one(detail::fork_stack& to, job& j) {
  job* first = &j;
  return to.push(first, 1) == 1;
}

// Linked, in their order.
job* chain_of(std::span<counted_job> jobs) {
  for (std::size_t i = 1; i < jobs.size(); ++i) jobs[i - 1].next = &jobs[i];
  return &jobs.front();
}

void take_all(detail::fork_stack& mine) {
  while (job* const j = mine.take()) j->run();
}

void steal_one(detail::fork_stack& from) {
  if (job* const j = from.steal()) j->run();
}

// An owner does something with so many forks, and then takes what is left, while a thief comes
// twice.
template <class Owner>
auto each_fork_once(std::size_t forks, Owner owner) {
  return [=] {
    detail::fork_stack mine;
    tally ran;
    std::vector<counted_job> jobs(forks, counted_job(ran));
    together({[&] {
                owner(mine, jobs);
                take_all(mine);
              },
              [&] {
                steal_one(mine);
                steal_one(mine);
              }});
    require(ran.now() == static_cast<int>(forks), "a fork was lost or ran twice");
  };
}

job* taken_from(detail::worker& w, detail::run_queue& to) {
  if (job* const j = w.forks.steal()) return j;
  if (job* const j = to.steal_from(w.queue)) return j;
  if (job* const j = w.overflow.take(1).first) return j;
  return w.mail.take().first;
}

// As one more worker, which has no jobs: it runs one that is somewhere, and lies down until there
// is one.
void find_one_and_run(std::vector<detail::worker>& workers, detail::sleepers& idle) {
  detail::run_queue mine;
  idle.begin_search();
  for (;;) {
    for (detail::worker& w : workers) {
      if (job* const j = taken_from(w, mine)) return j->run();
    }
    idle.lie_down();
    if (std::ranges::all_of(workers, &detail::worker::looks_empty)) {
      idle.sleep();
    } else {
      idle.get_up();
    }
  }
}

// One job is somewhere at a worker that stands still. Another worker takes it, and waits for it in
// its own.
auto moved_while_one_lies_down(void (*put)(detail::worker&, job&, detail::sleepers&)) {
  return [=] {
    detail::sleepers idle;
    std::vector<detail::worker> workers(2);
    for (detail::worker& w : workers) w.others.resize(2);
    for (std::uint32_t i = 0; i != 2; ++i) workers[i].index = i;
    tally ran;
    counted_job j(ran);
    put(workers[0], j, idle);
    together({[&] {
                detail::even_out(workers[1], workers, {}, idle);
                ran.wait_for(1);
              },
              [&] { find_one_and_run(workers, idle); }});
  };
}

// In a job that was posted through an executor_ref.
void fork_here(job& j) {
  const executor_ref on = detail::here().runs_on;
  require(bool(on), "a worker runs on nothing");
  detail::post(on, j, detail::queued::next);
}

// Chance too, for the search does not get far.
void holds_by_chance(const std::function<void()>& scenario, bounds most = {0, 1}) {
  holds(scenario, {.most = most});
  holds(scenario, {.random_executions = 5000});
}

auto everything_runs(unsigned workers, std::size_t posters) {
  return [=] {
    tally ran;
    std::vector<counted_job> jobs(posters, counted_job(ran));
    thread_pool pool(workers);
    std::vector<std::function<void()>> post;
    for (counted_job& j : jobs) post.push_back([&] { pool.post(j); });
    together(std::move(post));
    ran.wait_for(static_cast<int>(posters));
  };
}

}  // namespace

TEST_SUITE("executor") {
  TEST_CASE("run_queue: an owner and a thief get every job once") {
    holds([] {
      detail::run_queue mine;
      detail::run_queue theirs;
      tally ran;
      std::vector<counted_job> jobs(3, counted_job(ran));
      for (std::size_t i = 0; i + 1 != jobs.size(); ++i) jobs[i].next = &jobs[i + 1];
      together({[&] {
                  mine.append(&jobs[0], 1);
                  mine.append(&jobs[1], 2);
                  run_all(mine);
                },
                [&] { steal_and_run(theirs, mine); }});
      require(ran.now() == 3, "a job was lost or ran twice");
    });
  }

  TEST_CASE("run_queue: places are written again after a thief has read them") {
    holds([] {
      detail::run_queue mine;
      detail::run_queue theirs;
      tally ran;
      std::vector<counted_job> jobs(6, counted_job(ran));
      together({[&] {
                  append_making_room(mine, jobs);
                  run_all(mine);
                },
                [&] { steal_and_run(theirs, mine); }});
      require(ran.now() == 6, "a job was lost or ran twice");
    });
  }

  TEST_CASE("run_queue: a thief reads the head when it was far behind the tail") {
    holds([] {
      detail::run_queue mine;
      detail::run_queue theirs;
      tally ran;
      std::vector<counted_job> jobs(8, counted_job(ran));
      together({[&] {
                  for (counted_job& j : jobs) {
                    mine.append(&j, 1);
                    if (job* const first = mine.take()) first->run();
                  }
                },
                [&] { steal_and_run(theirs, mine); }});
      require(ran.now() == 8, "a job was lost or ran twice");
    });
  }

  TEST_CASE("run_queue: who has jobs takes some of another's, which is stolen from too") {
    holds([] {
      detail::run_queue first;
      detail::run_queue second;
      detail::run_queue third;
      tally ran;
      std::vector<counted_job> jobs(4, counted_job(ran));
      together({[&] {
                  for (std::size_t i = 0; i != 3; ++i) first.append(&jobs[i], 1);
                  run_all(first);
                },
                [&] { take_some_and_run(second, jobs[3], first, 2); },
                [&] { steal_and_run(third, second); }});
      require(ran.now() == 4, "a job was lost or ran twice");
    });
  }

  TEST_CASE("run_queue: who has jobs takes some while the places are written again") {
    holds([] {
      detail::run_queue mine;
      detail::run_queue theirs;
      tally ran;
      std::vector<counted_job> jobs(7, counted_job(ran));
      for (std::size_t i = 0; i != 4; ++i) mine.append(&jobs[i], 1);
      together({[&] {
                  append_making_room(mine, std::span(jobs).subspan(4, 2));
                  run_all(mine);
                },
                [&] { take_some_and_run(theirs, jobs[6], mine, 2); }});
      require(ran.now() == 7, "a job was lost or ran twice");
    });
  }

  TEST_CASE("run_queue: there is room for what is taken from another") {
    holds([] {
      detail::run_queue mine;
      detail::run_queue theirs;
      tally ran;
      std::vector<counted_job> jobs(6, counted_job(ran));
      for (std::size_t i = 0; i != 3; ++i) mine.append(&jobs[i], 1);
      for (std::size_t i = 3; i != 6; ++i) theirs.append(&jobs[i], 1);
      theirs.take_from(mine, 3);
      require(mine.size() == 2 && theirs.size() == 4, "took more than there was room for");
      run_all(mine);
      run_all(theirs);
      for (counted_job& j : jobs) require(j.times == 1, "a job was lost or ran twice");
    });
  }

  TEST_CASE("fork_stack: an owner and a thief get every fork once") {
    holds(each_fork_once(3, [](detail::fork_stack& mine, std::vector<counted_job>& jobs) {
      require(push_one(mine, jobs[0]) && push_one(mine, jobs[1]), "there was no room");
      if (job* const newest = mine.take()) newest->run();
      require(push_one(mine, jobs[2]), "there was no room");
    }));
  }

  TEST_CASE("fork_stack: forks that are pushed together are taken from both ends") {
    holds(each_fork_once(3, [](detail::fork_stack& mine, std::vector<counted_job>& jobs) {
      job* first = chain_of(jobs);
      require(mine.push(first, 3) == 3, "there was no room");
    }));
  }

  TEST_CASE("fork_stack: of more forks than have room the oldest are there") {
    holds(each_fork_once(6, [](detail::fork_stack& mine, std::vector<counted_job>& jobs) {
      std::size_t left = jobs.size();
      for (job* first = chain_of(jobs); left != 0;) {
        left -= mine.push(first, left);
        if (job* const newest = mine.take()) newest->run();
      }
    }));
  }

  TEST_CASE("fork_stack: an owner takes the newest while two thieves come from the other end") {
    const auto scenario = [](std::size_t forks) {
      return [=] {
        detail::fork_stack mine;
        tally ran;
        std::vector<counted_job> jobs(forks, counted_job(ran));
        for (counted_job& j : jobs) require(push_one(mine, j), "there was no room");
        together({[&] { take_all(mine); }, [&] { steal_one(mine); }, [&] { steal_one(mine); }});
        require(ran.now() == static_cast<int>(forks), "a fork was lost or ran twice");
      };
    };
    for (const std::size_t forks : {1u, 2u, 3u}) holds(scenario(forks));
  }

  TEST_CASE("fork_stack: places are written again after a thief has read them") {
    holds(each_fork_once(6, [](detail::fork_stack& mine, std::vector<counted_job>& jobs) {
      for (counted_job& j : jobs) {
        while (!push_one(mine, j)) {
          if (job* const newest = mine.take()) newest->run();
        }
      }
    }));
  }

  TEST_CASE("fork_stack: the newest comes first, and a thief gets the oldest") {
    holds([] {
      detail::fork_stack mine;
      tally ran;
      std::vector<counted_job> jobs(4, counted_job(ran));
      job* first = chain_of(jobs);
      require(mine.push(first, 4) == 4, "there was no room");
      counted_job more(ran);
      require(!push_one(mine, more), "there was room");
      require(mine.steal() == &jobs[0], "not the oldest");
      require(mine.take() == &jobs[3], "not the newest");
      require(push_one(mine, more) && mine.take() == &more, "not the newest");
      require(mine.take() == &jobs[2] && mine.steal() == &jobs[1], "not the one that is left");
      require(mine.take() == nullptr && mine.steal() == nullptr && mine.looks_empty(), "not empty");
    });
  }

  TEST_CASE("mailbox: what two post is taken once, in order") {
    holds([] {
      detail::mailbox mail;
      tally ran;
      std::vector<counted_job> jobs(3, counted_job(ran));
      jobs[0].next = &jobs[1];
      together({[&] { mail.push(&jobs[0], &jobs[1]); }, [&] { mail.push(&jobs[2], &jobs[2]); },
                [&] {
                  for (int got = 0; got != 3;) {
                    const auto chain = mail.take();
                    if (chain.n == 0) detail::pause();
                    bool first_ran = false;
                    for (job* j = chain.first; j != nullptr; ++got) {
                      job* const after = j->next;
                      require(j != &jobs[1] || first_ran, "out of order");
                      first_ran = j == &jobs[0];
                      j->run();
                      j = after;
                    }
                  }
                }});
      require(ran.now() == 3, "a job was lost or ran twice");
    });
  }

  TEST_CASE("evening out: who lies down while a job is moved is woken") {
    using detail::sleepers;
    using detail::worker;
    holds(moved_while_one_lies_down([](worker& w, job& j, sleepers&) { w.queue.append(&j, 1); }));
    holds(moved_while_one_lies_down(
        [](worker& w, job& j, sleepers& idle) { w.overflow.push(&j, &j, 1, idle); }));
    holds(moved_while_one_lies_down([](worker& w, job& j, sleepers&) { w.mail.push(&j, &j); }));
    holds(moved_while_one_lies_down(
        [](worker& w, job& j, sleepers&) { require(push_one(w.forks, j), "there was no room"); }));
  }

  TEST_CASE("pool: two workers, three who post, and the end") {
    holds(everything_runs(2, 3), {.most = {0, 1}});
  }

  TEST_CASE("pool: two workers, two who post, and the end") {
    holds(everything_runs(2, 2), {.most = {1, 0}});
  }

  TEST_CASE("pool: two workers, one who posts, and the end") {
    holds(everything_runs(2, 1), {.most = {1, 1}});
  }

  TEST_CASE("pool: three workers, and the end") {
    holds(everything_runs(3, 0), {.most = {1, 0}});
    holds(everything_runs(3, 0), {.random_executions = 20000});
    holds(everything_runs(3, 2), {.random_executions = 20000});
  }

  TEST_CASE("pool: what is posted just before the end runs before the end") {
    const auto scenario = [](unsigned workers) {
      return [=] {
        tally ran;
        std::vector<counted_job> jobs(2, counted_job(ran));
        {
          thread_pool pool(workers);
          for (counted_job& j : jobs) pool.post(j);
        }
        require(ran.now() == 2, "a job was lost at the end");
      };
    };
    holds(scenario(1), {.most = {3, 1}});
    holds(scenario(2), {.most = {1, 1}});
    holds(scenario(3), {.random_executions = 20000});
  }

  TEST_CASE("pool: the end comes while a job posts another one and waits for it") {
    const auto scenario = [] {
      tally ran;
      counted_job second(ran);
      auto* const pool = new thread_pool(2);
      step first([&] {
        pool->post(second);
        ran.wait_for(1);
      });
      pool->post(first);
      delete pool;
      require(ran.now() == 1, "a job was lost at the end");
    };
    holds(scenario, {.most = {1, 0}});
    holds(scenario, {.random_executions = 20000});
  }

  TEST_CASE("pool: a job posts another one and waits for it") {
    holds_by_chance(
        [] {
          tally ran;
          tally ended;
          counted_job other(ran);
          thread_pool pool(2);
          step first([&] {
            pool.post(other);
            ran.wait_for(1);
            ended.add();
          });
          pool.post(first);
          ended.wait_for(1);
        },
        {1, 1});
  }

  TEST_CASE("pool: a job posts two and waits for them beside a worker that always has jobs") {
    holds_by_chance([] {
      tally ran;
      tally ended;
      std::vector<counted_job> others(2, counted_job(ran));
      thread_pool pool(2);
      step first([&] {
        for (counted_job& j : others) pool.post(j);
        ran.wait_for(2);
        ended.add();
      });
      step again([&] {
        if (ran.now() == 2) return ended.add();
        detail::pause();
        pool.post(again);
      });
      pool.post(first);
      pool.post(again);
      ended.wait_for(2);
      for (counted_job& j : others) require(j.times == 1, "a job was lost or ran twice");
    });
  }

  TEST_CASE("pool: of two jobs that come together the first one waits for the second") {
    holds_by_chance([] {
      tally ran;
      tally ended;
      tally ran_before;
      counted_job second(ran);
      step first([&] {
        ran.wait_for(1);
        ended.add();
      });
      first.next = &second;
      counted_job before(ran_before);
      thread_pool pool(2);
      pool.post(before);
      pool.post(&first, &second, 2);
      ended.wait_for(1);
    });
  }

  TEST_CASE("pool: a job hands another one back and waits for it") {
    holds_by_chance(
        [] {
          tally ran;
          tally ended;
          counted_job third(ran);
          detail::worker* back_to = nullptr;
          thread_pool pool(2);
          step second([&] {
            detail::hand_back(*back_to, &third, &third);
            ran.wait_for(1);
            ended.add();
          });
          step first([&] {
            back_to = detail::here().as_worker;
            pool.post(second);
          });
          pool.post(first);
          ended.wait_for(1);
        },
        {1, 1});
  }

  TEST_CASE("pool: of two jobs that are handed back the first one waits for the second") {
    holds_by_chance([] {
      tally ran;
      tally ended;
      counted_job last(ran);
      step waits([&] {
        ran.wait_for(1);
        ended.add();
      });
      detail::worker* back_to = nullptr;
      thread_pool pool(2);
      step second([&] {
        waits.next = &last;
        detail::hand_back(*back_to, &waits, &last);
      });
      step first([&] {
        back_to = detail::here().as_worker;
        pool.post(second);
      });
      pool.post(first);
      ended.wait_for(1);
    });
  }

  TEST_CASE("pool: a job posts more than its worker has room for") {
    holds([] {
      tally ran;
      std::vector<counted_job> jobs(6, counted_job(ran));
      thread_pool pool(1);
      step first([&] {
        for (counted_job& j : jobs) pool.post(j);
      });
      pool.post(first);
      ran.wait_for(6);
      for (counted_job& j : jobs) require(j.times == 1, "a job was lost or ran twice");
    });
  }

  TEST_CASE("pool: a job forks another one and waits for it") {
    holds_by_chance(
        [] {
          tally ran;
          tally ended;
          counted_job other(ran);
          thread_pool pool(2);
          step first([&] {
            fork_here(other);
            ran.wait_for(1);
            ended.add();
          });
          executor_ref(pool).post(first);
          ended.wait_for(1);
        },
        {1, 1});
  }

  TEST_CASE("pool: of two forks the one that is run first waits for the other") {
    holds_by_chance([] {
      tally ran;
      tally ended;
      counted_job oldest(ran);
      step newest([&] {
        ran.wait_for(1);
        ended.add();
      });
      thread_pool pool(2);
      step first([&] {
        fork_here(oldest);
        fork_here(newest);
      });
      executor_ref(pool).post(first);
      ended.wait_for(1);
    });
  }

  TEST_CASE("pool: a job forks more than its worker has room for") {
    const auto scenario = [](unsigned workers, bool together) {
      return [=] {
        tally ran;
        std::vector<counted_job> jobs(6, counted_job(ran));
        thread_pool pool(workers);
        step first([&] {
          if (together) {
            detail::post_forks(pool, chain_of(jobs), &jobs.back(), jobs.size());
          } else {
            for (counted_job& j : jobs) fork_here(j);
          }
        });
        executor_ref(pool).post(first);
        ran.wait_for(6);
        for (counted_job& j : jobs) require(j.times == 1, "a fork was lost or ran twice");
      };
    };
    for (const bool together : {false, true}) {
      holds(scenario(1, together));
      holds(scenario(2, together), {.random_executions = 5000});
    }
  }

  TEST_CASE("pool: what is forked just before the end runs before the end") {
    const auto scenario = [] {
      tally ran;
      std::vector<counted_job> jobs(2, counted_job(ran));
      {
        step first([&] {
          for (counted_job& j : jobs) fork_here(j);
        });
        thread_pool pool(2);
        executor_ref(pool).post(first);
      }
      require(ran.now() == 2, "a fork was lost at the end");
    };
    holds(scenario, {.most = {0, 1}});
    holds(scenario, {.random_executions = 5000});
  }

  TEST_CASE("pool: children that are forked end anywhere, and their parent goes on once") {
    const auto scenario = [] {
      thread_pool pool(2);
      guarded<int> sum{0};
      const auto give = [](int n) -> task<int> { co_return n; };
      const auto parent = [&]() -> task<> {
        const auto [one, two] = co_await when_all(fork(give(1)), fork(give(2)));
        sum = sum + one + two;
      };
      sync_wait(schedule_on(pool, parent()));
      require(sum == 3, "a child was lost");
    };
    holds(scenario, {.most = {0, 1}});
    holds(scenario, {.random_executions = 5000});
  }

  TEST_CASE("pool: it ends when the job has run, and who posted it is not back yet") {
    holds([] {
      tally ran;
      counted_job j(ran);
      auto* const pool = new thread_pool(1);
      thread posts([&] { pool->post(j); });
      ran.wait_for(1);
      delete pool;
      posts.join();
    });
  }

  TEST_CASE("pool: one worker and one who posts twice; nobody else wakes it") {
    holds([] {
      tally ran;
      std::vector<counted_job> jobs(2, counted_job(ran));
      thread_pool pool(1);
      pool.post(jobs[0]);
      pool.post(jobs[1]);
      ran.wait_for(2);
    });
  }

  TEST_CASE("run_queue: a thief is stolen from") {
    holds([] {
      detail::run_queue first;
      detail::run_queue second;
      detail::run_queue third;
      tally ran;
      std::vector<counted_job> jobs(4, counted_job(ran));
      together({[&] {
                  for (counted_job& j : jobs) first.append(&j, 1);
                  run_all(first);
                },
                [&] { steal_and_run(second, first); }, [&] { steal_and_run(third, second); }});
      require(ran.now() == 4, "a job was lost or ran twice");
    });
  }

  TEST_CASE("sleepers: who took the last job does not lie for anybody who looked after that") {
    const auto scenario = [](bool woken) {
      return [woken] {
        detail::sleepers idle;
        detail::injector jobs;
        tally ran;
        counted_job only(ran);
        jobs.push(&only, &only, 1, idle);
        idle.begin_search();
        idle.begin_search();
        together({[&] {
                    idle.lie_down();
                    if (woken) {
                      idle.sleep();
                    } else {
                      idle.get_up();
                    }
                    jobs.take(1);
                  },
                  [&] {
                    idle.lie_down();
                    const bool looked_in_vain = jobs.looks_empty();
                    require(!(idle.all_lie(2) && looked_in_vain), "the end comes before a job");
                  },
                  [&] {
                    while (woken && jobs.size() != 0) {
                      idle.wake_one();
                      detail::pause();
                    }
                  }});
      };
    };
    holds(scenario(false));
    holds(scenario(true), {.most = {2, 1}});
  }

  TEST_CASE("pool: a job waits for one that is posted after it from outside") {
    holds(
        [] {
          tally ran;
          thread_pool pool(2);
          counted_job second(ran);
          step first([&] {
            ran.wait_for(1);
            ran.add();
          });
          pool.post(first);
          pool.post(second);
          ran.wait_for(2);
        },
        {.most = {1, 1}});
  }
}
