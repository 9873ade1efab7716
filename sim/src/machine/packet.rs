// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Decodes and checks published packets (HSA SysArch 2.9).

use std::sync::atomic::Ordering;

use hsa_abi::{
    AmdBarrierValuePacket, AmdFormat, AmdSignalKind, BarrierAndPacket, HsaPacketType, HsaSignal, HsaStatus,
    KernelDispatchPacket, PacketHeader,
};

use super::Machine;
use super::queue::Queue;
use super::signal::{self, Condition};
use super::target::TargetInfo;

/// Why a queue stops.
#[derive(Debug)]
pub struct Failure {
    /// For the queue's error callback.
    pub status: HsaStatus,
    /// What happened, for people.
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

/// What a packet asks for.
#[derive(Debug)]
pub enum Work {
    /// Run a kernel.
    Dispatch(KernelDispatchPacket),
    /// Wait for all (`true`) or any (`false`) of the conditions; none is met at once.
    Barrier(bool, Vec<Condition>),
}

/// A published packet.
#[derive(Debug)]
pub struct Packet {
    /// Its header.
    pub header: PacketHeader,
    /// What it asks for.
    pub work: Work,
    /// Decremented when it is complete; may be null.
    pub completion: HsaSignal,
}

/// The header of packet `id`, if it is published.
pub fn published(queue: &Queue, id: u64) -> Option<PacketHeader> {
    let header = PacketHeader(queue.header(id).load(Ordering::Acquire) as u16);
    (header.packet_type() != HsaPacketType::INVALID).then_some(header)
}

/// Decodes published packet `id`.
pub fn decode(machine: &Machine, queue: &Queue, id: u64) -> Result<Packet, Failure> {
    let malformed = |what: String| {
        Failure::new(HsaStatus::ERROR_INVALID_PACKET_FORMAT, format!("packet {id} at {:#x}: {what}", queue.slot(id)))
    };
    let packet = parse(machine, queue, id).map_err(malformed)?;
    let live = packet.completion.is_null()
        || machine.signals.is_live(packet.completion) && signal::kind(packet.completion) == AmdSignalKind::USER;
    if !live {
        return Err(malformed(format!("completion signal {:#x} is not a live signal", packet.completion.handle)));
    }
    Ok(packet)
}

fn parse(machine: &Machine, queue: &Queue, id: u64) -> Result<Packet, String> {
    let header = PacketHeader((queue.header(id).load(Ordering::Acquire)) as u16);
    if id >= queue.write_index().load(Ordering::Acquire) {
        return Err("published without being reserved through the write index".into());
    }
    if header.reserved() != 0 || header.acquire_scope().0 > 2 || header.release_scope().0 > 2 {
        return Err(format!("header {:#06x} has reserved bits set", header.0));
    }
    match header.packet_type() {
        HsaPacketType::KERNEL_DISPATCH => {
            let dispatch: KernelDispatchPacket = queue.packet(id);
            check_dispatch(&dispatch)?;
            Ok(Packet { header, completion: dispatch.completion_signal, work: Work::Dispatch(dispatch) })
        }
        HsaPacketType::BARRIER_AND | HsaPacketType::BARRIER_OR => {
            let barrier: BarrierAndPacket = queue.packet(id);
            if barrier.reserved0 != 0 || barrier.reserved1 != 0 {
                return Err("reserved fields of a barrier packet are not zero".into());
            }
            let signals = barrier.dep_signal.into_iter().filter(|signal| !signal.is_null());
            let conditions =
                signals.map(|signal| live(machine, signal).map(Condition::zero)).collect::<Result<_, _>>()?;
            let all = header.packet_type() == HsaPacketType::BARRIER_AND;
            Ok(Packet { header, completion: barrier.completion_signal, work: Work::Barrier(all, conditions) })
        }
        HsaPacketType::VENDOR_SPECIFIC => {
            let barrier: AmdBarrierValuePacket = queue.packet(id);
            parse_vendor(machine, header, &barrier)
        }
        HsaPacketType::AGENT_DISPATCH => Err("agent dispatch packets are not supported by GPU agents".into()),
        other => Err(format!("unknown packet type {}", other.0)),
    }
}

fn parse_vendor(machine: &Machine, header: PacketHeader, packet: &AmdBarrierValuePacket) -> Result<Packet, String> {
    match packet.header.format {
        AmdFormat::BARRIER_VALUE => {}
        AmdFormat::PM4_IB => return Err("PM4-IB packets are not supported by the simulator".into()),
        other => return Err(format!("unknown AMD vendor packet format {}", other.0)),
    }
    if packet.condition.evaluate(0, 0).is_none() {
        return Err(format!("unknown signal condition {}", packet.condition.0));
    }
    let condition =
        |signal| Condition { signal, condition: packet.condition, operand: packet.value, mask: packet.mask };
    let conditions = match packet.signal {
        HsaSignal::NULL => Vec::new(),
        signal => vec![condition(live(machine, signal)?)],
    };
    Ok(Packet { header, completion: packet.completion_signal, work: Work::Barrier(true, conditions) })
}

fn live(machine: &Machine, signal: HsaSignal) -> Result<HsaSignal, String> {
    if machine.signals.is_live(signal) && signal::kind(signal) == AmdSignalKind::USER {
        Ok(signal)
    } else {
        Err(format!("dependency {:#x} is not a live signal", signal.handle))
    }
}

/// Checks what does not depend on the kernel. A grid of no work-items is accepted, as hardware does.
fn check_dispatch(packet: &KernelDispatchPacket) -> Result<(), String> {
    let dimensions = packet.setup as usize;
    if !(1..=3).contains(&dimensions) {
        return Err(format!("setup {:#x} does not say 1, 2 or 3 dimensions", packet.setup));
    }
    if packet.reserved0 != 0 {
        return Err("reserved fields of a kernel dispatch packet are not zero".into());
    }
    let items: u64 = packet.workgroup_size.iter().map(|&size| u64::from(size)).product();
    if items == 0 || items > u64::from(TargetInfo::MAX_WORKGROUP) {
        return Err(format!(
            "workgroup size {:?} is not 1 to {} work-items",
            packet.workgroup_size,
            TargetInfo::MAX_WORKGROUP
        ));
    }
    for unused in dimensions..3 {
        if packet.workgroup_size[unused] != 1 || packet.grid_size[unused] != 1 {
            return Err(format!("sizes of unused dimension {unused} are not 1"));
        }
    }
    if packet.group_segment_size > TargetInfo::LDS_BYTES {
        return Err(format!(
            "group segment of {} bytes exceeds the {} bytes of LDS",
            packet.group_segment_size,
            TargetInfo::LDS_BYTES
        ));
    }
    Ok(())
}
