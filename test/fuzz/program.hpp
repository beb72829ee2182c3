// program.hpp - what a string of bytes means: sections, tasks, and in which order they get to run.
//
// Every string is a program. Where the bytes end, what is missing reads as zero, and zero ends
// lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fuzz {

enum class op : std::uint8_t {
  nothing,
  execute,          // a plain body
  execute_waiting,  // a body that is a coroutine; block 0 is what it does
  lock,             // block 0 is done while the section is owned
  lock_into_slot,   // the guard is left in one of a few slots, which everybody may use
  try_lock,         // also into a slot
  unlock_slot,
  detach_slot,
  move_slot,
  try_execute,
  submit,  // the handle is left in one of a few slots
  submit_waiting,
  await_handle,
  drop_handle,
  move_handle,
  post,
  post_waiting,
  post_many,
  close,
  all_of_two,    // when_all of blocks 0 and 1
  all_in_range,  // when_all of as many children as there are blocks
  crowd,         // when_all of many plain executions
  often,         // as many, one after the other
  scope,         // a nested async_scope: a task for each block, then join
  schedule,      // schedule_on an executor, block 0
  yield,
  run_one,        // a job of an executor, in the middle of what is going on
  short_life,     // a section that ends as soon as its last execution is known to have ended
  wait_in_place,  // sync_wait for a plain execution that the model says will not wait
  fail,           // throws
  // What is coded as nothing, with a flag.
  stop_token,  // one of a few, which requests are made with
  advance      // the clock that deadlines go by
};
inline constexpr unsigned coded_ops = static_cast<unsigned>(op::fail) + 1;

struct instruction {
  op what = op::nothing;
  std::uint8_t section = 0;
  std::uint8_t arg = 0;    // slot, executor or number
  std::uint8_t flags = 0;  // see below
  std::vector<std::vector<instruction>> blocks;

  // A result's kind: nothing, a value that counts its lives, a reference, an error.
  unsigned result() const { return flags & 3u; }
  bool throws() const { return result() == 3; }
  // An error that arrives here goes on to whoever waits for this task or body.
  bool passes_errors() const { return (flags & 4u) != 0; }
  bool resumes_elsewhere() const { return (flags & 8u) != 0; }
  // Between having its place in line and being published, others get a turn.
  unsigned gap() const { return (flags & 16u) == 0 ? 0 : 1u + (flags & 3u); }
  bool variant() const { return (flags & 32u) != 0; }
  bool other_executor() const { return (flags & 64u) != 0; }
  // A request with a token or a deadline, or an execute_when.
  bool may_go() const { return (flags & 128u) != 0; }
};

using block = std::vector<instruction>;

struct section_config {
  static constexpr std::uint8_t plain = 12;  // as a section is by default
  std::uint8_t bits = 0;

  unsigned executor() const { return bits & 3u; }  // 3: as 0, none
  std::size_t cells() const {
    return std::size_t{1} << ((bits >> 2 & 3u) == 2 ? 4 : bits >> 2 & 3u);
  }
  bool named() const { return (bits & 16u) != 0; }
  bool with_data() const { return (bits & 96u) == 32; }  // a synchronized<long>
  bool shared() const { return (bits & 96u) == 64; }     // opened by a name
};

// What whoever owns the executors does between their jobs.
struct driver_step {
  // The first six are coded, the others as drop.
  enum class kind : std::uint8_t {
    spawn,
    run_first,
    run_second,
    run_all,
    unlock,
    drop,
    stop_token,
    advance
  };
  static constexpr unsigned coded = static_cast<unsigned>(kind::drop) + 1;

  kind what = kind::run_all;
  std::uint8_t arg = 0;
  block task;
};

struct program {
  // Jobs for these executors run where they are posted, as if another thread took them at once.
  bool first_eager = false;
  bool second_eager = false;
  std::vector<section_config> sections;
  std::vector<driver_step> steps;
};

program decode(std::span<const std::uint8_t> bytes);

}  // namespace fuzz
