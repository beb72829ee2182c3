// shared_pool.cpp - where calls of thread_pool::shared come.

#include "schedule/shared_pool.hpp"

#include "schedule/scenario.hpp"

using turnstile::thread_pool;

namespace {
thread_pool* of_this_scenario = nullptr;
}

thread_pool& shared_pool_here() asm("__wrap__ZN9turnstile11thread_pool6sharedEv");
thread_pool& shared_pool_here() {
  schedule::require(of_this_scenario != nullptr, "nothing may go to the shared pool here");
  return *of_this_scenario;
}

namespace schedule {

shared_pool::shared_pool() : pool_(1) { of_this_scenario = &pool_; }
shared_pool::~shared_pool() { of_this_scenario = nullptr; }

}  // namespace schedule
