#include "round.hpp"

#include "audit.hpp"
#include "client.hpp"
#include "service.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <deque>
#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace order_service {

namespace asio = boost::asio;

namespace {

using clock = std::chrono::steady_clock;

std::vector<std::jthread> run_on(asio::io_context& io, std::size_t threads) {
  std::vector<std::jthread> crew;
  for (std::size_t i = 0; i != threads; ++i) crew.emplace_back([&io] { io.run(); });
  return crew;
}

// Both ends of every connection are in this process. If descriptors ran out, clients would wait for
// their first answers, and the service for a descriptor, for ever: so that is tried before.
void try_sockets(asio::io_context& io, std::size_t connections) {
  std::vector<asio::ip::tcp::socket> ends;
  boost::system::error_code error;
  while (!error && ends.size() != 2 * connections) {
    ends.emplace_back(io).open(asio::ip::tcp::v4(), error);
  }
  if (!error) return;
  throw std::system_error(
      error, "cannot open both ends of " + std::to_string(connections) + " connections");
}

// After the service has ended.
statistics ask(asio::io_context& io, market& m) {
  statistics counted;
  io.restart();
  asio::co_spawn(io, m.counted(), [&](std::exception_ptr, statistics s) { counted = s; });
  io.run();
  return counted;
}

}  // namespace

round_result run_round(guard how, const load& l, std::size_t stop_at) {
  asio::io_context service_io;
  asio::io_context client_io;
  const auto goods = make_market(how, service_io, l.symbols);
  service serves(service_io, *goods, l.symbols, 0);
  try_sockets(client_io, l.connections);
  progress all;
  all.stop_at = stop_at;
  all.stop = [&serves] { serves.stop(); };

  std::deque<client> clients;
  for (std::size_t i = 0; i != l.connections; ++i) {
    client& c = clients.emplace_back(client_io, i, l.symbols, all);
    asio::co_spawn(client_io, c.connect(serves.port()), asio::detached);
  }

  round_result result;
  {
    const auto crew = run_on(service_io, l.threads);
    client_io.run();
    client_io.restart();
    for (std::size_t i = 0; i != l.connections; ++i) {
      const std::size_t share = l.requests / l.connections + (i < l.requests % l.connections);
      asio::co_spawn(client_io, clients[i].run(share, l.window), asio::detached);
    }
    const clock::time_point begin = clock::now();
    client_io.run();
    result.seconds = std::chrono::duration<double>(clock::now() - begin).count();
    serves.stop();  // if need be once more: `stop_at` answers may not have come
  }  // the service's context has run out of work
  result.answered = all.answered;
  for (const client& c : clients) result.told_to_stop += c.was_told_to_stop();
  result.problem = audit(clients, l.symbols, ask(service_io, *goods));
  return result;
}

}  // namespace order_service
