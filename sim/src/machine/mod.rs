// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The simulated machine behind the HSA functions.
//!
//! ```text
//! hsa_* ──> Machine ─┬─ Agent, Pool        devices and their memory pools
//!                    ├─ MemoryMap          which bytes an agent may access
//!                    ├─ Signals            values and the threads that wait for them
//!                    ├─ Queue ─ processor  one thread for each queue runs its packets
//!                    ├─ Watcher            one thread polls doorbells
//!                    ├─ Events             one thread calls the program's callbacks
//!                    ├─ Handlers           one thread calls handlers of signals
//!                    └─ Executables        loaded code objects and their kernels
//! ```
//!
//! Locks are leaves: no code holds two of them, and none is held during a callback of the host program, a kernel or a
//! wait.

pub mod agent;
pub mod agent_id;
pub mod clock;
pub mod code;
pub mod config;
pub mod events;
pub mod exports;
pub mod handlers;
pub mod leaks;
pub mod lifecycle;
pub mod memory;
pub mod processor;
pub mod product;
pub mod queue;
pub mod report;
pub mod signal;
pub mod worker;

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use hsa_abi::{AmdSignalKind, HsaAgent, HsaIpcHandle, HsaMemoryPool, HsaRegion, HsaSignal, HsaStatus};
use parking_lot::{Mutex, RwLock};

use crate::machine::agent::Agent;
use crate::machine::agent_id::{AgentIndex, AgentMask, CPU, Pool};
use crate::machine::code::executable::Executables;
use crate::machine::code::foreign::Code;
use crate::machine::config::Config;
use crate::machine::events::Events;
use crate::machine::handlers::Handlers;
use crate::machine::memory::allocation::{self, Allocation, AllocationInfo, DEVICE_BLOCK, Mapping};
use crate::machine::memory::caches::Backing;
use crate::machine::memory::hdp::HostWrites;
use crate::machine::memory::ipc::SharedFiles;
use crate::machine::memory::map::MemoryMap;
use crate::machine::memory::vmem::Vmem;
use crate::machine::queue::packet::Failure;
use crate::machine::queue::{Queue, eviction};
use crate::machine::report::costs::{Cost, Costs};
use crate::machine::report::counters::Counters;
use crate::machine::report::findings::Findings;
use crate::machine::report::profile::Profiles;
use crate::machine::report::race::RaceDetector;
use crate::machine::signal::Signals;
use crate::machine::worker::Worker;

/// The simulated machine, which exists between `hsa_init` and `hsa_shut_down`.
pub struct Machine {
    /// Settings from the environment.
    pub config: Config,
    /// The CPU, then the GPUs.
    pub agents: Vec<Agent>,
    /// The memory map.
    pub memory: MemoryMap,
    /// Memory that other processes can attach.
    pub ipc: Arc<SharedFiles>,
    /// Accesses of dispatches, for the check `race`.
    pub race: Arc<RaceDetector>,
    /// Reservations and mappings of the virtual memory functions.
    pub vmem: Vmem,
    /// Signals.
    pub signals: Signals,
    /// Queues.
    pub queues: RwLock<Vec<Arc<Queue>>>,
    /// Host writes to GPUs' memory.
    pub host_writes: HostWrites,
    /// Code objects.
    pub executables: Executables,
    /// Kernels that another HSA runtime loaded.
    pub code: Code,
    /// Counters of executed work.
    pub counters: Counters,
    /// Counts of operations that cost time on hardware.
    pub costs: Costs,
    /// Findings of the checks of kernels.
    pub findings: Findings,
    /// Profiles of kernels.
    pub profiles: Profiles,
    /// The debugger, if requested.
    pub debugger: Option<sim_debug::Debugger>,
    /// Asynchronous callbacks to the program.
    pub events: Events,
    /// Handlers of signals.
    pub handlers: Handlers,
    /// True if copies are timed.
    pub copy_profiling: AtomicBool,
    driver: Option<Arc<dyn Driver>>,
    next_queue_id: AtomicU64,
    last_fault: Mutex<Option<String>>,
    /// True if the program shows faults itself.
    faults_are_shown: AtomicBool,
    watcher: Worker,
    copies: Mutex<Vec<JoinHandle<()>>>,
    stopping: AtomicBool,
}

/// Receiver of the GPUs' interrupts: the kernel driver, if another HSA runtime runs on the machine.
///
/// With a driver, packets may name kernels at any address, and queues stop without a callback.
pub trait Driver: Send + Sync {
    /// A packet completed a signal with this `event_id`, and stored it to the signal's mailbox. Called on the
    /// processor's thread.
    fn interrupt(&self, event_id: u32);
    /// A packet has failed and its queue stops. Called on the processor's thread.
    fn fault(&self, machine: &Machine, queue: &Queue, failure: &Failure);
}

/// Value of every byte of memory that may have been used before.
const LEFT_BEHIND: u8 = 0xa5;

impl Machine {
    /// The agent that a handle names.
    pub fn agent(&self, handle: HsaAgent) -> Result<&Agent, HsaStatus> {
        agent_id::agent_index(handle).and_then(|index| self.agents.get(index.0)).ok_or(HsaStatus::ERROR_INVALID_AGENT)
    }

    /// The set of agents that handles name.
    pub fn agent_mask(&self, handles: &[HsaAgent]) -> Result<AgentMask, HsaStatus> {
        handles
            .iter()
            .try_fold(AgentMask::default(), |mask, &handle| Ok(mask | AgentMask::of(self.agent(handle)?.index)))
    }

    /// The pool that a handle names.
    pub fn pool(&self, handle: HsaMemoryPool) -> Result<Pool, HsaStatus> {
        agent_id::pool_index(handle)
            .and_then(|(index, slot)| self.agents.get(index.0)?.pools().nth(slot))
            .ok_or(HsaStatus::ERROR_INVALID_MEMORY_POOL)
    }

    /// The pool that a region's handle names.
    pub fn region(&self, handle: HsaRegion) -> Result<Pool, HsaStatus> {
        agent_id::region_index(handle)
            .and_then(|(index, slot)| self.agents.get(index.0)?.pools().nth(slot))
            .ok_or(HsaStatus::ERROR_INVALID_REGION)
    }

    /// Allocates `size` bytes from a pool, not zeroed. The owner has access. Memory that is small enough for ROCR to
    /// suballocate it from a block of device memory keeps its old contents. Larger device memory is aligned as blocks
    /// are, on which the device library's `free` relies. An APU's part of the host's memory is device memory, too.
    pub fn allocate(&self, pool: Pool, size: usize, executable: bool) -> Result<u64, HsaStatus> {
        let limit = self.agents[pool.owner.0].memory;
        if size as u64 > limit || !pool.allocatable() {
            return Err(HsaStatus::ERROR_INVALID_ALLOCATION);
        }
        let is_device = pool.owner != CPU;
        let alignment = if is_device && size >= DEVICE_BLOCK { DEVICE_BLOCK } else { allocation::PAGE };
        let mapping = Mapping::aligned(size, alignment).map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)?;
        let base = mapping.base() as u64;
        if is_device && size < DEVICE_BLOCK {
            // SAFETY: the mapping has these bytes, and no other code knows of it yet.
            unsafe { ptr::with_exposed_provenance_mut::<u8>(mapping.base()).write_bytes(LEFT_BEHIND, size) };
        }
        if self.config.checks.set.init && is_device {
            self.memory.unwritten.follow(base..base + size as u64);
        }
        let info = AllocationInfo {
            global_flags: pool.global_flags,
            executable,
            ..AllocationInfo::new(base, size as u64, pool.owner, AgentMask::of(pool.owner))
        };
        self.memory.insert(Allocation { info, from_pool: true, mapping: Some(mapping) });
        Ok(base)
    }

    /// Polls the registers of all GPUs.
    pub fn see_flushes(&self) {
        if self.host_writes.is_empty() {
            return;
        }
        for agent in &self.agents {
            if let Some(registers) = &agent.hdp {
                self.host_writes.look(agent.index, || registers.take_flush());
            }
        }
    }

    /// Starts to follow host writes to the allocation at `base`, if the host may access it and must flush.
    pub fn follow_host_writes(&self, base: u64) {
        let Some(range) = self.memory.find(base) else { return };
        let is_checked = self.agents[range.owner.0].gpu.as_ref().is_some_and(|gpu| gpu.hdp_checked && gpu.has_hdp());
        if is_checked && range.access.has(CPU) {
            self.see_flushes();
            self.host_writes.follow(&range);
        } else {
            self.host_writes.forget(base);
        }
    }

    /// The memory behind the GPUs' caches.
    pub fn backing(&self) -> Backing<'_> {
        Backing { memory: &self.memory, host_writes: &self.host_writes }
    }

    /// Size of an agent's unallocated memory in bytes.
    pub fn available_memory(&self, agent: &Agent) -> u64 {
        let pages = |range: &AllocationInfo| range.size.next_multiple_of(allocation::PAGE as u64);
        let allocations = self.memory.allocations();
        let used = allocations.iter().filter(|range| range.owner == agent.index).map(pages).sum();
        agent.memory.saturating_sub(used)
    }

    /// True if agents see locked memory at other addresses than the host: unless the kernel driver shares the process's
    /// virtual memory with all GPUs, or none has memory of its own.
    pub fn moves_locked_memory(&self) -> bool {
        let mut gpus = self.agents.iter().filter_map(|agent| agent.gpu.as_ref());
        gpus.clone().any(|gpu| gpu.memory.is_some()) && gpus.any(|gpu| !gpu.svm)
    }

    /// True if the kernel driver makes DMA-BUFs of all GPUs' memory.
    pub fn has_dmabufs(&self) -> bool {
        self.agents.iter().filter_map(|agent| agent.gpu.as_ref()).all(|gpu| gpu.dmabuf)
    }

    /// Creates a signal that every agent can access, with an interrupt or without.
    pub fn create_signal(&self, kind: AmdSignalKind, value: i64, interrupt: bool) -> Result<HsaSignal, HsaStatus> {
        let interrupt = interrupt && self.config.interrupts;
        self.signals.create(kind, value, interrupt, |slab| self.insert_signals(slab))
    }

    /// Creates a signal that every agent can access, and other processes can attach.
    pub fn create_shared_signal(&self, value: i64) -> Result<HsaSignal, HsaStatus> {
        self.signals.create_shared(value, |page| self.insert_signals(page))
    }

    /// Attaches another process's signal for every agent.
    pub fn attach_signal(&self, handle: &HsaIpcHandle) -> Result<HsaSignal, HsaStatus> {
        self.signals.attach(handle, |page| self.insert_signals(page))
    }

    /// Gives all agents access to a page of signals.
    fn insert_signals(&self, page: &allocation::Mapping) {
        let (base, size) = (page.base() as u64, allocation::PAGE as u64);
        self.memory.insert(AllocationInfo::new(base, size, CPU, AgentMask::ALL).into());
    }

    /// Wakes the processors of queues whose doorbell was rung. Returns true if there were any.
    pub fn wake_rung_queues(&self) -> bool {
        let mut any = false;
        for queue in &*self.queues.read() {
            any |= queue.wake_if_rung();
        }
        any
    }

    /// Stops or reports kernels that run long.
    pub fn watch_kernels(&self) {
        if self.debugger.is_some() {
            return;
        }
        for queue in &*self.queues.read() {
            if let Some(text) = queue.watchdog.look(self.config.timeout) {
                eprintln!("hsa-sim: {}: {text}", queue.describe());
            }
        }
    }

    /// Does the watcher's work early, for a thread that begins to wait: it has most likely just rung a doorbell, and
    /// its signal may change without a call.
    pub fn watch(&self) {
        self.wake_rung_queues();
        self.watcher.wake();
    }

    /// Evicts all queues of the process from `agent` for good, as the kernel driver does after a memory fault or a
    /// reset: packets in progress never complete, and queues created later never run.
    pub fn evict(&self, agent: AgentIndex) {
        eviction::evict(agent);
        for queue in &*self.queues.read() {
            queue.unpark();
        }
        self.signals.wake_all();
    }

    /// Stops the printing of faults, because the program fetches their texts.
    pub fn leave_faults_to_the_program(&self) {
        self.faults_are_shown.store(true, Ordering::Relaxed);
    }

    /// True if the program shows faults itself.
    pub fn faults_are_shown(&self) -> bool {
        self.faults_are_shown.load(Ordering::Relaxed)
    }

    /// Sets the text of the last fault of any queue.
    pub fn set_last_fault(&self, text: &str) {
        *self.last_fault.lock() = Some(text.to_owned());
    }

    /// The text of the last fault of any queue.
    pub fn last_fault(&self) -> Option<String> {
        self.last_fault.lock().clone()
    }

    /// Adds a queue whose processor runs.
    pub fn add_queue(&self, queue: Arc<Queue>) {
        self.queues.write().push(queue);
        self.watcher.wake();
    }

    /// The queue that `address`, an `hsa_queue_t*`, names.
    pub fn queue(&self, address: u64) -> Result<Arc<Queue>, HsaStatus> {
        let queues = self.queues.read();
        let queue = queues.iter().find(|queue| queue.address() == address);
        queue.cloned().ok_or(HsaStatus::ERROR_INVALID_QUEUE)
    }

    /// As [`queue`](Self::queue), if packets are processed here.
    pub fn hardware_queue(&self, address: u64) -> Result<Arc<Queue>, HsaStatus> {
        Some(self.queue(address)?).filter(|queue| !queue.soft).ok_or(HsaStatus::ERROR_INVALID_QUEUE)
    }

    /// Stops a queue and frees its memory.
    pub fn destroy_queue(&self, address: u64) -> Result<(), HsaStatus> {
        let queue = {
            let mut queues = self.queues.write();
            let index = queues.iter().position(|queue| queue.address() == address);
            let index = index.ok_or(HsaStatus::ERROR_INVALID_QUEUE)?;
            if queues[index].give_up() {
                return Ok(());
            }
            queues.swap_remove(index)
        };
        queue.stop();
        queue.forget(&self.memory, &self.signals)
    }

    /// A number for a new queue.
    pub fn next_queue_id(&self) -> u64 {
        self.next_queue_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The receiver of interrupts, if another HSA runtime runs on the machine.
    pub fn driver(&self) -> Option<&dyn Driver> {
        self.driver.as_deref()
    }

    /// True if the machine is about to stop.
    pub fn stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Stores an asynchronous copy's thread, which is joined when the machine stops.
    pub fn add_copy(&self, copy: JoinHandle<()>) {
        let mut copies = self.copies.lock();
        copies.retain(|copy| !copy.is_finished());
        copies.push(copy);
    }

    /// Subtracts one from a completion signal and wakes its waiters.
    pub fn complete(&self, signal: HsaSignal) {
        // Its owner may destroy it once it has changed.
        let mailbox = signal::mailbox(signal);
        self.costs.add(Cost::Interrupts, u64::from(mailbox.is_some()));
        let event = self.driver().zip(mailbox);
        signal::value(signal).fetch_sub(1, Ordering::Release);
        self.signals.changed(signal);
        Self::interrupt(event);
    }

    /// Wakes the waiters of a signal after a store to its value.
    pub fn announce(&self, signal: HsaSignal) {
        self.signals.changed(signal);
        Self::interrupt(self.driver().zip(signal::mailbox(signal)));
    }

    fn interrupt(event: Option<(&dyn Driver, (&AtomicU64, u32))>) {
        if let Some((driver, (mailbox, id))) = event {
            mailbox.store(id.into(), Ordering::Release);
            driver.interrupt(id);
        }
    }
}

impl handlers::Host for Machine {
    fn handlers(&self) -> &Handlers {
        &self.handlers
    }

    fn signals(&self) -> &Signals {
        &self.signals
    }

    fn stopping(&self) -> bool {
        self.stopping()
    }

    fn watch(&self) {
        self.watch();
    }
}
