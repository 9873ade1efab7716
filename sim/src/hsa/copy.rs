// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Copies, and memory that the program shares with agents without a pool (SVM).

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use hsa_abi::{
    AmdSignalKind, HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT, HsaAgent, HsaCopyDirection, HsaDim3, HsaPitchedPtr,
    HsaProfilingAsyncCopyTime, HsaSignal, HsaStatus, HsaSvmAttributePair,
};

use super::{Out, check_signatures, guard, slice};
use crate::machine::Machine;
use crate::machine::agent::Agent;
use crate::machine::agent_id::{AgentIndex, AgentMask, CPU};
use crate::machine::clock::now;
use crate::machine::lifecycle::machine;
use crate::machine::memory::allocation::PAGE;
use crate::machine::memory::hdp::Accesses;
use crate::machine::queue::eviction;
use crate::machine::signal::{self, Condition, Waiting};

check_signatures! {
    hsa_memory_copy hsa_amd_memory_async_copy hsa_amd_memory_async_copy_on_engine
    hsa_amd_memory_copy_engine_status hsa_amd_memory_async_copy_rect
    hsa_amd_profiling_async_copy_enable hsa_amd_profiling_get_async_copy_time
    hsa_amd_svm_attributes_get hsa_amd_svm_attributes_set hsa_amd_svm_prefetch_async
}

/// Returns the host address of a range. Refuses ranges that leave an allocation of this runtime, or to which no agent
/// has access yet.
fn check_range(machine: &Machine, ptr: *const c_void, size: usize) -> Result<usize, HsaStatus> {
    let start = ptr.addr() as u64;
    let end = start.checked_add(size as u64).filter(|_| start != 0).ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
    let first = machine.memory.find(start);
    let mut at = start;
    // Memory that is mapped in pieces may be copied as a whole.
    while let Some(range) = machine.memory.find(at).filter(|range| range.access != AgentMask::default()) {
        at = range.base + range.size;
        if at >= end {
            break;
        }
    }
    match first {
        None => Ok(ptr.expose_provenance()),
        Some(range) if at >= end => Ok((start - range.base + range.host) as usize),
        Some(_) => Err(HsaStatus::ERROR_INVALID_ARGUMENT),
    }
}

/// First address of a range that `agent`, whose DMA engine copies, cannot read or write.
fn unreachable(machine: &Machine, agent: AgentIndex, (start, size): (usize, usize), writes: bool) -> Option<u64> {
    let end = (start + size) as u64;
    let mut at = start as u64;
    while at < end {
        let range = machine.memory.reachable(at).filter(|range| {
            let denied = if writes { range.read_only } else { range.write_only };
            range.access.has(agent) && !denied.has(agent)
        });
        match range {
            Some(range) => at = range.base + range.size,
            None => return Some(at),
        }
    }
    None
}

/// Copies synchronously, between any memory. Refuses ranges that leave an allocation, and null, even if the size is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_memory_copy(dst: *mut c_void, src: *const c_void, size: usize) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        if dst.is_null() || src.is_null() {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        if size == 0 {
            return Ok(());
        }
        let (to, from) = (check_range(&machine, dst, size)?, check_range(&machine, src, size)?);
        let _accesses = accesses(&machine, dst.addr(), size);
        machine.memory.unwritten.written(dst.addr() as u64..(dst.addr() + size) as u64);
        // SAFETY: the ranges lie inside known allocations or are the caller's own memory.
        unsafe { copy(to, from, size) };
        Ok(())
    })
}

/// Marks these bytes as accessed while the result exists. Host writes to them then need no flush.
fn accesses(machine: &Machine, address: usize, size: usize) -> Accesses<'_> {
    let accesses = Accesses::new(&machine.host_writes);
    if let Some(range) = machine.memory.find(address as u64) {
        accesses.begin(range.base, address as u64..(address + size) as u64);
    }
    accesses
}

/// # Safety
/// The host may write and read that many bytes at these addresses.
unsafe fn copy(to: usize, from: usize, size: usize) {
    let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to);
    // SAFETY: the caller's promise.
    unsafe { to.copy_from(std::ptr::with_exposed_provenance(from), size) };
}

/// Waits for the dependencies to become zero on a thread of its own, copies, then decrements the completion signal. A
/// copy of 0 bytes does nothing and does not signal. If one of the agents is a GPU, its DMA engine copies (the source's
/// if both are), and faults without access.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_memory_async_copy(
    dst: *mut c_void,
    dst_agent: HsaAgent,
    src: *const c_void,
    src_agent: HsaAgent,
    size: usize,
    dep_signal_count: u32,
    dep_signals: *const HsaSignal,
    completion_signal: HsaSignal,
) -> HsaStatus {
    let (sides, dependencies) = ([(dst, dst_agent), (src.cast_mut(), src_agent)], (dep_signals, dep_signal_count));
    // SAFETY: the caller's contract.
    guard(|| unsafe { async_copy(sides, size, dependencies, completion_signal, |_, _| Ok(())) })
}

/// As [`hsa_amd_memory_async_copy`], on one of a GPU's DMA engines, which all do the same here. `engine` is one bit of
/// the engines' mask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_memory_async_copy_on_engine(
    dst: *mut c_void,
    dst_agent: HsaAgent,
    src: *const c_void,
    src_agent: HsaAgent,
    size: usize,
    dep_signal_count: u32,
    dep_signals: *const HsaSignal,
    completion_signal: HsaSignal,
    engine: u32,
    _force_engine: bool,
) -> HsaStatus {
    let (sides, dependencies) = ([(dst, dst_agent), (src.cast_mut(), src_agent)], (dep_signals, dep_signal_count));
    let can_run = |src: &Agent, dst: &Agent| {
        if size == 0 {
            return Ok(());
        }
        if src.gpu.is_none() && dst.gpu.is_none() {
            return Err(HsaStatus::ERROR_INVALID_AGENT);
        }
        let is_one = engine.is_power_of_two() && engine < 1 << SDMA_ENGINES;
        let is_usable = src.index == dst.index || engine & usable_engines(src, dst) != 0;
        if is_one && is_usable { Ok(()) } else { Err(HsaStatus::ERROR_INVALID_ARGUMENT) }
    };
    // SAFETY: the caller's contract.
    guard(|| unsafe { async_copy(sides, size, dependencies, completion_signal, can_run) })
}

/// Number of DMA engines of a GPU.
pub(super) const SDMA_ENGINES: u32 = 2;

/// Mask of the engines that copy from one agent to another. ROCR keeps the first one of gfx90a for copies from the
/// host.
fn usable_engines(src: &Agent, dst: &Agent) -> u32 {
    let copier = src.target().or_else(|| dst.target());
    let is_from_host = src.gpu.is_none();
    if copier.is_some_and(|target| target.name == "gfx90a") && !is_from_host { 2 } else { 3 }
}

/// Every engine is always free, because each copy has a thread of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_memory_copy_engine_status(
    dst_agent: HsaAgent,
    src_agent: HsaAgent,
    engines: *mut u32,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let (dst, src) = (machine.agent(dst_agent)?, machine.agent(src_agent)?);
        let out = Out::new(engines)?;
        if dst.index == src.index {
            return Err(HsaStatus::ERROR_INVALID_AGENT);
        }
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(usable_engines(src, dst)) };
        Ok(())
    })
}

/// Copies between agents, to the first side from the second, when all dependencies are zero. `can_run` refuses agents:
/// source, destination.
///
/// # Safety
/// The signals are null or as many as said. The memory stays until completion.
unsafe fn async_copy(
    [(dst, dst_agent), (src, src_agent)]: [(*mut c_void, HsaAgent); 2],
    size: usize,
    (dep_signals, dep_signal_count): (*const HsaSignal, u32),
    completion: HsaSignal,
    can_run: impl FnOnce(&Agent, &Agent) -> Result<(), HsaStatus>,
) -> Result<(), HsaStatus> {
    let machine = &machine()?;
    if dst.is_null() || src.is_null() {
        return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    let (src_agent, dst_agent) = (machine.agent(src_agent)?, machine.agent(dst_agent)?);
    can_run(src_agent, dst_agent)?;
    // SAFETY: the caller's promise.
    let dependencies = unsafe { dependencies(machine, dep_signals, dep_signal_count)? };
    check_signals(machine, &[completion])?;
    if size == 0 {
        return Ok(());
    }
    let engine = [src_agent.index, dst_agent.index].into_iter().find(|&agent| agent != CPU);
    if engine.is_none() {
        check_range(machine, dst, size)?;
        check_range(machine, src, size)?;
    }
    let (dst, src) = (dst.expose_provenance(), src.expose_provenance());
    after(machine, dependencies, completion, move |machine| copy_with(machine, engine, (dst, src), size))
}

/// The dependencies of a copy.
///
/// # Safety
/// The signals are null or as many as said, and do not change meanwhile.
unsafe fn dependencies<'a>(
    machine: &Machine,
    signals: *const HsaSignal,
    count: u32,
) -> Result<&'a [HsaSignal], HsaStatus> {
    if signals.is_null() != (count == 0) {
        return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    // SAFETY: the caller's promise.
    let signals = unsafe { slice(signals, count as usize)? };
    check_signals(machine, signals)?;
    Ok(signals)
}

/// Copies with a GPU's engine, or with the host. Returns false if the engine faults.
fn copy_with(machine: &Machine, engine: Option<AgentIndex>, (dst, src): (usize, usize), size: usize) -> bool {
    // The guard keeps the ranges mapped from the access check to the copy.
    let _guard = machine.memory.dispatch();
    let is_done = engine.is_none_or(|engine| can_copy(machine, engine, (dst, src), size));
    if is_done {
        let _accesses = accesses(machine, dst, size);
        machine.memory.unwritten.written(dst as u64..(dst + size) as u64);
        // SAFETY: the ranges were checked, and the caller keeps them until completion.
        unsafe { copy(host_address(machine, dst), host_address(machine, src), size) };
    }
    is_done
}

/// Copies `range.x` bytes of `range.y` rows of `range.z` slices with a DMA engine of `copy_agent`. Refuses the shapes
/// that ROCR refuses. An empty range does nothing and does not signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_memory_async_copy_rect(
    dst: *const HsaPitchedPtr,
    dst_offset: *const HsaDim3,
    src: *const HsaPitchedPtr,
    src_offset: *const HsaDim3,
    range: *const HsaDim3,
    copy_agent: HsaAgent,
    direction: HsaCopyDirection,
    dep_signal_count: u32,
    dep_signals: *const HsaSignal,
    completion_signal: HsaSignal,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        // SAFETY: each is null or the caller's, which does not change meanwhile.
        let arguments =
            unsafe { (dst.as_ref(), dst_offset.as_ref(), src.as_ref(), src_offset.as_ref(), range.as_ref()) };
        let (Some(dst), Some(dst_offset), Some(src), Some(src_offset), Some(&range)) = arguments else {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        };
        if direction == HsaCopyDirection::HOST_TO_HOST {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let agent = machine.agent(copy_agent)?;
        if agent.gpu.is_none() {
            return Err(HsaStatus::ERROR_INVALID_AGENT);
        }
        // SAFETY: the caller's contract.
        let dependencies = unsafe { dependencies(&machine, dep_signals, dep_signal_count)? };
        check_signals(&machine, &[completion_signal])?;
        if range.x == 0 || range.y == 0 || range.z == 0 {
            return Ok(());
        }
        let (to, from) = (Rows::new(dst, dst_offset, range)?, Rows::new(src, src_offset, range)?);
        let engine = Some(agent.index);
        after(&machine, dependencies, completion_signal, move |machine| {
            let mut rows = (0..range.z as usize).flat_map(|z| (0..range.y as usize).map(move |y| (y, z)));
            rows.all(|(y, z)| copy_with(machine, engine, (to.at(y, z), from.at(y, z)), range.x as usize))
        })
    })
}

/// One side of a copy of rows.
#[derive(Clone, Copy)]
struct Rows {
    first: usize,
    pitch: usize,
    slice: usize,
}

impl Rows {
    /// Checks the shape as ROCR does (`amd_blit_sdma.cpp`, SubmitCopyRectCommand).
    fn new(memory: &HsaPitchedPtr, offset: &HsaDim3, range: HsaDim3) -> Result<Self, HsaStatus> {
        let &HsaPitchedPtr { base, pitch, slice } = memory;
        let is_aligned = [base.addr(), pitch, slice].iter().all(|bytes| bytes.is_multiple_of(4));
        let (columns, rows) = (offset.x as usize + range.x as usize, offset.y as usize + range.y as usize);
        let fits = columns <= pitch && (slice == 0 || rows <= slice / pitch) && (range.z == 1 || slice != 0);
        if !is_aligned || !fits {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let first =
            base.expose_provenance() + offset.z as usize * slice + offset.y as usize * pitch + offset.x as usize;
        Ok(Self { first, pitch, slice })
    }

    /// Address of a row.
    fn at(&self, y: usize, z: usize) -> usize {
        self.first + z * self.slice + y * self.pitch
    }
}

/// Times copies that are requested from now on, or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_profiling_async_copy_enable(enable: bool) -> HsaStatus {
    guard(|| {
        machine()?.copy_profiling.store(enable, Ordering::Relaxed);
        Ok(())
    })
}

/// Start and end of the copy that completes a signal, in ticks of the system's clock. `ERROR` if no timed copy does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_profiling_get_async_copy_time(
    signal: HsaSignal,
    time: *mut HsaProfilingAsyncCopyTime,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(time)?;
        check_signals(&machine, &[signal])?;
        if !machine.signals.is_timed(signal) {
            return Err(HsaStatus::ERROR);
        }
        let (start, end) = signal::stamps(signal);
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(HsaProfilingAsyncCopyTime { start, end }) };
        Ok(())
    })
}

/// Host address of an agent's address.
fn host_address(machine: &Machine, address: usize) -> usize {
    let range = machine.memory.find(address as u64);
    range.map_or(address, |range| address - range.base as usize + range.host as usize)
}

/// True if a GPU's DMA engine runs and has access to both ranges. Without access it raises a memory fault.
fn can_copy(machine: &Machine, engine: AgentIndex, (dst, src): (usize, usize), size: usize) -> bool {
    if eviction::is_evicted(engine) {
        return false;
    }
    let beyond = unreachable(machine, engine, (src, size), false).map(|address| ("read", address));
    let beyond = beyond.or_else(|| unreachable(machine, engine, (dst, size), true).map(|address| ("write", address)));
    if let Some((access, address)) = beyond {
        let place = machine.memory.describe(address, engine);
        let text = format!("DMA engine of agent {}: it may not {access} {address:#x}: {place}", engine.0);
        eprintln!("hsa-sim: {text}");
        machine.set_last_fault(&text);
        machine.evict(engine);
        machine.events.memory_fault(engine, address, HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT);
    }
    beyond.is_none()
}

fn check_signals(machine: &Machine, signals: &[HsaSignal]) -> Result<(), HsaStatus> {
    if signals.iter().any(|signal| signal.is_null()) {
        return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    let user = |&signal: &HsaSignal| machine.signals.is_live(signal) && signal::kind(signal) == AmdSignalKind::USER;
    if signals.iter().all(user) { Ok(()) } else { Err(HsaStatus::ERROR_INVALID_SIGNAL) }
}

/// Runs `work` on a thread of its own when all dependencies are zero. If `work` returns true, stamps and decrements the
/// completion signal, unless it is null.
fn after(
    machine: &Arc<Machine>,
    dependencies: &[HsaSignal],
    completion: HsaSignal,
    work: impl FnOnce(&Machine) -> bool + Send + 'static,
) -> Result<(), HsaStatus> {
    check_signals(machine, dependencies)?;
    if machine.copy_profiling.load(Ordering::Relaxed) && !completion.is_null() {
        machine.signals.set_timed(completion);
    }
    let dependencies = dependencies.to_vec();
    let worker = Arc::clone(machine);
    let body = move || {
        let machine = &*worker;
        for signal in dependencies {
            let zero = [Condition::zero(signal)];
            if machine
                .signals
                .wait_any(Waiting::Polling, &zero, None, || machine.watch(), || machine.stopping())
                .is_none()
            {
                return;
            }
        }
        let start = now();
        if work(machine) && !completion.is_null() {
            signal::stamp(completion, start, now());
            machine.complete(completion);
        }
    };
    let thread = thread::Builder::new().name("hsa-sim-copy".into()).spawn(body);
    machine.add_copy(thread.map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)?);
    Ok(())
}

/// Waits for the dependencies to become zero on a thread of its own, records the location (memory does not move here),
/// then decrements the completion signal, which may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_svm_prefetch_async(
    ptr: *mut c_void,
    size: usize,
    agent: HsaAgent,
    dep_signal_count: u32,
    dep_signals: *const HsaSignal,
    completion_signal: HsaSignal,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let agent = machine.agent(agent)?.index;
        let pages = pages(ptr, size)?;
        // SAFETY: `dep_signals` is null or the caller's `dep_signal_count` elements, which do not change meanwhile.
        let dependencies = unsafe { slice(dep_signals, dep_signal_count as usize)? };
        if !completion_signal.is_null() {
            check_signals(&machine, &[completion_signal])?;
        }
        after(&machine, dependencies, completion_signal, move |machine| {
            machine.memory.svm.prefetched(pages, agent);
            true
        })
    })
}

/// Pages that a range touches.
fn pages(ptr: *mut c_void, size: usize) -> Result<Range<u64>, HsaStatus> {
    let start = ptr.addr() as u64;
    let end = start.checked_add(size as u64).and_then(|end| end.checked_next_multiple_of(PAGE as u64));
    match end {
        Some(end) if start != 0 && size != 0 => Ok(start - start % PAGE as u64..end),
        _ => Err(HsaStatus::ERROR_INVALID_ARGUMENT),
    }
}

/// Gives agents access to program memory from outside of HSA, and sets its attributes; see
/// [`crate::machine::memory::svm`]. Sets all attributes or none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_svm_attributes_set(
    ptr: *mut c_void,
    size: usize,
    attributes: *mut HsaSvmAttributePair,
    attribute_count: usize,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let pages = pages(ptr, size)?;
        // SAFETY: `attributes` is null or the caller's `attribute_count` elements, which do not change meanwhile.
        let attributes = unsafe { slice(attributes, attribute_count)? };
        machine.memory.svm.set(pages, attributes, machine.agents.len())?;
        // Kernels reach the memory through an integer address.
        let _ = ptr.expose_provenance();
        machine.memory.changed();
        Ok(())
    })
}

/// See `hsa_ext_amd.h`. If the pages of the range differ: an indeterminate memory model, no flag, no location, no
/// access, the least granularity.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_svm_attributes_get(
    ptr: *mut c_void,
    size: usize,
    attributes: *mut HsaSvmAttributePair,
    attribute_count: usize,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let pages = pages(ptr, size)?;
        // SAFETY: `attributes` is null or the caller's `attribute_count` elements, which do not change meanwhile.
        let mut results = unsafe { slice(attributes, attribute_count)? }.to_vec();
        machine.memory.svm.get(pages, &mut results, machine.agents.len())?;
        // SAFETY: the caller's list has this many elements.
        unsafe { attributes.copy_from_nonoverlapping(results.as_ptr(), results.len()) };
        Ok(())
    })
}
