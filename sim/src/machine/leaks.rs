// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Leak report, for `HSA_SIM_LEAKS=1`: made when the last reference to the runtime is dropped, or at the end of a
//! process that never did that.
//!
//! For each kind of object, standard error gets a line with their number, then a line for each of the first few. A
//! program without leaks gets no line.

use hsa_abi::HsaPointerType;

use crate::machine::Machine;
use crate::machine::memory::allocation::AllocationInfo;
use crate::machine::signal;

/// Maximum number of objects of a kind that are named.
const NAMED: usize = 8;

/// Leaked objects of one kind.
struct Kind {
    what: String,
    each: Vec<String>,
}

impl Kind {
    fn new(what: impl Into<String>, each: impl IntoIterator<Item = String>) -> Self {
        Self { what: what.into(), each: each.into_iter().collect() }
    }
}

/// All leaked objects, by kind.
#[derive(Default)]
pub struct Leaks(Vec<Kind>);

impl Leaks {
    /// Collects the objects of a machine, before its queues are stopped.
    pub fn find(machine: &Machine) -> Self {
        let range = |range: AllocationInfo| {
            format!("{} bytes at {:#x}, memory of agent {}", range.size, range.base, range.owner.0)
        };
        let (allocations, bytes) = sum(machine.memory.allocations(), |range| range.size);
        let (reservations, reserved) = sum(machine.vmem.reservations(), |&(_, size)| size as u64);
        let (memories, created) = sum(machine.vmem.memories(), |&(_, size, _)| size as u64);
        let mappings = machine.memory.of_type(HsaPointerType::HSA_VMEM);
        let (mappings, mapped) = sum(mappings, |range| range.size);
        let queues = machine.queues.read().clone();
        let signals = machine.signals.live();
        Self(vec![
            Kind::new(
                "queues",
                queues
                    .iter()
                    .map(|queue| format!("queue {} of agent {}, {} packets", queue.id, queue.agent.0, queue.size)),
            ),
            Kind::new(format!("allocations ({bytes} bytes)"), allocations.into_iter().map(range)),
            Kind::new(
                "signals",
                signals.into_iter().map(|signal| {
                    let value = signal::value(signal).load(std::sync::atomic::Ordering::Relaxed);
                    format!("signal {:#x}, value {value}", signal.handle)
                }),
            ),
            Kind::new(
                "locked ranges of host memory",
                machine.memory.locked().into_iter().map(|range| format!("{} bytes at {:#x}", range.size, range.base)),
            ),
            Kind::new(
                "executables",
                machine
                    .executables
                    .live()
                    .into_iter()
                    .map(|(handle, kernels)| format!("executable {handle}, kernels: {}", kernels.join(" "))),
            ),
            Kind::new(
                "code object readers",
                machine.executables.readers().into_iter().map(|(handle, storage)| {
                    format!("reader {handle} of {} bytes at {:#x}", storage.size, storage.base)
                }),
            ),
            Kind::new(
                format!("address reservations ({reserved} bytes)"),
                reservations.into_iter().map(|(base, size)| format!("{size} bytes at {base:#x}")),
            ),
            Kind::new(
                format!("virtual memory handles ({created} bytes)"),
                memories.into_iter().map(|(handle, size, owner)| {
                    format!("handle {handle} of {size} bytes, memory of agent {}", owner.0)
                }),
            ),
            Kind::new(format!("virtual memory mappings ({mapped} bytes)"), mappings.into_iter().map(range)),
        ])
    }

    /// Prints the leaks on standard error, if there are any. `when` is the time of the report.
    pub fn report(&self, when: &str) {
        for Kind { what, each } in self.0.iter().filter(|kind| !kind.each.is_empty()) {
            eprintln!("hsa-sim: {when}: {} {what} left", each.len());
            for one in each.iter().take(NAMED) {
                eprintln!("hsa-sim:   {one}");
            }
            if each.len() > NAMED {
                eprintln!("hsa-sim:   and {} more", each.len() - NAMED);
            }
        }
    }
}

fn sum<T>(things: Vec<T>, size: impl Fn(&T) -> u64) -> (Vec<T>, u64) {
    let total = things.iter().map(size).sum();
    (things, total)
}
