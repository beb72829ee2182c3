// ask.hpp - puts every question to a contender. One file a contender, at its end:
//
//   const bool asked = bench::ask_everything<contender>();
//
// One that has to do with some questions only is asked those: (bench::counter::ask<contender>(),
// true).
//
// A contender is made from the letters of a case and owns its threads and its sections:
//
//   name                       as in the tables
//   clients_are_threads        whether each client is a thread, and so N = T
//   most_sections              how many sections it can have at once
//   most_threads               how many threads it can bear
//   run(clients)               drives every client (measure.hpp) to its end
//   hold(run)                  the question `held`; left out where nothing can be held in an await
//   bytes_per_section()
#pragma once

#include "counter/counter.hpp"
#include "held/held.hpp"
#include "latency/latency.hpp"
#include "oversubscribed/oversubscribed.hpp"
#include "sections/creation.hpp"
#include "sections/sections.hpp"
#include "think/think.hpp"
#include "uncontended/uncontended.hpp"

namespace bench {

// What most contenders say whose clients are many to a thread.
struct clients_on_threads {
  static constexpr bool clients_are_threads = false;
  static constexpr std::size_t most_sections = unlimited;
  static constexpr std::size_t most_threads = unlimited;
};

template <class Contender>
bool ask_everything() {
  uncontended::ask<Contender>();
  counter::ask<Contender>();
  think::ask<Contender>();
  oversubscribed::ask<Contender>();
  latency::ask<Contender>();
  held::ask<Contender>();
  sections::ask<Contender>();
  creation::ask<Contender>();
  return true;
}

}  // namespace bench
