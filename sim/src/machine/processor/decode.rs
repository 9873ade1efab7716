// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Decodes and checks published packets (HSA SysArch 2.9).

use std::sync::Once;
use std::sync::atomic::Ordering;

use hsa_abi::{
    AmdBarrierValuePacket, AmdFormat, AmdPm4IbPacket, AmdSignal, AmdSignalKind, BarrierAndPacket, HsaPacketType,
    HsaSignal, HsaStatus, KernelDispatchPacket, PacketHeader,
};

use crate::machine::Machine;
use crate::machine::product::target::TargetInfo;
use crate::machine::queue::Queue;
use crate::machine::queue::packet::{Failure, Packet, Work};
use crate::machine::queue::pm4;
use crate::machine::signal::{self, Condition};

/// Decodes published packet `id`.
pub fn decode(machine: &Machine, queue: &Queue, id: u64) -> Result<Packet, Failure> {
    let malformed = |what: String| {
        Failure::new(HsaStatus::ERROR_INVALID_PACKET_FORMAT, format!("packet {id} at {:#x}: {what}", queue.slot(id)))
    };
    let packet = parse(machine, queue, id).map_err(malformed)?;
    if !packet.completion.is_null() && !is_signal(machine, queue, packet.completion) {
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
            let lds = machine.agents[queue.agent.0].target().map_or(0, TargetInfo::lds_bytes);
            check_dispatch(&dispatch, lds)?;
            Ok(Packet { header, completion: dispatch.completion_signal, work: Work::Dispatch(dispatch) })
        }
        HsaPacketType::BARRIER_AND | HsaPacketType::BARRIER_OR => {
            let barrier: BarrierAndPacket = queue.packet(id);
            if barrier.reserved0 != 0 || barrier.reserved1 != 0 {
                return Err("reserved fields of a barrier packet are not zero".into());
            }
            let signals = barrier.dep_signal.into_iter().filter(|signal| !signal.is_null());
            let conditions =
                signals.map(|signal| live(machine, queue, signal).map(Condition::zero)).collect::<Result<_, _>>()?;
            let all = header.packet_type() == HsaPacketType::BARRIER_AND;
            Ok(Packet { header, completion: barrier.completion_signal, work: Work::Barrier(all, conditions) })
        }
        HsaPacketType::VENDOR_SPECIFIC => match queue.packet::<AmdBarrierValuePacket>(id).header.format {
            AmdFormat::BARRIER_VALUE => parse_barrier_value(machine, queue, header, id),
            AmdFormat::PM4_IB => parse_pm4(queue, header, id),
            other => Err(format!("unknown AMD vendor packet format {}", other.0)),
        },
        HsaPacketType::AGENT_DISPATCH => Err("agent dispatch packets are not supported by GPU agents".into()),
        other => Err(format!("unknown packet type {}", other.0)),
    }
}

fn parse_barrier_value(machine: &Machine, queue: &Queue, header: PacketHeader, id: u64) -> Result<Packet, String> {
    let packet: AmdBarrierValuePacket = queue.packet(id);
    if packet.header.reserved != 0 {
        return Err("reserved fields of a barrier-value packet are not zero".into());
    }
    if packet.reserved0 != 0 || packet.reserved1 != 0 || packet.reserved2 != [0; 2] {
        // HIP 5.7 leaves its stack's bytes there, which hardware ignores.
        if machine.config.checks.fatal {
            return Err("reserved fields of a barrier-value packet are not zero".into());
        }
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let queue = queue.describe();
            eprintln!(
                "hsa-sim: {queue}: packet {id}: reserved fields of a barrier-value packet are not zero, and are ignored \
                 as on hardware"
            );
        });
    }
    if packet.condition.evaluate(0, 0).is_none() {
        return Err(format!("unknown signal condition {}", packet.condition.0));
    }
    let condition = |signal| Condition::new(signal, packet.condition, packet.value, packet.mask);
    let conditions = match packet.signal {
        HsaSignal::NULL => Vec::new(),
        signal => vec![condition(live(machine, queue, signal)?)],
    };
    Ok(Packet { header, completion: packet.completion_signal, work: Work::Barrier(true, conditions) })
}

fn parse_pm4(queue: &Queue, header: PacketHeader, id: u64) -> Result<Packet, String> {
    let packet: AmdPm4IbPacket = queue.packet(id);
    if packet.header.reserved != 0 || packet.reserved != [0; 8] {
        return Err("reserved fields of a PM4-IB packet are not zero".into());
    }
    if packet.dw_cnt_remain != AmdPm4IbPacket::DW_CNT_REMAIN {
        return Err(format!(
            "a PM4-IB packet says {} remaining dwords, not {}",
            packet.dw_cnt_remain,
            AmdPm4IbPacket::DW_CNT_REMAIN
        ));
    }
    let buffer = pm4::jump(packet.ib_jump_command).map_err(|what| format!("PM4-IB: {what}"))?;
    Ok(Packet { header, completion: packet.completion_signal, work: Work::Pm4(buffer) })
}

/// True if a packet may name this signal: one of this machine's, or one that the program laid out in memory that the
/// queue's agent may access.
fn is_signal(machine: &Machine, queue: &Queue, signal: HsaSignal) -> bool {
    let size = size_of::<AmdSignal>() as u64;
    signal.handle.is_multiple_of(size)
        && machine.memory.reachable(signal.handle).is_some_and(|range| {
            range.access.has(queue.agent)
                && !range.write_only.has(queue.agent)
                && !range.read_only.has(queue.agent)
                && range.host == range.base
                && range.base + range.size - signal.handle >= size
        })
        && signal::kind(signal) == AmdSignalKind::USER
}

fn live(machine: &Machine, queue: &Queue, signal: HsaSignal) -> Result<HsaSignal, String> {
    if is_signal(machine, queue, signal) {
        Ok(signal)
    } else {
        Err(format!("dependency {:#x} is not a live signal", signal.handle))
    }
}

/// Checks the fields that do not depend on the kernel. `lds` is the agent's LDS in bytes. As on hardware, an empty grid
/// is accepted.
fn check_dispatch(packet: &KernelDispatchPacket, lds: u32) -> Result<(), String> {
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
    if packet.group_segment_size > lds {
        let size = packet.group_segment_size;
        return Err(format!("group segment of {size} bytes exceeds the {lds} bytes of LDS"));
    }
    Ok(())
}
