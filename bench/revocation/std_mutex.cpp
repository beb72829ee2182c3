#include "revocation/revocation.hpp"
#include "support/crew.hpp"

#include <cstddef>
#include <mutex>
#include <string_view>

namespace {

class std_mutex {
 public:
  static constexpr std::string_view name = "std_mutex";
  static constexpr bool clients_are_threads = true;

  explicit std_mutex(const bench::shape& s) : crew_(s.threads) {}

  void drive(bench::revocation::run& r) {
    crew_.run([&](std::size_t i) { i == 0 ? have(r) : want(r); });
  }

 private:
  void have(bench::revocation::run& r) {
    while (r.has_more()) {
      do {
        for (std::size_t i = 0; i < r.bodies_in_a_row; ++i) {
          const std::lock_guard hold(mutex_);
          r.body();
        }
      } while (!r.work_alone(false));
    }
  }

  void want(bench::revocation::run& r) {
    while (r.has_to_ask()) {
      r.request();
      {
        const std::lock_guard hold(mutex_);
        r.others_body();
      }
      r.completed();
    }
  }

  std::mutex mutex_;
  bench::crew crew_;
};

const bool asked = bench::revocation::ask<std_mutex>();

}  // namespace
