#pragma once

#include <cstdint>

#include "loadstone/array/order.h"

/// What an Order means to those who touch the bytes next. Handles are driver streams and events; the streams 1 (legacy
/// default) and 2 (this thread's default) are passed on as they are, and are those of GPU `ordinal`: below 0, of the
/// current one. What is queued on 2 is known to the thread that queued it only: call on that thread.
namespace loadstone {

/// Lets what is queued on `stream` from now on run after `order`. Does not block the caller, makes no driver call where
/// there is nothing to wait for. Error{system} when the driver refuses; there must be one.
void make_stream_wait(std::uintptr_t stream, const Order& order, int ordinal);

/// Returns when the bytes are there. Same errors.
void wait_on_host(const Order& order, int ordinal);

}  // namespace loadstone
