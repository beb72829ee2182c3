// standard.hpp - what of the standard library nearly every source includes, compiled once for each
// library. No source may lean on it: .ci/run also builds without it.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
