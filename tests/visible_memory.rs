// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Device-local memory that the host maps, on GPUs whose memory it reaches in different ways, or not at all.

mod support;

use amdgpu_rs::ffi::{Code, HalRef, QUEUE_AFFINITY_ANY, iree, raw};
use support::{BufferRef, List, Rig, SemaphoreRef, params, passes_alone, wait};

const DEVICE: u32 = raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL;
const VISIBLE: u32 = raw::IREE_HAL_MEMORY_TYPE_HOST_VISIBLE;
const COHERENT: u32 = raw::IREE_HAL_MEMORY_TYPE_HOST_COHERENT;
const HOST: u32 = raw::IREE_HAL_MEMORY_TYPE_HOST_LOCAL;
const SIZE: usize = 256;

/// One test, since it chooses the agents of the process.
#[test]
fn kernels_see_what_the_host_writes_to_mapped_device_memory() {
    const OF_HOST: u32 = HOST | raw::IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE;
    const OF_DEVICE: u32 = DEVICE | VISIBLE;
    for (agents, expected, coherent_expected) in [
        ("gfx1100", OF_DEVICE, OF_DEVICE | COHERENT),
        ("gfx942", OF_DEVICE, OF_DEVICE | COHERENT),
        ("gfx1100:memory=shared", OF_DEVICE, OF_DEVICE | COHERENT),
        // It has no fine memory, or none that the host gets at.
        ("gfx1201", OF_DEVICE, OF_HOST),
        ("gfx942:pools=coarse+fine", OF_DEVICE, OF_HOST),
        // Elsewhere memory of the host serves.
        ("gfx1100:bar=small", OF_HOST, OF_HOST),
        ("gfx942:bar=none", OF_HOST, OF_HOST),
        // Here a flush is not known to suffice.
        ("gfx906", OF_HOST, OF_HOST),
        ("gfx1010", OF_HOST, OF_HOST),
        // Both GPUs, of which the first owns the memory.
        ("gfx1100,gfx1100:peers=no", OF_DEVICE, OF_DEVICE | COHERENT),
    ] {
        // SAFETY: nothing else runs in this process while there is no device.
        unsafe { std::env::set_var("HSA_SIM_AGENTS", agents) };
        // Nothing else flushes where kernel arguments are in the host's memory.
        let rig = Rig::with(&[("kernarg_memory", "host")]);
        let usage = raw::IREE_HAL_BUFFER_USAGE_DEFAULT
            | raw::IREE_HAL_BUFFER_USAGE_MAPPING_SCOPED
            | raw::IREE_HAL_BUFFER_USAGE_MAPPING_PERSISTENT;
        let buffer = rig.try_buffer(DEVICE | VISIBLE, usage, SIZE).unwrap();
        // SAFETY: a live buffer.
        let memory_type = unsafe { raw::iree_hal_buffer_memory_type(buffer.as_ptr()) };
        assert_eq!(memory_type, expected, "{agents}");
        assert_eq!(
            memory_type & COHERENT == 0,
            memory_type & DEVICE == DEVICE,
            "what is not coherent is to be flushed"
        );

        rig.write(&buffer, 0, &[1; SIZE]);
        assert_eq!(as_kernels_see(&rig, &buffer), [1; SIZE], "{agents}");
        map(&buffer, raw::IREE_HAL_MAPPING_MODE_SCOPED, 2, |_| ());
        assert_eq!(as_kernels_see(&rig, &buffer), [2; SIZE], "{agents}: unmapping flushes");
        map(&buffer, raw::IREE_HAL_MAPPING_MODE_PERSISTENT, 3, |mapping| {
            // SAFETY: a mapping of a live buffer.
            unsafe { iree!(raw::iree_hal_buffer_mapping_flush_range(mapping, 0, SIZE)) }.unwrap();
            assert_eq!(as_kernels_see(&rig, &buffer), [3; SIZE], "{agents}: so does a flush while it is mapped");
        });

        let coherent = rig.try_buffer(DEVICE | VISIBLE | COHERENT, usage, SIZE).unwrap();
        // SAFETY: a live buffer.
        let memory_type = unsafe { raw::iree_hal_buffer_memory_type(coherent.as_ptr()) };
        assert_eq!(memory_type, coherent_expected, "{agents}");
        map(&coherent, raw::IREE_HAL_MAPPING_MODE_PERSISTENT, 4, |mapping| {
            assert_eq!(as_kernels_see(&rig, &coherent), [4; SIZE], "{agents}: what is coherent needs no flush");
            // SAFETY: a mapping of a live buffer.
            unsafe { mapping.contents.data.write_bytes(5, SIZE) };
            assert_eq!(as_kernels_see(&rig, &coherent), [5; SIZE], "{agents}: nor does it later");
        });
        // No memory is near to both.
        let refused = rig.try_buffer(DEVICE | HOST, usage, SIZE).map(drop).unwrap_err();
        assert_eq!(refused.code(), Code::INVALID_ARGUMENT);
        assert!(refused.to_string().contains("HOST_LOCAL|DEVICE_VISIBLE"), "what there is: {refused}");
    }
}

#[test]
fn kernels_see_what_the_host_writes_to_memory_of_a_pool() {
    passes_alone("kernels_see_what_the_host_writes_to_memory_of_a_pool", "gfx1100", || {
        let rig = Rig::with(&[("kernarg_memory", "host")]);
        let done = rig.semaphore();
        let buffer = allocate(&rig, &done);
        wait(&done, 1).unwrap();
        rig.write(&buffer, 0, &[1; SIZE]);
        assert_eq!(as_kernels_see(&rig, &buffer), [1; SIZE]);
        rig.write(&buffer, 0, &[2; SIZE]);
        assert_eq!(as_kernels_see(&rig, &buffer), [2; SIZE]);
    });
}

/// Memory of the default pool that the host may map, from `done` at 1 on.
fn allocate(rig: &Rig, done: &SemaphoreRef) -> BufferRef {
    let signals = [(done, 1)];
    let (waits, signals) = (List::new(&[]), List::new(&signals));
    let usage = raw::IREE_HAL_BUFFER_USAGE_DEFAULT | raw::IREE_HAL_BUFFER_USAGE_MAPPING_SCOPED;
    let mut buffer = std::ptr::null_mut();
    // SAFETY: live objects; the result goes to a local, with its reference.
    unsafe {
        iree!(raw::iree_hal_device_queue_alloca(
            rig.device.as_ptr(),
            QUEUE_AFFINITY_ANY,
            waits.raw(),
            signals.raw(),
            std::ptr::null_mut(),
            params(DEVICE | VISIBLE, usage),
            SIZE,
            0,
            &raw mut buffer
        ))
        .unwrap();
        HalRef::from_owned(buffer).expect("a buffer that was made")
    }
}

/// Maps the buffer, writes `value` to all of it, calls `work` and unmaps it.
fn map(buffer: &BufferRef, mode: u32, value: u8, work: impl FnOnce(&mut raw::iree_hal_buffer_mapping_t)) {
    let access = raw::IREE_HAL_MEMORY_ACCESS_WRITE as u16;
    // SAFETY: a live buffer; the mapping is written within its bounds and unmapped once.
    unsafe {
        let mut mapping: raw::iree_hal_buffer_mapping_t = std::mem::zeroed();
        iree!(raw::iree_hal_buffer_map_range(buffer.as_ptr(), mode, access, 0, SIZE, &raw mut mapping)).unwrap();
        mapping.contents.data.write_bytes(value, SIZE);
        work(&mut mapping);
        iree!(raw::iree_hal_buffer_unmap_range(&raw mut mapping)).unwrap();
    }
}

/// The buffer's bytes as a kernel copies them to the host's memory.
fn as_kernels_see(rig: &Rig, buffer: &BufferRef) -> Vec<u8> {
    let (target, done) = (rig.buffer(SIZE), rig.semaphore());
    rig.copy(1, &[], &[(&done, 1)], (buffer, 0), (&target, 0), SIZE).unwrap();
    wait(&done, 1).unwrap();
    rig.read(&target, 0, SIZE)
}
