// turnstile.hpp - all of it.
#pragma once

#include <turnstile/after.hpp>
#include <turnstile/async_scope.hpp>
#include <turnstile/critical_section.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/execute.hpp>
#include <turnstile/execute_options.hpp>
#include <turnstile/execution_handle.hpp>
#include <turnstile/executor.hpp>
#include <turnstile/manual_executor.hpp>
#include <turnstile/registry.hpp>
#include <turnstile/resource.hpp>
#include <turnstile/section_guard.hpp>
#include <turnstile/section_options.hpp>
#include <turnstile/section_statistics.hpp>
#include <turnstile/sync_wait.hpp>
#include <turnstile/synchronized.hpp>
#include <turnstile/task.hpp>
#include <turnstile/thread_pool.hpp>
#include <turnstile/when_all.hpp>
#include <turnstile/yield.hpp>
