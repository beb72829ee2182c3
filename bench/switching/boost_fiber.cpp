#include "support/crew.hpp"
#include "switching/switching.hpp"

#include <boost/fiber/algo/round_robin.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/fixedsize_stack.hpp>
#include <boost/fiber/operations.hpp>
#include <memory>
#include <string_view>
#include <vector>

namespace {

namespace fibers = boost::fibers;

// Boost's own scheduler for one thread.
class boost_fiber {
 public:
  static constexpr std::string_view name = "boost_fiber";

  explicit boost_fiber(const bench::shape&)
      : crew_(1, [](std::size_t, const auto& rounds) {
          fibers::use_scheduling_algorithm<fibers::algo::round_robin>();
          rounds();
        }) {}

  void run(bench::switching::work& all) {
    crew_.run([&](std::size_t) {
      std::vector<fibers::fiber> each;
      for (std::size_t i = 0; i != all.fibers(); ++i) {
        each.emplace_back(fibers::launch::post, std::allocator_arg,
                          fibers::fixedsize_stack(stack_bytes), [&all, i] {
                            while (all.step(i)) boost::this_fiber::yield();
                          });
      }
      for (fibers::fiber& f : each) f.join();
    });
  }

 private:
  static constexpr std::size_t stack_bytes = 32 * 1024;

  bench::crew crew_;
};

const bool asked = bench::switching::ask<boost_fiber>();

}  // namespace
