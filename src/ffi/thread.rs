// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Threads of the driver, which keep the driver's code loaded.

use core::ffi::c_void;
use std::io;
use std::sync::Once;
use std::thread::{Builder, JoinHandle};

use super::tracing;

/// Starts a thread. The driver may be a part of a plugin that its process closes (`dlclose`), and threads that release
/// the last reference to a device end by themselves after that, so that not all of them can be joined. From the first
/// thread on, the shared object of the driver stays loaded.
///
/// # Errors
/// The system has no more threads.
pub fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    static PINNED: Once = Once::new();
    // An address in that object.
    PINNED.call_once(|| keep_loaded(keep_loaded as fn(*const c_void) as *const c_void));
    let trace_name = name.clone();
    Builder::new().name(name).spawn(move || {
        tracing::name_thread(&trace_name);
        body();
    })
}

/// Keeps the shared object that contains `address` loaded for the life of the process. The program itself always is.
fn keep_loaded(address: *const c_void) {
    // SAFETY: all-zero is a valid `Dl_info`; the result goes to a local, and its name lives as long as the object. The
    // object is loaded already, so that nothing of it runs; its handle is never closed.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(address, &raw mut info) != 0 && !info.dli_fname.is_null() {
            libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_stays_loaded_when_it_is_closed() {
        // One that nothing here uses.
        let (name, symbol) = (c"libresolv.so.2", c"ns_sprintrr");
        // SAFETY: C strings, and handles that `dlopen` gave.
        unsafe {
            let is_loaded = || {
                let handle = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
                !handle.is_null() && libc::dlclose(handle) == 0
            };
            for keep in [false, true] {
                let handle = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY);
                assert!(!handle.is_null());
                if keep {
                    keep_loaded(libc::dlsym(handle, symbol.as_ptr()));
                }
                libc::dlclose(handle);
                assert_eq!(is_loaded(), keep);
            }
        }
    }
}
