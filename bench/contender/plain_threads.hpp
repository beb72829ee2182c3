// plain_threads.hpp - a section that makes its caller wait in place, so every client is a thread.
//
// A section has a name, and execute(body). It may have `on_thread`, what its library wants done at
// the start and the end of each thread, `most_sections` and `most_threads`.
#pragma once

#include "contender/ask.hpp"
#include "support/crew.hpp"
#include "support/section_row.hpp"
#include "support/shape.hpp"

#include <cstddef>
#include <deque>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <thread>

namespace bench {

// Any mutex of the usual kind as a section.
template <class Mutex>
class guarded_by {
 public:
  template <class Body>
  void execute(Body&& body) {
    const std::lock_guard hold(mutex_);
    body();
  }

 private:
  Mutex mutex_;
};

// What a pool of threads works through, by number, in the order in which it became ready.
class ready_queue {
 public:
  explicit ready_queue(std::size_t jobs) : jobs_(jobs) {
    std::iota(jobs_.begin(), jobs_.end(), std::size_t{0});
  }

  void push(std::size_t job) {
    const std::lock_guard hold(mutex_);
    jobs_.push_back(job);
  }

  std::optional<std::size_t> pop() {
    const std::lock_guard hold(mutex_);
    if (jobs_.empty()) return std::nullopt;
    const std::size_t job = jobs_.front();
    jobs_.pop_front();
    return job;
  }

 private:
  std::mutex mutex_;
  std::deque<std::size_t> jobs_;
};

template <class Section>
class plain_threads {
 public:
  static constexpr std::string_view name = Section::name;
  static constexpr bool clients_are_threads = true;
  static constexpr std::size_t most_sections = [] {
    if constexpr (requires { Section::most_sections; }) return Section::most_sections;
    return unlimited;
  }();
  static constexpr std::size_t most_threads = [] {
    if constexpr (requires { Section::most_threads; }) return Section::most_threads;
    return unlimited;
  }();

  explicit plain_threads(const shape& s) : sections_(s.sections), crew_(s.threads, life()) {}

  template <class Client>
  void run(std::span<Client> clients) {
    crew_.run([&](std::size_t i) { take_turns(clients[i]); });
  }

  // The threads take holders and tasks from one queue. Whoever holds or waits keeps its thread.
  void hold(held::run& r) {
    ready_queue ready(r.tasks().size() + (r.with_section() ? r.holders() : 0));
    crew_.run([&](std::size_t) { work_through(r, ready); });
  }

  double bytes_per_section() const noexcept { return sections_.bytes_each(); }

 private:
  static crew::life life() {
    if constexpr (requires { Section::on_thread; }) return Section::on_thread;
    return nullptr;
  }

  template <class Client>
  void take_turns(Client& client) {
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      Section& section = sections_[client.section()];
      client.request();
      section.execute([&client] { client.body(); });
      client.completed();
    }
  }

  void work_through(held::run& r, ready_queue& ready) {
    while (!r.is_over()) {
      const auto job = ready.pop();
      if (!job) {
        std::this_thread::yield();
      } else if (*job >= r.tasks().size()) {
        hold_once(r);
        ready.push(*job);
      } else if (r.tasks()[*job].unit(); r.tasks()[*job].is_done()) {
        r.finish_task();
      } else {
        ready.push(*job);
      }
    }
  }

  void hold_once(held::run& r) {
    sections_[0].execute([&r] {
      r.enter();
      std::this_thread::sleep_for(held::hold_time);
      r.leave();
    });
  }

  section_row<Section> sections_;
  crew crew_;
};

}  // namespace bench
