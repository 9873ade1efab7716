// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Recorded command buffers.
//!
//! Recording ([`recorder`]) turns each command into a [`Step`] with everything computed that is known then: packets of
//! static commands are complete but for their header, their kernargs written once into memory of the program. What
//! depends on the binding table, or on memory that is not allocated yet, is a [`Place`] that each execution
//! ([`execute`]) resolves. Execution barriers become the barrier bit and the fences of neighbouring packets
//! ([`barriers`]); there are no packets of their own. Some recordings can be executed as a whole, by the packet
//! processor's own commands ([`stream`]).

pub mod arena;
pub mod barriers;
pub mod execute;
pub mod recorder;
mod records;
pub mod stream;

use hsa_abi::{HsaFenceScope, KernelDispatchPacket};
use smallvec::SmallVec;

use crate::core::gpu::kernargs::StoredKernargs;
use crate::core::operations::launch::{IndirectArguments, Launch};
use crate::core::profile::{FunctionRef, LaunchNote};
use crate::core::program::arena::Stored;
use crate::core::program::stream::Stream;
use crate::core::queue::operation::{Demand, Order};
use crate::ffi::profile::schema::CommandKind;
use crate::ffi::{CommandBufferMode, CommandCategories};
use crate::ring::KERNARG_ALIGNMENT;

/// An address that a command uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Known since recording.
    Known(u64),
    /// `offset` bytes into entry `index` of an execution's table: first the binding table's slots, then the program's
    /// late buffers.
    Table {
        /// Entry.
        index: u32,
        /// Bytes from the entry's start.
        offset: u64,
    },
}

/// What kernel arguments are stored in: as much as they are aligned to, so that whole lines are copied to the ring.
pub type Line = [u64; KERNARG_ALIGNMENT as usize / size_of::<u64>()];

/// Some items of a program, in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub start: u32,
    /// Behind the last.
    pub end: u32,
}

impl Span {
    /// From the item `start` to those before `end`.
    #[inline]
    pub fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// How many.
    #[inline]
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Those of `items`.
    #[inline]
    pub fn of<T>(self, items: &[T]) -> &[T] {
        &items[self.start as usize..self.end as usize]
    }
}

/// Where a dispatch's kernargs come from.
#[derive(Debug, Clone, Copy)]
pub enum KernargSource {
    /// Written once, at the address that its packet has.
    Static,
    /// Copied for each execution.
    Template {
        /// Of [`arena::Storage::templates`].
        lines: Span,
        /// Addresses that are stored into the copy, of [`arena::Storage::patches`].
        patches: Span,
    },
    /// In a buffer of the caller's (indirect arguments), one of [`arena::Storage::argument_buffers`].
    Buffer(u32),
}

/// A buffer of the caller's that holds kernargs.
#[derive(Debug, Clone, Copy)]
pub struct ArgumentBuffer {
    /// Where they are.
    pub place: Place,
    /// What the place must offer.
    pub needs: IndirectArguments,
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

impl Patch {
    /// How far into its entry it reaches, see [`arena::Storage::reach`].
    #[inline(always)]
    fn reach(&self) -> u64 {
        self.offset.saturating_add(1)
    }
}

/// What a step does. Nearly all are dispatches: they are in place, and so is their packet.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// A packet with known grid.
    Dispatch {
        /// All but kernargs that are not static. Its header is for a place where the recording's order is all.
        packet: KernelDispatchPacket,
        /// Its arguments.
        kernargs: KernargSource,
    },
    /// Something else, of [`arena::Storage::specials`].
    Special(u32),
}

/// What a step does that is no dispatch of a known grid.
#[derive(Debug)]
pub enum Special {
    /// A dispatch whose workgroup counts the device reads just before.
    IndirectDispatch {
        /// The launch, whose grid is open.
        launch: Launch,
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
        /// The bytes, from the first of these lines of [`arena::Storage::templates`] on.
        lines: Span,
        /// How many.
        length: u32,
        /// First byte written.
        target: Place,
    },
}

/// What a command buffer was made for.
#[derive(Debug, Clone, Copy)]
pub struct Recording {
    /// Unique in the process, never 0.
    pub id: u64,
    /// How it is recorded and used.
    pub mode: CommandBufferMode,
    /// What may be recorded.
    pub categories: CommandCategories,
    /// Queues it may execute on.
    pub affinity: u64,
}

impl Recording {
    /// The program is executed once: memory of its own would cost more than it saves.
    pub fn is_one_shot(&self) -> bool {
        self.mode.contains(CommandBufferMode::ONE_SHOT)
    }
}

/// The command that a step carries out, as profiles tell of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Command {
    /// The executable of a dispatch's function; 0 for none.
    pub executable: u64,
    /// Bytes of a transfer, when they are known.
    pub length: u64,
    /// The function's place in the executable.
    pub ordinal: u32,
    /// Its position among all commands, barriers and commands without effect included.
    pub index: u32,
    /// Bindings of a dispatch.
    pub bindings: u32,
    /// What it is.
    pub kind: CommandKind,
}

impl Command {
    /// A dispatch of `function` with so many bindings.
    #[inline(always)]
    pub fn dispatch(index: u32, function: FunctionRef, bindings: usize) -> Self {
        let FunctionRef { executable, ordinal } = function;
        Self { executable, length: 0, ordinal, index, bindings: bindings as u32, kind: CommandKind::Dispatch }
    }

    /// The function of a dispatch.
    pub fn function(&self) -> FunctionRef {
        FunctionRef { executable: self.executable, ordinal: self.ordinal }
    }
}

/// One command, in order.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// What it does.
    pub action: Action,
    /// The command it is for.
    pub command: Command,
    /// Bytes of the kernarg ring that an execution takes for it, a multiple of [`crate::ring::KERNARG_ALIGNMENT`].
    pub kernarg_bytes: u32,
    /// How its packet relates to its neighbours.
    pub order: Order,
    /// How many packets it is.
    pub packets: u8,
}

// It is made and copied in a few moves of registers.
const _: () = assert!(size_of::<Step>() <= 128);

impl Step {
    /// Writes its order to the header of its packet, too, if that is known.
    #[inline(always)]
    pub fn note_order(&mut self) {
        let order = self.order;
        if let Action::Dispatch { packet, .. } = &mut self.action {
            packet.header = order.header();
        }
    }

    /// True when everything recorded before it is complete before it starts.
    pub fn is_serial(&self) -> bool {
        // Of an indirect dispatch the kernel in front is.
        self.order.barrier && self.packets == 1
    }

    /// The templates of a dispatch that executions find nothing to patch in.
    #[inline(always)]
    fn static_lines(&self) -> Option<Span> {
        match &self.action {
            Action::Dispatch { kernargs: KernargSource::Template { lines, patches }, .. } => {
                patches.is_empty().then_some(*lines)
            }
            Action::Dispatch { .. } | Action::Special(_) => None,
        }
    }

    /// Templates and patches of a dispatch's arguments that executions bind; none of what is no dispatch, or of known
    /// arguments.
    fn bound(&self) -> Option<(Span, Span)> {
        match &self.action {
            Action::Dispatch { kernargs: KernargSource::Template { lines, patches }, .. } => Some((*lines, *patches)),
            Action::Dispatch { .. } | Action::Special(_) => None,
        }
    }
}

/// A finished recording. Immutable: any number of executions may use it at the same time.
#[derive(Debug)]
pub struct Program {
    /// What it was made for.
    pub recording: Recording,
    /// Index of the GPU it was recorded for.
    pub gpu: usize,
    /// What it is made of.
    pub stored: Stored,
    /// The most that a step needs, packets and kernarg bytes each by itself.
    pub largest: Demand,
    /// Packets of all steps.
    pub packets: u32,
    /// Kernarg bytes of all steps.
    pub kernarg_bytes: u64,
    /// All steps in commands of the packet processor, if they can be.
    pub stream: Option<Stream>,
    // Kept for as long as the program.
    _static_kernargs: Option<StoredKernargs>,
}

impl Program {
    /// The slots of the binding table that commands use.
    pub fn used_slots(&self) -> impl Iterator<Item = usize> {
        let slots = self.stored.slots();
        self.stored.reach[..slots].iter().enumerate().filter_map(|(slot, reach)| (*reach > 0).then_some(slot))
    }

    /// What a step does that is no dispatch of a known grid.
    pub fn special(&self, index: u32) -> &Special {
        &self.stored.specials[index as usize]
    }

    /// The launch that a step is; of no function where it is a transfer.
    pub fn launch_note(&self, step: &Step) -> LaunchNote {
        let ((workgroup_count, workgroup_size), indirect) = match &step.action {
            Action::Dispatch { packet, .. } => (records::geometry(packet), false),
            Action::Special(index) => match self.special(*index) {
                Special::IndirectDispatch { launch, .. } => (([0; 3], launch.shape.size.map(u32::from)), true),
                Special::Fill { .. } | Special::Copy { .. } | Special::Update { .. } => (([0; 3], [0; 3]), false),
            },
        };
        LaunchNote {
            function: step.command.function(),
            command_index: step.command.index,
            workgroup_count,
            workgroup_size,
            indirect,
        }
    }
}

/// Neighbours that no execution barrier separates: they may overlap.
pub const UNORDERED: Order = Order { barrier: false, acquire: HsaFenceScope::AGENT, release: HsaFenceScope::NONE };
