// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Macros of IREE's headers that bindgen cannot read (casts and expressions),
//! by way of `wrapper.h`, where the C compiler works them out.

use super::raw;

/// `IREE_HAL_WHOLE_BUFFER`: the length that means "to the end" (`hal/buffer.h`).
pub const WHOLE_BUFFER: usize = raw::amdgpu_rs_whole_buffer as usize;

/// `IREE_HAL_QUEUE_AFFINITY_ANY`: any queue (`hal/queue.h`).
pub const QUEUE_AFFINITY_ANY: u64 = raw::amdgpu_rs_queue_affinity_any as u64;

/// `IREE_HAL_MAX_QUEUES`: bits of a queue affinity, and so most hardware queues of a logical device (`hal/queue.h`).
pub const MAX_QUEUES: usize = raw::amdgpu_rs_max_queues as usize;

/// `IREE_HAL_SEMAPHORE_MAX_VALUE`: the largest payload (`hal/semaphore.h`).
pub const SEMAPHORE_MAX_VALUE: u64 = raw::amdgpu_rs_semaphore_max_value as u64;

/// `IREE_HAL_SEMAPHORE_FAILURE_VALUE`: payloads from here on mean failure (`hal/semaphore.h`).
pub const SEMAPHORE_FAILURE_VALUE: u64 = raw::amdgpu_rs_semaphore_failure_value as u64;

/// `IREE_HAL_SEMAPHORE_FAILURE_VALUE_STATUS_BIT`: a failed query holds a
/// status word in the other 63 bits (`hal/semaphore.h`).
pub const SEMAPHORE_FAILURE_STATUS_BIT: u64 = raw::amdgpu_rs_semaphore_failure_status_bit as u64;

/// `IREE_HAL_COMMAND_BUFFER_MAX_UPDATE_SIZE`: bytes of one recorded update (`hal/command_buffer.h`).
pub const COMMAND_BUFFER_MAX_UPDATE_SIZE: usize = raw::amdgpu_rs_command_buffer_max_update_size as usize;

/// `IREE_HAL_EXECUTABLE_FUNCTION_INVALID_VALUE` (`hal/executable.h`).
pub const EXECUTABLE_FUNCTION_INVALID: u64 = raw::amdgpu_rs_executable_function_invalid as u64;

/// `IREE_TIME_INFINITE_PAST`, in nanoseconds (`base/time.h`).
pub const TIME_INFINITE_PAST: i64 = raw::amdgpu_rs_time_infinite_past;

/// `IREE_TIME_INFINITE_FUTURE`, in nanoseconds (`base/time.h`).
pub const TIME_INFINITE_FUTURE: i64 = raw::amdgpu_rs_time_infinite_future;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_sign() {
        assert_eq!(WHOLE_BUFFER, usize::MAX);
        assert_eq!(QUEUE_AFFINITY_ANY.count_ones() as usize, MAX_QUEUES);
        assert_eq!(SEMAPHORE_FAILURE_STATUS_BIT.trailing_zeros(), 63);
        assert_eq!((TIME_INFINITE_PAST, TIME_INFINITE_FUTURE), (i64::MIN, i64::MAX));
    }
}
