// round.hpp - the service and its clients in one process, once.
#pragma once

#include "market.hpp"

#include <cstddef>
#include <string>

namespace order_service {

struct load {
  std::size_t connections = 64;
  std::size_t requests = 200'000;  ///< in all
  std::size_t window = 16;         ///< a client asks so many before it waits for answers
  std::size_t symbols = 4;
  std::size_t threads = 2;  ///< of the service; the clients share one more
};

struct round_result {
  double seconds = 0;
  std::size_t answered = 0;
  std::size_t told_to_stop = 0;  ///< clients
  std::string problem = {};      ///< empty: every answer is right

  double per_second() const { return static_cast<double>(answered) / seconds; }
};

/// The service is stopped after `stop_at` answers, amid the load; else, or if they never come, when
/// no client asks any more. Throws std::system_error if so many connections cannot be open.
round_result run_round(guard how, const load& l, std::size_t stop_at = 0);

}  // namespace order_service
