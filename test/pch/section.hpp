// section.hpp - what tests of sections include, compiled once for each program that has many of
// them. No test may lean on it: .ci/run also builds without it.
#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <array>
#include <doctest/doctest.h>
#include <functional>
#include <latch>
#include <thread>
