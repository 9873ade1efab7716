// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! A small HSA client, written against the specification only.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod code;
pub mod figures;
pub mod library;
pub mod pm4;

use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hsa_abi::*;
use hsa_runtime64::hsa::*;

/// Timeout of waits, longer than any of them takes. A wait that reaches it has failed.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs `test`, the whole body of the test function `name`, in a process of its own with the GPUs `agents`, because a
/// memory fault disables an agent for its process. Returns the exit status and the standard error; `None` in the new
/// process itself.
pub fn alone(name: &str, agents: &str, test: impl FnOnce()) -> Option<(std::process::ExitStatus, String)> {
    alone_with(name, &[("HSA_SIM_AGENTS", agents)], test)
}

/// As [`alone`], with these variables.
pub fn alone_with(
    name: &str,
    variables: &[(&str, &str)],
    test: impl FnOnce(),
) -> Option<(std::process::ExitStatus, String)> {
    const ALONE: &str = "SIM_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        test();
        return None;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("running 1 test"), "no test {name}: {said}");
    Some((output.status, String::from_utf8(output.stderr).unwrap()))
}

/// Runs a test in a process of its own as [`alone`] does, and expects it to pass.
pub fn passes_alone(name: &str, agents: &str, test: impl FnOnce()) {
    if let Some((status, text)) = alone(name, agents, test) {
        assert!(status.success(), "{text}");
    }
}

/// Agent, address and reason of each memory fault that the program's handler received.
pub static FAULTS: Mutex<Vec<(u64, u64, u32)>> = Mutex::new(Vec::new());

/// Waits until the handler has received a fault for which `such` returns true.
pub fn wait_for_fault(such: impl Fn(&(u64, u64, u32)) -> bool) {
    let start = Instant::now();
    while !FAULTS.lock().unwrap().iter().any(&such) {
        assert!(start.elapsed() < TIMEOUT, "the program is told of {:?} only", FAULTS.lock().unwrap());
        std::thread::yield_now();
    }
}

unsafe extern "C" fn on_event(event: *const HsaAmdEvent, _data: *mut c_void) -> HsaStatus {
    // SAFETY: the runtime passes a valid event, and its type says which member it has.
    unsafe {
        if (*event).event_type == HsaAmdEventType::GPU_MEMORY_FAULT {
            let fault = (*event).data.memory_fault;
            FAULTS.lock().unwrap().push((fault.agent.handle, fault.virtual_address, fault.fault_reason_mask));
        }
    }
    HsaStatus::SUCCESS
}

/// A reference to the runtime, with the first look-ups of a client.
pub struct Hsa {
    pub cpu: HsaAgent,
    pub gpus: Vec<HsaAgent>,
}

impl Hsa {
    pub fn new() -> Self {
        // SAFETY: no preconditions.
        assert_eq!(unsafe { hsa_init() }, HsaStatus::SUCCESS);
        let mut agents = Vec::new();
        // SAFETY: the callback gets the vector it expects.
        let status = unsafe { hsa_iterate_agents(Some(push::<HsaAgent>), as_data(&mut agents)) };
        assert_eq!(status, HsaStatus::SUCCESS);
        let (cpus, gpus): (Vec<_>, Vec<_>) = agents
            .into_iter()
            .partition(|&agent| agent_info::<HsaDeviceType>(agent, HsaAgentInfo::DEVICE) == HsaDeviceType::CPU);
        Self { cpu: cpus[0], gpus }
    }

    /// Registers a handler for faults of agents, which stores them in [`FAULTS`].
    pub fn handle_faults(&self) {
        // SAFETY: the callback needs no data.
        assert!(unsafe { hsa_amd_register_system_event_handler(Some(on_event), ptr::null_mut()) }.is_ok());
    }

    pub fn gpu(&self) -> HsaAgent {
        self.gpus[0]
    }

    /// The agent's first global pool that has all of `flags`.
    pub fn pool(&self, agent: HsaAgent, flags: u32) -> HsaMemoryPool {
        let found = pools(agent).into_iter().find(|&pool| {
            let segment: HsaAmdSegment = pool_info(pool, HsaMemoryPoolInfo::SEGMENT);
            segment == HsaAmdSegment::GLOBAL && pool_info::<u32>(pool, HsaMemoryPoolInfo::GLOBAL_FLAGS) & flags == flags
        });
        found.expect("a pool with the flags")
    }

    /// Allocates zeroed fine-grained host memory that all GPUs may access.
    pub fn host_memory<T>(&self, count: usize) -> *mut T {
        let pool = self.pool(self.cpu, HSA_GLOBAL_FLAG_KERNARG);
        let memory = allocate(pool, count * size_of::<T>()).unwrap();
        allow_access(memory, &self.gpus);
        memory.cast()
    }
}

impl Drop for Hsa {
    fn drop(&mut self) {
        // SAFETY: balances the call in `new`.
        assert_eq!(unsafe { hsa_shut_down() }, HsaStatus::SUCCESS);
    }
}

pub fn as_data<T>(value: &mut T) -> *mut c_void {
    ptr::from_mut(value).cast()
}

/// Callback of HSA's iterations that collects handles into a `Vec<T>`.
pub unsafe extern "C" fn push<T>(item: T, data: *mut c_void) -> HsaStatus {
    // SAFETY: the tests pass a vector of this type.
    unsafe { (*data.cast::<Vec<T>>()).push(item) };
    HsaStatus::SUCCESS
}

pub fn agent_info<T: Copy>(agent: HsaAgent, attribute: HsaAgentInfo) -> T {
    let mut value = std::mem::MaybeUninit::<T>::uninit();
    // SAFETY: the tests ask with the attribute's type; success means that it was written.
    unsafe {
        let status = hsa_agent_get_info(agent, attribute, value.as_mut_ptr().cast());
        assert_eq!(status, HsaStatus::SUCCESS, "{attribute:?}");
        value.assume_init()
    }
}

pub fn agent_text<const N: usize>(agent: HsaAgent, attribute: HsaAgentInfo) -> String {
    let bytes: [u8; N] = agent_info(agent, attribute);
    let end = bytes.iter().position(|&byte| byte == 0).expect("a NUL");
    String::from_utf8(bytes[..end].to_vec()).unwrap()
}

pub fn pools(agent: HsaAgent) -> Vec<HsaMemoryPool> {
    let mut pools = Vec::new();
    // SAFETY: the callback gets the vector it expects.
    let status = unsafe { hsa_amd_agent_iterate_memory_pools(agent, Some(push::<HsaMemoryPool>), as_data(&mut pools)) };
    assert_eq!(status, HsaStatus::SUCCESS);
    pools
}

pub fn pool_info<T: Copy>(pool: HsaMemoryPool, attribute: HsaMemoryPoolInfo) -> T {
    let mut value = std::mem::MaybeUninit::<T>::uninit();
    // SAFETY: the place has the attribute's type, as callers name it.
    unsafe {
        let status = hsa_amd_memory_pool_get_info(pool, attribute, value.as_mut_ptr().cast());
        assert_eq!(status, HsaStatus::SUCCESS, "{attribute:?}");
        value.assume_init()
    }
}

pub fn allocate(pool: HsaMemoryPool, size: usize) -> Result<*mut c_void, HsaStatus> {
    let mut memory = ptr::null_mut();
    // SAFETY: the output is a valid place.
    match unsafe { hsa_amd_memory_pool_allocate(pool, size, 0, &mut memory) } {
        HsaStatus::SUCCESS => Ok(memory),
        status => Err(status),
    }
}

pub fn allow_access(memory: *const c_void, agents: &[HsaAgent]) {
    // SAFETY: the slice is valid.
    let status = unsafe { hsa_amd_agents_allow_access(agents.len() as u32, agents.as_ptr(), ptr::null(), memory) };
    assert_eq!(status, HsaStatus::SUCCESS);
}

pub fn free(memory: *mut c_void) -> HsaStatus {
    // SAFETY: any pointer may be passed; the runtime looks it up.
    unsafe { hsa_amd_memory_pool_free(memory) }
}

pub fn signal(value: i64) -> HsaSignal {
    let mut signal = HsaSignal::NULL;
    // SAFETY: no consumers, and the output is a valid place.
    let status = unsafe { hsa_amd_signal_create(value, 0, ptr::null(), 0, &mut signal) };
    assert_eq!(status, HsaStatus::SUCCESS);
    signal
}

pub fn destroy(signals: &[HsaSignal]) {
    for &signal in signals {
        // SAFETY: each test destroys its signals once.
        assert_eq!(unsafe { hsa_signal_destroy(signal) }, HsaStatus::SUCCESS);
    }
}

pub fn load(signal: HsaSignal) -> i64 {
    // SAFETY: the tests only pass live signals.
    unsafe { hsa_signal_load_scacquire(signal) }
}

pub fn store(signal: HsaSignal, value: i64) {
    // SAFETY: the tests only pass live signals.
    unsafe { hsa_signal_store_screlease(signal, value) }
}

/// Waits until the signal is `value`; panics when that takes too long.
pub fn wait_for(signal: HsaSignal, value: i64) {
    let timeout = TIMEOUT.as_nanos() as u64;
    // SAFETY: the tests only pass live signals.
    let seen =
        unsafe { hsa_signal_wait_scacquire(signal, HsaSignalCondition::EQ, value, timeout, HsaWaitState::BLOCKED) };
    assert_eq!(seen, value, "signal did not reach its value");
}

/// Statuses that a queue's error callback received.
pub type Errors = Mutex<Vec<HsaStatus>>;

unsafe extern "C" fn on_error(status: HsaStatus, _queue: *mut HsaQueue, data: *mut c_void) {
    // SAFETY: the tests pass an `Errors` that outlives the queue.
    unsafe { &*data.cast::<Errors>() }.lock().unwrap().push(status);
}

/// A queue and its errors.
pub struct Queue {
    pub queue: *mut AmdQueue,
    pub errors: Box<Errors>,
}

// SAFETY: the queue's shared words are only accessed atomically; a packet only by the thread that reserved it.
unsafe impl Sync for Queue {}
// SAFETY: the queue may be used from any thread, and its errors are guarded.
unsafe impl Send for Queue {}

impl Queue {
    pub fn new(agent: HsaAgent, size: u32) -> Self {
        let errors = Box::<Errors>::default();
        let mut queue = ptr::null_mut();
        // SAFETY: the callback's data lives in the box, which the queue does not outlive.
        let status = unsafe {
            hsa_queue_create(
                agent,
                size,
                HsaQueueType::MULTI,
                Some(on_error),
                ptr::from_ref(&*errors).cast_mut().cast(),
                u32::MAX,
                u32::MAX,
                &mut queue,
            )
        };
        assert_eq!(status, HsaStatus::SUCCESS);
        Self { queue: queue.cast(), errors }
    }

    pub fn write_index(&self) -> &AtomicU64 {
        // SAFETY: the queue is live and the field is only accessed atomically.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.queue).write_dispatch_id) }
    }

    pub fn read_index(&self) -> &AtomicU64 {
        // SAFETY: the queue is live and the field is only accessed atomically.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.queue).read_dispatch_id) }
    }

    pub fn slot(&self, id: u64) -> *mut u32 {
        // SAFETY: the public fields do not change while the queue lives.
        let (base, size) = unsafe { ((*self.queue).hsa_queue.base_address, u64::from((*self.queue).hsa_queue.size)) };
        base.wrapping_byte_add((id % size) as usize * AQL_PACKET_SIZE).cast()
    }

    /// Reserves a packet; waits while the ring is full.
    pub fn reserve(&self) -> u64 {
        let id = self.write_index().fetch_add(1, Ordering::AcqRel);
        // SAFETY: the public fields do not change while the queue lives.
        let size = u64::from(unsafe { (*self.queue).hsa_queue.size });
        let start = Instant::now();
        while id - self.read_index().load(Ordering::Acquire) >= size {
            assert!(start.elapsed() < TIMEOUT, "the ring stays full");
            std::thread::yield_now();
        }
        id
    }

    /// Writes reserved packet `id`, its header last, without ringing the doorbell.
    pub fn publish<T>(&self, id: u64, packet: &T) {
        assert_eq!(size_of::<T>(), AQL_PACKET_SIZE);
        let words: *const u32 = ptr::from_ref(packet).cast();
        let slot = self.slot(id);
        // SAFETY: the slot is reserved, so that only its first word is shared.
        unsafe {
            slot.add(1).copy_from_nonoverlapping(words.add(1), AQL_PACKET_SIZE / 4 - 1);
            AtomicU32::from_ptr(slot).store(*words, Ordering::Release);
        }
    }

    /// Rings the doorbell as the driver does: by a bare store.
    pub fn ring(&self, id: u64) {
        // SAFETY: a live queue's doorbell signal holds the address of its doorbell word.
        unsafe {
            let signal = (*self.queue).hsa_queue.doorbell_signal.as_ptr();
            let doorbell = ptr::with_exposed_provenance_mut((*signal).value as usize);
            AtomicU64::from_ptr(doorbell).store(id, Ordering::Release);
        }
    }

    /// Reserves, writes, publishes and rings.
    pub fn submit<T>(&self, packet: &T) -> u64 {
        let id = self.reserve();
        self.publish(id, packet);
        self.ring(id);
        id
    }

    /// Waits for the queue's error callback.
    pub fn wait_error(&self) -> HsaStatus {
        let start = Instant::now();
        loop {
            if let Some(&status) = self.errors.lock().unwrap().first() {
                return status;
            }
            assert!(start.elapsed() < TIMEOUT, "the queue reports no error");
            std::thread::yield_now();
        }
    }

    /// Waits until the queue has stopped: by its error callback, which a memory fault never calls.
    pub fn wait_stopped(&self, status: HsaStatus) {
        if status != HsaStatus::ERROR_MEMORY_FAULT {
            assert_eq!(self.wait_error(), status);
            return;
        }
        let start = Instant::now();
        while self.fault().is_empty() {
            assert!(start.elapsed() < TIMEOUT, "the queue meets no fault");
            std::thread::yield_now();
        }
        assert_eq!(*self.errors.lock().unwrap(), []);
    }

    /// The text of the fault that stopped the queue.
    pub fn fault(&self) -> String {
        let mut buffer = [0_u8; 1024];
        // SAFETY: the buffer has the length that is passed.
        let length = unsafe { hsa_sim_last_fault(self.queue.cast(), buffer.as_mut_ptr().cast(), buffer.len()) };
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: made in `new` and destroyed once.
        assert_eq!(unsafe { hsa_queue_destroy(self.queue.cast()) }, HsaStatus::SUCCESS);
    }
}

pub fn header(packet_type: HsaPacketType, barrier: bool) -> PacketHeader {
    PacketHeader::new(packet_type, barrier, HsaFenceScope::SYSTEM, HsaFenceScope::SYSTEM)
}

pub fn barrier_and(signals: &[HsaSignal], completion: HsaSignal) -> BarrierAndPacket {
    let mut dep_signal = [HsaSignal::NULL; 5];
    dep_signal[..signals.len()].copy_from_slice(signals);
    BarrierAndPacket {
        header: header(HsaPacketType::BARRIER_AND, false),
        reserved0: 0,
        reserved1: 0,
        dep_signal,
        reserved2: 0,
        completion_signal: completion,
    }
}

/// Returns the runtime's information about an address, and the agents with access to it.
pub fn pointer_info(pointer: *const c_void) -> (HsaPointerInfo, Vec<HsaAgent>) {
    unsafe extern "C" fn alloc(size: usize) -> *mut c_void {
        // SAFETY: malloc takes any size.
        unsafe { libc::malloc(size.max(1)) }
    }
    let mut info = empty_pointer_info();
    let (mut count, mut list) = (0, ptr::null_mut());
    // SAFETY: the outputs are valid places; the list has `count` agents and came from malloc.
    unsafe {
        let status = hsa_amd_pointer_info(pointer, &mut info, Some(alloc), &mut count, &mut list);
        assert_eq!(status, HsaStatus::SUCCESS);
        assert_eq!(list.is_null(), info.pointer_type == HsaPointerType::UNKNOWN);
        let agents =
            if list.is_null() { Vec::new() } else { std::slice::from_raw_parts(list, count as usize).to_vec() };
        libc::free(list.cast());
        (info, agents)
    }
}

/// Returns an empty structure for `hsa_amd_pointer_info`.
pub fn empty_pointer_info() -> HsaPointerInfo {
    HsaPointerInfo {
        size: size_of::<HsaPointerInfo>() as u32,
        pointer_type: HsaPointerType::UNKNOWN,
        agent_base_address: ptr::null_mut(),
        host_base_address: ptr::null_mut(),
        size_in_bytes: 0,
        user_data: ptr::null_mut(),
        agent_owner: HsaAgent::NULL,
        global_flags: 0,
    }
}

pub fn barrier_value(
    signal: HsaSignal,
    condition: HsaSignalCondition,
    value: i64,
    mask: i64,
    completion: HsaSignal,
) -> AmdBarrierValuePacket {
    AmdBarrierValuePacket {
        header: AmdVendorHeader {
            header: header(HsaPacketType::VENDOR_SPECIFIC, true),
            format: AmdFormat::BARRIER_VALUE,
            reserved: 0,
        },
        reserved0: 0,
        signal,
        value,
        mask,
        condition,
        reserved1: 0,
        reserved2: [0; 2],
        completion_signal: completion,
    }
}
