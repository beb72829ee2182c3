// ending.hpp - how a piece of work ended, by name.
#pragma once

#include <turnstile/errors.hpp>
#include <turnstile/task.hpp>

#include <exception>
#include <string>
#include <utility>

namespace support {

struct ending {
  std::string how;

  template <class A>
  turnstile::task<> of(A a) {
    try {
      co_await std::move(a);
      how = "ran";
    } catch (const turnstile::operation_cancelled&) {
      how = "cancelled";
    } catch (const turnstile::deadline_exceeded&) {
      how = "expired";
    } catch (const turnstile::section_closed&) {
      how = "closed";
    } catch (const std::exception& e) {
      how = e.what();
    }
  }
};

}  // namespace support
