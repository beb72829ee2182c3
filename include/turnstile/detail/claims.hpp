// claims.hpp - which sections have claimed a resource, and who may not.
//
// Behind it: lib/registry (claims.cpp, cds_maps.cpp).
//
// Shape     Two sections may not both use a resource unless both said that they do not need it for
//           themselves. A resource's word says who has claimed it:
//
//             none            nobody, or nobody for good yet
//             sole_exclusive  one section, at least once exclusively
//             sole_shared     one section, never exclusively
//             multi_shared    several, none of them exclusively
//
//             none --claim--> sole_* --the same, exclusively--> sole_exclusive
//             sole_shared --another, shared--> multi_shared
//             ... --a section ends--> down again to what is left
//
//           Behind the word, under one lock: each resource's claimants, each section's resources.
//           All changes are made there, so a list is claimed as a whole or not at all, and nobody
//           is refused because of a list that is refused itself.
//           The request that makes a claim may be refused by close afterwards, and then must leave
//           none. So a new claim is first `asked` for: it counts for other sections, but is neither
//           in the word nor in `known`. The request's turn makes it `kept`, its refusal withdraws
//           it; of a request that is withdrawn while it waits it stays asked for, which counts as
//           much. Others of the same section that come in between ask too, each for itself.
//           A section remembers some of its kept claims in `known`, so that it need not take the
//           lock for what it shares with others.
//
// Edges     C1  a section's record and its `known`: X1 of section_core.hpp, from record_of to
//               claimed_already
//           C2  rest.store(release) in rest_of -> rest.load(acquire) in details: the name, which is
//               asked for without the lock
//           C3  let_go.store (E2 of chain.hpp), then the section's end, which takes the lock if it
//               has had counted frames: who finds such a frame's section held under the lock has it
//               there for as long
//           All else by the lock. The words and `known` are read relaxed: what they say of the
//           reader's own section was true when that section's turn came, and stays true until the
//           section or the resource ends, which nobody who still uses them may overlap with.
//
// Progress  What the section has claimed before: one load a resource, one more if it is shared with
//           others, and no lock. The first claim, the end of what has ever been claimed, and what
//           is touched below a guard and shared with other sections, take the lock: that blocks a
//           thread for the length of a few look-ups.
//
// Dangers   A section and a resource it claims may end at the same time: both do it under the lock.
//           What a chain holds by a guard may be let go, and end, while it touches something; so
//           may what another library's coroutine has a copy of. Their sections' numbers are asked
//           without the lock, the sections under it. No destructor of a resource may run under the
//           lock: see forget_address.
//
// Proof     test/schedule (claims): all interleavings of two sections and two resources, with close
//           and with both ends; each rule above fails there when it is broken. test/registry,
//           test/stress
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/device.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace turnstile {

class resource_list;

namespace detail {

class section_core;
class section_request;
struct held_section;
struct claims_book;

// What a section has claimed. Made at its first claim, ended by it.
struct section_claims;

// What a resource is known by: `resource` has one, `variable` has one. It may be claimed by any
// thread; when it ends nobody may use it, and the claims on it are gone.
class resource_identity {
 public:
  explicit resource_identity(std::string_view name = {}, device place = device::any());
  ~resource_identity() {
    if (details() != nullptr) [[unlikely]]
      end();
  }
  resource_identity(const resource_identity&) = delete;
  resource_identity& operator=(const resource_identity&) = delete;

  std::string_view name() const noexcept;
  // By this section alone, at least once exclusively.
  bool claimed_by(std::uint32_t section) const noexcept {
    return word_.load(relaxed) == sole(sole_exclusive, section);
  }

 private:
  friend struct claims_book;

  struct rest;

  // The word, with the section's number, which is not 0, added to it if there is one section.
  // Nothing is added to that number where it is asked for most (bench/tried.md).
  enum kind : std::uint64_t {
    none = 0,
    sole_exclusive = 0,
    sole_shared = std::uint64_t{1} << 32,
    multi_shared = std::uint64_t{2} << 32
  };
  static constexpr std::uint64_t sole(kind k, std::uint32_t section) noexcept {
    return k | section;
  }

  rest* details() const noexcept { return rest_.load(acquire); }  // C2
  void end() noexcept;

  mutable atomic<std::uint64_t> word_{0};
  mutable atomic<rest*> rest_{nullptr};  // its name and claimants; made when there are any
};

// Claims all of `uses` for a request to `s` that is about to arrive, or throws
// exclusive_access_error and claims nothing. True: something is new. Then the request's turn has to
// keep it, or its refusal to withdraw it.
[[nodiscard]] bool claim(const section_core& s, const resource_list& uses, bool exclusive);
// The same of a request that enters the first `n` of `all`: what one of them has claimed stays its
// own, and the one entered last claims the rest. Each is given what it claims anew.
void claim_together(held_section* all, std::size_t n, const resource_list& uses, bool exclusive);
// All of them are `resource`s that the section has claimed.
bool are_claimed(const section_core& s, const resource_list& uses, bool exclusive) noexcept;
// What errors and records call them.
std::vector<std::string> labels_of(const resource_list& uses);

// Throws device_mismatch_error if one of them is on a device that the section is not on; for one
// that is on a GPU and whose body only submits, also if it is the host's.
void refuse_elsewhere(const section_core& s, const resource_list& uses, bool submits);
// Of an address: the GPU whose memory it is, below 0 if it is none's. Set by lib/device when it is
// first used, null before. Relaxed: it points to a function.
inline constinit atomic<int (*)(const void*) noexcept> device_of_address{nullptr};

void keep_claims(const section_core& s, const resource_list& uses, bool exclusive) noexcept;
void withdraw_claims(const section_core& s, const resource_list& uses, bool exclusive) noexcept;

// Before the section ends, by who knows that nobody uses it any more: others may claim what it has.
void give_up_claims(const section_core& s) noexcept;
// By a section's destructor.
void end_claims(section_claims& all) noexcept;
void wait_for_touches() noexcept;  // C3

void touch_held(const resource_identity& r);

// `r` is about to be read or written: the innermost section that the calling chain holds claims it,
// as the execution there said, or another one of the same request that has claimed it already.
// Outside every section nothing is claimed. Throws exclusive_access_error before anything is read
// or written.
inline void touch(const resource_identity& r) {
  if (here().chain != nullptr) [[unlikely]]
    touch_held(r);
}

}  // namespace detail
}  // namespace turnstile
