// 17_legacy_code - old code with std::scoped_lock, moved onto a section without being touched.
//
// You learn  how a delegated_mutex makes a section of a lock, and how a fiber waits at any depth of
//            calls, without co_await and without blocking a thread.
// Builds on  06_five_workers
// Prints     1000 fibers on 2 threads: 1000 deliveries, 600 orders
//            left: 3500 bolts, 2000 nuts
//            the audit found 0 differences
//
// The class `stock` was written for threads and takes any mutex. With a delegated_mutex its locks
// become requests to a section: a fiber that finds the section busy leaves its thread to others,
// and the code between lock and unlock runs where the section is served. New code enters the same
// section with execute.

#include <turnstile/turnstile.hpp>

#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

// --- as it was: nothing here knows of the library ------------------------------------------------

template <class Mutex>
class stock {
 public:
  void deliver(const std::string& part, int n) {
    const std::scoped_lock lock(mutex_);
    parts_[part] += n;
    total_ += n;
    ++deliveries_;
  }

  bool order(const std::string& part, int n) {
    const std::scoped_lock lock(mutex_);
    int& left = parts_[part];
    if (left < n) return false;
    left -= n;
    total_ -= n;
    ++orders_;
    return true;
  }

  int left(const std::string& part) const { return parts_.at(part); }
  int deliveries() const { return deliveries_; }
  int orders() const { return orders_; }
  int difference() const {
    int sum = 0;
    for (const auto& [part, n] : parts_) sum += n;
    return sum - total_;
  }

  Mutex& mutex() { return mutex_; }

 private:
  Mutex mutex_;
  std::map<std::string, int> parts_;
  int total_ = 0;
  int deliveries_ = 0;
  int orders_ = 0;
};

// --- what is new ---------------------------------------------------------------------------------

// Old code makes its mutex without arguments: here comes one with a section of its own.
class section_mutex {
 public:
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  turnstile::critical_section& section() { return section_; }

 private:
  turnstile::critical_section section_{"stock"};
  turnstile::delegated_mutex mutex_{section_};
};

using new_stock = stock<section_mutex>;

// Delivers ten, and three customers of five order some: 5 bolts or 10 nuts, once there are enough.
void one_customer(new_stock& s, int number) {
  const bool nuts = number % 2 == 1;
  const std::string part = nuts ? "nuts" : "bolts";
  s.deliver(part, 10);
  if (number % 5 >= 3) return;
  while (!s.order(part, nuts ? 10 : 5)) turnstile::await(turnstile::yield());
}

turnstile::task<int> audit(new_stock& s) {
  int differences = 0;
  for (int i = 0; i != 100; ++i) {
    const int found = co_await s.mutex().section().execute([&s] { return s.difference(); });
    if (found != 0) ++differences;
    co_await turnstile::yield();
  }
  co_return differences;
}

int main() {
  turnstile::thread_pool pool{2};
  new_stock s;
  std::vector<turnstile::fiber<void>> customers;
  for (int i = 0; i != 1000; ++i) {
    customers.push_back(pool.spawn_fiber([&s, i] { one_customer(s, i); }));
  }
  const int differences = turnstile::sync_wait(turnstile::schedule_on(pool, audit(s)));
  for (turnstile::fiber<void>& c : customers) turnstile::sync_wait(std::move(c));

  std::cout << "1000 fibers on 2 threads: " << s.deliveries() << " deliveries, " << s.orders()
            << " orders\n"
            << "left: " << s.left("bolts") << " bolts, " << s.left("nuts") << " nuts\n"
            << "the audit found " << differences << " differences\n";
}
