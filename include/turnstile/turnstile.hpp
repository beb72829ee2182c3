// turnstile.hpp - all of it.
#pragma once

#include <turnstile/aggregation.hpp>
#include <turnstile/async_scope.hpp>
#include <turnstile/critical_section.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/execute_options.hpp>
#include <turnstile/execution_handle.hpp>
#include <turnstile/executor.hpp>
#include <turnstile/manual_executor.hpp>
#include <turnstile/mirrored.hpp>
#include <turnstile/ordered_scope.hpp>
#include <turnstile/per_replica.hpp>
#include <turnstile/section_guard.hpp>
#include <turnstile/section_options.hpp>
#include <turnstile/section_statistics.hpp>
#include <turnstile/snapshot.hpp>
#include <turnstile/sync_wait.hpp>
#include <turnstile/synchronized.hpp>
#include <turnstile/task.hpp>
#include <turnstile/thread_pool.hpp>
#include <turnstile/variable.hpp>
#include <turnstile/when_all.hpp>
#include <turnstile/yield.hpp>
