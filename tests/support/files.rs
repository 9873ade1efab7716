// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Files in memory and of the file system, imported to a device.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::os::fd::AsRawFd;

use amdgpu_rs::ffi::{Allocator, HalRef, QUEUE_AFFINITY_ANY, Result, iree, raw};

use crate::support::Rig;

pub type File = HalRef<raw::iree_hal_file_t>;
pub type FileHandle = HalRef<raw::iree_io_file_handle_t>;

const ACCESS: u32 = raw::IREE_IO_FILE_ACCESS_READ | raw::IREE_IO_FILE_ACCESS_WRITE;
const NO_RELEASE: raw::iree_io_file_handle_release_callback_t =
    raw::iree_io_file_handle_release_callback_t { fn_: None, user_data: std::ptr::null_mut() };

/// A handle of `bytes`, which outlive it and the files that are made of it.
pub fn memory_handle(bytes: &mut [u8]) -> FileHandle {
    let mut handle = std::ptr::null_mut();
    let span = raw::iree_byte_span_t { data: bytes.as_mut_ptr(), data_length: bytes.len() };
    let system = Allocator::system().to_raw();
    // SAFETY: the bytes outlive the handle, as the caller sees to; the result goes to a local, with its reference.
    unsafe {
        iree!(raw::iree_io_file_handle_wrap_host_allocation(ACCESS as _, span, NO_RELEASE, system, &raw mut handle))
            .expect("a handle of memory");
        FileHandle::from_owned(handle).expect("a handle that was made")
    }
}

/// A handle of `file`, which outlives it and the files that are made of it, with `iree_io_file_mode_t` bits.
pub fn native_handle(file: &std::fs::File, mode: u32) -> FileHandle {
    let mut handle = std::ptr::null_mut();
    let primitive = raw::iree_io_file_handle_primitive_t {
        type_: raw::IREE_IO_FILE_HANDLE_TYPE_FD as _,
        value: raw::iree_io_file_handle_primitive_value_t { fd: file.as_raw_fd() },
    };
    let system = Allocator::system().to_raw();
    // SAFETY: the descriptor outlives the handle, as the caller sees to; the result goes to a local, with its
    // reference.
    unsafe {
        iree!(raw::iree_io_file_handle_wrap(ACCESS as _, mode as _, primitive, NO_RELEASE, system, &raw mut handle))
            .expect("a handle of a descriptor");
        FileHandle::from_owned(handle).expect("a handle that was made")
    }
}

/// Imports a file, with `iree_hal_memory_access_t` and `iree_hal_external_file_flags_t` bits.
pub fn import(rig: &Rig, handle: &FileHandle, access: u16, flags: u32) -> Result<File> {
    let mut file = std::ptr::null_mut();
    let (device, handle) = (rig.device.as_ptr(), handle.as_ptr());
    // SAFETY: a live device and handle, which the file retains; the result goes to a local, with its reference.
    unsafe {
        iree!(raw::iree_hal_file_import(device, QUEUE_AFFINITY_ANY, access, handle, flags, &raw mut file))?;
        Ok(File::from_owned(file).expect("a file that was imported"))
    }
}
