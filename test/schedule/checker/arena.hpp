// arena.hpp - where a scenario's memory comes from: never the same twice in an execution, so that
// what is used after its end is found, and the same in each repetition.
#pragma once

#include <cstddef>

namespace schedule {

void set_active(bool on) noexcept;

void reset_arena() noexcept;

// Not freed.
std::size_t live_objects() noexcept;

}  // namespace schedule
