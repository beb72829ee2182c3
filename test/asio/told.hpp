// told.hpp - what a handler was told, how often, and in which thread.
#pragma once

#include <turnstile/errors.hpp>

#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace support {

// How an execution ended, in a word.
inline std::string ending(const std::exception_ptr& error) {
  if (error == nullptr) return "ran";
  try {
    std::rethrow_exception(error);
  } catch (const turnstile::operation_cancelled&) {
    return "cancelled";
  } catch (const turnstile::deadline_exceeded&) {
    return "expired";
  } catch (const turnstile::section_closed&) {
    return "closed";
  } catch (const turnstile::section_full&) {
    return "full";
  } catch (const turnstile::exclusive_access_error&) {
    return "claimed";
  } catch (const std::exception& e) {
    return e.what();
  }
}

template <class R>
struct told {
  int calls = 0;
  std::string how;
  std::optional<R> value;
  std::thread::id thread;

  auto handler() {
    return [this](std::exception_ptr error, R got) {
      ++calls;
      how = ending(error);
      value = std::move(got);
      thread = std::this_thread::get_id();
    };
  }
};

template <>
struct told<void> {
  int calls = 0;
  std::string how;
  std::thread::id thread;

  auto handler() {
    return [this](std::exception_ptr error) {
      ++calls;
      how = ending(error);
      thread = std::this_thread::get_id();
    };
  }
};

}  // namespace support
