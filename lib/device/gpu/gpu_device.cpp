// gpu_device.cpp - a GPU in use.

#include "device/gpu/gpu_device.hpp"

#include "base/captured.hpp"
#include "device/gpu/gpu_runtime.hpp"

#include <chrono>
#include <mutex>
#include <new>
#include <utility>

namespace turnstile::detail {

namespace {

constexpr int relaxed_capture = 2;  // cudaStreamCaptureModeRelaxed

thread_local const gpu_device* looks_at = nullptr;  // a device is never destroyed

}  // namespace

class gpu_device::destruction {
 public:
  explicit destruction(gpu_device& on) noexcept : on_(on) { on_.begin_destroy(); }
  ~destruction() { on_.end_destroy(); }
  destruction(const destruction&) = delete;
  destruction& operator=(const destruction&) = delete;

 private:
  gpu_device& on_;
};

gpu_device::gpu_device(const gpu_api& api, int index, std::string name)
    : api_(api),
      where_(device::cuda(index)),
      model_(std::move(name)),
      unsaid_end_(std::make_unique<gpu_end>(device_error(
          0, "", where_.name() + " (" + model_ + ") has failed, and there is no memory to say how",
          true))) {}

const gpu_end* gpu_device::over() const noexcept {
  if (const gpu_end* const forked = end_by_fork()) [[unlikely]]
    return forked;
  return end_.load(acquire);  // L1
}

void gpu_device::must_work() const {
  if (const gpu_end* const end = over()) std::rethrow_exception(end->error);
}

// That the runtime unloads is how a process ends, and no loss.
void gpu_device::lose(gpu_outcome o, const std::string& place) noexcept {
  const bool is_loss = o.code != gpu_errors::runtime_unloading;
  std::unique_ptr<gpu_end> end = end_of(o, place);
  {
    const std::lock_guard locked(lock_);
    if (end_.load(relaxed) != nullptr) return;
    if (end == nullptr) end = std::move(unsaid_end_);
    end_.store(end.get(), release);  // L1
  }
  const gpu_end& told = *end.release();  // for good
  if (is_loss) tell_device_lost(where_, told.what);
}

// Null: there is no memory for it.
std::unique_ptr<gpu_end> gpu_device::end_of(gpu_outcome o, const std::string& place) const noexcept
    try {
  const std::string what = place + " (" + model_ + "): " + o.call;
  return std::make_unique<gpu_end>(gpu_error(api_, o.code, what, true));
} catch (const std::bad_alloc&) {
  return nullptr;
}

bool gpu_device::ends_with(gpu_outcome o, const std::string& place) noexcept {
  if (!is_final(o.code)) return false;
  if (over() == nullptr) lose(o, place);
  return true;
}

std::exception_ptr gpu_device::error_of(gpu_outcome o, const std::string& place) const noexcept {
  return captured([&] { throw gpu_error(api_, o.code, place + ": " + o.call); });
}

std::exception_ptr gpu_device::failure(gpu_outcome o, const std::string& place) noexcept {
  return ends_with(o, place) ? over()->error : error_of(o, place);
}

void gpu_device::raise(gpu_outcome o, const std::string& place) {
  forget_last_error();
  std::rethrow_exception(failure(o, place));
}

gpu_outcome gpu_device::make_current() const noexcept {
  return {api_.set_device(where_.index()), "cudaSetDevice"};
}

void gpu_device::forget_last_error() const noexcept { api_.get_last_error(); }

int gpu_device::answer(int code) const noexcept {
  if (code == gpu_errors::not_ready && api_.peek_at_last_error() == code) forget_last_error();
  return code;
}

// If it fails, looking works all the same, and the next look tries again.
void gpu_device::prepare_to_look() const noexcept {
  if (looks_at == this || over() != nullptr) return;
  const no_last_error kept(api_);
  int mode = relaxed_capture;
  if (make_current().failed() || api_.exchange_capture_mode(&mode) != gpu_errors::success) return;
  looks_at = this;
}

// From here on it is not reached, so that its event is not destroyed at the end while somebody is
// about to record it.
gpu_point* gpu_device::unused_or_new() {
  const std::lock_guard locked(lock_);
  if (unused_ != nullptr) {
    gpu_point* const p = std::exchange(unused_, unused_->next_);
    p->renew();
    return p;
  }
  points_.push_back(std::make_unique<gpu_point>(*this));
  return points_.back().get();
}

// Who shuts down leaves the point alone from the moment it is taken, so that counts before.
gpu_point* gpu_device::take_bare_point() {
  const destruction counted(*this);
  gpu_point* const p = unused_or_new();
  p->spoilt_ = true;
  destroy(p->event_.exchange(nullptr, relaxed));  // others would wait for its last time
  return p;
}

gpu_point* gpu_device::take_point(gpu_outcome& o) {
  gpu_point* const p = unused_or_new();
  if (p->native() != nullptr) return p;
  CUevent_st* e = nullptr;
  o = {api_.event_create(&e), "cudaEventCreateWithFlags"};
  if (o.failed()) {
    forget_last_error();
    give_back(*p);
    return nullptr;
  }
  p->event_.store(e, relaxed);
  return p;
}

void gpu_device::destroy(CUevent_st* e) const noexcept {
  if (e == nullptr || over() != nullptr) return;
  const no_last_error kept(api_);
  api_.event_destroy(e);
}

void gpu_device::destroy(CUstream_st* s) const noexcept {
  if (s == nullptr || over() != nullptr) return;
  const no_last_error kept(api_);
  api_.stream_destroy(s);
}

void gpu_device::give_back(gpu_point& p) noexcept {
  if (end_by_fork() != nullptr) return;  // who has the lock may not be here
  CUevent_st* e = nullptr;
  {
    const std::lock_guard locked(lock_);
    if (std::exchange(p.spoilt_, false) || is_retired_) e = p.event_.exchange(nullptr, relaxed);
    p.next_ = std::exchange(unused_, &p);
    if (e == nullptr) return;
    ++destroying_;
  }
  destroy(e);
  end_destroy();
}

// Null: there is none, and one more may be made.
void* gpu_device::unused_block() {
  const std::lock_guard locked(lock_);
  if (unused_blocks_.empty()) {
    unused_blocks_.reserve(blocks_ + 1);
    ++blocks_;
    return nullptr;
  }
  void* const last = unused_blocks_.back();
  unused_blocks_.pop_back();
  return last;
}

void* gpu_device::take_block(gpu_outcome& o) {
  void* block = unused_block();
  if (block != nullptr) return block;
  // In a capture of this thread, or of all threads, asking for memory would end that.
  int mode = relaxed_capture;
  const bool is_relaxed = api_.exchange_capture_mode(&mode) == gpu_errors::success;
  o = {api_.host_alloc(&block, block_bytes), "cudaHostAlloc"};
  if (is_relaxed) {
    api_.exchange_capture_mode(&mode);
  } else if (!o.failed()) {
    forget_last_error();
  }
  return block;
}

void gpu_device::give_back_block(void* block) noexcept {
  const std::lock_guard locked(lock_);
  unused_blocks_.push_back(block);
}

std::uint32_t gpu_device::next_number() noexcept {
  const std::lock_guard locked(lock_);
  return ++last_number_;
}

void gpu_device::add(const std::shared_ptr<gpu_stream>& s) {
  const std::lock_guard locked(lock_);
  if (is_retired_) throw_shut_down();
  std::erase_if(streams_, [](const auto& each) { return each.expired(); });
  streams_.push_back(s);
}

std::vector<std::shared_ptr<gpu_stream>> gpu_device::retire() {
  const std::lock_guard locked(lock_);
  is_retired_ = true;
  std::vector<std::shared_ptr<gpu_stream>> all;
  for (const auto& each : streams_) {
    if (auto s = each.lock()) all.push_back(std::move(s));
  }
  return all;
}

bool gpu_device::is_none(const std::uint32_t& threads) noexcept {
  const std::lock_guard locked(lock_);
  return threads == 0;
}

bool gpu_device::wait_until_none(const std::uint32_t& threads,
                                 steady_clock::time_point until) noexcept {
  while (!is_none(threads)) {
    if (steady_clock::now() >= until) return false;
    sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

bool gpu_device::destroy_events(steady_clock::time_point until) noexcept {
  wait_until_none(blocked_, until);
  std::unique_lock locked(lock_);
  std::size_t i = 0;
  for (; blocked_ == 0 && i != points_.size(); ++i) {
    if (!points_[i]->is_reached()) continue;
    CUevent_st* const e = points_[i]->event_.exchange(nullptr, relaxed);
    ++destroying_;
    locked.unlock();
    destroy(e);
    locked.lock();
    --destroying_;
  }
  const bool saw_all = i == points_.size();
  locked.unlock();
  return wait_until_none(destroying_, until) && saw_all;
}

void gpu_device::begin_block() noexcept {
  const std::lock_guard locked(lock_);
  ++blocked_;
}

void gpu_device::end_block() noexcept {
  const std::lock_guard locked(lock_);
  --blocked_;
}

void gpu_device::begin_destroy() noexcept {
  const std::lock_guard locked(lock_);
  ++destroying_;
}

void gpu_device::end_destroy() noexcept {
  const std::lock_guard locked(lock_);
  --destroying_;
}

void gpu_point::recycle() noexcept { device_.give_back(*this); }

}  // namespace turnstile::detail
