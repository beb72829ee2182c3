// bounded_buffer.hpp - what does an item cost that goes from a producer to a consumer, if there is
// room for K of them between the two?
//
// Half of the clients produce and half consume. Who finds the buffer full, or empty, has to wait
// until that is over, and not only until the section is idle.
#pragma once

#include "support/case_table.hpp"
#include "support/measure.hpp"
#include "support/shape.hpp"
#include "support/stopwatch.hpp"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench::bounded_buffer {

struct item {
  std::uint32_t producer;
  std::uint32_t number;  // of this producer's, from 0
};

// Protected by whatever a contender has for that.
class buffer {
 public:
  explicit buffer(std::size_t capacity) : items_(capacity) {}

  bool has_room() const noexcept { return size_ < items_.size(); }
  bool has_item() const noexcept { return size_ > 0; }

  void put(item i) noexcept {
    items_[place(size_)] = i;
    ++size_;
  }
  item take() noexcept {
    const item i = items_[first_];
    first_ = place(1);
    --size_;
    return i;
  }

 private:
  std::size_t place(std::size_t behind_first) const noexcept {
    const std::size_t p = first_ + behind_first;
    return p < items_.size() ? p : p - items_.size();
  }

  std::vector<item> items_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

// while (p.has_more()) <put p.next()>
class alignas(64) producer {
 public:
  producer(std::size_t index, std::size_t items) noexcept
      : index_(static_cast<std::uint32_t>(index)), items_(static_cast<std::uint32_t>(items)) {}

  bool has_more() const noexcept { return made_ < items_; }
  item next() noexcept { return {index_, made_++}; }

 private:
  std::uint32_t index_;
  std::uint32_t items_;
  std::uint32_t made_ = 0;
};

// while (c.wants_more()) c.got(<take>)
class alignas(64) consumer {
 public:
  // What came from one producer. Its items reach one consumer in the order in which they were made,
  // so none comes twice.
  struct account {
    std::uint32_t next = 0;  // no lower number may come
    std::uint64_t items = 0;
    std::uint64_t sum = 0;
  };

  consumer(std::size_t producers, std::size_t items) : from_(producers), wanted_(items) {}

  bool wants_more() const noexcept { return got_ < wanted_; }
  void got(item i) noexcept {
    account& a = from_[i.producer];
    in_order_ = in_order_ && i.number >= a.next;
    a.next = i.number + 1;
    a.sum += i.number;
    ++a.items;
    ++got_;
  }

  bool in_order() const noexcept { return in_order_; }
  const account& from(std::size_t producer) const noexcept { return from_[producer]; }

 private:
  std::vector<account> from_;
  std::size_t wanted_;
  std::size_t got_ = 0;
  bool in_order_ = true;
};

// As many producers as consumers, and as many items for each.
class traffic {
 public:
  traffic(const shape& s, std::size_t items) : items_(items) {
    const std::size_t half = s.clients / 2;
    for (std::size_t i = 0; i < half; ++i) {
      producers_.emplace_back(i, items);
      consumers_.emplace_back(half, items);
    }
  }

  std::vector<producer>& producers() noexcept { return producers_; }
  std::vector<consumer>& consumers() noexcept { return consumers_; }

  // Everything arrived once, and at each consumer in the order of each producer.
  bool is_right() const noexcept {
    const auto in_order = [](const consumer& c) { return c.in_order(); };
    if (!std::all_of(consumers_.begin(), consumers_.end(), in_order)) return false;
    for (std::size_t p = 0; p < producers_.size(); ++p) {
      if (!all_arrived_from(p)) return false;
    }
    return true;
  }

 private:
  bool all_arrived_from(std::size_t producer) const noexcept {
    std::uint64_t items = 0;
    std::uint64_t sum = 0;
    for (const consumer& c : consumers_) {
      items += c.from(producer).items;
      sum += c.from(producer).sum;
    }
    return items == items_ && sum == items_ * (items_ - 1) / 2;
  }

  std::size_t items_;
  std::vector<producer> producers_;
  std::vector<consumer> consumers_;
};

// A contender is made from the letters of a case and owns its threads and its buffer; run(traffic)
// drives every client to its end.
template <class Contender>
void measure(benchmark::State& state, const shape& s) {
  Contender contender(s);
  bool right = true;
  const auto take = [&](std::size_t items) {
    traffic t(s, items);
    const nanoseconds took = time_of([&] { contender.run(t); });
    right = right && t.is_right();
    return took;
  };
  for (auto _ : state) {
    const std::size_t producers = s.clients / 2;
    const std::size_t items = turns_that_fill(round_length(s), producers, take);
    const nanoseconds took = take(items);
    if (!right) return refuse(state, "wrong answer: an item was lost, or out of order");
    report_time(state, took, producers * items);
  }
  report_kind<Contender>(state, s);
}

// 1 + 1, 4 + 4 and 32 + 32 clients, compared with as many plain threads.
template <class Contender>
bool ask() {
  for (const std::size_t clients : {2, 8, 64}) {
    const std::size_t threads = Contender::clients_are_threads ? clients : 2;
    for (const std::size_t capacity : {1, 16}) {
      cases().push_back(
          {"bounded_buffer",
           Contender::name,
           {.threads = threads, .clients = clients, .against = clients, .capacity = capacity},
           measure<Contender>});
    }
  }
  return true;
}

}  // namespace bench::bounded_buffer
