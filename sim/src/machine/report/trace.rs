// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Trace for `HSA_SIM_TRACE`: packets with their commands, or kernels, their waves or their instructions, on standard
//! error as they run.

use std::collections::HashMap;
use std::time::Duration;

use hsa_abi::{HsaFenceScope, KernelDispatchPacket};
use parking_lot::Mutex;
use sim_wave::{Counters, Listener};

use crate::machine::queue::packet::{Packet, Work};

/// Level of detail of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Packets of queues, and the PM4 commands that they call.
    Packet,
    /// Start and end of kernels.
    Kernel,
    /// Also start and end of waves.
    Wave,
    /// Also each instruction.
    Instruction,
}

/// Requested trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Level of detail.
    pub detail: Detail,
    /// Only kernels whose names contain this text are traced.
    pub filter: String,
    /// Only waves of this workgroup are traced.
    pub workgroup: Option<[u32; 3]>,
    /// Only the waves of this number in their workgroups are traced.
    pub wave: Option<u32>,
}

impl Asked {
    /// Parses `detail` or `detail,filter`, in which `,workgroup=X:Y:Z` and `,wave=N` may be. The error lists the
    /// accepted values.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut workgroup, mut wave, mut rest) = (None, None, Vec::new());
        for part in text.split(',') {
            if let Some(place) = part.strip_prefix("workgroup=") {
                let numbers: Vec<u32> = place.split(':').map_while(|number| number.parse().ok()).collect();
                let mut all = [0; 3];
                match all.get_mut(..numbers.len()) {
                    Some(all) if numbers.len() == place.split(':').count() => all.copy_from_slice(&numbers),
                    _ => return Err(format!("{part}: expected workgroup=X:Y:Z")),
                }
                workgroup = Some(all);
            } else if let Some(number) = part.strip_prefix("wave=") {
                wave = Some(number.parse().map_err(|_| format!("{part}: expected wave=N"))?);
            } else {
                rest.push(part);
            }
        }
        let text = rest.join(",");
        let (detail, filter) = text.split_once(',').unwrap_or((&text, ""));
        let detail = match detail {
            "packets" if filter.is_empty() => Detail::Packet,
            "packets" => return Err("packets have no names to tell some of them by".into()),
            "kernel" => Detail::Kernel,
            "wave" => Detail::Wave,
            "instruction" => Detail::Instruction,
            _ => {
                return Err(
                    "expected packets, or kernel, wave or instruction, and after commas a part of kernels' names, \
                     workgroup=X:Y:Z, wave=N"
                        .into(),
                );
            }
        };
        if detail < Detail::Wave && (workgroup.is_some() || wave.is_some()) {
            return Err("workgroup= and wave= choose among the waves that wave and instruction trace".into());
        }
        Ok(Self { detail, filter: filter.to_owned(), workgroup, wave })
    }

    /// Traces the start of a kernel, and returns the trace of its dispatch; `None` if its name does not match.
    pub fn begin<'a>(
        &'a self,
        (kernel, source): (&'a str, &'a Source<'a>),
        packet: &KernelDispatchPacket,
        of: &str,
    ) -> Option<OfDispatch<'a>> {
        if self.detail == Detail::Packet || !kernel.contains(&self.filter) {
            return None;
        }
        let KernelDispatchPacket { grid_size, workgroup_size, kernarg_address, .. } = packet;
        tell(&format!(
            "kernel {kernel} begins: {grid_size:?} work-items in workgroups of {workgroup_size:?}, arguments at \
             {kernarg_address:#x}; {of}"
        ));
        Some(OfDispatch { asked: self, kernel, source, known: Mutex::default() })
    }
}

impl Asked {
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
pub struct OfDispatch<'a> {
    asked: &'a Asked,
    kernel: &'a str,
    source: &'a Source<'a>,
    /// Sources of the instructions so far: looking one up takes long.
    known: Mutex<HashMap<u64, Option<String>>>,
}

impl OfDispatch<'_> {
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

impl Listener for OfDispatch<'_> {
    fn wants_instructions(&self) -> bool {
        self.asked.detail == Detail::Instruction
    }

    fn wants(&self, workgroup: [u32; 3], wave: u32) -> bool {
        let Asked { workgroup: group, wave: number, .. } = self.asked;
        group.is_none_or(|group| group == workgroup) && number.is_none_or(|number| number == wave)
    }

    fn source(&self, pc: u64) -> Option<String> {
        self.known.lock().entry(pc).or_insert_with(|| (self.source)(pc)).clone()
    }

    fn hear(&self, text: &str) {
        tell(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_behind_a_comma() {
        let asked = |detail, filter: &str| Ok(Asked { detail, filter: filter.into(), workgroup: None, wave: None });
        assert_eq!(Asked::parse("kernel"), asked(Detail::Kernel, ""));
        assert_eq!(Asked::parse("wave,a,b"), asked(Detail::Wave, "a,b"));
        assert_eq!(Asked::parse("instruction,"), asked(Detail::Instruction, ""));
        assert_eq!(Asked::parse("packets"), asked(Detail::Packet, ""));
        let some = Asked { detail: Detail::Wave, filter: "a,b".into(), workgroup: Some([1, 2, 0]), wave: Some(3) };
        assert_eq!(Asked::parse("wave,a,workgroup=1:2,b,wave=3"), Ok(some));
        for wrong in ["wave,workgroup=", "wave,workgroup=1:2:3:4", "wave,workgroup=1:x", "wave,wave=x", "kernel,wave=1"]
        {
            assert!(Asked::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Asked::parse("packets,a").is_err());
        assert!(Asked::parse("lane").is_err() && Asked::parse("").is_err());
    }
}
