// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! An IREE host allocator of which one allocation fails.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use amdgpu_rs::ffi::{Allocator, raw, status};

/// Name of the allocations in place of a function's name, and beginning of the error.
pub const NAME: &str = "host-allocation";

static CALLS: AtomicU64 = AtomicU64::new(0);
static FAILING: AtomicU64 = AtomicU64::new(0);

/// The allocator.
pub fn allocator() -> raw::iree_allocator_t {
    raw::iree_allocator_t { self_: std::ptr::null_mut(), ctl: Some(control) }
}

/// Has allocation `call` from now on fail, counted from 1; none with 0.
pub fn fail(call: u64) {
    FAILING.store(call, Ordering::SeqCst);
    CALLS.store(0, Ordering::SeqCst);
}

/// Allocations since [`fail`].
pub fn calls() -> u64 {
    CALLS.load(Ordering::SeqCst)
}

unsafe extern "C" fn control(
    _self: *mut c_void,
    command: raw::iree_allocator_command_t,
    params: *const c_void,
    pointer: *mut *mut c_void,
) -> raw::iree_status_t {
    if command != raw::IREE_ALLOCATOR_COMMAND_FREE {
        let call = CALLS.fetch_add(1, Ordering::SeqCst) + 1;
        if call == FAILING.load(Ordering::SeqCst) {
            return status!(RESOURCE_EXHAUSTED, "{NAME} {call} fails on purpose").into_raw();
        }
    }
    let system = Allocator::system().to_raw();
    let control = system.ctl.expect("the system allocator has a function");
    // SAFETY: the same contract.
    unsafe { control(system.self_, command, params, pointer) }
}
