// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Signals (HSA Runtime 2.4; `amd_hsa_signal.h`).

use crate::HsaSignal;

/// `hsa_signal_value_t` on the large machine model.
pub type HsaSignalValue = i64;

c_enum! {
    /// `hsa_signal_condition_t`: how a wait compares a signal's value (first) to its operand.
    HsaSignalCondition: u32 {
        /// Equal.
        EQ = 0,
        /// Not equal.
        NE = 1,
        /// Signed less than.
        LT = 2,
        /// Signed greater than or equal.
        GTE = 3,
    }
}

impl HsaSignalCondition {
    /// Evaluates the condition; `None` when it is none of the four that HSA defines.
    pub const fn evaluate(self, value: HsaSignalValue, operand: HsaSignalValue) -> Option<bool> {
        Some(match self {
            Self::EQ => value == operand,
            Self::NE => value != operand,
            Self::LT => value < operand,
            Self::GTE => value >= operand,
            _ => return None,
        })
    }
}

c_enum! {
    /// `hsa_wait_state_t`: a hint on how long a wait may take.
    HsaWaitState: u32 {
        /// The waiting thread may sleep.
        BLOCKED = 0,
        /// The wait is expected to be short; the thread may spin.
        ACTIVE = 1,
    }
}

/// `hsa_amd_signal_attribute_t` bit: only GPUs wait on the signal.
pub const HSA_AMD_SIGNAL_AMD_GPU_ONLY: u64 = 1;
/// `hsa_amd_signal_attribute_t` bit: the signal can be shared between processes.
pub const HSA_AMD_SIGNAL_IPC: u64 = 2;

c_enum! {
    /// `amd_signal_kind64_t`.
    AmdSignalKind: i64 {
        /// Not a live signal.
        INVALID = 0,
        /// A signal with a value.
        USER = 1,
        /// A queue's doorbell: [`AmdSignal::value`] holds the address of a 64-bit hardware doorbell.
        DOORBELL = -1,
        /// A doorbell of gfx8 and older hardware.
        LEGACY_DOORBELL = -2,
    }
}

/// `amd_signal_t`: the object behind an [`HsaSignal`] handle, 64-byte aligned.
///
/// `value` is shared between host threads and devices and must only be accessed atomically.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct AmdSignal {
    /// Kind of the signal.
    pub kind: AmdSignalKind,
    /// The value for [`AmdSignalKind::USER`]; the address of the hardware doorbell, a `u64` that
    /// takes the id of the last packet written, for [`AmdSignalKind::DOORBELL`].
    pub value: HsaSignalValue,
    /// Address of a `u64` that a device sets to `event_id` when it updates the value and wants host
    /// threads woken; zero when no thread needs waking.
    pub event_mailbox_ptr: u64,
    /// The value stored in the mailbox.
    pub event_id: u32,
    /// Reserved.
    pub reserved1: u32,
    /// Device ticks when a profiled packet that completes this signal began.
    pub start_ts: u64,
    /// Device ticks when a profiled packet that completes this signal ended.
    pub end_ts: u64,
    /// The `amd_queue_t` that a doorbell belongs to; zero otherwise.
    pub queue_ptr: u64,
    /// Reserved.
    pub reserved3: [u32; 2],
}

assert_layout!(AmdSignal, size 64,
    kind @ 0, value @ 8, event_mailbox_ptr @ 16, event_id @ 24,
    start_ts @ 32, end_ts @ 40, queue_ptr @ 48);

impl HsaSignal {
    /// The signal object behind the handle; null for the null handle.
    pub const fn as_ptr(self) -> *mut AmdSignal {
        core::ptr::with_exposed_provenance_mut(self.handle as usize)
    }
}

/// `hsa_amd_profiling_dispatch_time_t`: when a dispatch ran, in system ticks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HsaProfilingDispatchTime {
    /// Start of the dispatch.
    pub start: u64,
    /// End of the dispatch.
    pub end: u64,
}

assert_layout!(HsaProfilingDispatchTime, size 16, start @ 0, end @ 8);

/// `hsa_amd_profiling_async_copy_time_t`: when a copy ran, in system ticks.
pub type HsaProfilingAsyncCopyTime = HsaProfilingDispatchTime;

/// `hsa_amd_signal_handler`: called with the value that met the condition; returns whether to keep watching.
pub type HsaAmdSignalHandler = unsafe extern "C" fn(value: HsaSignalValue, arg: *mut core::ffi::c_void) -> bool;
