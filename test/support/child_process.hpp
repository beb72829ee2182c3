// child_process.hpp - runs a function in a child process: what it says on stderr, how it ends.
//
// The child must not start threads: the thread sanitizer refuses that after a fork, unless the
// parent has no other thread itself.
#pragma once

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace support {

struct child_end {
  bool aborted = false;
  int status = -1;  // if it ended by itself
  int signal = 0;   // that ended it
  std::string said;

  bool says(const std::string& text) const { return said.find(text) != std::string::npos; }
  bool one_line() const {
    return std::count(said.begin(), said.end(), '\n') == 1 && said.back() == '\n';
  }
};

// Its end: at once, or as if it returned from main.
enum class leaves : bool { at_once, through_exit };

template <class F>
[[noreturn]] void be_the_child(F f, int err, leaves how) {
  std::signal(SIGABRT, SIG_DFL);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  alarm(30);
  dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  f();
  if (how == leaves::through_exit) std::exit(0);
  std::fflush(stderr);
  _exit(0);
}

inline std::string read_all(int fd) {
  std::string all;
  char buffer[512];
  for (ssize_t n = 0; (n = read(fd, buffer, sizeof buffer)) > 0;) {
    all.append(buffer, static_cast<std::size_t>(n));
  }
  return all;
}

template <class F>
child_end in_child(F f, leaves how = leaves::at_once) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) be_the_child(f, ends[1], how);
  close(ends[1]);
  child_end end;
  end.said = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  end.aborted = end.signal == SIGABRT;
  if (WIFEXITED(status)) end.status = WEXITSTATUS(status);
  return end;
}

template <class F>
child_end in_child_that_returns(F f) {
  return in_child(f, leaves::through_exit);
}

}  // namespace support
