#include "contender/plain_threads.hpp"

#include <tbb/queuing_mutex.h>

namespace {

class tbb_queuing_mutex {
 public:
  static constexpr std::string_view name = "tbb_queuing_mutex";
  // Whoever is next and does not run keeps all others spinning: with 64 threads on a few cores a
  // round of 0.1 s became 10 s.
  static constexpr std::size_t most_threads = 8;

  template <class Body>
  void execute(Body&& body) {
    const tbb::queuing_mutex::scoped_lock hold(mutex_);
    body();
  }

 private:
  tbb::queuing_mutex mutex_;
};

const bool asked = bench::ask_everything<bench::plain_threads<tbb_queuing_mutex>>();

}  // namespace
