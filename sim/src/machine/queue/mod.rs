// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Queues in the host program's memory: `amd_queue_t`, the ring and the doorbell.
//!
//! Producers write packets, `write_dispatch_id` and the doorbell word. The queue's processor writes `read_dispatch_id`,
//! and marks finished slots INVALID before it advances the index.

pub mod eviction;
pub mod packet;
pub mod pm4;
pub mod watchdog;

use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use hsa_abi::{
    AMD_QUEUE_PROPERTIES_ENABLE_PROFILING, AMD_QUEUE_PROPERTIES_IS_PTR64, AQL_PACKET_SIZE, AmdQueue, HsaPacketType,
    HsaQueue, HsaQueueCallback, HsaQueueType, HsaSignal, HsaStatus, PacketHeader,
};
use parking_lot::Mutex;
use sim_wave::{PRIVATE_APERTURE, SHARED_APERTURE};

use crate::machine::agent_id::{AgentIndex, AgentMask, CPU};
use crate::machine::clock::CountedTime;
use crate::machine::memory::allocation::{AllocationInfo, Mapping, PAGE};
use crate::machine::memory::map::MemoryMap;
use crate::machine::signal::Signals;
use watchdog::Watchdog;

/// Minimum number of packets of a queue.
pub const MIN_SIZE: u32 = 64;
/// Maximum number of packets of a queue.
pub const MAX_SIZE: u32 = 1 << 17;

/// Offset of the doorbell word from the `amd_queue_t`, on a separate cache line.
const DOORBELL_OFFSET: usize = 1024;

thread_local! {
    // The queue whose error callback this thread is in.
    static REPORTING: Cell<u64> = const { Cell::new(u64::MAX) };
}

fn out_of_resources(_: io::Error) -> HsaStatus {
    HsaStatus::ERROR_OUT_OF_RESOURCES
}

/// A queue and its processor's thread.
pub struct Queue {
    /// The agent that runs its packets.
    pub agent: AgentIndex,
    /// Name of the agent's instruction set, for messages.
    target: &'static str,
    /// Unique over the life of the process.
    pub id: u64,
    /// Number of packets in the ring, a power of two.
    pub size: u32,
    memory: QueueMemory,
    /// Mappings of the queue and the ring; `None` if the program laid them out.
    owned: Option<[Mapping; 2]>,
    doorbell_signal: HsaSignal,
    seen_doorbell: AtomicU64,
    /// First packet that counts as written after GPUs were released from a hold.
    late: AtomicU64,
    head: AtomicU64,
    /// Held by the processor while it runs packets.
    pub in_progress: Mutex<()>,
    /// True if the host program processes the packets.
    pub soft: bool,
    /// Number of times that the program has the GPU's one queue of cooperative dispatches; 0 for other queues.
    cooperative: AtomicUsize,
    /// Time by executed instructions, if GPUs' clocks count these.
    pub counted_time: CountedTime,
    active: AtomicBool,
    idle: AtomicBool,
    stopping: AtomicBool,
    /// Watchdog of the queue's kernels.
    pub watchdog: Watchdog,
    fault: Mutex<Option<String>>,
    /// Held while the error callback runs.
    reporting: Mutex<()>,
    callback: Option<HsaQueueCallback>,
    callback_data: usize,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Addresses of a queue's parts.
#[derive(Clone, Copy, Debug)]
pub struct QueueMemory {
    /// The `amd_queue_t`.
    pub queue: u64,
    /// The ring of packets.
    pub ring: u64,
    /// The doorbell word.
    pub doorbell: u64,
}

/// Properties of a new queue.
pub struct Request {
    /// The agent that processes its packets.
    pub agent: AgentIndex,
    /// Number of packets in the ring, a power of two.
    pub size: u32,
    /// Single or multiple producers.
    pub queue_type: HsaQueueType,
    /// `HSA_QUEUE_FEATURE_*` bits.
    pub features: u32,
}

impl Queue {
    /// Makes this the queue of its GPU's cooperative dispatches.
    pub fn set_cooperative(&self) {
        self.cooperative.store(1, Ordering::Relaxed);
    }

    /// Takes another reference to a queue of cooperative dispatches. Returns false for other queues.
    pub fn share(&self) -> bool {
        self.cooperative
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count > 0).then(|| count + 1))
            .is_ok()
    }

    /// Gives up a reference. Returns true if others are left.
    pub fn give_up(&self) -> bool {
        let left = self.cooperative.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
        left.is_ok_and(|count| count > 1)
    }

    /// Allocates a queue with its memory, without a doorbell signal.
    ///
    /// # Errors
    /// OUT_OF_RESOURCES.
    pub fn allocate(map: &MemoryMap, (id, target): (u64, &'static str), request: &Request) -> Result<Self, HsaStatus> {
        let ring_bytes = request.size as usize * AQL_PACKET_SIZE;
        let queue = Mapping::new(PAGE).map_err(out_of_resources)?;
        let ring = Mapping::new(ring_bytes).map_err(out_of_resources)?;
        let access = AgentMask::of(request.agent) | AgentMask::of(CPU);
        for (base, size) in [(queue.base(), size_of::<AmdQueue>()), (ring.base(), ring_bytes)] {
            map.insert(AllocationInfo::new(base as u64, size as u64, CPU, access).into());
        }
        let memory = QueueMemory {
            queue: queue.base() as u64,
            ring: ring.base() as u64,
            doorbell: (queue.base() + DOORBELL_OFFSET) as u64,
        };
        Ok(Self::new((id, target), request.agent, request.size, memory, Some([queue, ring])))
    }

    /// Creates a queue in a program's memory, or in its `owned` memory.
    pub fn new(
        (id, target): (u64, &'static str),
        agent: AgentIndex,
        size: u32,
        memory: QueueMemory,
        owned: Option<[Mapping; 2]>,
    ) -> Self {
        Self {
            agent,
            target,
            id,
            size,
            memory,
            owned,
            doorbell_signal: HsaSignal::NULL,
            seen_doorbell: AtomicU64::new(u64::MAX),
            late: AtomicU64::new(u64::MAX),
            head: AtomicU64::new(0),
            in_progress: Mutex::default(),
            soft: false,
            cooperative: AtomicUsize::new(0),
            counted_time: CountedTime::default(),
            active: AtomicBool::new(true),
            idle: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            watchdog: Watchdog::default(),
            fault: Mutex::default(),
            reporting: Mutex::default(),
            callback: None,
            callback_data: 0,
            thread: Mutex::default(),
        }
    }

    /// Sets the doorbell signal; `is_soft` if the host program processes the packets.
    pub fn set_doorbell_signal(&mut self, signal: HsaSignal, is_soft: bool) {
        self.doorbell_signal = signal;
        self.soft = is_soft;
    }

    /// Sets the error callback.
    pub fn set_callback(&mut self, callback: Option<HsaQueueCallback>, data: *mut c_void) {
        self.callback = callback;
        self.callback_data = data.expose_provenance();
    }

    /// Sets the processor's thread.
    pub fn set_thread(&self, thread: JoinHandle<()>) {
        *self.thread.lock() = Some(thread);
    }

    /// Writes the `amd_queue_t` and empties the ring.
    pub fn initialize(&self, request: &Request) {
        for slot in 0..u64::from(self.size) {
            self.header(slot).store(u32::from(PacketHeader::INVALID.0), Ordering::Relaxed);
        }
        self.doorbell().store(u64::MAX, Ordering::Relaxed);
        let queue = self.amd_queue();
        // SAFETY: the queue's page is this queue's own, zeroed, and not shared with anyone yet.
        unsafe {
            (*queue).hsa_queue = HsaQueue {
                queue_type: request.queue_type,
                features: request.features,
                base_address: ptr::with_exposed_provenance_mut(self.memory.ring as usize),
                doorbell_signal: self.doorbell_signal,
                size: self.size,
                reserved1: 0,
                id: self.id,
            };
            (*queue).group_segment_aperture_base_hi = SHARED_APERTURE;
            (*queue).private_segment_aperture_base_hi = PRIVATE_APERTURE;
            (*queue).read_dispatch_id_field_base_byte_offset = std::mem::offset_of!(AmdQueue, read_dispatch_id) as u32;
            (*queue).queue_properties = AMD_QUEUE_PROPERTIES_IS_PTR64;
        }
    }

    /// The `amd_queue_t`.
    pub fn amd_queue(&self) -> *mut AmdQueue {
        ptr::with_exposed_provenance_mut(self.memory.queue as usize)
    }

    /// Address of the `amd_queue_t`, which is also the `hsa_queue_t*`.
    pub fn address(&self) -> u64 {
        self.memory.queue
    }

    /// Address of the slot of packet `id`.
    pub fn slot(&self, id: u64) -> u64 {
        let index = id & (u64::from(self.size) - 1);
        self.memory.ring + index * AQL_PACKET_SIZE as u64
    }

    /// First 32 bits of the slot of packet `id`. Producers publish them with one store.
    pub fn header(&self, id: u64) -> &AtomicU32 {
        // SAFETY: the slot lies in the ring, which lives as long as `self`; it is aligned, and
        // published packets are only accessed atomically or by the processor.
        unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(self.slot(id) as usize)) }
    }

    /// The header of packet `id`, if it is published.
    pub fn published(&self, id: u64) -> Option<PacketHeader> {
        let header = PacketHeader(self.header(id).load(Ordering::Acquire) as u16);
        (header.packet_type() != HsaPacketType::INVALID).then_some(header)
    }

    /// The bytes of published packet `id`.
    pub fn packet<T: Copy>(&self, id: u64) -> T {
        const { assert!(size_of::<T>() == AQL_PACKET_SIZE) };
        let slot: *const T = ptr::with_exposed_provenance(self.slot(id) as usize);
        // SAFETY: the slot is 64 readable aligned bytes, and every packet type is made of integers.
        // Producers leave a published packet alone; volatile because that is only a promise.
        unsafe { slot.read_volatile() }
    }

    /// Address of the doorbell word.
    pub fn doorbell_address(&self) -> u64 {
        self.memory.doorbell
    }

    /// The doorbell word.
    pub fn doorbell(&self) -> &AtomicU64 {
        let word = ptr::with_exposed_provenance_mut(self.doorbell_address() as usize);
        // SAFETY: the word lies in the queue's page, aligned, and is only accessed atomically.
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// Id of the next packet to process. Owned by the processor.
    pub fn head(&self) -> &AtomicU64 {
        &self.head
    }

    /// Id of the next packet to process, as the processor has published it.
    pub fn read_index(&self) -> &AtomicU64 {
        // SAFETY: the field is in the queue's page, aligned, and only accessed atomically.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.amd_queue()).read_dispatch_id) }
    }

    /// Id of the next packet to be reserved.
    pub fn write_index(&self) -> &AtomicU64 {
        // SAFETY: the field is in the queue's page, aligned, and only accessed atomically.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.amd_queue()).write_dispatch_id) }
    }

    fn properties(&self) -> &AtomicU32 {
        // SAFETY: the field is in the queue's page, aligned, and only accessed atomically.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.amd_queue()).queue_properties) }
    }

    /// True if a bit of `queue_properties` is set.
    pub fn has_property(&self, property: u32) -> bool {
        self.properties().load(Ordering::Acquire) & property != 0
    }

    /// True if completion signals are stamped.
    pub fn profiling(&self) -> bool {
        self.has_property(AMD_QUEUE_PROPERTIES_ENABLE_PROFILING)
    }

    /// Bytes of scratch memory that the queue has for each lane of a wave64.
    pub fn scratch_wave64_lane(&self) -> u32 {
        // SAFETY: the field is in the queue's page and aligned; a thread that changes it stores to the inactive signal
        // after.
        unsafe { (&raw const (*self.amd_queue()).scratch_wave64_lane_byte_size).read_volatile() }
    }

    /// Sets the bytes of scratch memory for each lane of a wave64. Called on the processor's thread.
    pub fn set_scratch_wave64_lane(&self, bytes: u32) {
        // SAFETY: the field is in the queue's page and aligned; only the processor looks at it.
        unsafe { (&raw mut (*self.amd_queue()).scratch_wave64_lane_byte_size).write_volatile(bytes) };
    }

    /// Signal by which the processor notifies the queue's HSA runtime; may be null.
    pub fn inactive_signal(&self) -> HsaSignal {
        // SAFETY: the field is in the queue's page and aligned, and does not change while the queue lives.
        unsafe { (&raw const (*self.amd_queue()).queue_inactive_signal).read_volatile() }
    }

    /// Turns stamping of completion signals on or off.
    pub fn set_profiling(&self, enable: bool) {
        if enable {
            self.properties().fetch_or(AMD_QUEUE_PROPERTIES_ENABLE_PROFILING, Ordering::Relaxed);
        } else {
            self.properties().fetch_and(!AMD_QUEUE_PROPERTIES_ENABLE_PROFILING, Ordering::Relaxed);
        }
    }

    /// Stores the doorbell's current value, to detect later rings.
    pub fn see_doorbell(&self) {
        self.seen_doorbell.store(self.doorbell().load(Ordering::Acquire), Ordering::Relaxed);
    }

    /// Marks all packets from here on as written after GPUs were released from a hold.
    pub fn mark_late(&self) {
        self.late.store(self.write_index().load(Ordering::Acquire), Ordering::Relaxed);
    }

    /// True if `id` is the first packet of a host's round trip. Called by the processor, in the order of packets.
    pub fn begins_round_trip(&self, id: u64) -> bool {
        let is_late = id >= self.late.load(Ordering::Relaxed);
        if is_late {
            self.mark_late();
        }
        is_late
    }

    /// True if the doorbell was rung since [`see_doorbell`](Self::see_doorbell).
    fn rung(&self) -> bool {
        self.doorbell().load(Ordering::Acquire) != self.seen_doorbell.load(Ordering::Relaxed)
    }

    /// True if the doorbell was rung for the next packet, and the packet is published.
    fn ready(&self) -> bool {
        let (head, doorbell) = (self.head.load(Ordering::Relaxed), self.doorbell().load(Ordering::Acquire));
        let rung = doorbell != u64::MAX && doorbell >= head;
        rung && PacketHeader(self.header(head).load(Ordering::Acquire) as u16).packet_type() != HsaPacketType::INVALID
    }

    /// True if an idle processor has work: the doorbell was rung, or a packet for which it was rung too early is
    /// published now.
    pub fn wanted(&self) -> bool {
        self.rung() || self.ready()
    }

    /// Sets if the processor is idle, so that others check if it has work.
    pub fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::SeqCst);
    }

    /// Wakes the processor if it has work. Returns true if it had.
    pub fn wake_if_rung(&self) -> bool {
        let wanted = self.active() && (self.rung() || self.idle.load(Ordering::SeqCst) && self.ready());
        if wanted {
            self.unpark();
        }
        wanted
    }

    /// Wakes the processor, e.g. to check if it must stop.
    pub fn unpark(&self) {
        if let Some(thread) = &*self.thread.lock() {
            thread.thread().unpark();
        }
    }

    /// True if packets are processed.
    pub fn active(&self) -> bool {
        self.active.load(Ordering::SeqCst) && !eviction::is_evicted(self.agent)
    }

    /// Stops the processing of packets, including those in progress. After its return nothing of the queue accesses
    /// memory.
    pub fn inactivate(&self) {
        self.active.store(false, Ordering::SeqCst);
        self.watchdog.cancel();
        self.unpark();
        let is_own = self.thread.lock().as_ref().is_some_and(|thread| thread.thread().id() == thread::current().id());
        if !is_own {
            drop(self.in_progress.lock());
        }
    }

    /// True if the processor must end.
    pub fn stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Ends the processor, after a running error callback.
    pub fn stop(&self) {
        if REPORTING.get() == self.id {
            eprintln!(
                "hsa-sim: queue {} is destroyed in its own error callback, where ROCR waits forever; the process is ended",
                self.id
            );
            std::process::abort();
        }
        self.stopping.store(true, Ordering::SeqCst);
        self.watchdog.cancel();
        self.active.store(false, Ordering::SeqCst);
        self.unpark();
        drop(self.reporting.lock());
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A processor that panicked is as stopped as one that returned.
            let _ = thread.join();
        }
    }

    /// Removes the queue's own memory from the map.
    pub fn forget(&self, memory: &MemoryMap, signals: &Signals) -> Result<(), HsaStatus> {
        for mapping in self.owned.iter().flatten() {
            memory.remove(mapping.base() as u64, |_| true);
        }
        if self.doorbell_signal.is_null() || self.soft {
            return Ok(());
        }
        signals.destroy(self.doorbell_signal)
    }

    /// The text of the fault that stopped the queue.
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().clone()
    }

    /// Stops the queue with an error, including running packets. Stores `text`.
    pub fn fail(&self, text: &str) {
        self.active.store(false, Ordering::SeqCst);
        self.watchdog.cancel();
        *self.fault.lock() = Some(text.to_owned());
    }

    /// Name of the queue for messages.
    pub fn describe(&self) -> String {
        format!("queue {} on agent {} ({})", self.id, self.agent.0, self.target)
    }

    /// Calls the error callback, unless the queue is being destroyed. Ends the process if there is no callback.
    pub fn call_back(&self, status: HsaStatus) {
        let _reporting = self.reporting.lock();
        if self.stopping() {
            return;
        }
        let Some(callback) = self.callback else {
            // ROCR's own callback.
            if std::env::var_os("HSA_ENABLE_QUEUE_FAULT_MESSAGE").is_none_or(|value| value != "0") {
                eprintln!("hsa-sim: queue {} has no error callback; the process is ended, as ROCR does", self.id);
                std::process::abort();
            }
            return;
        };
        let data = ptr::with_exposed_provenance_mut(self.callback_data);
        REPORTING.set(self.id);
        // SAFETY: the host program passed this callback and data to `hsa_queue_create` for this
        // queue, whose memory lives as long as `self`.
        unsafe { callback(status, self.amd_queue().cast(), data) };
        REPORTING.set(u64::MAX);
    }
}
