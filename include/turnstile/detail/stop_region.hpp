// stop_region.hpp - what a when_any or a timeout lets others run below: a token of their own, which
// a stop of the surroundings stops too.
//
// Dangers  A stop runs callbacks, which post; and leave waits for the callback that passes on a
//          stop of the surroundings. So a stop may be asked for by whatever ends below, before it
//          says that it has ended.
//          Where an executor runs what is posted at once, or a callback of the user's resumes
//          somebody, all this may be over within the stop, on the thread that asks for it.
#pragma once

#include <turnstile/detail/chain.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/detail/threads.hpp>

#include <coroutine>
#include <optional>
#include <stop_token>

namespace turnstile::detail {

class stop_region {
 public:
  stop_region() noexcept = default;
  ~stop_region() { leave(); }
  stop_region(const stop_region&) = delete;
  stop_region& operator=(const stop_region&) = delete;

  // Below what the coroutine runs on.
  template <class P>
  void enter(std::coroutine_handle<P> h) {
    source_ = std::stop_source();
    token_ = source_.get_token();
    chain_frame* const below = chain_for(h);
    frame_.emplace(stop_on(below, token_, &nowhere));
    surroundings_ = any_surrounding_stop(below);
    if (surroundings_.stop_possible()) passed_on_.emplace(surroundings_, pass_on{this});
  }

  // What runs below starts on this. It lives until leave.
  chain_frame* frame() noexcept { return &*frame_; }
  // What the coroutine runs on.
  chain_frame* outside() noexcept { return frame_->parent; }

  void request_stop() noexcept {
    std::stop_source source = source_;
    source.request_stop();  // this may be gone
  }
  bool surroundings_stopped() const noexcept { return surroundings_.stop_requested(); }

  // When all that runs below has ended.
  void leave() noexcept {
    if (!frame_) return;
    passed_on_.reset();
    end_frame(*frame_);
    drop(frame_->parent);
    frame_.reset();
  }

 private:
  static constexpr site nowhere{};

  struct pass_on {
    stop_region* region;
    void operator()() const noexcept { region->request_stop(); }
  };

  std::stop_source source_{std::nostopstate};
  std::stop_token token_;
  std::optional<stop_frame> frame_;
  std::stop_token surroundings_;
  std::optional<stop_callback<pass_on>> passed_on_;
};

}  // namespace turnstile::detail
