// timekeeper.cpp - each test runs under a deadline, in programs that hold this. Their `main` is
// elsewhere.
#define DOCTEST_CONFIG_IMPLEMENT
#include "support/watchdog.hpp"

#include <doctest/doctest.h>
#include <vector>

namespace {

// Tells the watchdog which test runs.
struct timekeeper : doctest::IReporter {
  explicit timekeeper(const doctest::ContextOptions&) {}

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData& test) override { watch.arm(test.m_name); }
  void test_case_reenter(const doctest::TestCaseData& test) override { watch.arm(test.m_name); }
  void test_case_end(const doctest::CurrentTestCaseStats&) override { watch.disarm(); }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

  support::watchdog watch;
};

REGISTER_LISTENER("timekeeper", 1, timekeeper);

}  // namespace
