// gpu_lane.hpp - a stream of a GPU as those see it who give it work.
#pragma once

#include "device/gpu/gpu_stream.hpp"

#include <turnstile/detail/lane.hpp>

#include <memory>
#include <utility>

namespace turnstile::detail {

// Its end closes the stream, which lives on until nothing is pending.
class gpu_lane final : public lane {
 public:
  gpu_lane(device where, std::shared_ptr<gpu_stream> s) noexcept
      : lane(where), stream_(std::move(s)) {}
  ~gpu_lane() override {
    stream_->close(gpu_stream::pending::given);
    static_cast<void>(stream_->finish());  // while who shuts down can find it, and waits for this
  }

  CUstream_st* native() const noexcept override { return stream_->native(); }

  void enqueue(std::unique_ptr<lane_work> w) override { stream_->enqueue(std::move(w)); }
  void copy(void* to, const void* from, std::size_t bytes) override {
    stream_->copy(to, from, bytes);
  }
  point_ref record() override { return stream_->record(); }
  point_ref record_to_wait() override { return stream_->record_to_wait(); }
  void wait(point& p) override { stream_->wait(p); }

  void* allocate(std::size_t bytes) override { return stream_->allocate(bytes); }
  void deallocate(void* p, std::size_t) noexcept override { stream_->deallocate(p); }

  int begin_submission() override { return stream_->begin_submission(); }
  submitted end_submission(int error_before) noexcept override {
    return stream_->end_submission(error_before);
  }
  bool can_wait_for(const point& p) const noexcept override {
    return p.is_reached() || p.native() != nullptr;
  }

 private:
  const std::shared_ptr<gpu_stream> stream_;
};

}  // namespace turnstile::detail
