// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! GPU memory that two processes share (`iree_hal_amdgpu_rs_buffer_share`, `iree_hal_amdgpu_rs_buffer_attach`).

mod support;

use std::process::Command;

use amdgpu_rs::ffi::{Code, HalRef, Result, iree, raw};
use amdgpu_rs::{SharedMemory, iree_hal_amdgpu_rs_buffer_attach, iree_hal_amdgpu_rs_buffer_share};
use support::{BufferRef, Rig, params, wait};

/// Bytes of the shared buffer: several pages, and no whole number of them.
const SIZE: usize = 10_000;

/// The name of the memory, for the other process.
const VARIABLE: &str = "AMDGPU_RS_TEST_SHARED_MEMORY";

const BYTES: usize = size_of::<SharedMemory>();

fn share(rig: &Rig, buffer: &BufferRef) -> Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    // SAFETY: live objects and a place for the result, which has no invalid values.
    unsafe { iree!(iree_hal_amdgpu_rs_buffer_share(rig.allocator(), buffer.as_ptr(), bytes.as_mut_ptr().cast())) }?;
    Ok(bytes)
}

fn attach(rig: &Rig, bytes: &[u8; BYTES]) -> Result<BufferRef> {
    // SAFETY: any bytes are a value; the pointer may be unaligned.
    let memory = unsafe { bytes.as_ptr().cast::<SharedMemory>().read_unaligned() };
    let mut buffer = std::ptr::null_mut();
    let params = params(raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL, raw::IREE_HAL_BUFFER_USAGE_DEFAULT);
    // SAFETY: a live allocator, a name that is read during the call, and a place for the result.
    unsafe { iree!(iree_hal_amdgpu_rs_buffer_attach(rig.allocator(), params, &raw const memory, &raw mut buffer)) }?;
    // SAFETY: owned.
    Ok(unsafe { HalRef::from_owned(buffer) }.expect("a buffer"))
}

fn fill(rig: &Rig, buffer: &BufferRef, (offset, length): (usize, usize), pattern: u8) {
    let done = rig.semaphore();
    rig.fill(1, &[], &[(&done, 1)], buffer, (offset, length), &[pattern]).expect("it is submitted");
    wait(&done, 1).expect("it is filled");
}

fn contents(rig: &Rig, buffer: &BufferRef) -> Vec<u8> {
    let (copy, done) = (rig.buffer(SIZE), rig.semaphore());
    rig.copy(1, &[], &[(&done, 1)], (buffer, 0), (&copy, 0), SIZE).expect("it is submitted");
    wait(&done, 1).expect("it is copied");
    rig.read(&copy, 0, SIZE)
}

fn device_buffer(rig: &Rig) -> BufferRef {
    rig.try_buffer(raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL, raw::IREE_HAL_BUFFER_USAGE_DEFAULT, SIZE).expect("a buffer")
}

/// The other process: reads all, and changes the middle.
fn other(name: &str) {
    let rig = Rig::new();
    let digits = |at: usize| u8::from_str_radix(&name[2 * at..2 * at + 2], 16).expect("hexadecimal digits");
    let mut bytes: [u8; BYTES] = std::array::from_fn(digits);
    let buffer = attach(&rig, &bytes).expect("memory of the first process");
    assert_eq!(contents(&rig, &buffer), vec![0x11; SIZE]);
    fill(&rig, &buffer, (1000, 2000), 0x22);
    // Attached memory is not this process's to share.
    assert_eq!(share(&rig, &buffer).expect_err("it is another process's").code(), Code::UNAVAILABLE);
    drop(buffer);
    drop(attach(&rig, &bytes).expect("the memory again"));
    bytes[0] ^= 0x55;
    assert!(attach(&rig, &bytes).is_err(), "no process has this memory");
}

#[test]
fn two_processes_share_a_buffer_without_a_copy() {
    if let Ok(name) = std::env::var(VARIABLE) {
        return other(&name);
    }
    let rig = Rig::new();
    let buffer = device_buffer(&rig);
    fill(&rig, &buffer, (0, SIZE), 0x11);
    let name: String = share(&rig, &buffer).expect("a name").iter().map(|byte| format!("{byte:02x}")).collect();
    let output = Command::new(std::env::current_exe().expect("a test has a file"))
        .args(["--exact", "two_processes_share_a_buffer_without_a_copy", "--nocapture"])
        .env(VARIABLE, &name)
        .output()
        .expect("a process of its own");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut expected = vec![0x11; SIZE];
    expected[1000..3000].fill(0x22);
    assert_eq!(contents(&rig, &buffer), expected);
    assert_eq!(
        share(&rig, &rig.buffer(SIZE)).expect_err("host memory").code(),
        Code::UNAVAILABLE,
        "each process has memory of its own for the host"
    );
}
