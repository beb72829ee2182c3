// stacks.hpp - where every thread of this program is, for a test that does not come to its end.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <execinfo.h>
#include <filesystem>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace support {

// Each thread is sent a signal and writes down its own frames; addr2line says what they are.
class stacks {
 public:
  static void print() {
    std::array<void*, 1> warm_up;
    backtrace(warm_up.data(), 1);  // loads what it needs, which a handler must not do
    struct sigaction action{};
    action.sa_handler = &note;
    sigaction(SIGURG, &action, nullptr);
    const long own = syscall(SYS_gettid);
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      const long thread = std::atol(entry.path().filename().c_str());
      if (thread != own) print(thread);
    }
  }

 private:
  inline static std::array<void*, 32> frames_;
  inline static std::atomic<int> count_;

  // Who answers too late does not write over what another thread answers.
  static void note(int) {
    if (count_ != 0) return;
    count_ = backtrace(frames_.data(), static_cast<int>(frames_.size()));
  }

  static void print(long thread) {
    using namespace std::chrono_literals;
    std::fprintf(stderr, "thread %ld:\n", thread);
    count_ = 0;
    syscall(SYS_tgkill, getpid(), thread, SIGURG);
    for (int i = 0; i < 200 && count_ == 0; ++i) std::this_thread::sleep_for(10ms);
    if (count_ == 0)
      std::fprintf(stderr,
                   "  (no answer: thread sanitizer gives signals only to those who wait)\n");
    for (int i = 0; i < count_; ++i) print_frame(frames_[static_cast<std::size_t>(i)]);
  }

  static void print_frame(void* frame) {
    Dl_info in;
    if (dladdr(frame, &in) == 0 || in.dli_fname == nullptr) return;
    std::array<char, 32> offset;
    std::snprintf(
        offset.data(), offset.size(), "%#zx",
        static_cast<std::size_t>(static_cast<char*>(frame) - static_cast<char*>(in.dli_fbase) - 1));
    std::fprintf(stderr, "  ");
    const std::string ask =
        std::string("addr2line -Cfps -e '") + in.dli_fname + "' " + offset.data() + " >&2";
    if (std::system(ask.c_str()) != 0) std::fprintf(stderr, "%s %s\n", in.dli_fname, offset.data());
  }
};

}  // namespace support
