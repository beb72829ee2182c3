// cds_maps.cpp - identities of plain addresses, and shared names, in maps of libcds. The only file
// that knows libcds' collector.
//
// Look-ups take no lock: what is taken out of a map is destroyed when nobody is looking at it any
// more (dynamic hazard pointers). A thread that looks needs a record for that. It gets one at its
// first look and gives it back when it ends, so that nobody has to know.
//
// Proof  test/registry (resources: addresses; open), test/stress (claims)

#include "registry/addresses.hpp"
#include "registry/shared_names.hpp"

#include <turnstile/detail/config.hpp>

#include <cds/container/michael_kvlist_dhp.h>
#include <cds/container/split_list_map.h>
#include <cds/gc/dhp.h>
#include <cds/init.h>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#if defined(TURNSTILE_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);  // of the sanitizer's library
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
#endif

namespace turnstile::detail {

namespace {

// That no look is under way when something is freed, or a record gets another thread, is known to
// libcds, whose collector is compiled without the thread sanitizer. So the sanitizer is told. And
// libcds takes a node out of a list by an exchange that acquires and does not release (unlink_node
// of its michael_list.h): whoever finds the node behind it has no edge from who put that there, so
// reads of a look are not checked.
class looks {
 public:
  static void begin() noexcept {
#if defined(TURNSTILE_THREAD_SANITIZER)
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
#endif
  }
  static void end() noexcept {
#if defined(TURNSTILE_THREAD_SANITIZER)
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    __tsan_release(&place_);
#endif
  }
  static void have_ended() noexcept {
#if defined(TURNSTILE_THREAD_SANITIZER)
    __tsan_acquire(&place_);
#endif
  }

 private:
  [[maybe_unused]] static inline char place_ = 0;
};

struct end_of_identity {
  void operator()(const resource_identity* r) const noexcept {
    looks::have_ended();
    delete r;
  }
};

struct named {
  explicit named(std::shared_ptr<shared_name> p) noexcept : place(std::move(p)) {}
  ~named() { looks::have_ended(); }
  std::shared_ptr<shared_name> place;
};

using collector = cds::gc::DHP;

// A map's buckets go by the lowest bits, which addresses have in common.
struct spread {
  std::size_t operator()(std::uintptr_t address) const noexcept {
    return static_cast<std::size_t>(address * golden >> 20);
  }
  std::size_t operator()(const name_key& name) const noexcept {
    const std::hash<std::string> of;
    return of(name.first) * golden + of(name.second);
  }
  static constexpr std::size_t golden = 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio
};

template <class Key>
struct map_traits : cds::container::split_list::traits {
  using ordered_list = cds::container::michael_list_tag;
  using hash = spread;
  struct ordered_list_traits : cds::container::michael_list::traits {
    using less = std::less<Key>;
  };
};
template <class Key, class T>
using map_of = cds::container::SplitListMap<collector, Key, T, map_traits<Key>>;

using owned_identity = std::unique_ptr<const resource_identity, end_of_identity>;
using address_map = map_of<std::uintptr_t, owned_identity>;
using name_map = map_of<name_key, named>;

// Sections that claim addresses or have shared names may be destroyed by destructors of static
// objects. And nothing here is ended when the next one cannot be made: a thread's record lies in
// the collector, and ending that, or a map, takes memory.
template <class T>
T& never_destroyed() {
  static T& one = *new T;
  return one;
}

// libcds wants its start first, then its collector, then the thread that makes a map.
void start_libcds() {
  struct start {
    start() { cds::Initialize(); }
  };
  static const start once;
  static_cast<void>(never_destroyed<collector>());
  cds::gc::dhp::smr::attach_thread();
}

template <class Map>
Map& the() {
  static Map& one = (start_libcds(), never_destroyed<Map>());
  return one;
}

constinit thread_local bool thread_ends = false;

// The record of a thread, for the rest of its life; each look at it is one test. Destructors that
// run later than this one's get a record for each visit.
struct record_of_thread {
  record_of_thread() { looks::have_ended(); }  // those of the thread that had it before
  ~record_of_thread() {
    thread_ends = true;
    cds::gc::dhp::smr::detach_thread();
  }
};

template <class Map>
class visit {
 public:
  visit() : map_(the<Map>()) {
    cds::gc::dhp::smr::attach_thread();  // nothing if it is attached
    if (thread_ends) {
      looks::have_ended();
    } else {
      static thread_local record_of_thread until_it_ends;
      static_cast<void>(until_it_ends);
    }
    looks::begin();
  }
  ~visit() {
    looks::end();
    if (thread_ends) cds::gc::dhp::smr::detach_thread();
  }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;

  Map* operator->() const noexcept { return &map_; }

 private:
  Map& map_;
};

std::uintptr_t key(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address);
}

}  // namespace

bool claimed_by_address(const void* address, const section_core& s, bool exclusive) {
  const visit<address_map> map;
  bool claimed = false;
  map->find(key(address), [&](address_map::value_type& entry) {
    claimed = claimed_already(*entry.second, s, exclusive);
  });
  return claimed;
}

const resource_identity* find_address(const void* address) {
  const visit<address_map> map;
  const resource_identity* found = nullptr;
  map->find(key(address), [&](address_map::value_type& entry) { found = entry.second.get(); });
  return found;
}

const resource_identity& make_address(const void* address) {
  if (const resource_identity* const there = find_address(address)) return *there;
  const visit<address_map> map;
  owned_identity made(new resource_identity);
  const resource_identity& r = *made;
  map->emplace(key(address), std::move(made));
  return r;
}

void forget_address(const void* address) noexcept {
  const visit<address_map> map;
  map->erase(key(address));
}

std::shared_ptr<shared_name> place_of(const name_key& name) {
  const visit<name_map> map;
  std::shared_ptr<shared_name> place;
  const auto take = [&place](name_map::value_type& entry) { place = entry.second.place; };
  while (!map->find(name, take)) map->emplace(name, std::make_shared<shared_name>());
  return place;
}

void forget_place(const name_key& name) noexcept {
  const visit<name_map> map;
  map->erase(name);
}

}  // namespace turnstile::detail
