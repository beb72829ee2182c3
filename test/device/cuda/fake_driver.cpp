// fake_driver.cpp - a driver with which CUDA's runtime comes as far as the environment says.
//
//   FAKE_DRIVER_VERSION  13000 is 13.0
//   FAKE_DRIVER_ERROR    what everything else ends with
//
// Built as libcuda.so.1, which the runtime loads. Names and types are the driver's.
#include <cstdlib>
#include <cstring>

namespace {

int number(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return number("FAKE_DRIVER_ERROR"); }

int cuDriverGetVersion(int* version) {
  *version = number("FAKE_DRIVER_VERSION");
  return 0;
}

// Whatever function is asked for is the same one: the first that is called ends it.
int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long, int* found) {
  if (std::strcmp(name, "cuDriverGetVersion") == 0) {
    *function = reinterpret_cast<void*>(&cuDriverGetVersion);
  } else if (std::strcmp(name, "cuGetProcAddress") == 0) {
    *function = reinterpret_cast<void*>(&cuGetProcAddress_v2);
  } else {
    *function = reinterpret_cast<void*>(&cuInit);
  }
  if (found != nullptr) *found = 0;
  return 0;
}

int cuGetExportTable(const void**, const void*) { return number("FAKE_DRIVER_ERROR"); }

}  // extern "C"
