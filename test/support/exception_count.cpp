// exception_count.cpp - shows the thread sanitizer how exceptions are counted.
//
// libstdc++ counts inside its shared library who has an exception, and there the sanitizer does not
// look: who frees what another thread read last is then taken for a race. Here stand in front of
// the two functions that give an exception back ones that tell the sanitizer first. Their names and
// what they do are from libstdc++'s libsupc++/eh_ptr.cc and eh_catch.cc. Built without the
// sanitizer.
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <sanitizer/tsan_interface.h>
#include <sched.h>

namespace {

// From the telling to the end of the giving back nobody else may do the same: the last one has to
// be told after all others. The sanitizer must not see this lock, or it would order everything. A
// destructor of an exception may give back another one.
class turn {
 public:
  turn() {
    if (depth_++ != 0) return;
    while (__atomic_test_and_set(&taken_, __ATOMIC_ACQUIRE)) sched_yield();
  }
  ~turn() {
    if (--depth_ == 0) __atomic_clear(&taken_, __ATOMIC_RELEASE);
  }
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;

 private:
  static inline bool taken_ = false;
  static inline thread_local int depth_ = 0;
};

void* object_of(const std::exception_ptr& error) noexcept {
  void* object = nullptr;
  static_assert(sizeof error == sizeof object);
  std::memcpy(&object, &error, sizeof object);
  return object;
}

// As a count does that is lowered with acquire and release.
void tell(void* object) noexcept {
  if (object == nullptr) return;
  __tsan_acquire(object);
  __tsan_release(object);
}

template <class Function>
Function* next(const char* name) noexcept {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

void std::__exception_ptr::exception_ptr::_M_release() noexcept {
  static const auto release =
      next<void(exception_ptr*)>("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
  const turn mine;
  tell(_M_exception_object);
  release(this);
}

extern "C" void __cxa_end_catch() {
  static const auto end_catch = next<void()>("__cxa_end_catch");
  void* const caught = object_of(std::current_exception());
  const turn mine;
  tell(caught);
  end_catch();
}
