#include "support/crew.hpp"

#include <utility>

namespace bench {

crew::crew(std::size_t threads, life on_thread) : gate_(static_cast<std::ptrdiff_t>(threads + 1)) {
  if (!on_thread) on_thread = [](std::size_t, const std::function<void()>& rounds) { rounds(); };
  for (std::size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this, i, on_thread] { on_thread(i, [this, i] { serve(i); }); });
  }
}

crew::~crew() {
  work_ = nullptr;
  gate_.arrive_and_wait();
  for (auto& thread : threads_) thread.join();
}

void crew::run(work w) {
  work_ = std::move(w);
  gate_.arrive_and_wait();
  gate_.arrive_and_wait();
}

void crew::serve(std::size_t index) {
  for (;;) {
    gate_.arrive_and_wait();
    if (!work_) return;
    work_(index);
    gate_.arrive_and_wait();
  }
}

}  // namespace bench
