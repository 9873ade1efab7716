// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! GPU memory that two processes share by name (`iree_hal_amdgpu_rs_buffer_share`, `iree_hal_amdgpu_rs_buffer_attach`),
//! or by descriptor (OPAQUE_FD).

mod support;

use std::ffi::c_int;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use amdgpu_rs::ffi::{Code, HalRef, Result, iree, raw};
use amdgpu_rs::{SharedMemory, iree_hal_amdgpu_rs_buffer_attach, iree_hal_amdgpu_rs_buffer_share};
use support::{BufferRef, Rig, params, wait};

/// Bytes of the shared buffer: several pages, and no whole number of them.
const SIZE: usize = 10_000;

/// The name of the memory, for the other process.
const VARIABLE: &str = "AMDGPU_RS_TEST_SHARED_MEMORY";

const BYTES: usize = size_of::<SharedMemory>();

/// Lock of the process's descriptors, which tests count.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `such` is true. A buffer lasts until the completion thread has let go of it.
fn eventually(such: impl Fn() -> bool, what: &str) {
    let start = Instant::now();
    while !such() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::yield_now();
    }
}

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
    // The inode of its file. The first bytes are the process, and another number there may be one of its threads.
    bytes[8] ^= 0x55;
    assert!(attach(&rig, &bytes).is_err(), "no process has this memory");
}

#[test]
fn two_processes_share_a_buffer_without_a_copy() {
    if let Ok(name) = std::env::var(VARIABLE) {
        return other(&name);
    }
    let _alone = alone();
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

const EXPORTED: u32 = raw::IREE_HAL_BUFFER_USAGE_DEFAULT | raw::IREE_HAL_BUFFER_USAGE_SHARING_EXPORT;
const DEVICE: u32 = raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL;

fn export(rig: &Rig, buffer: &BufferRef) -> Result<OwnedFd> {
    // SAFETY: live objects, and a place for the result, whose handle is the one of the type asked for.
    unsafe {
        let mut external: raw::iree_hal_external_buffer_t = std::mem::zeroed();
        iree!(raw::iree_hal_allocator_export_buffer(
            rig.allocator(),
            buffer.as_ptr(),
            raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_OPAQUE_FD,
            raw::IREE_HAL_EXTERNAL_BUFFER_FLAG_NONE as _,
            &raw mut external
        ))?;
        assert_eq!(external.size, SIZE);
        Ok(OwnedFd::from_raw_fd(external.handle.opaque_fd.fd))
    }
}

unsafe extern "C" fn count(user_data: *mut std::ffi::c_void, _buffer: *mut raw::iree_hal_buffer_t) {
    // SAFETY: the tests give a counter that outlives the buffer.
    unsafe { &*user_data.cast::<AtomicUsize>() }.fetch_add(1, Ordering::Relaxed);
}

/// Imports `size` bytes of a descriptor. `released` counts the ends of the buffer.
fn import(rig: &Rig, fd: c_int, memory_type: u32, size: usize, released: &AtomicUsize) -> Result<BufferRef> {
    let user_data = (&raw const *released).cast_mut().cast();
    let release = raw::iree_hal_buffer_release_callback_t { fn_: Some(count), user_data };
    let mut buffer = std::ptr::null_mut();
    // SAFETY: a live allocator, a handle that is read during the call, and a place for the result, which is owned.
    unsafe {
        let mut external: raw::iree_hal_external_buffer_t = std::mem::zeroed();
        (external.type_, external.size) = (raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_OPAQUE_FD, size);
        external.handle.opaque_fd.fd = fd;
        let params = params(memory_type, raw::IREE_HAL_BUFFER_USAGE_DEFAULT);
        let (allocator, external) = (rig.allocator(), &raw mut external);
        iree!(raw::iree_hal_allocator_import_buffer(allocator, params, external, release, &raw mut buffer))?;
        Ok(HalRef::from_owned(buffer).expect("a buffer"))
    }
}

/// Number of open descriptors of the process.
fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("Linux").count()
}

/// A message of one byte, and room for a descriptor beside it.
#[repr(C, align(8))]
struct Message {
    control: [u8; 64],
    byte: u8,
}

impl Message {
    /// Calls `transfer` with the message's header.
    fn with(&mut self, transfer: impl FnOnce(*mut libc::msghdr) -> isize) {
        let mut part = libc::iovec { iov_base: (&raw mut self.byte).cast(), iov_len: 1 };
        // SAFETY: all-zero is a valid header.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
        header.msg_control = self.control.as_mut_ptr().cast();
        // SAFETY: only computes a size.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<c_int>() as u32) } as usize;
        assert_eq!(transfer(&raw mut header), 1, "{}", std::io::Error::last_os_error());
    }
}

fn send_descriptor(socket: &UnixStream, descriptor: &OwnedFd) {
    Message { control: [0; 64], byte: 0 }.with(|header| {
        // SAFETY: the header has room for one descriptor.
        unsafe {
            let control = libc::CMSG_FIRSTHDR(header);
            (*control).cmsg_level = libc::SOL_SOCKET;
            (*control).cmsg_type = libc::SCM_RIGHTS;
            (*control).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as usize;
            libc::CMSG_DATA(control).cast::<c_int>().write_unaligned(descriptor.as_raw_fd());
            libc::sendmsg(socket.as_raw_fd(), header, 0)
        }
    });
}

fn receive_descriptor(socket: &UnixStream) -> OwnedFd {
    let mut descriptor = -1;
    Message { control: [0; 64], byte: 0 }.with(|header| {
        // SAFETY: the header has room for one descriptor, which is in the message that was received.
        unsafe {
            let received = libc::recvmsg(socket.as_raw_fd(), header, libc::MSG_CMSG_CLOEXEC);
            let control = libc::CMSG_FIRSTHDR(header);
            assert!(!control.is_null(), "the other process has ended");
            descriptor = libc::CMSG_DATA(control).cast::<c_int>().read_unaligned();
            received
        }
    });
    // SAFETY: received just now, by this process alone.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

fn tell(mut socket: &UnixStream) {
    socket.write_all(&[1]).expect("the other process runs");
}

fn hear(mut socket: &UnixStream) {
    socket.read_exact(&mut [0]).expect("the other process runs");
}

/// The number of the socket, and whether the producer frees its buffer first.
const SOCKET: &str = "AMDGPU_RS_TEST_SOCKET";

/// The process that imports the buffer of the other: reads all, and changes the middle.
fn consumer(words: &str) {
    let (socket, order) = words.split_once(' ').expect("two words");
    // SAFETY: inherited for this process.
    let socket = unsafe { UnixStream::from_raw_fd(socket.parse().expect("a number")) };
    let rig = Rig::new();
    // Whatever the first operation opens is open.
    contents(&rig, &device_buffer(&rig));
    let (before, released) = (descriptors(), AtomicUsize::new(0));
    let descriptor = receive_descriptor(&socket);
    let buffer = import(&rig, descriptor.as_raw_fd(), DEVICE, SIZE, &released).expect("the other process's memory");
    drop(descriptor);
    assert_eq!(contents(&rig, &buffer), vec![0x11; SIZE]);
    fill(&rig, &buffer, (1000, 2000), 0x22);
    assert_eq!(export(&rig, &buffer).expect_err("it is another process's").code(), Code::UNAVAILABLE);
    if order == "producer-first" {
        tell(&socket);
        hear(&socket);
        let mut expected = vec![0x11; SIZE];
        expected[1000..3000].fill(0x22);
        assert_eq!(contents(&rig, &buffer), expected, "the memory outlives the producer's buffer");
        fill(&rig, &buffer, (0, SIZE), 0x33);
        assert_eq!(contents(&rig, &buffer), vec![0x33; SIZE]);
    }
    assert_eq!(released.load(Ordering::Relaxed), 0);
    drop(buffer);
    eventually(|| released.load(Ordering::Relaxed) == 1, "the import is not released");
    eventually(|| descriptors() == before, "a descriptor is left");
    tell(&socket);
}

#[test]
fn a_process_imports_the_descriptor_of_a_buffer() {
    if let Ok(words) = std::env::var(SOCKET) {
        return consumer(&words);
    }
    let _alone = alone();
    let rig = Rig::new();
    contents(&rig, &device_buffer(&rig));
    for order in ["producer-first", "consumer-first"] {
        let before = descriptors();
        let (socket, theirs) = UnixStream::pair().expect("sockets");
        // SAFETY: an open descriptor; the copy is inherited.
        let inherited = unsafe { OwnedFd::from_raw_fd(libc::dup(theirs.as_raw_fd())) };
        drop(theirs);
        let child = Command::new(std::env::current_exe().expect("a test has a file"))
            .args(["--exact", "a_process_imports_the_descriptor_of_a_buffer", "--nocapture"])
            .env(SOCKET, format!("{} {order}", inherited.as_raw_fd()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process of its own");
        drop(inherited);
        let buffer = rig.try_buffer(DEVICE, EXPORTED, SIZE).expect("a buffer");
        fill(&rig, &buffer, (0, SIZE), 0x11);
        let descriptor = export(&rig, &buffer).expect("a descriptor");
        send_descriptor(&socket, &descriptor);
        drop(descriptor);
        hear(&socket);
        let mut expected = vec![0x11; SIZE];
        expected[1000..3000].fill(0x22);
        assert_eq!(contents(&rig, &buffer), expected);
        drop(buffer);
        if order == "producer-first" {
            tell(&socket);
            hear(&socket);
        }
        let output = child.wait_with_output().expect("it was started");
        assert!(output.status.success(), "{order}: {}", String::from_utf8_lossy(&output.stderr));
        drop(socket);
        eventually(|| descriptors() == before, &format!("{order}: a descriptor is left"));
    }
}

#[test]
fn only_buffers_for_export_have_descriptors() {
    let _alone = alone();
    let rig = Rig::new();
    let visible = raw::IREE_HAL_MEMORY_TYPE_HOST_LOCAL | raw::IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE;
    for (memory_type, usage, size) in
        [(DEVICE, raw::IREE_HAL_BUFFER_USAGE_DEFAULT, SIZE), (DEVICE, EXPORTED, 0), (visible, EXPORTED, SIZE)]
    {
        let buffer = rig.try_buffer(memory_type, usage, size).expect("a buffer");
        let refused = export(&rig, &buffer).expect_err("no descriptor");
        assert_eq!(refused.code(), Code::UNAVAILABLE, "{refused}");
        assert!(refused.to_string().contains("OPAQUE_FD"), "{refused}");
    }
}

/// Tells the process whose kernel driver makes no DMA-BUFs from the test.
const WITHOUT: &str = "AMDGPU_RS_TEST_NO_DMABUF";

#[test]
fn without_dma_bufs_there_are_no_descriptors() {
    let name = "without_dma_bufs_there_are_no_descriptors";
    if std::env::var_os(WITHOUT).is_none() {
        let mut child = Command::new(std::env::current_exe().expect("a test has a file"));
        child.args(["--exact", name, "--nocapture"]).env(WITHOUT, "1");
        let output = child.env("HSA_SIM_AGENTS", "gfx1100:dmabuf=no").output().expect("a process of its own");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let rig = Rig::new();
    let (buffer, released) = (rig.try_buffer(DEVICE, EXPORTED, SIZE).expect("a buffer"), AtomicUsize::new(0));
    let before = descriptors();
    let exported = export(&rig, &buffer).expect_err("no descriptor");
    let file = File::open("/dev/null").expect("Linux");
    let imported = import(&rig, file.as_raw_fd(), DEVICE, SIZE, &released).expect_err("no buffer");
    drop(file);
    for refused in [exported, imported] {
        assert_eq!(refused.code(), Code::UNIMPLEMENTED, "{refused}");
        assert!(refused.to_string().contains("HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED"), "{refused}");
    }
    assert_eq!((descriptors(), released.load(Ordering::Relaxed)), (before, 0));
    fill(&rig, &buffer, (0, SIZE), 0x11);
    assert_eq!(contents(&rig, &buffer), vec![0x11; SIZE], "the buffer is as usable as others");
}

#[test]
fn refused_descriptors_are_not_kept() {
    let _alone = alone();
    let rig = Rig::new();
    let buffer = rig.try_buffer(DEVICE, EXPORTED, SIZE).expect("a buffer");
    let descriptor = export(&rig, &buffer).expect("a descriptor");
    let file = File::open("/dev/null").expect("Linux");
    let (before, released) = (descriptors(), AtomicUsize::new(0));
    let (own, foreign) = (descriptor.as_raw_fd(), file.as_raw_fd());
    let visible = DEVICE | raw::IREE_HAL_MEMORY_TYPE_HOST_VISIBLE;
    for (fd, memory_type, size, code) in [
        (foreign, DEVICE, SIZE, Code::INVALID_ARGUMENT),
        (-1, DEVICE, SIZE, Code::INVALID_ARGUMENT),
        (own, DEVICE, 0, Code::INVALID_ARGUMENT),
        (own, DEVICE, (2 << 20) + 1, Code::OUT_OF_RANGE),
        (own, visible, SIZE, Code::INVALID_ARGUMENT),
    ] {
        let refused = import(&rig, fd, memory_type, size, &released).expect_err("no buffer");
        assert_eq!(refused.code(), code, "{refused}");
    }
    assert_eq!((descriptors(), released.load(Ordering::Relaxed)), (before, 0));
    // Both buffers are the same memory.
    let again = import(&rig, own, DEVICE, SIZE, &released).expect("the same memory");
    fill(&rig, &buffer, (0, SIZE), 0x11);
    fill(&rig, &again, (5, 7), 0x22);
    let mut expected = vec![0x11; SIZE];
    expected[5..12].fill(0x22);
    assert_eq!(contents(&rig, &buffer), expected);
    assert_eq!(contents(&rig, &again), expected);
}
