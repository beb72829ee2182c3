// 07_data_parallel - four replicas of a model learn together, each from its own part of the data.
//
// You learn  that a mirrored value is written by all replicas together, once, with the mean of what
//            they give; and that a value per replica is written by each alone and combined when it
//            is read.
// Builds on  05_snapshots
// Prints     step 1: gradients -36 -40 -32 -20, weights 4 4 4 4
//            step 2: gradients -18 -20 -16 -10, weights 6 6 6 6
//            step 3: gradients -9 -10 -8 -5, weights 7 7 7 7
//            3 steps, 24 examples; replica 0 has version 3 of the weight

#include <turnstile/turnstile.hpp>

#include <array>
#include <cstddef>
#include <iostream>

constexpr std::size_t replicas = 4;
constexpr std::size_t steps = 3;
constexpr double rate = 1.0 / 8;

// Two inputs x for each replica; what belongs to x is y = 8x. Nothing is rounded with these
// numbers.
using part = std::array<double, 2>;
constexpr std::array<part, replicas> data{{{3, 0}, {3, 1}, {2, 2}, {2, 1}}};

using aggregation = turnstile::aggregation;
turnstile::mirrored<double> weight{replicas, 0, aggregation::mean};
turnstile::per_replica<int> examples{replicas, 0, aggregation::sum};
turnstile::per_replica<int> steps_taken{replicas, 0, aggregation::first_replica};

// What each replica has seen, by step.
std::array<std::array<double, replicas>, steps> gradients;
std::array<std::array<double, replicas>, steps> weights;

// Of half the squared error of y = w * x, the mean over the part.
double gradient(const part& mine, double w) {
  double sum = 0;
  for (const double x : mine) sum += (w * x - 8 * x) * x;
  return sum / static_cast<double>(mine.size());
}

turnstile::task<> train(std::size_t replica) {
  for (std::size_t step = 0; step != steps; ++step) {
    const double g = gradient(data[replica], *weight.read(replica));
    examples.assign_add(replica, static_cast<int>(data[replica].size()));
    steps_taken.assign_add(replica, 1);
    // Waits for the other replicas, each of which has to come here as often. It blocks no thread:
    // two are enough for four replicas.
    const auto written = co_await weight.assign_sub(replica, rate * g);
    gradients[step][replica] = g;
    weights[step][replica] = *written;
  }
}

void print(const char* name, const std::array<double, replicas>& values) {
  std::cout << name;
  for (const double v : values) std::cout << ' ' << v;
}

int main() {
  turnstile::thread_pool pool{2};
  turnstile::async_scope scope{{.executor = pool}};
  for (std::size_t i = 0; i != replicas; ++i) scope.spawn(train(i));
  turnstile::sync_wait(scope.join());

  for (std::size_t step = 0; step != steps; ++step) {
    std::cout << "step " << step + 1 << ':';
    print(" gradients", gradients[step]);
    print(", weights", weights[step]);
    std::cout << '\n';
  }
  std::cout << steps_taken.read() << " steps, " << examples.read()
            << " examples; replica 0 has version " << weight.read(0).version()
            << " of the weight\n";
}
