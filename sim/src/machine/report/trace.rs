// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Trace for `HSA_SIM_TRACE`: packets with their commands, or kernels, their waves or their instructions, on standard
//! error as they run.

use std::collections::HashMap;
use std::time::Duration;

use hsa_abi::{HsaFenceScope, KernelDispatchPacket};
use parking_lot::Mutex;
use sim_wave::{Counters, Listener};

use crate::machine::config::trace::{Detail, TraceConfig};
use crate::machine::queue::packet::{Packet, Work};

impl TraceConfig {
    /// Traces the start of a kernel, and returns the trace of its dispatch; `None` if its name does not match.
    pub fn begin<'a>(
        &'a self,
        (kernel, source): (&'a str, &'a Source<'a>),
        packet: &KernelDispatchPacket,
        of: &str,
    ) -> Option<DispatchTrace<'a>> {
        if self.detail == Detail::Packet || !kernel.contains(&self.filter) {
            return None;
        }
        let KernelDispatchPacket { grid_size, workgroup_size, kernarg_address, .. } = packet;
        tell(&format!(
            "kernel {kernel} begins: {grid_size:?} work-items in workgroups of {workgroup_size:?}, arguments at \
             {kernarg_address:#x}; {of}"
        ));
        Some(DispatchTrace { asked: self, kernel, source, known: Mutex::default() })
    }

    /// Traces packet `id` of the queue `of` when it starts to run.
    pub fn packet(&self, packet: &Packet, id: u64, of: &str) {
        let header = packet.header;
        let scope = |scope: HsaFenceScope| match scope {
            HsaFenceScope::NONE => "nothing",
            HsaFenceScope::AGENT => "agent",
            _ => "system",
        };
        let work = match &packet.work {
            Work::Dispatch(dispatch) => {
                let KernelDispatchPacket { grid_size, workgroup_size, kernel_object, kernarg_address, .. } = dispatch;
                let KernelDispatchPacket { group_segment_size, private_segment_size, .. } = dispatch;
                format!(
                    "dispatch of {kernel_object:#x} over {grid_size:?} in {workgroup_size:?}, arguments at \
                     {kernarg_address:#x}, LDS {group_segment_size}, scratch {private_segment_size}"
                )
            }
            Work::Barrier(all, conditions) => {
                format!("barrier for {} of {} signals", if *all { "all" } else { "any" }, conditions.len())
            }
            Work::Pm4(buffer) => format!("PM4-IB of {} dwords at {:#x}", buffer.dwords, buffer.address),
        };
        tell(&format!(
            "packet {id} of {of}: {work}; {}acquire {}, release {}, signal {:#x}",
            if header.barrier() { "barrier, " } else { "" },
            scope(header.acquire_scope()),
            scope(header.release_scope()),
            packet.completion.handle
        ));
    }

    /// Traces a command of packet `id`, at a dword of its commands, if packets are traced.
    pub fn command(&self, id: u64, at: usize, command: impl FnOnce() -> String) {
        if self.detail == Detail::Packet {
            tell(&format!("packet {id}, dword {at}: {}", command()));
        }
    }
}

fn tell(text: &str) {
    eprintln!("hsa-sim: trace: {text}");
}

/// Returns the source file and line of the instruction at an address, if they are known.
pub type Source<'a> = dyn Fn(u64) -> Option<String> + Sync + 'a;

/// Trace of a dispatch.
pub struct DispatchTrace<'a> {
    asked: &'a TraceConfig,
    kernel: &'a str,
    source: &'a Source<'a>,
    /// Sources of the instructions so far: looking one up takes long.
    known: Mutex<HashMap<u64, Option<String>>>,
}

impl DispatchTrace<'_> {
    /// Listener to waves, if they are traced.
    pub fn listener(&self) -> Option<&dyn Listener> {
        (self.asked.detail > Detail::Kernel).then_some(self as _)
    }

    /// Traces the end of the kernel.
    pub fn end(&self, counters: &Counters, time: Duration) {
        let Counters { waves, wave_instructions, .. } = counters;
        let milliseconds = 1e3 * time.as_secs_f64();
        let kernel = self.kernel;
        tell(&format!("kernel {kernel} ends: {waves} waves, {wave_instructions} instructions, {milliseconds:.3} ms"));
    }
}

impl Listener for DispatchTrace<'_> {
    fn wants_instructions(&self) -> bool {
        self.asked.detail == Detail::Instruction
    }

    fn wants(&self, workgroup: [u32; 3], wave: u32) -> bool {
        let TraceConfig { workgroup: group, wave: number, .. } = self.asked;
        group.is_none_or(|group| group == workgroup) && number.is_none_or(|number| number == wave)
    }

    fn source(&self, pc: u64) -> Option<String> {
        self.known.lock().entry(pc).or_insert_with(|| (self.source)(pc)).clone()
    }

    fn hear(&self, text: &str) {
        tell(text);
    }
}
