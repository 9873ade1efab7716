// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `libhsakmt.so.1` on the software GPU. AMD's own HSA runtime, ROCR, calls it instead of Linux's kernel driver.
//!
//! ROCR sees a GPU as topology, memory, queues and events of the kernel driver KFD, which it reaches through the
//! "thunk" `libhsakmt`. This library replaces thunk, driver and hardware, with the functions that ROCR 5.2 imports. It
//! uses the machine of the software HSA runtime ([`hsa_runtime64::machine`]), with the same packet processors and the
//! same execution of kernels. ROCR itself defines packets, signals and queues.
//!
//! `HSA_SIM_AGENTS`, `HSA_SIM_THREADS`, `HSA_SIM_EXECUTE`, `HSA_SIM_SEED`, `HSA_SIM_TIMEOUT` and `HSA_SIM_STATS` have
//! the meaning that they have for the software HSA runtime. There are no SDMA engines: ROCR copies with kernels.
//!
//! The functions' contracts are those of ROCm 5.2's `hsakmt.h`. Beyond that they behave as `libhsakmt` and the Linux
//! driver (`drivers/gpu/drm/amd/amdkfd`).

#![allow(
    missing_docs,
    clippy::missing_safety_doc,
    reason = "the exported functions and types are documented by hsakmt.h"
)]

pub mod abi;
mod event;
mod memory;
mod queue;
mod topology;

use std::ffi::c_void;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use hsa_runtime64::machine::agent::Agent;
use hsa_runtime64::machine::agent_id::AgentIndex;
use hsa_runtime64::machine::clock::{CLOCK_HZ, device_ticks, now};
use hsa_runtime64::machine::config::Config;
use hsa_runtime64::machine::queue::Queue;
use hsa_runtime64::machine::queue::packet::Failure;
use hsa_runtime64::machine::{Driver, Machine};
use parking_lot::RwLock;

use abi::{ClockCounters, Status, Version};
use event::Events;
use memory::Buffers;
use queue::Queues;

/// Version of the driver's interface: that of Linux 6.1.
const VERSION: Version = Version { major: 1, minor: 11 };

/// State of the driver for this process.
struct Kfd {
    machine: Arc<Machine>,
    interrupts: Arc<Interrupts>,
    buffers: Buffers,
}

struct Opened {
    references: usize,
    kfd: Arc<Kfd>,
}

static OPENED: RwLock<Option<Opened>> = RwLock::new(None);

/// Returns the driver if it is open.
fn kfd() -> Result<Arc<Kfd>, Status> {
    let opened = OPENED.read();
    opened.as_ref().map(|opened| Arc::clone(&opened.kfd)).ok_or(Status::KERNEL_IO_CHANNEL_NOT_OPENED)
}

/// Calls `body`. A panic becomes a status and does not cross the C ABI.
fn guard(body: impl FnOnce() -> Result<(), Status>) -> Status {
    match panic::catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::SUCCESS,
        Ok(Err(status)) => status,
        Err(_) => Status::ERROR,
    }
}

/// Stores a result.
///
/// # Safety
/// `out` is null or valid for a write.
unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Status> {
    if out.is_null() {
        return Err(Status::INVALID_PARAMETER);
    }
    // SAFETY: not null, and the caller's contract. ROCR's structures are packed.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// Returns the `count` values at `first`.
///
/// # Safety
/// There are that many, and they do not change.
unsafe fn slice<'a, T>(first: *const T, count: usize) -> Result<&'a [T], Status> {
    match (count, first.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(Status::INVALID_PARAMETER),
        // SAFETY: not null, and the caller's contract.
        _ => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
    }
}

impl Kfd {
    /// The agent of a node.
    fn node(&self, node: u32) -> Result<&Agent, Status> {
        self.machine.agents.get(node as usize).ok_or(Status::INVALID_NODE_UNIT)
    }

    /// The GPU of a node.
    fn gpu(&self, node: u32) -> Result<&Agent, Status> {
        Some(self.node(node)?).filter(|agent| agent.gpu.is_some()).ok_or(Status::INVALID_NODE_UNIT)
    }

    /// The nodes of all GPUs.
    fn gpus(&self) -> impl Iterator<Item = AgentIndex> + use<> {
        (1..self.machine.agents.len()).map(AgentIndex)
    }
}

/// State that interrupts of the GPUs change.
#[derive(Default)]
struct Interrupts {
    events: Events,
    queues: Queues,
}

impl Driver for Interrupts {
    fn interrupt(&self, event_id: u32) {
        self.events.set(event_id);
    }

    fn fault(&self, machine: &Machine, queue: &Queue, failure: &Failure) {
        queue::fault(self, machine, queue, failure);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtOpenKFD() -> Status {
    guard(|| {
        let mut opened = OPENED.write();
        if let Some(opened) = &mut *opened {
            opened.references += 1;
            return Ok(());
        }
        let failed = |what: String| {
            eprintln!("hsakmt-sim: hsaKmtOpenKFD failed: {what}");
            Status::KERNEL_IO_CHANNEL_NOT_OPENED
        };
        let config = Config::from_env().map_err(failed)?;
        let interrupts = Arc::<Interrupts>::default();
        let machine = Machine::start(config, Some(interrupts.clone())).map_err(|error| failed(error.to_string()))?;
        let kfd = Kfd { machine, interrupts, buffers: Buffers::default() };
        *opened = Some(Opened { references: 1, kfd: Arc::new(kfd) });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtCloseKFD() -> Status {
    guard(|| {
        let last = {
            let mut guard = OPENED.write();
            let opened = guard.as_mut().ok_or(Status::KERNEL_IO_CHANNEL_NOT_OPENED)?;
            opened.references -= 1;
            guard.take_if(|opened| opened.references == 0)
        };
        if let Some(Opened { kfd, .. }) = last {
            kfd.machine.stop();
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtGetVersion(version: *mut Version) -> Status {
    guard(|| {
        kfd()?;
        // SAFETY: `version` is null or the caller's place for the result.
        unsafe { put(version, VERSION) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtGetClockCounters(node: u32, counters: *mut ClockCounters) -> Status {
    guard(|| {
        kfd()?.node(node)?;
        let now = now();
        // SAFETY: `counters` is null or the caller's place for the result.
        unsafe { put(counters, ClockCounters { gpu: device_ticks(now), cpu: now, system: now, system_hz: CLOCK_HZ }) }
    })
}

/// Enables queue errors as bits of `HsaQueueResource::ErrorReason`. A debugger cannot attach.
#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtRuntimeEnable(_debug: *mut c_void, _setup_ttmp: bool) -> Status {
    guard(|| kfd().map(drop))
}

#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtRuntimeDisable() -> Status {
    guard(|| kfd().map(drop))
}

/// Accepts the handler, but does not run it. The sim detects faults of kernels itself.
#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtSetTrapHandler(
    node: u32,
    _handler: *mut c_void,
    _handler_size: u64,
    _buffer: *mut c_void,
    _buffer_size: u64,
) -> Status {
    guard(|| kfd()?.gpu(node).map(drop))
}
