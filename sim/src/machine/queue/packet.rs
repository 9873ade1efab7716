// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Decoded packets, and failures of packets.

use hsa_abi::{HsaSignal, HsaStatus, KernelDispatchPacket, PacketHeader};

use crate::machine::queue::pm4::IndirectBuffer;
use crate::machine::signal::Condition;

/// Reason why a queue stops.
#[derive(Debug)]
pub struct Failure {
    /// Status for the queue's error callback.
    pub status: HsaStatus,
    /// Message.
    pub text: String,
    /// Address and `HSA_AMD_MEMORY_FAULT_*` reason, if this is a memory fault.
    pub memory_fault: Option<(u64, u32)>,
}

impl Failure {
    /// A failure that is not a memory fault.
    pub fn new(status: HsaStatus, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), memory_fault: None }
    }
}

/// Work of a packet.
#[derive(Debug)]
pub enum Work {
    /// Run a kernel.
    Dispatch(KernelDispatchPacket),
    /// Wait for all (`true`) or any (`false`) of the conditions. Without conditions it completes at once.
    Barrier(bool, Vec<Condition>),
    /// Execute PM4 commands.
    Pm4(IndirectBuffer),
}

/// A published packet.
#[derive(Debug)]
pub struct Packet {
    /// Header of the packet.
    pub header: PacketHeader,
    /// Work of the packet.
    pub work: Work,
    /// Signal to decrement on completion; may be null.
    pub completion: HsaSignal,
}
