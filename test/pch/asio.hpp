// asio.hpp - what tests of asio.hpp include, compiled once. No test may lean on it: .ci/run also
// builds without it.
#include <turnstile/asio.hpp>
#include <turnstile/turnstile.hpp>

#include <boost/asio.hpp>
#include <doctest/doctest.h>
#include <functional>
#include <thread>
