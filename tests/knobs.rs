// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Options and queries of a device: options with a visible effect, and refused values.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::RangeInclusive;

use amdgpu_rs::device_address;
use amdgpu_rs::ffi::{Code, HalRef, QUEUE_AFFINITY_ANY, Status, iree, raw, strings};
use support::recording::{Mode, Recording, direct, indirect};
use support::{Rig, wait};

/// A kernel and a variable; `testdata/scenario.c` says how it was built.
const SCENARIO: &[u8] = include_bytes!("testdata/scenario.gfx1100.co");

/// Counts each thread's allocations of the sizes that it asks about.
struct Counting;

thread_local! {
    static SIZES: Cell<(usize, usize)> = const { Cell::new((usize::MAX, 0)) };
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

impl Counting {
    fn count(size: usize) {
        let (least, most) = SIZES.get();
        COUNT.set(COUNT.get() + usize::from(least <= size && size <= most));
    }
}

// SAFETY: all is done by the system's allocator; the counters have no destructor and allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count(layout.size());
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::count(size);
        // SAFETY: the caller's contract is the same.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often this thread allocates memory of one of `sizes` in Rust while it does `work`.
fn allocations(sizes: RangeInclusive<usize>, work: impl FnOnce()) -> usize {
    COUNT.set(0);
    SIZES.set((*sizes.start(), *sizes.end()));
    work();
    SIZES.set((usize::MAX, 0));
    COUNT.get()
}

/// An execution retains its command buffer and the buffers of its table in a vector.
#[test]
fn the_vectors_of_operations_are_kept_up_to_a_size() {
    const SLOTS: usize = 2000;
    const EXECUTIONS: u64 = 20;
    let size = (SLOTS + 1) * size_of::<usize>();
    let count = |knob| {
        let rig = Rig::with(&[("host_block_pool_small_size", knob)]);
        let (target, done) = (rig.buffer(4), rig.semaphore());
        let recording = Recording::begin(&rig, Mode::Reusable, SLOTS);
        recording.fill(indirect(0, 0, 4), 7).unwrap();
        recording.end();
        let table = vec![(&target, 0, 4); SLOTS];
        let count = allocations(size..=size, || {
            for value in 1..=EXECUTIONS {
                recording.execute(&rig, 1, &[], &[(&done, value)], &table).unwrap();
                wait(&done, value).unwrap();
            }
        });
        assert_eq!(rig.read(&target, 0, 4), [7; 4]);
        count as u64
    };
    assert_eq!(count("8192"), EXECUTIONS, "larger than what is kept");
    // An execution may begin before the last one's vector is back.
    for knob in ["16384", &(1_u64 << 63).to_string()] {
        let count = count(knob);
        assert!((1..=4).contains(&count), "{knob}: {count}");
    }
}

#[test]
fn the_memory_of_recordings_is_kept_up_to_a_size() {
    const LARGE: RangeInclusive<usize> = 64 << 10..=usize::MAX;
    let count = |knob, fills| {
        let rig = Rig::with(&[("host_block_pool_command_buffer_size", knob)]);
        let target = rig.buffer(4);
        let record = || {
            let recording = Recording::begin(&rig, Mode::OneShot, 0);
            for _ in 0..fills {
                recording.fill(direct(&target, 0, 4), 7).unwrap();
            }
            recording.end();
        };
        let first = allocations(LARGE, record);
        assert!(first > 0, "{fills} fills take as much");
        allocations(LARGE, record)
    };
    let (short, long) = (2_000, 100_000);
    assert_eq!(count("131072", short), 0);
    assert!(count("256", short) > 0);
    assert!(count("131072", long) > 0);
    assert_eq!(count("1048576", long), 0);
    assert_eq!(count("2147483648", long), 0);
}

fn refused(status: &Status, text: &str) {
    assert_eq!(status.code(), Code::UNIMPLEMENTED, "{status}");
    assert!(status.to_string().contains(text), "{status}");
}

#[test]
fn the_default_pool_aligns_as_it_is_told() {
    for alignment in [16, 256, 2048_u64] {
        let rig = Rig::with(&[("default_pool_alignment", &alignment.to_string())]);
        let done = rig.semaphore();
        let buffers: Vec<_> = (1..=4).map(|value| rig.alloca(1, &[], &[(&done, value)], 16).unwrap()).collect();
        wait(&done, 4).unwrap();
        let mut addresses: Vec<_> = buffers.iter().map(|buffer| device_address(buffer.borrow(), 0).unwrap()).collect();
        addresses.sort_unstable();
        assert!(addresses.iter().all(|address| address.is_multiple_of(alignment)), "{alignment}: {addresses:#x?}");
        // And no more than that.
        let apart = addresses.windows(2).map(|pair| pair[1] - pair[0]).min();
        assert_eq!(apart, Some(alignment), "{addresses:#x?}");
    }
}

#[test]
fn placements_of_the_host_are_one() {
    for placement in ["any", "host"] {
        let rig = Rig::with(&[("queue_placement", placement)]);
        let (target, done) = (rig.buffer(4), rig.semaphore());
        rig.fill(1, &[], &[(&done, 1)], &target, (0, 4), &[7]).unwrap();
        wait(&done, 1).unwrap();
        assert_eq!(rig.read(&target, 0, 4), [7; 4]);
    }
}

#[test]
fn a_global_is_a_buffer_of_its_gpu() {
    let rig = Rig::new();
    let executable = rig.executable(SCENARIO).unwrap();
    let lookup = |name| {
        let mut global = std::ptr::null_mut();
        // SAFETY: a live executable; the result is owned.
        unsafe {
            let (executable, name) = (executable.as_ptr(), strings::view(name));
            iree!(raw::iree_hal_executable_lookup_global_by_name(executable, name, 1, &raw mut global))?;
            Ok::<_, Status>(HalRef::<raw::iree_hal_buffer_t>::from_owned(global).expect("a variable's buffer"))
        }
    };
    let summand = lookup("summand").unwrap();
    let [source, target] = [0; 2].map(|_| rig.buffer(4));
    rig.write(&source, 0, &3_u32.to_le_bytes());
    let done = rig.semaphore();
    rig.update(1, &[], &[(&done, 1)], &20_u32.to_le_bytes(), &summand).unwrap();
    let kernel = (&executable, "add");
    let constant = 100_u32.to_le_bytes();
    rig.dispatch(1, &[(&done, 1)], &[(&done, 2)], kernel, &constant, &[&target, &source]).unwrap();
    wait(&done, 2).unwrap();
    assert_eq!(rig.read(&target, 0, 4), 123_u32.to_le_bytes());
    assert_eq!(lookup("subtrahend").map(drop).expect_err("there is none").code(), Code::NOT_FOUND);
}

#[test]
fn specialization_constants_are_refused() {
    let rig = Rig::new();
    // SAFETY: live objects; all-zero parameters have no constants but those set.
    let status = unsafe {
        let mut cache = std::ptr::null_mut();
        iree!(raw::iree_hal_executable_cache_create(rig.device.as_ptr(), strings::view("test"), &raw mut cache))
            .unwrap();
        let cache = HalRef::<raw::iree_hal_executable_cache_t>::from_owned(cache).expect("a cache that was made");
        let mut params: raw::iree_hal_executable_params_t = std::mem::zeroed();
        let constants = [1_u32, 2];
        params.queue_affinity = QUEUE_AFFINITY_ANY;
        params.executable_data = raw::iree_const_byte_span_t { data: SCENARIO.as_ptr(), data_length: SCENARIO.len() };
        (params.constant_count, params.constants) = (constants.len(), constants.as_ptr());
        let mut executable = std::ptr::null_mut();
        iree!(raw::iree_hal_executable_cache_prepare_executable(cache.as_ptr(), &raw const params, &raw mut executable))
            .expect_err("it has constants")
    };
    refused(&status, "2 specialization constants");
}

#[test]
fn handles_of_other_systems_are_refused() {
    let rig = Rig::new();
    let buffer = rig.buffer(64);
    let (kind, name) = (raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_OPAQUE_WIN32, "OPAQUE_WIN32");
    // SAFETY: live objects; all-zero is a handle that is not read.
    unsafe {
        let allocator = rig.allocator();
        let mut external: raw::iree_hal_external_buffer_t = std::mem::zeroed();
        (external.type_, external.size) = (kind, 64);
        let params: raw::iree_hal_buffer_params_t = std::mem::zeroed();
        let mut imported = std::ptr::null_mut();
        let none = std::mem::zeroed();
        let status =
            iree!(raw::iree_hal_allocator_import_buffer(allocator, params, &raw mut external, none, &raw mut imported));
        refused(&status.expect_err("not imported"), name);
        let flags = raw::IREE_HAL_EXTERNAL_BUFFER_FLAG_NONE as _;
        let status =
            iree!(raw::iree_hal_allocator_export_buffer(allocator, buffer.as_ptr(), kind, flags, &raw mut external));
        refused(&status.expect_err("not exported"), name);
    }
}

#[test]
fn captures_by_tools_are_refused() {
    let rig = Rig::new();
    // SAFETY: a live device; all-zero options say nothing but the tool's name.
    let status = unsafe {
        let mut options: raw::iree_hal_device_external_capture_options_t = std::mem::zeroed();
        options.provider = strings::view("renderdoc");
        iree!(raw::iree_hal_device_external_capture_begin(rig.device.as_ptr(), &raw const options))
    };
    refused(&status.expect_err("there is no tool"), "external");
    // SAFETY: a live device.
    let status = unsafe { iree!(raw::iree_hal_device_external_capture_end(rig.device.as_ptr())) };
    refused(&status.expect_err("there is no tool"), "external");
}
