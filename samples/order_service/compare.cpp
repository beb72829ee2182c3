#include "compare.hpp"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <vector>

namespace order_service {
namespace {

struct row {
  guard how;
  std::vector<double> per_second = {};

  std::string_view name() const { return guard_names[static_cast<std::size_t>(how)]; }
  double median() const {
    const std::size_t n = per_second.size();
    return (per_second[(n - 1) / 2] + per_second[n / 2]) / 2;
  }
};

std::vector<row> rows_of(const options& chosen) {
  if (!chosen.compare) return {{chosen.how}};
  return {{guard::section}, {guard::task}, {guard::strand}, {guard::mutex}};
}

void print_setting(std::ostream& out, const load& l, std::size_t rounds) {
  out << l.connections << " connections, " << l.requests << " requests a round, " << l.window
      << " at once from each, " << l.symbols << " books, " << l.threads
      << " threads of the service, rounds: " << rounds << "\n\n";
}

void print_rows(std::ostream& out, std::vector<row>& rows) {
  out << "guard     requests/s     lowest    highest  to section\n" << std::fixed;
  for (row& r : rows) std::ranges::sort(r.per_second);
  for (const row& r : rows) {
    out << std::left << std::setw(8) << r.name() << std::right << std::setprecision(0)
        << std::setw(12) << r.median() << std::setw(11) << r.per_second.front() << std::setw(11)
        << r.per_second.back() << std::setprecision(2) << std::setw(12)
        << r.median() / rows.front().median() << '\n';
  }
}

std::string stop_amid(std::ostream& out, guard how, const load& l) {
  const round_result r = run_round(how, l, std::max<std::size_t>(1, l.requests / 2));
  out << "stopped amid the load, behind a " << guard_names[static_cast<std::size_t>(how)] << ": "
      << r.answered << " requests were answered, " << r.told_to_stop
      << " clients told to stop; every answer is " << (r.problem.empty() ? "right" : "NOT right")
      << '\n';
  return r.problem;
}

}  // namespace

std::string compare(std::ostream& out, const options& chosen) {
  const load& l = chosen.asks;
  const std::size_t rounds = chosen.compare ? chosen.rounds : 1;
  print_setting(out, l, rounds);
  std::vector<row> rows = rows_of(chosen);
  for (std::size_t i = 0; i != rounds; ++i) {
    for (row& each : rows) {
      const round_result r = run_round(each.how, l);
      if (!r.problem.empty()) return r.problem;
      if (r.answered != l.requests) return "not every request was answered";
      each.per_second.push_back(r.per_second());
    }
  }
  print_rows(out, rows);
  out << "\nEvery answer of every round is right: one thread gives the same.\n";
  for (const row& each : rows) {
    if (std::string problem = stop_amid(out, each.how, l); !problem.empty()) return problem;
  }
  return {};
}

}  // namespace order_service
