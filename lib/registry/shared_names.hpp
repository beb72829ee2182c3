// shared_names.hpp - where those who share a section by its name meet.
//
// Shape     A name has a place in the map while somebody shares its section:
//
//             place = nobody's | section | forgotten
//
//             nobody's --open--> section --its last holder lets go--> forgotten, out of the map
//             section (let go) --open--> waits until it is forgotten, and looks for another place
//
// Edges     Everything about a place is under its lock. The map's look-ups take none.
//
// Progress  Opening blocks a thread while another one opens or lets go of the same name: until what
//           the section had claimed is given up, and not until it has ended, for that may wait.
//
// Dangers   A section that is let go is seen as expired before its holder comes to the place.
//           Whoever opens the name in between would make another one, and be refused what that one
//           has claimed: so it waits. Nothing keeps its holder, who runs nobody's code before.
//           A forgotten place may still be held by who looked it up before: it looks again.
//           The section's deleter shares the place, which knows the section: it gives the place up
//           when it is called, or both would stay for ever.
//
// Proof     test/registry (open)
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace turnstile {

class critical_section;

namespace detail {

using name_key = std::pair<std::string, std::string>;  // container, shared name

struct shared_name {
  std::mutex lock;
  std::condition_variable left;
  std::weak_ptr<critical_section> section;
  bool has_been_shared = false;
  bool forgotten = false;
};

// Found or made. In cds_maps.cpp.
std::shared_ptr<shared_name> place_of(const name_key& name);
// Under the place's lock.
void forget_place(const name_key& name) noexcept;

}  // namespace detail
}  // namespace turnstile
