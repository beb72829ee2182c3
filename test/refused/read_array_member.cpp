// read_array_member.cpp - a member that is an array, which with_read_lock would have to copy.
//
// Refused   a member is copied, which this one cannot be: give a function instead of the pointer
#include <turnstile/variable.hpp>

struct entry {
  char name[8];
  int count;
};

auto ask(const turnstile::variable<entry>& v) {
#if defined(REFUSED)
  return v.with_read_lock(&entry::name);
#else
  return v.with_read_lock(&entry::count);
#endif
}
