// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Parameters of a kernel's run, and counts of its dispatch.

use crate::count::TakeTally;
use crate::debug::Debug;
use crate::gws::Gws;
use crate::jit::Jit;
use crate::profile::Collect;
use crate::sanitizer::Checks;
use crate::steps::TakeSteps;
use crate::trace::Listener;
use hsa_abi::KernelDispatchPacket;
use std::sync::atomic::AtomicBool;

/// Parameters of a kernel's run.
pub struct Launch<'a> {
    /// The dispatch packet, valid already.
    pub packet: KernelDispatchPacket,
    /// Address of the packet in its queue.
    pub packet_addr: u64,
    /// Address of the `amd_queue_t`.
    pub queue_addr: u64,
    /// Id of the dispatch (the packet's index in its queue).
    pub dispatch_id: u64,
    /// Initial user SGPRs, if commands have set them. `None` for a dispatch packet, whose user SGPRs the kernel
    /// descriptor defines.
    pub user_registers: Option<[u32; 16]>,
    /// Maximum number of threads, including the caller's.
    pub threads: usize,
    /// Number of workgroups that the GPU holds at the same time, at least one. So many make progress together, with any
    /// number of threads. Further ones begin when others have ended.
    pub resident: u64,
    /// The GPU's global wave sync; without it, kernels that use it fault.
    pub gws: Option<&'a Gws>,
    /// When set to true, waves stop with [`crate::FaultKind::Cancelled`] soon after; checked at backward branches,
    /// sleeps and barriers, and when a wave begins.
    pub cancel: Option<&'a AtomicBool>,
    /// Use of compiled code, where nothing observes the run and there are no caches.
    pub jit: Jit,
    /// Observer of the run; `None` costs nothing.
    pub watch: Option<Watch<'a>>,
}

/// Observer of a kernel's run.
#[derive(Clone, Copy)]
pub enum Watch<'a> {
    /// Checks.
    Checks(Checks<'a>),
    /// Collects figures of each instruction.
    Profile(&'a dyn Collect),
    /// Traces the actions of waves.
    Trace(&'a dyn Listener),
    /// Counts instructions by kind.
    Count(&'a dyn TakeTally),
    /// Collects the executed instructions of waves in order.
    Steps(&'a dyn TakeSteps),
    /// Several observers at once.
    Several(Observers<'a>),
    /// Runs under a debugger, with checks if any. [`Launch::threads`] is 1.
    Debug(&'a dyn Debug, Option<Checks<'a>>),
}

/// Observers of one run.
#[derive(Clone, Copy, Default)]
pub struct Observers<'a> {
    /// Checks.
    pub checks: Option<Checks<'a>>,
    /// Collects figures of each instruction.
    pub profile: Option<&'a dyn Collect>,
    /// Traces the actions of waves.
    pub trace: Option<&'a dyn Listener>,
    /// Counts instructions by kind.
    pub count: Option<&'a dyn TakeTally>,
    /// Collects the executed instructions of waves in order.
    pub steps: Option<&'a dyn TakeSteps>,
}

impl<'a> Observers<'a> {
    /// Watches with all of them. One by itself has a run loop of its own, which is faster.
    pub fn watch(self) -> Option<Watch<'a>> {
        match self {
            Self { checks: None, profile: None, trace: None, count: None, steps: None } => None,
            Self { checks: Some(checks), profile: None, trace: None, count: None, steps: None } => {
                Some(Watch::Checks(checks))
            }
            Self { checks: None, profile: Some(sink), trace: None, count: None, steps: None } => {
                Some(Watch::Profile(sink))
            }
            Self { checks: None, profile: None, trace: Some(listener), count: None, steps: None } => {
                Some(Watch::Trace(listener))
            }
            Self { checks: None, profile: None, trace: None, count: Some(sink), steps: None } => {
                Some(Watch::Count(sink))
            }
            Self { checks: None, profile: None, trace: None, count: None, steps: Some(sink) } => {
                Some(Watch::Steps(sink))
            }
            several => Some(Watch::Several(several)),
        }
    }
}

/// Counts of a dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Instructions executed by all waves (a VOPD is one).
    pub wave_instructions: u64,
    /// Instructions of these that access global memory through vector addresses: `global_*` and `flat_*`.
    pub global_accesses: u64,
    /// Workgroups run.
    pub workgroups: u64,
    /// Waves run.
    pub waves: u64,
}

/// Work-items that a workgroup may have.
pub const MAX_WORKGROUP: u32 = 1024;
