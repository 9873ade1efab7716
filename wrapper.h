// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Everything of IREE's runtime that the driver touches. bindgen reads this
// file (see build.rs); one C file made from it holds the out-of-line copies of
// its static inline functions.

#ifndef AMDGPU_RS_WRAPPER_H_
#define AMDGPU_RS_WRAPPER_H_

#include "iree/async/api.h"
#include "iree/async/event.h"
#include "iree/async/file.h"
#include "iree/async/frontier.h"
#include "iree/async/frontier_tracker.h"
#include "iree/async/notification.h"
#include "iree/async/operations/file.h"
#include "iree/async/operations/scheduling.h"
#include "iree/async/operations/semaphore.h"
#include "iree/async/proactor.h"
#include "iree/async/semaphore.h"
#include "iree/async/util/proactor_pool.h"
#include "iree/base/api.h"
#include "iree/base/internal/arena.h"
#include "iree/base/threading/affinity.h"
#include "iree/base/threading/notification.h"
#include "iree/base/threading/numa.h"
#include "iree/base/threading/thread.h"
#include "iree/base/tracing.h"
#include "iree/hal/api.h"
#include "iree/hal/memory/passthrough_pool.h"
#include "iree/hal/memory/slab_provider.h"
#include "iree/hal/memory/tlsf_pool.h"
#include "iree/hal/utils/fd_file.h"
#include "iree/hal/utils/file_registry.h"
#include "iree/hal/utils/file_transfer.h"
#include "iree/hal/utils/memory_file.h"
#include "iree/hal/utils/platform_topology.h"
#include "iree/hal/utils/resource_set.h"
#include "iree/io/file_handle.h"

// The feature `standalone`: what Rust programs need to run modules.
#ifdef AMDGPU_RS_STANDALONE
#include "amdgpu_rs/driver_module.h"
#include "iree/runtime/api.h"
#endif  // AMDGPU_RS_STANDALONE

// Macros that bindgen cannot read by itself (casts, expressions), as values
// that it can evaluate. src/ffi/constants.rs gives them their types.
#define AMDGPU_RS_VALUE(name, value) static const int64_t amdgpu_rs_##name = (int64_t)(value)
AMDGPU_RS_VALUE(whole_buffer, IREE_HAL_WHOLE_BUFFER);
AMDGPU_RS_VALUE(queue_affinity_any, IREE_HAL_QUEUE_AFFINITY_ANY);
AMDGPU_RS_VALUE(max_queues, IREE_HAL_MAX_QUEUES);
AMDGPU_RS_VALUE(semaphore_max_value, IREE_HAL_SEMAPHORE_MAX_VALUE);
AMDGPU_RS_VALUE(semaphore_failure_value, IREE_HAL_SEMAPHORE_FAILURE_VALUE);
AMDGPU_RS_VALUE(semaphore_failure_status_bit,
                IREE_HAL_SEMAPHORE_FAILURE_VALUE_STATUS_BIT);
AMDGPU_RS_VALUE(command_buffer_max_update_size,
                IREE_HAL_COMMAND_BUFFER_MAX_UPDATE_SIZE);
AMDGPU_RS_VALUE(executable_function_invalid,
                IREE_HAL_EXECUTABLE_FUNCTION_INVALID_VALUE);
AMDGPU_RS_VALUE(time_infinite_past, IREE_TIME_INFINITE_PAST);
AMDGPU_RS_VALUE(time_infinite_future, IREE_TIME_INFINITE_FUTURE);

#endif  // AMDGPU_RS_WRAPPER_H_
