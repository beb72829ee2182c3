#include "session.hpp"

#include "protocol.hpp"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <optional>
#include <utility>

namespace order_service {

namespace asio = boost::asio;

namespace {

// Errors as values: a connection that breaks is no exception here.
constexpr auto as_values = asio::as_tuple(asio::use_awaitable);

// How long a client may take to hang up once it was told that the service ends.
constexpr std::chrono::seconds patience{2};

}  // namespace

session::session(socket s, market& m, std::size_t symbols)
    : socket_(std::move(s)), market_(m), symbols_(symbols) {}

void session::start() {
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->run(); }, asio::detached);
}

// A write that is under way is left alone: half an answer would be worse than none.
void session::stop() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->is_stopping_ = true;
    if (self->is_reading_) self->socket_.cancel();
  });
}

asio::awaitable<void> session::run() {
  co_await answer_until_the_end();
  if (is_stopping_) co_await say_goodbye();
}

// Many requests may come at once: they are answered at once. (g++ 12 awaits what stands behind a &&
// whatever stands before it: so both have a line of their own.)
asio::awaitable<void> session::answer_until_the_end() {
  while (!is_stopping_) {
    if (!co_await read()) co_return;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = in_.find('\n', begin)) != in_.npos; begin = end + 1) {
      co_await answer(std::string_view(in_).substr(begin, end - begin));
    }
    in_.erase(0, begin);
    co_await answer_requests();
    if (!co_await write()) co_return;
  }
}

// Until there is a whole line. Between two reads it looks whether it is to stop: when something has
// come but not yet been handed over, there is no read that stop could cancel.
asio::awaitable<bool> session::read() {
  auto lines = asio::dynamic_buffer(in_, longest_line);
  while (in_.find('\n') == in_.npos) {
    if (is_stopping_ || lines.size() == longest_line) co_return false;
    const auto room = lines.prepare(longest_line - lines.size());
    is_reading_ = true;
    const auto got = co_await socket_.async_read_some(room, as_values);
    is_reading_ = false;
    lines.commit(std::get<1>(got));
    if (std::get<0>(got)) co_return false;
  }
  co_return true;
}

// Requests are put together, until something else comes.
asio::awaitable<void> session::answer(std::string_view line) {
  if (const std::optional<request> asked = parse(line, symbols_)) {
    asked_.push_back(*asked);
    co_return;
  }
  co_await answer_requests();
  if (line == asks_for_statistics) {
    append(out_, co_await market_.counted());
  } else {
    out_ += "error\n";
  }
}

asio::awaitable<void> session::answer_requests() {
  if (asked_.empty()) co_return;
  const outcomes all = co_await market_.carry_out(std::exchange(asked_, {}));
  for (const outcome& done : all) append(out_, done);
}

// A broken connection is closed: another write, to say goodbye, might wait for ever, because epoll
// says only once that it is broken.
asio::awaitable<bool> session::write() {
  const auto sent = co_await asio::async_write(socket_, asio::buffer(out_), as_values);
  out_.clear();
  boost::system::error_code ignored;
  if (std::get<0>(sent)) socket_.close(ignored);
  co_return !std::get<0>(sent);
}

// To close a connection with something unread could cost the client answers that are still on their
// way.
asio::awaitable<void> session::say_goodbye() {
  using namespace asio::experimental::awaitable_operators;
  out_ += closing;
  out_ += '\n';
  if (!co_await write()) co_return;
  boost::system::error_code ignored;
  socket_.shutdown(socket::shutdown_send, ignored);
  asio::steady_timer limit(socket_.get_executor(), patience);
  co_await (read_to_the_end() || limit.async_wait(asio::use_awaitable));
}

asio::awaitable<void> session::read_to_the_end() {
  std::array<char, 1024> unread;
  for (;;) {
    const auto got = co_await socket_.async_read_some(asio::buffer(unread), as_values);
    if (std::get<0>(got)) co_return;
  }
}

}  // namespace order_service
