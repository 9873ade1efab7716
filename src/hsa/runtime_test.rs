// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The module against a runtime that runs packets: the software one, or the one named by `AMDGPU_RS_TEST_HSA`.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use device_binaries::{DeviceShape, FillArgs, plan_fill};
use hsa_abi::{
    BarrierAndPacket, HsaFenceScope, HsaPacketType, HsaPointerType, HsaSignal, HsaSignalCondition, HsaStatus,
    HsaWaitState, KernelDispatchPacket, PacketHeader,
};

use super::queue::QueueErrorHandler;
use super::testing::{gpu, library};
use super::*;
use amdgpu_ffi::Code;

/// Long enough that only a hang reaches it.
const LONG: Duration = Duration::from_secs(30);

/// Writes packets, from one thread.
struct Producer {
    queue: HardwareQueue,
}

impl Producer {
    fn publish<P>(&self, mut packet: P) {
        assert_eq!(size_of::<P>(), 64);
        let object = self.queue.as_ptr().as_ptr();
        // SAFETY: the queue lives; the id is shared with the packet processor and accessed atomically.
        let id = unsafe { AtomicU64::from_ptr(&raw mut (*object).write_dispatch_id) }.fetch_add(1, Ordering::Relaxed);
        let slot = id % u64::from(self.queue.capacity());
        // SAFETY: every packet type begins with its 16-bit header.
        let header = unsafe { (&raw mut packet).cast::<u16>().read() };
        // SAFETY: a slot of the ring that these short tests use for the first time. The header stays invalid until the
        // rest is written.
        unsafe {
            let slot = self.queue.ring().add(slot as usize * 64);
            (&raw mut packet).cast::<u16>().write(PacketHeader::INVALID.0);
            slot.cast::<P>().write_volatile(packet);
            AtomicU16::from_ptr(slot.cast()).store(header, Ordering::Release);
            AtomicU64::from_ptr(self.queue.doorbell().as_ptr()).store(id, Ordering::Release);
        }
    }
}

fn header(kind: HsaPacketType) -> PacketHeader {
    PacketHeader::new(kind, true, HsaFenceScope::SYSTEM, HsaFenceScope::SYSTEM)
}

fn barrier(after: &[&Signal], done: &Signal) -> BarrierAndPacket {
    let mut dep_signal = [HsaSignal::NULL; 5];
    for (slot, signal) in dep_signal.iter_mut().zip(after) {
        *slot = signal.handle();
    }
    let header = header(HsaPacketType::BARRIER_AND);
    BarrierAndPacket { header, reserved0: 0, reserved1: 0, dep_signal, reserved2: 0, completion_signal: done.handle() }
}

fn reached_zero(signal: &Signal) -> bool {
    signal.wait(HsaSignalCondition::EQ, 0, Some(LONG), HsaWaitState::BLOCKED) == 0
}

fn no_errors() -> QueueErrorHandler {
    Box::new(|error| panic!("{error}"))
}

fn pool(agent: &Agent, wanted: impl Fn(&MemoryPoolInfo) -> bool) -> MemoryPool {
    let pools = agent.memory_pools().expect("pools are listed");
    pools.into_iter().find(|pool| pool.info().is_allocatable() && wanted(pool.info())).expect("there is such a pool")
}

fn cpu(library: &Arc<Library>) -> Agent {
    let agents = library.agents().expect("agents are listed");
    agents.into_iter().find(Agent::is_cpu).expect("there is a CPU")
}

#[test]
fn a_gpu_has_an_isa_pools_and_queues() {
    let library = library();
    let gpu = gpu(&library);
    let info = gpu.info();
    assert!(info.name.starts_with("gfx"), "{info:?}");
    assert!(info.isas[0].name.starts_with("amdgcn-amd-amdhsa--gfx"), "{info:?}");
    assert!(info.workgroup_max_size >= 1024 && info.wavefront_size >= 32, "{info:?}");
    assert!(info.compute_units > 0 && info.queue_max_size >= info.queue_min_size && info.queues_max > 0, "{info:?}");
    assert!(pool(&gpu, MemoryPoolInfo::is_coarse_grained).info().size > 0);
    assert!(cpu(&library).info().isas.is_empty());
    assert!(library.system().timestamp_frequency > 0);
    let before = library.timestamp().expect("there is a clock");
    assert!(library.timestamp().expect("there is a clock") >= before);
}

#[test]
fn pool_memory_is_host_memory_that_the_runtime_knows() {
    let library = library();
    let gpu = gpu(&library);
    let pool = pool(&cpu(&library), MemoryPoolInfo::is_fine_grained);
    let memory = pool.allocate(8192, 0, &[gpu.handle()]).expect("memory is allocated");
    assert_eq!(memory.as_ptr().addr() % pool.info().alignment.min(4096), 0);
    // SAFETY: 8192 bytes were allocated, which nothing else uses.
    unsafe {
        memory.as_ptr().write_bytes(0x5a, 8192);
        assert_eq!(memory.as_ptr().add(8191).read(), 0x5a);
    }
    // SAFETY: inside the allocation.
    let info = pointer_info(&library, unsafe { memory.as_ptr().add(100) }).expect("it is known");
    assert_eq!((info.kind, info.agent_base), (HsaPointerType::HSA, memory.as_ptr()));
    assert!(info.size >= 8192 && info.accessible.contains(&gpu.handle()), "{info:?}");
    let address = memory.as_ptr();
    drop(memory);
    let info = pointer_info(&library, address).expect("any address may be asked about");
    assert_eq!(info.kind, HsaPointerType::UNKNOWN, "freed memory is forgotten");
}

#[test]
fn too_large_an_allocation_says_how_much_was_asked() {
    let library = library();
    let pool = pool(&gpu(&library), MemoryPoolInfo::is_coarse_grained);
    let error = pool.allocate(usize::MAX / 2, 0, &[]).expect_err("no machine has so much");
    assert!(error.to_string().contains(&format!("{} bytes from a pool", usize::MAX / 2)), "{error}");
}

#[test]
fn host_memory_is_locked_for_a_gpu() {
    let library = library();
    let gpu = gpu(&library);
    let mut memory = vec![7_u8; 10_000];
    let host = NonNull::new(memory.as_mut_ptr()).expect("a vector has an address");
    // SAFETY: the vector outlives the lock.
    let lock = unsafe { lock_host(&library, host, memory.len(), &[gpu.handle()]) }.expect("it is locked");
    fill(&library, &gpu, lock.device_ptr().expose_provenance() as u64);
    drop(lock);
    check_filled(&memory, 7);
}

#[test]
fn waits_end_when_a_signal_changes_or_time_is_up() {
    let library = library();
    let first = Signal::new(&library, 5, &[], 0).expect("a signal is made");
    assert_eq!(first.load(), 5);
    let start = Instant::now();
    assert_eq!(first.wait(HsaSignalCondition::LT, 0, Some(Duration::from_millis(5)), HsaWaitState::BLOCKED), 5);
    assert!(start.elapsed() >= Duration::from_millis(4));
    std::thread::scope(|scope| {
        scope.spawn(|| first.store(-1));
        assert_eq!(first.wait(HsaSignalCondition::NE, 5, None, HsaWaitState::BLOCKED), -1);
    });
    assert_eq!(first.wait(HsaSignalCondition::LT, 0, None, HsaWaitState::ACTIVE), -1);
}

#[test]
fn it_is_known_whether_memory_is_a_gpus_own() {
    let library = library();
    let gpu = gpu(&library);
    let queue = HardwareQueue::new(&gpu, 64, Box::new(|_| ())).expect("a queue is made");
    assert!(!queue.is_on_agent(), "the ring is in memory of the host");
    let memory = pool(&gpu, MemoryPoolInfo::is_coarse_grained).allocate(4096, 0, &[]).expect("memory is allocated");
    assert!(super::queue::is_memory_of(&gpu, memory.as_ptr()).unwrap());
    assert!(!super::queue::is_memory_of(&gpu, (&raw const memory).cast()).unwrap(), "nobody knows that");
}

#[test]
fn a_queue_runs_barriers_in_order() {
    let library = library();
    let queue = HardwareQueue::new(&gpu(&library), 256, no_errors()).expect("a queue is made");
    assert!(queue.capacity() >= 256 && queue.capacity().is_power_of_two());
    assert_eq!(queue.ring().addr() % 64, 0);
    let producer = Producer { queue };
    let gate = Signal::new(&library, 1, &[], 0).expect("a signal is made");
    let done = Signal::new(&library, 2, &[], 0).expect("a signal is made");
    producer.publish(barrier(&[&gate], &done));
    producer.publish(barrier(&[], &done));
    let early = done.wait(HsaSignalCondition::LT, 2, Some(Duration::from_millis(5)), HsaWaitState::BLOCKED);
    assert_eq!(early, 2, "the first waits for its gate, the second for the first");
    gate.store(0);
    assert!(reached_zero(&done));
}

#[test]
fn a_queue_of_a_size_that_cannot_be_says_what_can() {
    let library = library();
    let gpu = gpu(&library);
    let error = HardwareQueue::new(&gpu, 100, no_errors()).expect_err("100 is no power of two");
    let text = error.to_string();
    assert!(text.contains("a queue of 100 packets on") && text.contains(&gpu.info().name), "{text}");
    assert_eq!(error.code(), Code::INVALID_ARGUMENT, "{text}");
}

#[test]
fn a_malformed_packet_stops_the_queue_and_is_reported() {
    let library = library();
    let (send, receive) = mpsc::channel();
    let on_error: QueueErrorHandler = Box::new(move |error| send.send(error).expect("the test listens"));
    let queue = HardwareQueue::new(&gpu(&library), 256, on_error).expect("a queue is made");
    let producer = Producer { queue };
    let done = Signal::new(&library, 1, &[], 0).expect("a signal is made");
    let mut packet = barrier(&[], &done);
    packet.header = PacketHeader(0x3f);
    producer.publish(packet);
    let error = receive.recv_timeout(LONG).expect("the error is reported");
    assert_eq!(error.status(), Some(HsaStatus::ERROR_INVALID_PACKET_FORMAT), "{error}");
    assert!(error.to_string().starts_with("a hardware queue failed: "), "{error}");
}

/// The device library for gfx11: `amdgpu_rs_fill` among others.
fn code_object() -> Arc<Vec<u8>> {
    Arc::new(include_bytes!("../../device-binaries/prebuilt/gfx11-generic.co").to_vec())
}

/// Has a kernel write 0 to 7, again and again, to the 100 bytes at a device address.
fn fill(library: &Arc<Library>, gpu: &Agent, address: u64) {
    let executable = Executable::load(&[gpu], code_object()).expect("it is loaded");
    let kernel = executable.kernel("amdgpu_rs_fill.kd", gpu.handle()).expect("it is there");
    assert_eq!((kernel.object % 64, kernel.kernarg_size as usize), (0, size_of::<FillArgs>()));
    let pool = pool(&cpu(library), |info| info.is_fine_grained() && info.is_kernarg());
    let kernargs = pool.allocate(4096, 0, &[gpu.handle()]).expect("memory");
    let done = Signal::new(library, 1, &[], 0).expect("a signal is made");
    let shape = DeviceShape { wavefront_size: 32, compute_units: 1 };
    let arguments = plan_fill(shape, address, 100, &[0, 1, 2, 3, 4, 5, 6, 7]).expect("it is planned").args.to_bytes();
    // SAFETY: 4096 bytes which nothing else uses yet.
    unsafe { kernargs.as_ptr().copy_from_nonoverlapping(arguments.as_ptr(), arguments.len()) };
    let lanes = gpu.info().wavefront_size;
    let producer = Producer { queue: HardwareQueue::new(gpu, 256, no_errors()).expect("a queue is made") };
    producer.publish(KernelDispatchPacket {
        header: header(HsaPacketType::KERNEL_DISPATCH),
        setup: 1,
        workgroup_size: [lanes as u16, 1, 1],
        reserved0: 0,
        grid_size: [lanes, 1, 1],
        private_segment_size: kernel.private_size,
        group_segment_size: kernel.group_size,
        kernel_object: kernel.object,
        kernarg_address: kernargs.as_ptr().expose_provenance() as u64,
        reserved2: 0,
        completion_signal: done.handle(),
    });
    assert!(reached_zero(&done));
}

/// Checks the result of [`fill`], and that the byte behind it is still `rest`.
fn check_filled(bytes: &[u8], rest: u8) {
    assert!((0..100).all(|i| bytes[i] == (i % 8) as u8), "{bytes:?}");
    assert_eq!(bytes[100], rest);
}

#[test]
fn a_kernel_is_loaded_and_runs() {
    let library = library();
    let gpu = gpu(&library);
    let pool = pool(&cpu(&library), |info| info.is_fine_grained() && info.is_kernarg());
    let target = pool.allocate(4096, 0, &[gpu.handle()]).expect("memory");
    // SAFETY: 4096 bytes which nothing else uses yet.
    unsafe { target.as_ptr().write_bytes(0xff, 4096) };
    fill(&library, &gpu, target.as_ptr().expose_provenance() as u64);
    // SAFETY: the kernel is done, and its signal was loaded with acquire order.
    check_filled(unsafe { std::slice::from_raw_parts(target.as_ptr(), 101) }, 0xff);
}

#[test]
fn symbols_and_code_objects_that_are_not_there_are_named() {
    let library = library();
    let gpu = gpu(&library);
    let executable = Executable::load(&[&gpu], code_object()).expect("it is loaded");
    for name in ["no_such.kd", "nul\0.kd", ""] {
        let error = executable.kernel(name, gpu.handle()).expect_err("there is no such symbol");
        assert_eq!(error.code(), Code::NOT_FOUND, "{error}");
    }
    let error = executable.variable("amdgpu_rs_fill.kd", gpu.handle()).expect_err("it is a kernel");
    assert!(error.to_string().contains("'amdgpu_rs_fill.kd' is a KERNEL, not a VARIABLE"), "{error}");
    for code in [&b""[..], b"not an ELF file", &code_object()[..1000]] {
        let error = Executable::load(&[&gpu], Arc::new(code.to_vec())).expect_err("it is no code object");
        assert_ne!(error.code(), Code::OK, "{error}");
    }
    assert!(Executable::load(&[], code_object()).is_err());
}
