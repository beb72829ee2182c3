// Test of how a session and a round end, where only chance could bring it about from outside.

#include "market.hpp"
#include "round.hpp"
#include "session.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <iostream>
#include <latch>
#include <memory>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <thread>
#include <utility>

namespace order_service {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// A session, and its client in the same thread.
struct connection {
  asio::io_context io;
  const std::unique_ptr<market> goods = make_market(guard::mutex, io, 1);
  tcp::socket client{io};
  session::socket served{asio::make_strand(io)};  // until it is moved into a session

  connection() {
    tcp::acceptor accepts(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    client.connect(accepts.local_endpoint());
    accepts.accept(served);
  }

  std::shared_ptr<session> start() {
    const auto started = std::make_shared<session>(std::move(served), *goods, 1);
    started->start();
    io.poll();
    return started;
  }

  bool ends() {
    io.run_for(std::chrono::seconds(30));
    return io.stopped();
  }
};

int unread(int descriptor) {
  int bytes = 0;
  ioctl(descriptor, FIONREAD, &bytes);
  return bytes;
}

// Half a line is off the socket, and stands behind stop() on the session's strand: no read is there
// to be cancelled.
bool ends_with_half_a_line() {
  connection c;
  const session::strand strand = c.served.get_executor();
  const int descriptor = c.served.native_handle();
  const auto tested = c.start();

  std::latch is_held(1);
  std::latch goes_on(1);
  asio::post(strand, [&] {
    is_held.count_down();
    goes_on.wait();
  });
  std::jthread holds([&] { c.io.run_one(); });
  is_held.wait();
  tested->stop();
  asio::write(c.client, asio::buffer(std::string_view("dep")));
  while (unread(descriptor) == 0) std::this_thread::yield();
  while (unread(descriptor) != 0) c.io.poll_one();
  goes_on.count_down();
  holds.join();

  std::string heard;
  asio::async_read(c.client, asio::dynamic_buffer(heard), [&](auto...) { c.client.close(); });
  return c.ends() && heard == "closing\n";
}

// The client has asked, and read nothing, until nothing moves any more; then it is gone.
bool ends_when_its_client_breaks_off_amid_an_answer() {
  connection c;
  c.served.set_option(tcp::socket::send_buffer_size(4096));
  c.client.set_option(tcp::socket::receive_buffer_size(4096));
  c.client.non_blocking(true);
  const auto tested = c.start();

  boost::system::error_code full;
  while (!full) {
    c.client.write_some(asio::buffer(std::string_view("depth A\n")), full);
    c.io.poll();
  }
  tested->stop();
  c.io.poll();
  c.client.close();
  return c.ends();
}

// As if clients had given up before.
bool ends_without_the_answer_at_which_it_is_to_be_stopped() {
  const round_result r = run_round(guard::section, {.connections = 2, .requests = 20}, 21);
  return r.answered == 20 && r.problem.empty();
}

int failed = 0;

void check(bool is_well, std::string_view what) {
  std::cout << (is_well ? "ok      " : "FAILED  ") << what << std::endl;
  if (!is_well) ++failed;
}

}  // namespace
}  // namespace order_service

int main() {
  using namespace order_service;
  check(ends_with_half_a_line(), "a session ends with half a line");
  check(ends_when_its_client_breaks_off_amid_an_answer(),
        "a session ends when its client breaks off amid an answer");
  check(ends_without_the_answer_at_which_it_is_to_be_stopped(),
        "a round ends without the answer at which it is to be stopped");
  return failed == 0 ? 0 : 1;
}
