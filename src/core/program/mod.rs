// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Recorded command buffers.
//!
//! Recording ([`recorder`]) turns each command into a [`Step`] with everything computed that is known then: packets of static commands are
//! complete but for their header, their kernargs written once into memory of the program. What depends on the binding table, or on memory
//! that is not allocated yet, is a [`Place`] that each execution ([`execute`]) resolves. Execution barriers become the barrier bit and the
//! fences of neighbouring packets ([`barriers`]); there are no packets of their own.

pub mod arena;
pub mod barriers;
pub mod execute;
pub mod recorder;
mod records;

use std::ops::Range as IndexRange;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hsa_abi::{HsaFenceScope, KernelDispatchPacket};
use smallvec::SmallVec;

use crate::core::gpu::kernargs::StoredKernargs;
use crate::core::operations::dispatch::{IndirectArguments, Launch};
use crate::core::operations::transfer::Range;
use crate::core::profile::{FunctionRef, LaunchNote};
use crate::core::program::arena::{Arena, Storage};
use crate::core::queue::operation::{Demand, Order};
use crate::ffi::profile::schema::CommandKind;
use crate::ffi::{Resource, raw};

/// An address that a command uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Known since recording.
    Known(u64),
    /// `offset` bytes into entry `index` of an execution's table: first the binding table's slots, then the program's late buffers.
    Table {
        /// Entry.
        index: u32,
        /// Bytes from the entry's start.
        offset: u64,
    },
}

/// Where a dispatch's kernargs come from.
#[derive(Debug, Clone)]
pub enum KernargSource {
    /// Written once, at this address.
    Static(u64),
    /// Bytes of [`Program::templates`], copied for each execution, with addresses of [`Program::patches`] stored into the copy.
    Template {
        /// The bytes.
        bytes: IndexRange<u32>,
        /// The patches.
        patches: IndexRange<u32>,
    },
    /// A buffer of the caller's (indirect arguments).
    Buffer {
        /// Where they are.
        place: Place,
        /// What the place must offer.
        needs: IndirectArguments,
    },
}

/// An address in a template: one of an execution's table.
#[derive(Debug, Clone, Copy)]
pub struct Patch {
    /// Byte of the template that the 64-bit address goes to.
    pub at: u32,
    /// Entry of the table.
    pub index: u32,
    /// Bytes from the entry's start.
    pub offset: u64,
}

/// What a step does. Nearly all are dispatches: their packets are in place, so that recording one allocates nothing of its own.
#[derive(Debug)]
pub enum Action {
    /// A packet with known grid. Its kernarg address is set when they are static.
    Dispatch {
        /// All but header and dynamic kernargs.
        packet: KernelDispatchPacket,
        /// Its arguments.
        kernargs: KernargSource,
    },
    /// A dispatch whose workgroup counts the device reads just before.
    IndirectDispatch {
        /// The launch, whose grid is open.
        launch: Box<Launch>,
        /// Its arguments, never static: the device writes into a template, and not at all into the caller's buffer.
        kernargs: KernargSource,
        /// Three u32.
        count: Place,
    },
    /// A fill of a place that is resolved late: kernel and grid depend on the address.
    Fill {
        /// First byte.
        target: Place,
        /// Bytes, or none for all the entry has.
        length: Option<u64>,
        /// 1, 2 or 4 bytes.
        pattern: SmallVec<[u8; 4]>,
    },
    /// A copy between places of which one is resolved late.
    Copy {
        /// First byte read.
        source: Place,
        /// First byte written.
        target: Place,
        /// Bytes, or none for all the source's entry has.
        length: Option<u64>,
    },
    /// An update of a place that is resolved late.
    Update {
        /// The bytes, in [`Program::templates`].
        bytes: IndexRange<u32>,
        /// First byte written.
        target: Place,
    },
}

/// What a command buffer was made for.
#[derive(Debug, Clone, Copy)]
pub struct Recording {
    /// Unique in the process, never 0.
    pub id: u64,
    /// `iree_hal_command_buffer_mode_t` bits.
    pub mode: u32,
    /// `iree_hal_command_category_t` bits.
    pub categories: u32,
    /// Queues it may execute on.
    pub affinity: u64,
}

impl Recording {
    /// A new command buffer's.
    pub fn new(mode: u32, categories: u32, affinity: u64) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        Self { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), mode, categories, affinity }
    }

    /// The program is executed once: memory of its own would cost more than it saves.
    pub fn is_one_shot(&self) -> bool {
        self.mode & raw::IREE_HAL_COMMAND_BUFFER_MODE_ONE_SHOT != 0
    }
}

/// The command that a step carries out, as profiles tell of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Command {
    /// Its position among all commands, barriers and commands without effect included.
    pub index: u32,
    /// What it is.
    pub kind: CommandKind,
    /// Bindings of a dispatch.
    pub bindings: u32,
    /// The function of a dispatch.
    pub function: FunctionRef,
    /// Bytes of a transfer, when they are known.
    pub length: u64,
}

/// One command, in order.
#[derive(Debug)]
pub struct Step {
    /// What it does.
    pub action: Action,
    /// The command it is for.
    pub command: Command,
    /// How its packet relates to its neighbours.
    pub order: Order,
    /// Bytes of the kernarg ring that an execution takes for it, a multiple of [`crate::ring::KERNARG_ALIGNMENT`].
    pub kernarg_bytes: u32,
}

impl Step {
    /// Packets of the step.
    pub fn packets(&self) -> u32 {
        match self.action {
            Action::IndirectDispatch { .. } => 2,
            _ => 1,
        }
    }

    /// The launch of a function that it is, if so.
    pub fn launch_note(&self) -> Option<LaunchNote> {
        let ((workgroup_count, workgroup_size), indirect) = match &self.action {
            Action::Dispatch { packet, .. } => (records::geometry(packet), false),
            Action::IndirectDispatch { launch, .. } => (([0; 3], launch.shape.size.map(u32::from)), true),
            _ => return None,
        };
        (self.command.function.executable != 0).then_some(LaunchNote {
            function: self.command.function,
            command_index: self.command.index,
            workgroup_count,
            workgroup_size,
            indirect,
        })
    }

    /// What the step needs of the rings.
    pub fn demand(&self) -> Demand {
        let (packets, kernarg_bytes) = (self.packets(), self.kernarg_bytes.into());
        Demand { packets, kernarg_bytes, overlapping: true, ..Demand::default() }
    }

    /// True when what it does depends on an execution's table by more than addresses in kernargs.
    pub fn is_checked(&self) -> bool {
        !matches!(
            self.action,
            Action::Dispatch { kernargs: KernargSource::Static(_) | KernargSource::Template { .. }, .. }
        )
    }

    /// True when everything recorded before it is complete before it starts.
    pub fn is_serial(&self) -> bool {
        self.order.barrier && !matches!(self.action, Action::IndirectDispatch { .. })
    }
}

/// A finished recording. Immutable: any number of executions may use it at the same time.
#[derive(Debug)]
pub struct Program {
    /// What it was made for.
    pub recording: Recording,
    /// Index of the GPU it was recorded for.
    pub gpu: usize,
    /// The commands that have packets.
    pub steps: Vec<Step>,
    /// The positions of execution barriers among all commands.
    pub barriers: Vec<u32>,
    /// Kernargs of dynamic dispatches and bytes of updates.
    pub templates: Vec<u8>,
    /// Addresses in the templates.
    pub patches: Vec<Patch>,
    /// The largest offset of a patch into each entry of the table.
    pub reach: Vec<u64>,
    /// Slots of the binding table that commands use, by slot; the rest of the table is ignored.
    pub slots: Vec<bool>,
    /// Buffers recorded before their memory existed; entries of the table after the slots.
    pub late: Vec<Range<'static>>,
    /// Steps that each execution has to check: what they do depends on the table by more than addresses in [`Self::patches`].
    pub checked: Vec<u32>,
    /// The most that a step needs, packets and kernarg bytes each by itself.
    pub largest: Demand,
    /// Packets of all steps.
    pub packets: u32,
    /// Kernarg bytes of all steps.
    pub kernarg_bytes: u64,
    // Kept for as long as the program.
    _static_kernargs: Option<StoredKernargs>,
    _resources: Vec<Resource>,
    /// Takes what the program is made of.
    arena: Arc<Arena>,
}

impl Drop for Program {
    fn drop(&mut self) {
        self.arena.give_storage(Storage {
            steps: std::mem::take(&mut self.steps),
            templates: std::mem::take(&mut self.templates),
            patches: std::mem::take(&mut self.patches),
        });
    }
}

impl Program {
    /// The slots of the binding table that commands use.
    pub fn used_slots(&self) -> impl Iterator<Item = usize> {
        self.slots.iter().enumerate().filter_map(|(slot, used)| used.then_some(slot))
    }
}

/// Neighbours that no execution barrier separates: they may overlap.
pub const UNORDERED: Order = Order { barrier: false, acquire: HsaFenceScope::AGENT, release: HsaFenceScope::NONE };
