// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Fault injection. One test, because the injected failure is the process's.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use hsa_abi::*;
use hsa_runtime64::hsa::*;
use hsa_runtime64::inject::{hsa_sim_fail, hsa_sim_iterate_calls};

unsafe extern "C" fn collect(name: *const c_char, calls: u64, data: *mut c_void) {
    // SAFETY: a name and the list that `calls` gave.
    let (name, list) = unsafe { (CStr::from_ptr(name), &mut *data.cast::<Vec<(String, u64)>>()) };
    list.push((name.to_string_lossy().into_owned(), calls));
}

fn calls() -> Vec<(String, u64)> {
    let mut list = Vec::new();
    // SAFETY: the callback takes this list.
    unsafe { hsa_sim_iterate_calls(collect, (&raw mut list).cast()) };
    list
}

#[test]
fn the_chosen_call_fails_and_does_nothing() {
    let exhausted = HsaStatus::ERROR_OUT_OF_RESOURCES;
    // SAFETY: valid names, places and handles throughout.
    unsafe {
        hsa_sim_fail(c"hsa_init".as_ptr(), 1, exhausted);
        assert_eq!(hsa_init(), exhausted);
        assert_eq!(hsa_shut_down(), HsaStatus::ERROR_NOT_INITIALIZED, "the failed call did nothing");
        assert_eq!(hsa_init(), HsaStatus::SUCCESS);

        hsa_sim_fail(c"hsa_amd_signal_create".as_ptr(), 2, HsaStatus::ERROR);
        let (mut first, mut second) = (HsaSignal::NULL, HsaSignal::NULL);
        assert_eq!(hsa_signal_create(1, 0, ptr::null(), &mut first), HsaStatus::SUCCESS);
        assert_eq!(hsa_amd_signal_create(1, 0, ptr::null(), 0, &mut second), HsaStatus::ERROR);
        assert!(second.is_null());
        assert_eq!(hsa_signal_create(1, 0, ptr::null(), &mut second), HsaStatus::SUCCESS);
        assert_eq!(hsa_signal_destroy(first), HsaStatus::SUCCESS);
        let expected = [("hsa_amd_signal_create", 3), ("hsa_signal_destroy", 1)];
        assert_eq!(calls(), expected.map(|(name, calls)| (name.to_owned(), calls)));

        hsa_sim_fail(c"hsa_signal_destroy".as_ptr(), 1, exhausted);
        assert_eq!(hsa_signal_destroy(second), exhausted);
        hsa_sim_fail(ptr::null(), 0, exhausted);
        assert_eq!(hsa_signal_destroy(second), HsaStatus::SUCCESS);
        assert_eq!(hsa_shut_down(), HsaStatus::SUCCESS);
    }
}
