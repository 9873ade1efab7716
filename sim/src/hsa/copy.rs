// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Copies, and memory that the program shares with agents without a pool (SVM).

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use hsa_abi::{
    AmdSignalKind, HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT, HsaAgent, HsaSignal, HsaStatus, HsaSvmAttributePair,
};

use super::{check_signatures, guard, slice};
use crate::machine::agent::{AgentIndex, AgentMask, CPU};
use crate::machine::events;
use crate::machine::hdp::Accesses;
use crate::machine::memory::PAGE;
use crate::machine::signal::{self, Condition, Waiting};
use crate::machine::{Machine, machine, now};

check_signatures! {
    hsa_memory_copy hsa_amd_memory_async_copy
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
    guard(|| {
        let machine = machine()?;
        if dst.is_null() || src.is_null() || dep_signals.is_null() != (dep_signal_count == 0) {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let agents = [machine.agent(src_agent)?.index, machine.agent(dst_agent)?.index];
        let engine = agents.into_iter().find(|&agent| agent != CPU);
        // SAFETY: `dep_signals` is null or the caller's `dep_signal_count` elements, which do not change meanwhile.
        let dependencies = unsafe { slice(dep_signals, dep_signal_count as usize)? };
        check_signals(&machine, dependencies)?;
        check_signals(&machine, &[completion_signal])?;
        if size == 0 {
            return Ok(());
        }
        if engine.is_none() {
            check_range(&machine, dst, size)?;
            check_range(&machine, src, size)?;
        }
        let (dst, src) = (dst.expose_provenance(), src.expose_provenance());
        after(&machine, dependencies, completion_signal, move |machine| {
            // What was found accessible stays mapped until it is copied.
            let _guard = machine.memory.dispatch();
            let is_done = engine.is_none_or(|engine| can_copy(machine, engine, (dst, src), size));
            if is_done {
                let _accesses = accesses(machine, dst, size);
                machine.memory.unwritten.written(dst as u64..(dst + size) as u64);
                // SAFETY: the ranges were checked, and the caller keeps them until completion.
                unsafe { copy(host_address(machine, dst), host_address(machine, src), size) };
            }
            is_done
        })
    })
}

/// Host address of an agent's address.
fn host_address(machine: &Machine, address: usize) -> usize {
    let range = machine.memory.find(address as u64);
    range.map_or(address, |range| address - range.base as usize + range.host as usize)
}

/// True if a GPU's DMA engine runs and has access to both ranges. Without access it raises a memory fault.
fn can_copy(machine: &Machine, engine: AgentIndex, (dst, src): (usize, usize), size: usize) -> bool {
    if events::is_evicted(engine) {
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

/// Gives agents access to program memory from outside of HSA, and sets its attributes; see [`crate::machine::svm`].
/// Sets all attributes or none.
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
