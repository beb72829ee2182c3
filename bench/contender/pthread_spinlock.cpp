#include "contender/plain_threads.hpp"

#include <pthread.h>

namespace {

class spinlock {
 public:
  spinlock() { pthread_spin_init(&lock_, PTHREAD_PROCESS_PRIVATE); }
  ~spinlock() { pthread_spin_destroy(&lock_); }
  spinlock(const spinlock&) = delete;
  spinlock& operator=(const spinlock&) = delete;

  void lock() { pthread_spin_lock(&lock_); }
  void unlock() { pthread_spin_unlock(&lock_); }

 private:
  pthread_spinlock_t lock_;
};

struct pthread_spinlock : bench::guarded_by<spinlock> {
  static constexpr std::string_view name = "pthread_spinlock";
};

const bool asked = bench::ask_everything<bench::plain_threads<pthread_spinlock>>();

}  // namespace
