// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Operations' costs to the GPU, as the software runtime counts them (`docs/status/benchmarks.md`).

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;

use super::support::library_path;

/// Counts by name, those that are not 0.
pub type Costs = BTreeMap<String, u64>;

/// A function of the software runtime, which the driver has loaded.
fn function(name: &CStr) -> *mut c_void {
    let path = CString::new(library_path().as_os_str().as_bytes()).expect("a path");
    // SAFETY: strings; the library is loaded already and stays so.
    let function = unsafe { libc::dlsym(libc::dlopen(path.as_ptr(), libc::RTLD_NOW), name.as_ptr()) };
    assert!(!function.is_null(), "costs are counted on the software runtime alone");
    function
}

fn all() -> Costs {
    type Add = unsafe extern "C" fn(*const c_char, u64, *mut c_void);
    unsafe extern "C" fn add(name: *const c_char, count: u64, data: *mut c_void) {
        // SAFETY: the function's contract: a string, and the data that was passed below.
        let (name, costs) = unsafe { (CStr::from_ptr(name), &mut *data.cast::<Costs>()) };
        costs.insert(name.to_string_lossy().into_owned(), count);
    }
    // SAFETY: the function's type.
    let iterate: unsafe extern "C" fn(Add, *mut c_void) =
        unsafe { std::mem::transmute(function(c"hsa_sim_iterate_costs")) };
    let mut costs = Costs::new();
    // SAFETY: the callback takes this map.
    unsafe { iterate(add, (&raw mut costs).cast()) };
    // A level, not a cost.
    costs.remove("vram_bytes");
    costs
}

/// Counts the costs of `submit`, while GPUs are held, and of `wait`, after their release.
pub fn count(submit: impl FnOnce(), wait: impl FnOnce()) -> Costs {
    // SAFETY: the function's type.
    let hold: extern "C" fn(bool) = unsafe { std::mem::transmute(function(c"hsa_sim_hold")) };
    hold(true);
    let before = all();
    submit();
    hold(false);
    wait();
    let mut costs = all();
    for (name, count) in before {
        *costs.get_mut(&name).expect("names stay") -= count;
    }
    costs.retain(|_, count| *count != 0);
    costs
}

/// Costs from their names.
pub fn costs<const N: usize>(list: [(&str, u64); N]) -> Costs {
    list.map(|(name, count)| (name.to_owned(), count)).into()
}
