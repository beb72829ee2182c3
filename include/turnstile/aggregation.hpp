// aggregation.hpp - how mirrored and per_replica combine their replicas' values.
#pragma once

namespace turnstile {

/// How the values of several replicas become one.
enum class aggregation {
  none,          ///< not at all: std::logic_error where one is needed
  sum,           ///< all of them added
  mean,          ///< their sum, divided by how many there are
  first_replica  ///< that of replica 0
};

}  // namespace turnstile
