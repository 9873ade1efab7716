// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Counts of operations that cost time on hardware but not on the sim: packets by kind, barrier bits, fences by scope,
//! kernel arguments read over PCIe, interrupts, and the host's waits. Counted if `HSA_SIM_STATS` is set, or from the
//! first `hsa_sim_hold` on.
//!
//! `hsa_sim_hold` makes counts independent of the relative speed of the program and the sim. Held GPUs take no
//! packets, so that a program can submit everything that does not depend on their results. Whatever it submits after
//! their release, it had to wait for.

use std::array;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hsa_abi::{HsaFenceScope, HsaPacketType, PacketHeader};

use crate::machine::queue::packet::{Packet, Work};

/// A kind of count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Kernel dispatch packets.
    DispatchPackets,
    /// Barrier-AND and barrier-OR packets.
    BarrierPackets,
    /// AMD's barrier-value packets.
    BarrierValuePackets,
    /// AMD's PM4-IB packets.
    Pm4Packets,
    /// PM4 commands in the buffers of PM4-IB packets.
    Pm4Commands,
    /// Packets of any kind with the barrier bit.
    BarrierBits,
    /// Packets of any kind without an acquire fence.
    AcquiresNone,
    /// Packets of any kind with an acquire fence of agent scope.
    AcquiresAgent,
    /// Packets of any kind with an acquire fence of system scope.
    AcquiresSystem,
    /// Packets of any kind without a release fence.
    ReleasesNone,
    /// Packets of any kind with a release fence of agent scope.
    ReleasesAgent,
    /// Packets of any kind with a release fence of system scope.
    ReleasesSystem,
    /// Lines of 64 bytes of kernel arguments in host memory, counted for each dispatch packet: as many as its kernel's
    /// `kernarg_size` touches.
    KernargLines,
    /// Completions of signals with a mailbox. For these, the packet processor stores to the mailbox and interrupts the
    /// host.
    Interrupts,
    /// Submissions to a queue after the release of held GPUs, for which the host had to wait. All packets that are
    /// reserved in the ring when the first of them is taken count as one.
    HostRoundTrips,
}

impl Cost {
    /// Names of the counts, in the order of the variants.
    const NAMES: [&str; 15] = [
        "dispatch_packets",
        "barrier_packets",
        "barrier_value_packets",
        "pm4_ib_packets",
        "pm4_commands",
        "barrier_bits",
        "acquires_none",
        "acquires_agent",
        "acquires_system",
        "releases_none",
        "releases_agent",
        "releases_system",
        "kernarg_lines",
        "interrupts",
        "host_round_trips",
    ];
}

/// Bytes of one read of host memory by a GPU.
const LINE: u64 = 64;

/// Counts since `hsa_init`.
#[derive(Debug)]
pub struct Costs {
    is_on: AtomicBool,
    is_held: AtomicBool,
    counts: [AtomicU64; Cost::NAMES.len()],
}

impl Costs {
    /// Creates zero counts. They count if `is_on`.
    pub fn new(is_on: bool) -> Self {
        Self {
            is_on: AtomicBool::new(is_on),
            is_held: AtomicBool::new(false),
            counts: array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Counts costs from now on.
    pub fn begin(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Sets if GPUs are held.
    pub fn set_held(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::Release);
    }

    /// True if costs are counted.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// True while GPUs are held.
    pub fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }

    /// Counts `amount` of `cost`, if costs are counted.
    pub fn add(&self, cost: Cost, amount: u64) {
        if self.is_on() {
            self.counts[cost as usize].fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Counts a completed packet.
    pub fn add_packet(&self, packet: &Packet) {
        if !self.is_on() {
            return;
        }
        let header = packet.header;
        self.add(kind(header, &packet.work), 1);
        self.add(Cost::BarrierBits, u64::from(header.barrier()));
        let by_scope = |scope, [none, agent, system]: [Cost; 3]| match scope {
            HsaFenceScope::NONE => none,
            HsaFenceScope::AGENT => agent,
            _ => system,
        };
        let acquires = [Cost::AcquiresNone, Cost::AcquiresAgent, Cost::AcquiresSystem];
        self.add(by_scope(header.acquire_scope(), acquires), 1);
        let releases = [Cost::ReleasesNone, Cost::ReleasesAgent, Cost::ReleasesSystem];
        self.add(by_scope(header.release_scope(), releases), 1);
    }

    /// Counts the lines of `size` bytes of kernel arguments at `address` in host memory.
    pub fn add_kernargs(&self, address: u64, size: u64) {
        self.add(Cost::KernargLines, (address + size).div_ceil(LINE) - address / LINE);
    }

    /// All counts by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Cost::NAMES.into_iter().zip(self.counts.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// The counts as a JSON object.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{");
        for (index, (name, count)) in self.iter().enumerate() {
            let _ = write!(json, "{}\"{name}\":{count}", if index == 0 { "" } else { "," });
        }
        json + "}"
    }
}

/// Kind of a packet.
fn kind(header: PacketHeader, work: &Work) -> Cost {
    match work {
        Work::Dispatch(_) => Cost::DispatchPackets,
        Work::Pm4(_) => Cost::Pm4Packets,
        Work::Barrier(..) if header.packet_type() == HsaPacketType::VENDOR_SPECIFIC => Cost::BarrierValuePackets,
        Work::Barrier(..) => Cost::BarrierPackets,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_arguments_count_by_the_lines_that_they_touch() {
        let costs = Costs::new(true);
        for (address, size) in [(0x1000, 64), (0x1000, 65), (0x1030, 16), (0x1030, 24)] {
            costs.add_kernargs(address, size);
        }
        let lines = costs.iter().find(|(name, _)| *name == "kernarg_lines");
        assert_eq!(lines, Some(("kernarg_lines", 1 + 2 + 1 + 2)));
    }

    #[test]
    fn nothing_is_counted_unasked() {
        let costs = Costs::new(false);
        costs.add(Cost::Interrupts, 1);
        assert!(costs.iter().all(|(_, count)| count == 0));
    }
}
