// gpu_copies.cpp - copies to, from and within a GPU, also of memory that the driver would wait for.

#include "device/gpu/gpu_runtime.hpp"
#include "device/gpu/gpu_stream.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

namespace turnstile::detail {

namespace {

// Takes the driver about as long as the call, and a host function 40 us (bench/device).
constexpr std::size_t short_copy = std::size_t{64} << 10;

}  // namespace

// Of the memory of whoever asked for a copy: it ends when that one hears that the copy failed.
class gpu_stream::loan {
 public:
  void copy(void* to, const void* from, std::size_t bytes) noexcept {
    const std::lock_guard locked(lock_);
    if (!is_over_) std::memcpy(to, from, bytes);
  }
  void end() noexcept {
    const std::lock_guard locked(lock_);
    is_over_ = true;
  }

 private:
  mutex lock_;
  bool is_over_ = false;
};

// What the driver calls to copy memory of the host.
struct gpu_stream::host_copy final : lane_work {
  host_copy(std::shared_ptr<loan> l, void* t, const void* f, std::size_t n) noexcept
      : memory(std::move(l)), to(t), from(f), bytes(n) {}
  void run() override { memory->copy(to, from, bytes); }

  const std::shared_ptr<loan> memory;
  void* const to;
  const void* const from;
  const std::size_t bytes;
};

struct gpu_stream::copying {
  bool is_pageable() const noexcept { return from_pageable || to_pageable; }
  bool is_on_host() const noexcept { return from_pageable && to_pageable; }

  void* to;
  const void* from;
  std::size_t bytes;
  bool from_pageable = false;
  bool to_pageable = false;
  std::shared_ptr<loan> memory = nullptr;
};

// What is nowhere is for the driver to refuse.
gpu_outcome gpu_stream::ask_for_end(bool& is_pageable, const void* p) const noexcept {
  if (p == nullptr) return {};
  return {device_.api().is_pageable(p, &is_pageable), "cudaPointerGetAttributes"};
}

// Whether the driver would do it in its turn and block nobody. What is short does so, in a stream
// of ours that has nothing to do: it is done at once, and whoever might write its source has done
// so. Somebody else's may wait for what CUDA's default stream does. And a capture gets what it
// would get without the library: what copies through a block is called once.
gpu_outcome gpu_stream::ask_who_copies(copying& c, bool& driver) const noexcept {
  driver = c.bytes == 0;
  if (driver) return {};
  gpu_outcome o = ask_for_end(c.from_pageable, c.from);
  if (!o.failed()) o = ask_for_end(c.to_pageable, c.to);
  driver = !c.is_pageable();
  if (o.failed() || driver) return o;
  o = ask_for_capture(driver);
  if (o.failed() || driver || c.bytes > short_copy || is_adopted_) return o;
  if (!is_nobodys(device_.api().peek_at_last_error())) return o;  // the answer would replace it
  device_.prepare_to_look();
  const gpu_outcome idle{device_.answer(device_.api().stream_query(native())), "cudaStreamQuery"};
  driver = !idle.failed();
  return idle.code == gpu_errors::not_ready ? gpu_outcome{} : idle;
}

gpu_outcome gpu_stream::give_copy(void* to, const void* from, std::size_t bytes) {
  is_bare_ = true;
  return {device_.api().memcpy_async(to, from, bytes, native()), "cudaMemcpyAsync"};
}

void gpu_stream::copy(void* to, const void* from, std::size_t bytes) {
  copying c{to, from, bytes};
  try {
    give([&]() -> gpu_outcome {
      bool driver = false;
      const gpu_outcome o = ask_who_copies(c, driver);
      if (o.failed()) return o;
      return driver ? give_copy(to, from, bytes) : copy_on_host(c);
    });
  } catch (...) {
    if (c.memory != nullptr) take_back(*c.memory);
    throw;
  }
}

// From now on nothing that was given of the copy uses either end of it, not even the driver.
void gpu_stream::take_back(loan& memory) noexcept {
  memory.end();
  gpu_outcome o;
  {
    const std::lock_guard turn(order_);
    if (device_.over() != nullptr || native() == nullptr) return;  // or it may just be closed
    o = device_.make_current();
    if (!o.failed()) o = synchronize();
    // At the end of somebody else's stream nobody asks what the driver still does with it.
    if (o.failed() && is_adopted_) block_ = nullptr;
  }
  if (!o.failed()) return;
  device_.forget_last_error();
  device_.ends_with(o, name());
}

// One piece after the other through the stream's one block: whoever fills it or empties it comes in
// the stream's order, too.
gpu_outcome gpu_stream::copy_on_host(copying& c) {
  gpu_outcome o;
  if (block_ == nullptr && !c.is_on_host()) block_ = device_.take_block(o);
  if (o.failed()) return o;
  c.memory = std::make_shared<loan>();
  for (std::size_t done = 0; done != c.bytes && !o.failed();) {
    const std::size_t n = std::min(c.bytes - done, gpu_device::block_bytes);
    o = give_piece(c, done, n);
    done += n;
    limit_calls();
  }
  return o;
}

gpu_outcome gpu_stream::give_piece(const copying& c, std::size_t at, std::size_t n) {
  void* const to = static_cast<std::byte*>(c.to) + at;
  const void* const from = static_cast<const std::byte*>(c.from) + at;
  auto call =
      std::make_unique<gpu_call>(std::make_unique<host_copy>(c.memory, c.to_pageable ? to : block_,
                                                             c.from_pageable ? from : block_, n),
                                 executor_ref());
  gpu_outcome o;
  if (!c.from_pageable) o = give_copy(block_, from, n);
  if (o.failed()) return o;
  o = launch(call);
  if (call != nullptr) gpu_call::refuse(std::move(call), !is_sticky(o.code));
  if (!o.failed() && !c.to_pageable) o = give_copy(to, block_, n);
  return o;
}

}  // namespace turnstile::detail
