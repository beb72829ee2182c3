// explore.cpp - the loop over executions, in a process of its own.

#include "schedule/checker/explore.hpp"

#include "schedule/checker/arena.hpp"
#include "schedule/checker/execution.hpp"
#include "schedule/checker/sites.hpp"
#include "schedule/checker/trace.hpp"

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <utility>

namespace schedule {

namespace {

using std::chrono::steady_clock;

std::string_view from_environment(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? std::string_view{} : std::string_view(text);
}

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Hundreds of scenarios that share a minute have less than a second each.
steady_clock::duration time_given() {
  const char* const text = std::getenv("SCHEDULE_SECONDS");
  const std::chrono::duration<double> seconds(text == nullptr ? 0 : std::strtod(text, nullptr));
  return std::chrono::duration_cast<steady_clock::duration>(seconds);
}

// What the child tells: a line of numbers, then the report if there is one.
struct told {
  bool complete = false;
  std::uint64_t executions = 0;
  std::uint64_t steps = 0;

  void write(std::FILE* to) const {
    std::fprintf(to, "%d %llu %llu\n", complete ? 1 : 0,
                 static_cast<unsigned long long>(executions),
                 static_cast<unsigned long long>(steps));
  }
};

std::FILE* channel = nullptr;
told so_far;
std::uint64_t seed_now = 0;

[[noreturn]] void tell(const std::string& report) {
  so_far.write(channel);
  std::fputs(report.c_str(), channel);
  if (seed_now != 0) {
    std::fprintf(channel, "  or:    SCHEDULE_SEED=%llu\n",
                 static_cast<unsigned long long>(seed_now));
  }
  std::fflush(channel);
  write_sites();
  std::_Exit(report.empty() ? 0 : 1);
}

void on_signal(int which, siginfo_t*, [[maybe_unused]] void* context) {
  set_active(false);
  std::signal(which, SIG_DFL);
  std::string what = which == SIGABRT ? "the scenario aborts" : "the scenario crashes";
#if defined(__x86_64__)
  const auto at = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  if (which != SIGABRT) what += " at " + source_of(reinterpret_cast<const void*>(at + 1));
#endif
  tell(report_on(what));
}

void watch_signals() {
  static std::array<char, 64 * 1024> stack;
  stack_t other{};
  other.ss_sp = stack.data();
  other.ss_size = stack.size();
  sigaltstack(&other, nullptr);
  struct sigaction action{};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO;
  for (const int s : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigaction(s, &action, nullptr);
}

class exploration {
 public:
  exploration(const std::function<void()>& scenario, const how& h) : scenario_(scenario), how_(h) {
    under_.look_takes = h.look_takes;
    how_.most.preemptions = static_cast<int>(
        number("SCHEDULE_PREEMPTIONS", static_cast<std::uint64_t>(h.most.preemptions)));
    how_.most.surprises = static_cast<int>(
        number("SCHEDULE_SURPRISES", static_cast<std::uint64_t>(h.most.surprises)));
  }

  void run() {
    const std::string_view replayed = from_environment("SCHEDULE_REPLAY");
    std::string_view mode = from_environment("SCHEDULE_MODE");
    if (mode.empty()) mode = how_.random_executions == 0 ? "search" : "pct";
    if (!replayed.empty()) {
      replay once(replayed);
      under_.everywhere = true;
      all_of(once);
    } else if (mode == "search") {
      search();
    } else if (mode == "random") {
      random_walk walk(first_seed(), executions());
      random(walk);
    } else if (mode == "pct") {
      priorities p(first_seed(), executions(), static_cast<unsigned>(number("SCHEDULE_DEPTH", 3)));
      random(p);
    } else {
      fail("SCHEDULE_MODE is none of search, random, pct");
    }
  }

 private:
  static std::uint64_t first_seed() { return number("SCHEDULE_SEED", 1); }
  std::uint64_t executions() const {
    const std::uint64_t asked = how_.random_executions != 0 ? how_.random_executions : 10000;
    return number("SCHEDULE_EXECUTIONS", is_timed() ? ~std::uint64_t{0} : asked);
  }

  bool is_timed() const { return time_given_ != steady_clock::duration::zero(); }
  bool out_of_time() const { return is_timed() && steady_clock::now() > until_; }

  void one(chooser& c) {
    run_once(scenario_, c, under_);
    ++so_far.executions;
    so_far.steps += steps_of_last_run();
  }

  void all_of(chooser& c) {
    while (c.next()) one(c);
  }

  void random(random_walk& walk) {
    while (!out_of_time() && walk.next()) {
      seed_now = walk.seed();
      one(walk);
    }
    seed_now = 0;
  }

  // The smaller bounds first: what they find is easier to read.
  void search() {
    for (int most = 0; most <= how_.most.preemptions; ++most) {
      const bool last = most == how_.most.preemptions;
      depth_first all(last ? how_.most : bounds{most, std::min(most, how_.most.surprises)});
      if (!search(all)) return;
      if (!all.was_bounded()) break;
    }
    so_far.complete = true;
  }

  bool search(depth_first& all) {
    while (all.next()) {
      if (out_of_time()) return false;
      const std::size_t known = contended_sites();
      one(all);
      if (contended_sites() != known) all.restart();
    }
    return true;
  }

  const std::function<void()>& scenario_;
  how how_;
  conditions under_;
  const steady_clock::duration time_given_ = time_given();
  const steady_clock::time_point until_ = steady_clock::now() + time_given_;
};

[[noreturn]] void be_the_child(int to, const std::function<void()>& scenario, const how& h) {
  channel = fdopen(to, "w");
  on_failure([](const std::string& report) { tell(report); });
  watch_signals();
  exploration(scenario, h).run();
  tell("");
}

std::string read_all(int from) {
  std::string all;
  std::array<char, 4096> part;
  for (ssize_t n; (n = read(from, part.data(), part.size())) > 0;) {
    all.append(part.data(), static_cast<std::size_t>(n));
  }
  return all;
}

}  // namespace

verdict explore(const std::function<void()>& scenario, const how& h) {
  std::array<int, 2> ends;
  require(pipe(ends.data()) == 0, "no pipe");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // also when a watchdog ends the parent
    close(ends[0]);
    be_the_child(ends[1], scenario, h);
  }
  close(ends[1]);
  const std::string text = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  verdict v;
  int complete = 0;
  unsigned long long executions = 0;
  unsigned long long steps = 0;
  int used = 0;
  if (std::sscanf(text.c_str(), "%d %llu %llu\n%n", &complete, &executions, &steps, &used) == 3) {
    v.complete = complete == 1;
    v.executions = executions;
    v.steps = steps;
    v.report = text.substr(static_cast<std::size_t>(used));
  } else {
    v.report = "the checker itself ended with status " + std::to_string(status) + '\n' + text;
  }
  v.holds = status == 0 && v.report.empty();
  return v;
}

}  // namespace schedule
