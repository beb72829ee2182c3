// asio_names.hpp - what the library uses of Asio, from Boost or, with TURNSTILE_ASIO_STANDALONE,
// alone. An Asio that does not know the compiler has no coroutines of its own for it.
#pragma once

#if defined(TURNSTILE_ASIO_STANDALONE)

#include <asio/associated_allocator.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/cancellation_type.hpp>
#include <asio/execution.hpp>
#include <asio/execution_context.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/prefer.hpp>
#include <asio/recycling_allocator.hpp>

#if defined(ASIO_HAS_CO_AWAIT)
#define TURNSTILE_ASIO_AWAITABLE 1
#endif

namespace turnstile::detail {
namespace asio = ::asio;
}

#else

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/recycling_allocator.hpp>

#if defined(BOOST_ASIO_HAS_CO_AWAIT)
#define TURNSTILE_ASIO_AWAITABLE 1
#endif

namespace turnstile::detail {
namespace asio = ::boost::asio;
}

#endif
