// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Counts allocations of the host allocator that devices are made with.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use amdgpu_rs::ffi::{Allocator, raw};

use crate::report::fail;

static LIVE: AtomicI64 = AtomicI64::new(0);

/// How long threads that end by themselves may take to let go of their memory.
const LIMIT: Duration = Duration::from_secs(60);

pub fn allocator() -> raw::iree_allocator_t {
    raw::iree_allocator_t { self_: std::ptr::null_mut(), ctl: Some(control) }
}

/// All of it has come back.
pub fn expect_none() {
    let start = Instant::now();
    while LIVE.load(Ordering::SeqCst) != 0 {
        if start.elapsed() > LIMIT {
            fail(&format!("{} blocks of host memory are left", LIVE.load(Ordering::SeqCst)));
        }
        std::thread::yield_now();
    }
}

unsafe extern "C" fn control(
    _self: *mut c_void,
    command: raw::iree_allocator_command_t,
    params: *const c_void,
    pointer: *mut *mut c_void,
) -> raw::iree_status_t {
    let system = Allocator::system().to_raw();
    let control = system.ctl.expect("the system allocator has a function");
    // SAFETY: the caller's place, which holds null or a block.
    let had = unsafe { !(*pointer).is_null() };
    // SAFETY: the same contract.
    let status = unsafe { control(system.self_, command, params, pointer) };
    let change = match command {
        raw::IREE_ALLOCATOR_COMMAND_FREE => -i64::from(had),
        _ => {
            // SAFETY: the caller's place, which holds null or a block.
            let has = unsafe { !(*pointer).is_null() };
            i64::from(has) - i64::from(command == raw::IREE_ALLOCATOR_COMMAND_REALLOC && had)
        }
    };
    if status.is_null() {
        LIVE.fetch_add(change, Ordering::SeqCst);
    }
    status
}
