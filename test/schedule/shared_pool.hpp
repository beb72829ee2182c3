// shared_pool.hpp - the shared pool outlives every execution, so a scenario that needs it brings
// one of its own: all calls of thread_pool::shared come there (meson.build).
#pragma once

#include <turnstile/thread_pool.hpp>

namespace schedule {

// It has one thread, which ends with this.
class shared_pool {
 public:
  shared_pool();
  ~shared_pool();
  shared_pool(const shared_pool&) = delete;
  shared_pool& operator=(const shared_pool&) = delete;

 private:
  turnstile::thread_pool pool_;
};

}  // namespace schedule
