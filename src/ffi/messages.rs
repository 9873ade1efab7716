// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Messages of the driver that no status can carry: failures at the end of a resource, faults that the runtime reports
//! only to the driver, and remarks on a profile. IREE has no log for them; this module alone emits them.
//!
//! They go to IREE's trace, if there is one, and to the application's handler (`iree_hal_amdgpu_rs_set_message_handler`
//! of `amdgpu_rs/api.h`), by default to standard error. Handlers are called on the reporting thread, under no lock of
//! the driver that their own calls into IREE could need.

use std::ffi::c_void;
use std::io::Write;

use parking_lot::Mutex;

use super::{raw, strings, tracing};

/// `iree_hal_amdgpu_rs_message_handler_fn_t`.
pub type HandlerFn = unsafe extern "C" fn(user_data: *mut c_void, message: raw::iree_string_view_t);

#[derive(Clone, Copy)]
struct Handler {
    function: HandlerFn,
    user_data: *mut c_void,
}

// SAFETY: the handler's contract in `amdgpu_rs/api.h` is that it may be called from any thread, with its data.
unsafe impl Send for Handler {}

static HANDLER: Mutex<Option<Handler>> = Mutex::new(None);

/// Passes `text`, one or several lines without a final newline, to the handler.
pub fn emit(text: &str) {
    tracing::message(text);
    // Copied, as the handler may call the driver.
    let handler = *HANDLER.lock();
    match handler {
        // SAFETY: as its setter promised.
        Some(Handler { function, user_data }) => unsafe { function(user_data, strings::view(text)) },
        // In one piece: the runtime writes there too. Where even that cannot be written there is no more to do.
        None => drop(std::io::stderr().write_all(format!("amdgpu_rs: {text}\n").as_bytes())),
    }
}

/// `iree_hal_amdgpu_rs_set_message_handler` of `amdgpu_rs/api.h`.
///
/// # Safety
/// As the header says: `function` may be called from any thread with `user_data` until another handler is set and calls
/// in progress have returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iree_hal_amdgpu_rs_set_message_handler(function: Option<HandlerFn>, user_data: *mut c_void) {
    *HANDLER.lock() = function.map(|function| Handler { function, user_data });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_to_the_applications_handler() {
        unsafe extern "C" fn keep(user_data: *mut c_void, message: raw::iree_string_view_t) {
            // SAFETY: the test's own list, and the message during the call.
            unsafe {
                let list = &*user_data.cast::<Mutex<Vec<String>>>();
                list.lock().push(strings::text(message).into_owned());
            }
        }
        // Others may have messages at the same time.
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let user_data = (&raw const TOLD).cast_mut().cast();
        // SAFETY: the list is static.
        unsafe { iree_hal_amdgpu_rs_set_message_handler(Some(keep), user_data) };
        emit("one, of a test");
        // SAFETY: the default needs nothing.
        unsafe { iree_hal_amdgpu_rs_set_message_handler(None, std::ptr::null_mut()) };
        emit("two, of a test: to standard error");
        assert!(TOLD.lock().iter().any(|text| text == "one, of a test"));
        assert!(!TOLD.lock().iter().any(|text| text.starts_with("two")));
    }
}
