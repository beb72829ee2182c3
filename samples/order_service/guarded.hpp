// guarded.hpp - a value that coroutines of several threads change, one at a time: three ways to the
// same.
//
// co_await g.apply(f) gives what f(value) returns. `f` is short and waits for nothing; it lives
// until then.
#pragma once

#include <turnstile/asio.hpp>
#include <turnstile/synchronized.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <mutex>
#include <type_traits>

namespace order_service {

namespace asio = boost::asio;

template <class T, class F>
using applied = std::invoke_result_t<const F&, T&>;

/// A section. If it is idle `f` runs at once, on this thread; whoever has to wait leaves the thread
/// to others.
template <class T>
class by_section {
 public:
  explicit by_section(const asio::any_io_executor&) {}

  template <class F>
  asio::awaitable<applied<T, F>> apply(const F& f) {
    return turnstile::async_execute(value_, std::cref(f), asio::use_awaitable);
  }

 private:
  turnstile::synchronized<T> value_;
};

/// A strand: the coroutine goes there for `f`, and back, so that the rest of it does not keep
/// others waiting.
template <class T>
class by_strand {
 public:
  explicit by_strand(const asio::any_io_executor& on) : strand_(asio::make_strand(on)) {}

  template <class F>
  asio::awaitable<applied<T, F>> apply(const F& f) {
    co_await asio::dispatch(asio::bind_executor(strand_, asio::use_awaitable));
    auto got = f(value_);
    co_await asio::post(asio::use_awaitable);
    co_return got;
  }

 private:
  asio::strand<asio::any_io_executor> strand_;
  T value_{};
};

/// A mutex, which blocks the thread of whoever has to wait.
template <class T>
class by_mutex {
 public:
  explicit by_mutex(const asio::any_io_executor&) {}

  template <class F>
  asio::awaitable<applied<T, F>> apply(const F& f) {
    const std::lock_guard lock(mutex_);
    co_return f(value_);
  }

 private:
  std::mutex mutex_;
  T value_{};
};

}  // namespace order_service
