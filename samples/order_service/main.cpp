// order_service - an order book that clients reach over TCP, on Boost.Asio.
//
// You learn  how coroutines of Asio's enter sections (guarded.hpp), what such a service does inside
//            and what outside (market.cpp), how it ends with requests in flight (session.cpp), and
//            how to know that every answer is right (audit.hpp)
// Builds on  02_two_sections
// Prints     how many requests a second, behind a section, a strand or a mutex
//
// protocol.hpp says what goes over the wire, README.md the rest.

#include "compare.hpp"
#include "market.hpp"
#include "options.hpp"
#include "service.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <exception>
#include <iostream>
#include <thread>
#include <vector>

namespace order_service {
namespace {

// The exit status.
constexpr int success = 0;
constexpr int wrong_answer = 1;
constexpr int bad_usage = 2;
constexpr int refused = 3;

void complain(std::string_view message) { std::cerr << "order_service: " << message << '\n'; }

int serve(const options& chosen) {
  boost::asio::io_context io;
  const auto goods = make_market(chosen.how, io, chosen.asks.symbols);
  service serves(io, *goods, chosen.asks.symbols, *chosen.serve);
  boost::asio::signal_set ends(io, SIGINT, SIGTERM);
  ends.async_wait([&](boost::system::error_code, int) { serves.stop(); });
  std::cout << "port " << serves.port() << std::endl;
  std::vector<std::jthread> crew;
  for (std::size_t i = 1; i != chosen.asks.threads; ++i) crew.emplace_back([&] { io.run(); });
  io.run();
  return success;
}

int run(const options& chosen) {
  if (chosen.help) return std::cout << help_text(), success;
  if (chosen.serve) return serve(chosen);
  const std::string problem = compare(std::cout, chosen);
  if (problem.empty()) return success;
  complain(problem);
  return wrong_answer;
}

}  // namespace
}  // namespace order_service

int main(int argc, char** argv) {
  using namespace order_service;
  try {
    return run(parse_options(argc, argv));
  } catch (const usage_error& error) {
    complain(std::string(error.what()) + "; --help lists the options");
    return bad_usage;
  } catch (const std::exception& error) {
    complain(error.what());
    return refused;
  }
}
