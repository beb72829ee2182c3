// shared_names.cpp - sections that are shared by name.

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <doctest/doctest.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace turnstile;

TEST_SUITE("registry") {
  TEST_CASE("open: the same two names give the same section") {
    const std::shared_ptr<critical_section> a = critical_section::open("ledger");
    const std::shared_ptr<critical_section> b = critical_section::open("ledger");
    const std::shared_ptr<critical_section> c = critical_section::open("ledger", "");
    CHECK(a == b);
    CHECK(a == c);
    CHECK(a->name() == "ledger");
  }

  TEST_CASE("open: another name or container gives another section") {
    const auto plain = critical_section::open("ledger");
    const auto other = critical_section::open("journal");
    const auto in_bank = critical_section::open("ledger", "bank");
    const auto in_shop = critical_section::open("ledger", "shop");
    CHECK(plain != other);
    CHECK(plain != in_bank);
    CHECK(in_bank != in_shop);
    CHECK(in_bank == critical_section::open("ledger", "bank"));
    CHECK(critical_section::open("x", "yz") != critical_section::open("xy", "z"));
  }

  TEST_CASE("open: does not share with sections that only have the name as a label") {
    critical_section labelled{"ledger"};
    CHECK(critical_section::open("ledger").get() != &labelled);
  }

  TEST_CASE("open: lives as long as anybody holds it, and starts anew after that") {
    auto first = critical_section::open("brief");
    sync_wait(first->execute([] {}));
    auto second = first;
    first.reset();
    CHECK(critical_section::open("brief")->statistics().executions == 1);
    const std::weak_ptr<critical_section> watch = second;
    second.reset();
    CHECK(watch.expired());
    CHECK(critical_section::open("brief")->statistics().executions == 0);
  }

  TEST_CASE("open: an empty shared name is an invalid argument") {
    CHECK_THROWS_AS(critical_section::open(""), std::invalid_argument);
    CHECK_THROWS_AS(critical_section::open("", "bank"), std::invalid_argument);
  }

  TEST_CASE("open: from several threads at once gives one section") {
    constexpr int threads = 4;
    for (int round = 0; round != 200; ++round) {
      std::vector<std::shared_ptr<critical_section>> got(threads);
      {
        std::vector<std::jthread> all;
        for (auto& into : got) {
          all.emplace_back([&into] { into = critical_section::open("contended"); });
        }
      }
      for (const auto& g : got) CHECK(g == got[0]);
    }
  }

  TEST_CASE("open: opened and dropped by several threads, there are never two") {
    constexpr int each = 5000;
    std::atomic<bool> inside{false};
    std::atomic<int> overlaps{0};
    std::vector<std::jthread> all;
    for (int t = 0; t != 4; ++t) {
      all.emplace_back([&] {
        for (int i = 0; i != each; ++i) {
          const auto cs = critical_section::open("one at a time");
          const auto again = critical_section::open("one at a time");
          if (cs != again) ++overlaps;
          cs->execute_blocking([&] {
            if (inside.exchange(true)) ++overlaps;
            if (i % 64 == 0) std::this_thread::yield();
            inside = false;
          });
        }
      });
    }
    for (std::jthread& t : all) t.join();
    CHECK(overlaps == 0);
  }

  TEST_CASE("open: opened and dropped by several threads, what the last one claimed is free") {
    constexpr int each = 5000;
    const resource r{"r"};
    std::atomic<int> refused{0};
    std::vector<std::jthread> all;
    for (int t = 0; t != 4; ++t) {
      all.emplace_back([&] {
        for (int i = 0; i != each; ++i) {
          try {
            critical_section::open("claims")->execute_blocking([] {}, {.uses = r});
          } catch (const exclusive_access_error&) {
            ++refused;
          }
        }
      });
    }
    for (std::jthread& t : all) t.join();
    CHECK(refused == 0);
  }

  TEST_CASE("open: opened and dropped by several threads, it is never a dead one") {
    constexpr int each = 2000;
    long counter = 0;
    std::vector<std::jthread> all;
    for (int t = 0; t != 4; ++t) {
      all.emplace_back([] {
        for (int i = 0; i != each; ++i) {
          const auto cs = critical_section::open("opened and dropped");
          sync_wait(cs->execute([] {}));
        }
      });
    }
    for (std::jthread& t : all) t.join();
    sync_wait(critical_section::open("opened and dropped")->execute([&] { ++counter; }));
    CHECK(counter == 1);
  }
}
