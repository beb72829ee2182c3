// unobserved.hpp - collects the errors that nobody takes, as long as it lives. One at a time.
#pragma once

#include <turnstile/errors.hpp>

#include <exception>
#include <mutex>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace support {

class unobserved {
 public:
  struct entry {
    std::exception_ptr error;
    std::string section;
    std::source_location where;
  };

  unobserved() {
    all().entries.clear();
    turnstile::on_unobserved_error(&note);
  }
  ~unobserved() { turnstile::on_unobserved_error(nullptr); }
  unobserved(const unobserved&) = delete;
  unobserved& operator=(const unobserved&) = delete;

  std::vector<entry> seen() const {
    const std::lock_guard lock(all().mutex);
    return all().entries;
  }

 private:
  struct store {
    std::mutex mutex;
    std::vector<entry> entries;
  };

  static store& all() {
    static store s;
    return s;
  }
  static void note(std::exception_ptr error, std::string_view section, std::source_location where) {
    const std::lock_guard lock(all().mutex);
    all().entries.push_back({std::move(error), std::string(section), where});
  }
};

}  // namespace support
