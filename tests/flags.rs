// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Flags that C hands in: those that IREE has names for are taken, others are refused by their value.

#[path = "support/files.rs"]
mod files;
mod support;

use amdgpu_rs::ffi::{Code, HalRef, QUEUE_AFFINITY_ANY, Result, iree, raw};
use files::{import as import_file, memory_handle};
use support::{Rig, params, wait};

const DEVICE: u32 = raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL;
const TRANSFER: u32 = raw::IREE_HAL_BUFFER_USAGE_TRANSFER;
const ONE_SHOT: u32 = raw::IREE_HAL_COMMAND_BUFFER_MODE_ONE_SHOT;
const READ: u32 = raw::IREE_HAL_MEMORY_ACCESS_READ;

type Params = raw::iree_hal_buffer_params_t;

fn allocate(rig: &Rig, params: Params) -> Result<()> {
    let mut buffer = std::ptr::null_mut();
    // SAFETY: a live device; the buffer's reference is owned at once.
    unsafe {
        let allocator = rig.allocator();
        iree!(raw::iree_hal_allocator_allocate_buffer(allocator, params, 64, &raw mut buffer))?;
        drop(HalRef::from_owned(buffer));
    }
    Ok(())
}

/// Imports memory that outlives the buffer, with `iree_hal_external_buffer_flags_t` bits.
fn import(rig: &Rig, params: Params, flags: u32) -> Result<()> {
    let mut memory = vec![0_u8; 4096];
    let mut buffer = std::ptr::null_mut();
    // SAFETY: a live device; all-zero is a valid external buffer; the buffer is gone before its memory.
    unsafe {
        let mut external: raw::iree_hal_external_buffer_t = std::mem::zeroed();
        external.type_ = raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION;
        external.flags = flags;
        external.size = memory.len();
        external.handle.host_allocation.ptr = memory.as_mut_ptr().cast();
        let none = raw::iree_hal_buffer_release_callback_t { fn_: None, user_data: std::ptr::null_mut() };
        let allocator = rig.allocator();
        iree!(raw::iree_hal_allocator_import_buffer(allocator, params, &raw mut external, none, &raw mut buffer))?;
        drop(HalRef::from_owned(buffer));
    }
    Ok(())
}

fn queue_alloca(rig: &Rig, params: Params) -> Result<()> {
    let done = rig.semaphore();
    drop(rig.alloca_of(params, std::ptr::null_mut(), QUEUE_AFFINITY_ANY, (&[], &[(&done, 1)]), (64, 0))?);
    wait(&done, 1)
}

fn command_buffer(rig: &Rig, mode: u32, categories: u32) -> Result<()> {
    let mut commands = std::ptr::null_mut();
    // SAFETY: a live device; the command buffer's reference is owned at once.
    unsafe {
        let device = rig.device.as_ptr();
        iree!(raw::iree_hal_command_buffer_create(device, mode, categories, QUEUE_AFFINITY_ANY, 0, &raw mut commands))?;
        drop(HalRef::from_owned(commands));
    }
    Ok(())
}

/// Imports memory that outlives the file.
fn file(rig: &Rig, access: u16, flags: u32) -> Result<()> {
    let mut memory = [0_u8; 64];
    import_file(rig, &memory_handle(&mut memory), access, flags).map(drop)
}

fn event(rig: &Rig, flags: u32) -> Result<()> {
    let mut event = std::ptr::null_mut();
    // SAFETY: a live device; the event's reference is given back.
    unsafe {
        iree!(raw::iree_hal_event_create(rig.device.as_ptr(), QUEUE_AFFINITY_ANY, flags, &raw mut event))?;
        raw::iree_hal_event_release(event);
    }
    Ok(())
}

type Call<'a> = &'a dyn Fn(u32) -> Result<()>;

#[test]
fn flags_without_a_name_are_refused_by_their_value() {
    let rig = &Rig::new();
    let (types, usage) = (params(DEVICE, TRANSFER), raw::IREE_HAL_BUFFER_USAGE_MAPPING_OPTIONAL);
    let host = params(raw::IREE_HAL_MEMORY_TYPE_HOST_LOCAL, TRANSFER);
    let access = READ | raw::IREE_HAL_MEMORY_ACCESS_MAY_ALIAS | raw::IREE_HAL_MEMORY_ACCESS_UNALIGNED;
    let modes = ONE_SHOT
        | raw::IREE_HAL_COMMAND_BUFFER_MODE_ALLOW_INLINE_EXECUTION
        | raw::IREE_HAL_COMMAND_BUFFER_MODE_UNVALIDATED
        | raw::IREE_HAL_COMMAND_BUFFER_MODE_UNRETAINED
        | raw::IREE_HAL_COMMAND_BUFFER_MODE_RETAIN_PROFILE_METADATA;
    let any = raw::IREE_HAL_COMMAND_CATEGORY_ANY;
    let calls: [(&str, Call<'_>, u32, u32); 15] = [
        ("memory type", &|bits| allocate(rig, Params { type_: bits, ..types }), DEVICE, 1 << 30),
        ("buffer usage", &|bits| allocate(rig, Params { usage: bits, ..types }), TRANSFER | usage, 1 << 14),
        ("memory access", &|bits| allocate(rig, Params { access: bits as u16, ..types }), access, 1 << 15),
        ("memory type", &|bits| queue_alloca(rig, Params { type_: bits, ..types }), DEVICE, 1 << 30),
        ("buffer usage", &|bits| queue_alloca(rig, Params { usage: bits, ..types }), TRANSFER | usage, 1 << 14),
        ("memory access", &|bits| queue_alloca(rig, Params { access: bits as u16, ..types }), access, 1 << 15),
        ("memory type", &|bits| import(rig, Params { type_: bits, ..host }, 0), host.type_, 1 << 30),
        ("buffer usage", &|bits| import(rig, Params { usage: bits, ..host }, 0), TRANSFER, 1 << 14),
        ("memory access", &|bits| import(rig, Params { access: bits as u16, ..host }, 0), access, 1 << 15),
        ("external buffer", &|bits| import(rig, host, bits), 0, 1 << 3),
        ("command buffer mode", &|bits| command_buffer(rig, bits, any), modes, 1 << 20),
        ("command category", &|bits| command_buffer(rig, ONE_SHOT, bits), any, 1 << 20),
        ("memory access", &|bits| file(rig, bits as u16, 0), access, 1 << 15),
        ("external file", &|bits| file(rig, READ as u16, bits), 0, 1 << 3),
        ("event", &|bits| event(rig, bits), 0, 1 << 3),
    ];
    for (what, call, known, unknown) in calls {
        call(known).unwrap_or_else(|refused| panic!("{what} {known:#x}: {refused}"));
        let refused = call(known | unknown).expect_err(what);
        assert_eq!(refused.code(), Code::INVALID_ARGUMENT, "{refused}");
        let message = format!("unknown {what} flags {unknown:#x}");
        assert!(refused.to_string().contains(&message), "{message}: {refused}");
    }
}
