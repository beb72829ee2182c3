// audit.hpp - whether every answer that clients got is right.
//
// Each answer says in which order its book carried the requests out. So all of them can be carried
// out once more, in that order and on one thread, and have to give the same answers to the letter.
// That the books themselves lose nothing is seen from the sums alone: what was bought was sold, and
// what was offered was traded, cancelled, or waits still.
#pragma once

#include "client.hpp"
#include "protocol.hpp"

#include <cstddef>
#include <deque>
#include <string>

namespace order_service {

/// Empty if all is right; else a sentence about the first thing that is not.
std::string audit(const std::deque<client>& clients, std::size_t symbols,
                  const statistics& counted_by_service);

}  // namespace order_service
