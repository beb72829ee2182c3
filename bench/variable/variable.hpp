// variable.hpp - what does a value cost that several threads read whole and add to in one step?
//
// A holder of a T has read(), which gives something that stays as it was and says `number(it,
// place)`, and add(), which adds one to every part. Two threads: both read, both add, or one adds
// while one reads.
#pragma once

#include "support/case_table.hpp"
#include "support/crew.hpp"
#include "support/measure.hpp"
#include "support/shape.hpp"

#include <array>
#include <atomic>
#include <benchmark/benchmark.h>
#include <cstddef>
#include <string_view>

namespace bench::variable {

struct kibibyte {
  std::array<long, 128> all{};

  kibibyte& operator+=(long n) {
    for (long& x : all) x += n;
    return *this;
  }
};

// What the value says, if it is whole; else no number of operations. One place of it is compared
// with the first: who asks again and again looks at all of them in turn, in no more time than one
// takes.
inline long number(long value, std::size_t) { return value; }
inline long number(const kibibyte& value, std::size_t place) {
  return value.all[place % value.all.size()] == value.all.front() ? value.all.front() : -1;
}

enum class load { read, add, both };

template <class Holder>
class round {
 public:
  round(load what, std::size_t turns) : what_(what), turns_(turns) {}

  nanoseconds run(crew& threads) {
    return time_of([&] { threads.run([this](std::size_t i) { work(i); }); });
  }

  bool is_right() const {
    const std::size_t adders = what_ == load::add ? 2 : what_ == load::both ? 1 : 0;
    return right_ &&
           Holder::number_in(holder_.read(), turns_) == static_cast<long>(adders * turns_);
  }

 private:
  void work(std::size_t thread) {
    if (what_ == load::add || (what_ == load::both && thread == 0)) {
      for (std::size_t i = 0; i < turns_; ++i) holder_.add();
    } else {
      read();
    }
  }

  void read() {
    long last = 0;
    bool right = true;
    for (std::size_t i = 0; i < turns_; ++i) {
      auto seen = holder_.read();
      benchmark::DoNotOptimize(seen);  // all of it, or only what is looked at is copied
      const long now = Holder::number_in(seen, i);
      right = right && now >= last;
      last = now;
    }
    if (!right) right_ = false;
  }

  const load what_;
  const std::size_t turns_;
  std::atomic<bool> right_{true};
  alignas(64) Holder holder_;
};

template <class Holder>
void measure(benchmark::State& state, const shape& s, load what) {
  crew threads(s.threads);
  for (auto _ : state) {
    bool right = true;
    const auto take = [&](std::size_t turns) {
      round<Holder> r(what, turns);
      const nanoseconds took = r.run(threads);
      right = right && r.is_right();
      return took;
    };
    const std::size_t turns = turns_that_fill(round_length(s), s.clients, take);
    const nanoseconds took = take(turns);
    if (!right) return refuse(state, "wrong answer: a write was lost, or a value torn");
    report_time(state, took, s.clients * turns);
  }
  state.counters["clients_are_threads"] = 1;
  state.counters["against"] = static_cast<double>(s.against);
}

template <class Holder>
void ask_one(std::string_view question, load what) {
  cases().push_back(
      {question,
       Holder::name,
       {.threads = 2, .clients = 2, .against = 2},
       [what](benchmark::State& state, const shape& s) { measure<Holder>(state, s, what); }});
}

template <class Holder>
bool ask_long() {
  ask_one<Holder>("read_long", load::read);
  ask_one<Holder>("add_long", load::add);
  ask_one<Holder>("both_long", load::both);
  return true;
}

template <template <class> class Holder>
bool ask() {
  ask_one<Holder<kibibyte>>("read_1KiB", load::read);
  ask_one<Holder<kibibyte>>("add_1KiB", load::add);
  ask_one<Holder<kibibyte>>("both_1KiB", load::both);
  return ask_long<Holder<long>>();
}

}  // namespace bench::variable
