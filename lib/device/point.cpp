// point.cpp - adding waiters and telling them. The protocol is in the header.

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/fifo.hpp>
#include <turnstile/detail/point.hpp>

#include <bit>

namespace turnstile::detail {

bool point::add(point_waiter& w) noexcept {
  std::uintptr_t seen = waiters_.load(acquire);  // P1
  do {
    if (seen == reached_mark) return false;
    w.next_ = std::bit_cast<point_waiter*>(seen);
  } while (!waiters_.compare_exchange_weak(seen, std::bit_cast<std::uintptr_t>(&w), release,  // P2
                                           acquire));  // P1
  return true;
}

void point::reach(std::exception_ptr error) noexcept {
  error_ = std::move(error);
  auto* const newest =
      std::bit_cast<point_waiter*>(waiters_.exchange(reached_mark, acq_rel));  // P1, P2
  point_waiter* oldest = reversed<point_waiter, &point_waiter::next_>(newest);
  drop();  // before they are told, so that the error ends with who takes it
  while (oldest != nullptr) {
    point_waiter& w = *oldest;
    oldest = w.next_;
    w.reached_(w);  // w may be gone
  }
}

void point::renew() noexcept {
  waiters_.store(0, relaxed);
  shares_.store(1, relaxed);
  seen_.store(false, relaxed);
}

void point::end() noexcept {
  if (std::exception_ptr lost = std::exchange(error_, nullptr)) {
    if (!seen_.load(relaxed)) report_unobserved(std::move(lost), "a stream", {});
  }
  recycle();
}

}  // namespace turnstile::detail
