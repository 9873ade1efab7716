// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The allocator as C sees it, on the runtime to test on.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::testing::{Rig, address, map_fill, map_read, params, span};
use amdgpu_ffi::{BufferHandle, iree};

const TRANSFER: u32 = raw::IREE_HAL_BUFFER_USAGE_TRANSFER;
const MAPPING: u32 = raw::IREE_HAL_BUFFER_USAGE_MAPPING;
const DEVICE: u32 = raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL;
const HOST: u32 = raw::IREE_HAL_MEMORY_TYPE_HOST_LOCAL | raw::IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE;
const VISIBLE: u32 = raw::IREE_HAL_MEMORY_TYPE_HOST_VISIBLE;

unsafe extern "C" fn count(user_data: *mut c_void, _buffer: RawBuffer) {
    // SAFETY: the tests give a counter that outlives the buffer.
    unsafe { &*user_data.cast::<AtomicUsize>() }.fetch_add(1, Ordering::Relaxed);
}

fn counting(counter: &AtomicUsize) -> raw::iree_hal_buffer_release_callback_t {
    raw::iree_hal_buffer_release_callback_t { fn_: Some(count), user_data: (&raw const *counter).cast_mut().cast() }
}

fn external(type_: u32, address: u64, size: usize) -> raw::iree_hal_external_buffer_t {
    // SAFETY: all-zero is a valid external buffer.
    let mut external: raw::iree_hal_external_buffer_t = unsafe { std::mem::zeroed() };
    external.type_ = type_;
    external.size = size;
    external.handle.device_allocation.ptr = address;
    external
}

fn import(
    rig: &Rig,
    params: Params,
    mut external: raw::iree_hal_external_buffer_t,
    release: raw::iree_hal_buffer_release_callback_t,
) -> Result<BufferHandle> {
    let mut buffer = null_mut();
    // SAFETY: the device lives; the result goes to a local, with its reference.
    unsafe {
        let external = &raw mut external;
        iree!(raw::iree_hal_allocator_import_buffer(rig.allocator(), params, external, release, &raw mut buffer))?;
        Ok(BufferHandle::from_owned(buffer).expect("a buffer"))
    }
}

fn export(rig: &Rig, buffer: &BufferHandle, type_: u32) -> Result<raw::iree_hal_external_buffer_t> {
    let mut result = external(0, 0, 0);
    // SAFETY: both live; the result goes to a local.
    unsafe {
        let out = &raw mut result;
        iree!(raw::iree_hal_allocator_export_buffer(rig.allocator(), buffer.as_ptr(), type_, 0, out))?;
    }
    Ok(result)
}

fn statistics(rig: &Rig) -> raw::iree_hal_allocator_statistics_t {
    // SAFETY: the allocator lives; all-zero statistics are valid.
    unsafe {
        let mut statistics = std::mem::zeroed();
        raw::iree_hal_allocator_query_statistics(rig.allocator(), &raw mut statistics);
        statistics
    }
}

/// Page-aligned host memory.
struct Pages(*mut u8, Layout);

impl Pages {
    fn new(size: usize) -> Self {
        let layout = Layout::from_size_align(size, 4096).unwrap();
        // SAFETY: the size is not 0.
        Self(unsafe { alloc_zeroed(layout) }, layout)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`.
        unsafe { dealloc(self.0, self.1) };
    }
}

#[test]
fn buffers_are_mapped_spanned_and_counted() {
    let rig = Rig::new();
    let buffer = rig.allocate(params(VISIBLE | DEVICE, TRANSFER | MAPPING), 1000).unwrap();
    map_fill(&buffer, 0xAB).unwrap();
    let part = span(&buffer, 100, 50);
    map_fill(&part, 0xCD).unwrap();
    assert_eq!(map_read(&buffer, 99, 3).unwrap(), [0xAB, 0xCD, 0xCD]);
    assert_eq!(map_read(&buffer, 149, 2).unwrap(), [0xCD, 0xAB]);
    let start = address(&buffer, 0).unwrap();
    assert_eq!(start % 4096, 0);
    assert_eq!(address(&part, 7).unwrap(), start + 107);
    assert_eq!(address(&part, 51).unwrap_err().code(), Code::OUT_OF_RANGE);
    assert_eq!(statistics(&rig).device_bytes_allocated, 4096);
    drop(buffer);
    assert_eq!(statistics(&rig).device_bytes_freed, 0, "the span keeps it");
    drop(part);
    assert_eq!(statistics(&rig).device_bytes_freed, 4096);
}

#[test]
fn device_memory_is_not_mapped_and_empty_buffers_exist() {
    let rig = Rig::new();
    let coarse = rig.allocate(params(DEVICE, TRANSFER), 64).unwrap();
    assert_eq!(map_fill(&coarse, 1).unwrap_err().code(), Code::PERMISSION_DENIED);
    let empty = rig.allocate(params(DEVICE, TRANSFER), 0).unwrap();
    assert_ne!(address(&empty, 0).unwrap(), 0);
    assert_eq!(address(&empty, 1).unwrap_err().code(), Code::OUT_OF_RANGE);
    let huge = rig.allocate(params(DEVICE, TRANSFER), usize::MAX).unwrap_err();
    assert_eq!(huge.code(), Code::OUT_OF_RANGE);
    let both = rig.allocate(params(DEVICE | HOST, TRANSFER), 64).unwrap_err();
    assert_eq!(both.code(), Code::INVALID_ARGUMENT);
    let nobody = Params { queue_affinity: 1 << 63, ..params(DEVICE, TRANSFER) };
    assert_eq!(rig.allocate(nobody, 64).unwrap_err().code(), Code::INVALID_ARGUMENT);
}

#[test]
fn host_memory_is_imported_and_let_go_of_once() {
    let rig = Rig::new();
    let pages = Pages::new(8192);
    let released = AtomicUsize::new(0);
    let host = |size| external(raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION, pages.0 as u64, size);
    let usage = params(HOST, TRANSFER | MAPPING);
    let buffer = import(&rig, usage, host(8192), counting(&released)).unwrap();
    map_fill(&buffer, 0x5A).unwrap();
    // SAFETY: within the pages.
    assert_eq!(unsafe { pages.0.add(8191).read() }, 0x5A);
    assert_ne!(address(&buffer, 0).unwrap(), 0);
    assert_eq!(released.load(Ordering::Relaxed), 0);
    drop(buffer);
    assert_eq!(released.load(Ordering::Relaxed), 1);
    // Refused imports never release.
    let aligned = Params { min_alignment: 8192 * 1024 * 1024, ..usage };
    for (params, external) in [
        (params(DEVICE, TRANSFER), host(8192)),
        (aligned, host(8192)),
        (usage, external(raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION, 0, 64)),
        (usage, external(77, pages.0 as u64, 64)),
    ] {
        let refused = import(&rig, params, external, counting(&released)).unwrap_err();
        assert_eq!(refused.code(), Code::INVALID_ARGUMENT, "{refused}");
    }
    let descriptor = external(raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_OPAQUE_FD, 1, 64);
    assert_eq!(import(&rig, usage, descriptor, counting(&released)).unwrap_err().code(), Code::INVALID_ARGUMENT);
    assert_eq!(released.load(Ordering::Relaxed), 1);
}

#[test]
fn empty_memory_is_imported_from_anywhere() {
    let rig = Rig::new();
    let released = AtomicUsize::new(0);
    let (host, at) =
        (raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION, raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_DEVICE_ALLOCATION);
    let imports = [(host, HOST, 0), (host, HOST, 3), (host, DEVICE, 0), (at, DEVICE, 0), (at, DEVICE, 3)];
    for (index, (type_, memory_type, start)) in imports.into_iter().enumerate() {
        let from = external(type_, start, 0);
        let buffer = import(&rig, params(memory_type, TRANSFER), from, counting(&released)).unwrap();
        assert_eq!(buffer.borrow().byte_length(), 0);
        assert_ne!(address(&buffer, 0).unwrap(), 0, "kernels are given an address");
        drop(buffer);
        assert_eq!(released.load(Ordering::Relaxed), index + 1);
    }
    let descriptor = external(raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_OPAQUE_FD, 1, 0);
    let refused = import(&rig, params(HOST, TRANSFER), descriptor, counting(&released)).unwrap_err();
    assert_eq!(refused.code(), Code::INVALID_ARGUMENT);
}

#[test]
fn exported_device_memory_can_be_imported() {
    let rig = Rig::new();
    let buffer = rig.allocate(params(DEVICE, TRANSFER | raw::IREE_HAL_BUFFER_USAGE_SHARING_EXPORT), 8192).unwrap();
    let exported = export(&rig, &buffer, raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_DEVICE_ALLOCATION).unwrap();
    // SAFETY: the member that the type names.
    let start = unsafe { exported.handle.device_allocation.ptr };
    assert_eq!((start, exported.size), (address(&buffer, 0).unwrap(), 8192));
    let released = AtomicUsize::new(0);
    let at = |offset, size| external(raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_DEVICE_ALLOCATION, start + offset, size);
    let part = import(&rig, params(DEVICE, TRANSFER), at(4096, 4096), counting(&released)).unwrap();
    assert_eq!(address(&part, 1).unwrap(), start + 4097);
    let code = |params, external| import(&rig, params, external, counting(&released)).unwrap_err().code();
    // Memory for export has blocks of its own.
    assert_eq!(code(params(DEVICE, TRANSFER), at(4096, (2 << 20) - 4095)), Code::OUT_OF_RANGE);
    assert_eq!(code(params(HOST, TRANSFER), at(0, 64)), Code::INVALID_ARGUMENT);
    let pages = Pages::new(4096);
    let host = external(raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_DEVICE_ALLOCATION, pages.0 as u64, 64);
    assert_eq!(code(params(DEVICE, TRANSFER), host), Code::INVALID_ARGUMENT);
    drop(part);
    assert_eq!(released.load(Ordering::Relaxed), 1);
    let seen = import(&rig, params(DEVICE | VISIBLE, TRANSFER | MAPPING), at(0, 64), NO_RELEASE).unwrap();
    map_fill(&seen, 9).unwrap();
    assert_eq!(map_read(&seen, 0, 64).unwrap(), [9; 64], "the host gets at all of the GPU's memory or at none");
    drop(seen);
    let host_export = export(&rig, &buffer, raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION).map(drop);
    assert_eq!(host_export.unwrap_err().code(), Code::UNAVAILABLE);
    let span_export = export(&rig, &span(&buffer, 16, 16), raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_DEVICE_ALLOCATION);
    assert_eq!(span_export.map(drop).unwrap_err().code(), Code::UNAVAILABLE);
}

#[test]
fn compatibility_and_heaps_say_what_allocation_does() {
    let rig = Rig::new();
    let query = |mut params: Params, mut size: usize| {
        // SAFETY: the allocator lives; results go to locals.
        let compatibility = unsafe {
            raw::iree_hal_allocator_query_buffer_compatibility(
                rig.allocator(),
                params,
                size,
                &raw mut params,
                &raw mut size,
            )
        };
        (compatibility, params, size)
    };
    let low = raw::IREE_HAL_BUFFER_COMPATIBILITY_LOW_PERFORMANCE;
    for (types, kind, is_slow) in [
        (VISIBLE, HeapKind::DeviceVisible, true),
        (DEVICE | VISIBLE, HeapKind::DeviceVisible, true),
        (DEVICE | VISIBLE | raw::IREE_HAL_MEMORY_TYPE_HOST_COHERENT, HeapKind::DeviceFine, true),
    ] {
        let (compatibility, chosen, size) = query(params(types, TRANSFER | MAPPING), 5);
        assert_ne!(compatibility & raw::IREE_HAL_BUFFER_COMPATIBILITY_ALLOCATABLE, 0);
        assert_eq!(compatibility & low != 0, is_slow, "{types:#x}");
        assert_eq!((chosen.type_, size), (kind.memory_type().bits(), 4096));
    }
    // IREE stages transfers to such memory in host memory, of which it has no empty pieces.
    let (compatibility, _, size) = query(params(VISIBLE | DEVICE, TRANSFER | MAPPING), 0);
    assert_ne!(compatibility & raw::IREE_HAL_BUFFER_COMPATIBILITY_ALLOCATABLE, 0);
    assert_eq!(compatibility & raw::IREE_HAL_BUFFER_COMPATIBILITY_LOW_PERFORMANCE, 0);
    assert_eq!(size, 4096);
    assert_eq!(query(params(DEVICE, TRANSFER | raw::IREE_HAL_BUFFER_USAGE_SHARING_EXPORT), 5).2, 2 << 20);
    assert_eq!(query(params(HOST, TRANSFER | raw::IREE_HAL_BUFFER_USAGE_SHARING_EXPORT), 5).2, 4096);
    assert_eq!(query(params(DEVICE, TRANSFER | MAPPING), 5).0, raw::IREE_HAL_BUFFER_COMPATIBILITY_NONE);
    assert_eq!(query(params(DEVICE, TRANSFER), usize::MAX).0, raw::IREE_HAL_BUFFER_COMPATIBILITY_NONE);

    let mut heaps = [raw::iree_hal_allocator_memory_heap_t {
        type_: 0,
        allowed_usage: 0,
        max_allocation_size: 0,
        min_alignment: 0,
    }; 4];
    let mut count = 0;
    let mut list = |capacity| {
        // SAFETY: the allocator lives; the array has room for `capacity`.
        let result = unsafe {
            iree!(raw::iree_hal_allocator_query_memory_heaps(
                rig.allocator(),
                capacity,
                heaps.as_mut_ptr(),
                &raw mut count
            ))
        };
        result.map(|()| heaps[..count].iter().map(|heap| heap.type_).collect::<Vec<_>>())
    };
    assert_eq!(list(2).unwrap_err().code(), Code::OUT_OF_RANGE);
    assert_eq!(list(4).unwrap(), HeapKind::ALL.map(|kind| kind.memory_type().bits()));
}

#[test]
fn what_other_drivers_made_is_refused() {
    let rig = Rig::new();
    let pages = Pages::new(4096);
    let mut buffer = null_mut();
    // SAFETY: the pages outlive the buffer; the result goes to a local, with its reference.
    let foreign = unsafe {
        let placement =
            raw::iree_hal_buffer_placement_t { device: null_mut(), queue_affinity: 0, flags: 0, reserved: 0 };
        let data = raw::iree_byte_span_t { data: pages.0, data_length: 4096 };
        let allocator = Allocator::system().to_raw();
        iree!(raw::iree_hal_heap_buffer_wrap(
            placement,
            HOST,
            7,
            TRANSFER,
            4096,
            data,
            NO_RELEASE,
            allocator,
            &raw mut buffer
        ))
        .unwrap();
        BufferHandle::from_owned(buffer).unwrap()
    };
    let refused = address(&foreign, 0).unwrap_err();
    assert_eq!(refused.code(), Code::INVALID_ARGUMENT);
    assert!(refused.to_string().contains("HOST_ALLOCATION"), "{refused}");
    let exported = export(&rig, &foreign, raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION).map(drop);
    assert_eq!(exported.unwrap_err().code(), Code::UNAVAILABLE);
}

#[test]
fn virtual_memory_names_the_call_that_is_missing() {
    let rig = Rig::new();
    let mut buffer = null_mut();
    // SAFETY: the allocator lives.
    let (supported, reserve) = unsafe {
        (
            raw::iree_hal_allocator_supports_virtual_memory(rig.allocator()),
            iree!(raw::iree_hal_allocator_virtual_memory_reserve(rig.allocator(), 1, 4096, &raw mut buffer)),
        )
    };
    assert!(!supported);
    let reserve = reserve.unwrap_err();
    assert_eq!(reserve.code(), Code::UNIMPLEMENTED);
    assert!(reserve.to_string().contains("virtual_memory_reserve"), "{reserve}");
}
