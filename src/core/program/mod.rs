// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Recorded command buffers.
//!
//! Recording ([`recorder`]) turns each command into a [`Step`] with everything computed that is known then: the packets
//! of dispatches are complete but for the address of their kernargs and the signal, and kernargs of which all is known
//! are written once, at the recording's end, into memory of the program. Others are templates that each execution
//! ([`execute`]) copies. What depends on the binding table, or on memory that is not allocated yet, is a [`Place`] that
//! executions resolve; of a template's bindings it is in the template, in the binding's word ([`Place::word`]).
//! Execution barriers become the barrier bit and the fences of neighbouring packets ([`barriers`]); there are no
//! packets of their own. Some recordings can be executed as a whole, by the packet processor's own commands
//! ([`stream`]).

pub mod arena;
pub mod barriers;
pub mod execute;
pub mod recorder;
mod records;
pub mod stream;

use std::sync::Arc;

use device_binaries::UPDATE_PAYLOAD_OFFSET;
use hsa_abi::{HsaFenceScope, HsaSignal, KernelDispatchPacket, PacketHeader};
use smallvec::SmallVec;

use crate::core::gpu::Gpu;
use crate::core::gpu::kernargs::StoredKernargs;
use crate::core::operations::launch::{IndirectArguments, Launch};
use crate::core::profile::{FunctionRef, LaunchNote};
use crate::core::program::arena::Stored;
use crate::core::program::stream::Stream;
use crate::core::queue::operation::{Demand, Order};
use crate::ffi::profile::schema::CommandKind;
use crate::ffi::{CommandBufferMode, CommandCategories};
use crate::ring::{KERNARG_ALIGNMENT, PacketBody, body_of_dispatch};

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

impl Place {
    /// Set in the words of places in a table. No address has this bit.
    const IN_TABLE: u64 = 1 << 63;
    /// Bits of such a word that are the offset; between is the entry.
    const OFFSET_BITS: u32 = 43;
    const ENTRY_BITS: u32 = 63 - Self::OFFSET_BITS;
    /// Entries that such words can name.
    const MOST_ENTRIES: usize = 1 << Self::ENTRY_BITS;

    /// The word that a template has for a binding that is at `offset` of entry `index`; none for offsets from 8 TiB on
    /// and entries behind the first 2^20.
    #[inline(always)]
    fn table_word(index: u32, offset: u64) -> Option<u64> {
        let fits = u64::from(index) >> Self::ENTRY_BITS | offset >> Self::OFFSET_BITS == 0;
        fits.then_some(Self::IN_TABLE | u64::from(index) << Self::OFFSET_BITS | offset)
    }

    /// The word that a template has for a binding here; none as for [`Self::table_word`].
    fn word(self) -> Option<u64> {
        match self {
            Self::Known(address) => Some(address),
            Self::Table { index, offset } => Self::table_word(index, offset),
        }
    }

    /// What a template's word for a binding says; none for addresses, which are themselves.
    #[inline(always)]
    fn in_table(word: u64) -> Option<(usize, u64)> {
        let index = (word & !Self::IN_TABLE) >> Self::OFFSET_BITS;
        (word & Self::IN_TABLE != 0).then_some((index as usize, word & ((1 << Self::OFFSET_BITS) - 1)))
    }
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

    /// Those of `items`.
    #[inline]
    pub fn of<T>(self, items: &[T]) -> &[T] {
        &items[self.start as usize..self.end as usize]
    }
}

/// Where a dispatch's kernargs come from, and how many bindings are in front of them.
#[derive(Debug, Clone, Copy)]
pub enum KernargSource {
    /// Written once, at this address.
    Stored {
        /// Bindings.
        bindings: u32,
        /// The first byte's.
        address: u64,
    },
    /// Copied for each execution.
    Template {
        /// Each execution binds some of the bindings: those are no addresses, but places in its table, see
        /// [`Place::word`]. Else all is known.
        is_bound: bool,
        /// Bindings, a word each.
        bindings: u32,
        /// Of [`arena::Storage::templates`].
        lines: Span,
    },
    /// In a buffer of the caller's (indirect arguments), one of [`arena::Storage::argument_buffers`].
    Buffer(u32),
}

impl KernargSource {
    /// Bindings of the dispatch. A buffer that holds the kernargs is none.
    fn bindings(self) -> u32 {
        match self {
            Self::Stored { bindings, .. } | Self::Template { bindings, .. } => bindings,
            Self::Buffer(_) => 0,
        }
    }

    /// Words and lines of those that executions bind.
    fn bound(self) -> Option<(usize, Span)> {
        match self {
            Self::Template { is_bound: true, bindings, lines } => Some((bindings as usize, lines)),
            Self::Stored { .. } | Self::Template { .. } | Self::Buffer(_) => None,
        }
    }

    /// Bytes of the kernarg ring that an execution takes for them.
    fn ring_bytes(self) -> usize {
        match self {
            Self::Template { lines, .. } => lines.len() * size_of::<Line>(),
            Self::Stored { .. } | Self::Buffer(_) => 0,
        }
    }
}

/// A buffer of the caller's that holds kernargs.
#[derive(Debug, Clone, Copy)]
pub struct ArgumentBuffer {
    /// Where they are.
    pub place: Place,
    /// What the place must offer.
    pub needs: IndirectArguments,
}

/// What a step does. Nearly all are dispatches.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// A dispatch of a known grid, with these arguments.
    Dispatch(KernargSource),
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

impl Special {
    /// What an execution needs for it, packets and kernarg bytes.
    fn needs(&self) -> (u32, usize) {
        const LINE_BYTES: usize = size_of::<Line>();
        match self {
            // The patch kernel has arguments of its own.
            Self::IndirectDispatch { kernargs, .. } => (2, kernargs.ring_bytes() + LINE_BYTES),
            Self::Fill { .. } | Self::Copy { .. } => (1, LINE_BYTES),
            Self::Update { length, .. } => (1, (UPDATE_PAYLOAD_OFFSET + *length as usize).next_multiple_of(LINE_BYTES)),
        }
    }
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

/// What steps carry out, as profiles tell of it. Steps in a row that launch the same function have one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Command {
    /// The function of a dispatch.
    pub function: FunctionRef,
    /// Bytes of a transfer, when they are known.
    pub length: u64,
    /// What it is.
    pub kind: CommandKind,
}

/// One command, in order: a line of the host's cache, as most of the time that recording takes is that of its stores.
///
/// It begins with the words of a dispatch's packet that are known since recording. In place of the others, which
/// executions fill in, is what there is to know beyond.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Those words, header and setup included; that header is for a place where the recording's order is all. Of what
    /// is no dispatch of a known grid they have nothing but the order.
    head: [u64; 5],
    /// What it does.
    pub action: Action,
    /// The command that it is for, of [`arena::Storage::commands`].
    pub command: u32,
    /// Its position among all commands, barriers and commands without effect included.
    pub index: u32,
}

const _: () = assert!(size_of::<Step>() == 64);

impl Step {
    /// A dispatch of a known grid. Whatever else `packet` says of kernargs and completion does not count.
    #[inline(always)]
    pub fn dispatch(packet: KernelDispatchPacket, kernargs: KernargSource, command: u32, index: u32) -> Self {
        let packet = KernelDispatchPacket { header: UNORDERED.header(), ..packet };
        let [first, second, third, fourth, fifth, ..] = body_of_dispatch(&packet);
        let head = [first, second, third, fourth, fifth];
        Self { head, action: Action::Dispatch(kernargs), command, index }
    }

    /// The special of this index.
    pub fn special(special: u32, command: u32, index: u32) -> Self {
        let head = [UNORDERED.header().0.into(), 0, 0, 0, 0];
        Self { head, action: Action::Special(special), command, index }
    }

    fn header(&self) -> PacketHeader {
        PacketHeader(self.head[0] as u16)
    }

    /// How its packet relates to its neighbours.
    pub fn order(&self) -> Order {
        let header = self.header();
        Order { barrier: header.barrier(), acquire: header.acquire_scope(), release: header.release_scope() }
    }

    /// Changes that.
    #[inline(always)]
    pub fn reorder(&mut self, change: impl FnOnce(&mut Order)) {
        let mut order = self.order();
        change(&mut order);
        self.head[0] = self.head[0] & !u64::from(u16::MAX) | u64::from(order.header().0);
    }

    /// The packet of a dispatch with its kernargs at this address.
    #[inline(always)]
    pub fn body(&self, kernarg_address: u64) -> PacketBody {
        let [first, second, third, fourth, fifth] = self.head;
        [first, second, third, fourth, fifth, kernarg_address, 0, 0]
    }

    /// The same, field by field.
    #[inline(always)]
    pub fn packet(&self, kernarg_address: u64) -> KernelDispatchPacket {
        let [sizes, rest, grid, segments, kernel_object] = self.head;
        KernelDispatchPacket {
            header: self.header(),
            setup: (sizes >> 16) as u16,
            workgroup_size: [(sizes >> 32) as u16, (sizes >> 48) as u16, rest as u16],
            reserved0: (rest >> 16) as u16,
            grid_size: [(rest >> 32) as u32, grid as u32, (grid >> 32) as u32],
            private_segment_size: segments as u32,
            group_segment_size: (segments >> 32) as u32,
            kernel_object,
            kernarg_address,
            reserved2: 0,
            completion_signal: HsaSignal::NULL,
        }
    }

    /// Lines of a dispatch's arguments that are all known, and are copied for each execution.
    #[inline(always)]
    fn known_lines(&self) -> Option<Span> {
        match self.action {
            Action::Dispatch(KernargSource::Template { is_bound: false, lines, .. }) => Some(lines),
            _ => None,
        }
    }
}

/// A finished recording. Immutable: any number of executions may use it at the same time.
#[derive(Debug)]
pub struct Program {
    /// What it was made for.
    pub recording: Recording,
    /// What it is made of.
    pub stored: Stored,
    /// The most that a step needs, packets and kernarg bytes each by itself.
    pub largest: Demand,
    /// Packets of all steps.
    pub packets: u32,
    /// Kernarg bytes of all steps.
    pub kernarg_bytes: u64,
    /// All steps in commands of the packet processor, if they can be.
    pub stream: Option<Box<Stream>>,
    // Kept for as long as the program.
    _stored_kernargs: Option<StoredKernargs>,
}

impl Program {
    /// The GPU it was recorded for.
    #[inline]
    pub fn gpu(&self) -> &Arc<Gpu> {
        self.stored.arena().gpu()
    }

    /// The slots of the binding table that commands use.
    pub fn used_slots(&self) -> impl Iterator<Item = usize> {
        self.stored.reach.iter().enumerate().filter_map(|(slot, reach)| (*reach > 0).then_some(slot))
    }

    /// What a step does that is no dispatch of a known grid.
    pub fn special(&self, index: u32) -> &Special {
        &self.stored.specials[index as usize]
    }

    /// What an execution needs for a step, packets and kernarg bytes.
    fn needs(&self, step: &Step) -> (u32, usize) {
        match step.action {
            Action::Dispatch(kernargs) => (1, kernargs.ring_bytes()),
            Action::Special(index) => self.special(index).needs(),
        }
    }

    /// Whether everything recorded before a step is complete before it starts.
    fn is_serial(&self, step: &Step) -> bool {
        // Of an indirect dispatch the kernel in front is.
        step.order().barrier && self.needs(step).0 == 1
    }

    /// The launch that a step is; of no function where it is a transfer.
    pub fn launch_note(&self, step: &Step) -> LaunchNote {
        let ((workgroup_count, workgroup_size), indirect) = match step.action {
            Action::Dispatch(_) => (records::geometry(&step.packet(0)), false),
            Action::Special(index) => match self.special(index) {
                Special::IndirectDispatch { launch, .. } => (([0; 3], launch.shape.size.map(u32::from)), true),
                Special::Fill { .. } | Special::Copy { .. } | Special::Update { .. } => (([0; 3], [0; 3]), false),
            },
        };
        LaunchNote {
            function: self.stored.commands[step.command as usize].function,
            command_index: step.index,
            workgroup_count,
            workgroup_size,
            indirect,
        }
    }
}

/// Neighbours that no execution barrier separates: they may overlap.
pub const UNORDERED: Order = Order { barrier: false, acquire: HsaFenceScope::AGENT, release: HsaFenceScope::NONE };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_templates_are_addresses_or_places_in_a_table() {
        let address = 0xffff_ffff_ffff_fff0 >> 1;
        assert_eq!(Place::Known(address).word(), Some(address));
        assert_eq!(Place::in_table(address), None);
        let (entries, offsets) = (1 << Place::ENTRY_BITS, 1 << Place::OFFSET_BITS);
        for (index, offset) in [(0, 0), (3, 0x100), (entries - 1, offsets - 1)] {
            let word = Place::Table { index, offset }.word().expect("few entries and bytes");
            assert_eq!(Place::in_table(word), Some((index as usize, offset)));
        }
        assert_eq!(Place::Table { index: entries, offset: 0 }.word(), None);
        assert_eq!(Place::Table { index: 0, offset: offsets }.word(), None);
    }

    #[test]
    fn a_step_has_its_packet_and_its_order() {
        let packet = KernelDispatchPacket {
            header: PacketHeader::INVALID,
            setup: 3,
            workgroup_size: [0x1112, 0x2122, 0x3132],
            reserved0: 0,
            grid_size: [0x5152_5354, 0x6162_6364, 0x7172_7374],
            private_segment_size: 0x8182_8384,
            group_segment_size: 0x9192_9394,
            kernel_object: 0xa1a2_a3a4_a5a6_a7a8,
            kernarg_address: 1,
            reserved2: 2,
            completion_signal: HsaSignal { handle: 3 },
        };
        let mut step = Step::dispatch(packet, KernargSource::Stored { bindings: 0, address: 4 }, 5, 6);
        assert_eq!(step.order(), UNORDERED);
        let order = Order { barrier: true, acquire: HsaFenceScope::SYSTEM, release: HsaFenceScope::AGENT };
        step.reorder(|own| *own = order);
        assert_eq!(step.order(), order);
        let expected = KernelDispatchPacket {
            header: order.header(),
            kernarg_address: 7,
            reserved2: 0,
            completion_signal: HsaSignal::NULL,
            ..packet
        };
        assert_eq!(step.body(7), body_of_dispatch(&expected));
        assert_eq!(body_of_dispatch(&step.packet(7)), step.body(7));
    }
}
