// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Recorded command buffers.
//!
//! Recording ([`recorder`]) turns each command into a [`Step`] that is computed as far as possible: the packets of
//! dispatches are complete except for the kernarg address and the signal. Kernargs that are fully known are written
//! once, at the recording's end, to memory of the program. Others are templates that each execution ([`execute`])
//! copies. Addresses that depend on the binding table, or on memory that is not allocated yet, are an
//! [`AddressSource`] that executions resolve; a template's binding has it in its word (`AddressSource::word`).
//! Execution barriers become the barrier bit and fences of neighbouring packets ([`barriers`]) and have no packets of
//! their own. Some recordings can be executed as a whole, by commands of the packet processor ([`stream`]).

// Messages go out through `amdgpu_ffi::messages` alone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

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

use crate::arena::PooledStorage;
use crate::stream::Stream;
use amdgpu_ffi::profile::schema::CommandKind;
use amdgpu_ffi::{CommandBufferMode, CommandCategories};
use amdgpu_gpu::Gpu;
use amdgpu_gpu::kernargs::StoredKernargs;
use amdgpu_operations::launch::{IndirectArguments, Launch};
use amdgpu_profile::{FunctionRef, LaunchInfo};
use amdgpu_queue::demand::Demand;
use amdgpu_queue::emitter::Order;
use amdgpu_ring::{KERNARG_ALIGNMENT, PacketBody, body_of_dispatch};

/// An address that a command uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressSource {
    /// Known since recording.
    Fixed(u64),
    /// `offset` bytes into entry `index` of an execution's table. The table has the binding table's slots, then the
    /// program's unallocated buffers.
    Binding {
        /// Entry.
        index: u32,
        /// Bytes from the entry's start.
        offset: u64,
    },
}

impl AddressSource {
    /// Set in the words of table places. No address has this bit.
    const IN_TABLE: u64 = 1 << 63;
    /// Bits of the offset in such a word; the entry's index is between the two.
    const OFFSET_BITS: u32 = 43;
    const ENTRY_BITS: u32 = 63 - Self::OFFSET_BITS;
    /// Entries that such words can address.
    const MOST_ENTRIES: usize = 1 << Self::ENTRY_BITS;

    /// The template word for a binding at `offset` of entry `index`; none for offsets from 8 TiB on and for entries
    /// past the first 2^20.
    #[inline(always)]
    fn table_word(index: u32, offset: u64) -> Option<u64> {
        let fits = u64::from(index) >> Self::ENTRY_BITS | offset >> Self::OFFSET_BITS == 0;
        fits.then_some(Self::IN_TABLE | u64::from(index) << Self::OFFSET_BITS | offset)
    }

    /// The template word for a binding at this place; none as for [`Self::table_word`].
    fn word(self) -> Option<u64> {
        match self {
            Self::Fixed(address) => Some(address),
            Self::Binding { index, offset } => Self::table_word(index, offset),
        }
    }

    /// The entry and offset in a template word; none for an address, which is the word itself.
    #[inline(always)]
    fn in_table(word: u64) -> Option<(usize, u64)> {
        let index = (word & !Self::IN_TABLE) >> Self::OFFSET_BITS;
        (word & Self::IN_TABLE != 0).then_some((index as usize, word & ((1 << Self::OFFSET_BITS) - 1)))
    }
}

/// The unit in which kernel arguments are stored. It has the size of their alignment, so that whole blocks are copied
/// to the ring.
pub type KernargBlock = [u64; KERNARG_ALIGNMENT as usize / size_of::<u64>()];

/// A contiguous span of a program's items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The index of the first item.
    pub start: u32,
    /// The index behind the last item.
    pub end: u32,
}

impl Span {
    /// The items from `start` to `end`, exclusive.
    #[inline]
    pub fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// The number of items.
    #[inline]
    pub fn count(self) -> usize {
        (self.end - self.start) as usize
    }

    /// The items of the span in `items`.
    #[inline]
    pub fn of<T>(self, items: &[T]) -> &[T] {
        &items[self.start as usize..self.end as usize]
    }
}

/// The source of a dispatch's kernargs, and the number of bindings at their begin.
#[derive(Debug, Clone, Copy)]
pub enum KernargSource {
    /// Written once, at this address.
    Stored {
        /// The number of bindings.
        bindings: u32,
        /// The address of the first byte.
        address: u64,
    },
    /// Copied for each execution.
    Template {
        /// Each execution binds some of the bindings: their words name table entries (`AddressSource::word`).
        /// Otherwise all arguments are known.
        is_bound: bool,
        /// The number of bindings, a word each.
        bindings: u32,
        /// The blocks in [`arena::Storage::templates`].
        blocks: Span,
    },
    /// In a caller buffer (indirect arguments): an index in [`arena::Storage::argument_buffers`].
    Buffer(u32),
}

impl KernargSource {
    /// The number of bindings of the dispatch; 0 if a buffer holds the kernargs.
    fn bindings(self) -> u32 {
        match self {
            Self::Stored { bindings, .. } | Self::Template { bindings, .. } => bindings,
            Self::Buffer(_) => 0,
        }
    }

    /// The number of binding words and the blocks, if executions bind them.
    fn bound(self) -> Option<(usize, Span)> {
        match self {
            Self::Template { is_bound: true, bindings, blocks } => Some((bindings as usize, blocks)),
            Self::Stored { .. } | Self::Template { .. } | Self::Buffer(_) => None,
        }
    }

    /// Bytes of the kernarg ring that an execution uses for them.
    fn ring_bytes(self) -> usize {
        match self {
            Self::Template { blocks, .. } => blocks.count() * size_of::<KernargBlock>(),
            Self::Stored { .. } | Self::Buffer(_) => 0,
        }
    }
}

/// A caller buffer that holds kernargs.
#[derive(Debug, Clone, Copy)]
pub struct ArgumentBuffer {
    /// The place of the kernargs.
    pub place: AddressSource,
    /// The requirements for the place.
    pub needs: IndirectArguments,
}

/// The action of a step. Nearly all are dispatches.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// A dispatch of a known grid, with these arguments.
    Dispatch(KernargSource),
    /// Another action: an index in [`arena::Storage::non_dispatches`].
    NonDispatch(u32),
}

/// An action that is not a dispatch of a known grid.
#[derive(Debug)]
pub enum NonDispatch {
    /// A dispatch whose workgroup counts the device reads just before.
    IndirectDispatch {
        /// The launch; its grid is not known.
        launch: Launch,
        /// The arguments, never stored ones: the device writes into a template, and never into the caller's buffer.
        kernargs: KernargSource,
        /// The place of three u32.
        count: AddressSource,
    },
    /// A fill of a place that is resolved at execution: kernel and grid depend on the address.
    Fill {
        /// First byte.
        target: AddressSource,
        /// Bytes; none for the whole entry.
        length: Option<u64>,
        /// 1, 2 or 4 bytes.
        pattern: SmallVec<[u8; 4]>,
    },
    /// A copy between two places, at least one of which is resolved at execution.
    Copy {
        /// First byte read.
        source: AddressSource,
        /// First byte written.
        target: AddressSource,
        /// Bytes; none for the whole entry of the source.
        length: Option<u64>,
    },
    /// An update of a place that is resolved at execution.
    Update {
        /// The bytes: these blocks of [`arena::Storage::templates`].
        blocks: Span,
        /// The number of bytes.
        length: u32,
        /// First byte written.
        target: AddressSource,
    },
}

impl NonDispatch {
    /// The packets and kernarg bytes that an execution needs for it.
    fn needs(&self) -> (u32, usize) {
        const BLOCK_BYTES: usize = size_of::<KernargBlock>();
        match self {
            // The patch kernel has arguments of its own.
            Self::IndirectDispatch { kernargs, .. } => (2, kernargs.ring_bytes() + BLOCK_BYTES),
            Self::Fill { .. } | Self::Copy { .. } => (1, BLOCK_BYTES),
            Self::Update { length, .. } => {
                (1, (UPDATE_PAYLOAD_OFFSET + *length as usize).next_multiple_of(BLOCK_BYTES))
            }
        }
    }
}

/// The properties with which a command buffer was made.
#[derive(Debug, Clone, Copy)]
pub struct Recording {
    /// Unique in the process, never 0.
    pub id: u64,
    /// How it is recorded and used.
    pub mode: CommandBufferMode,
    /// Categories of commands that may be recorded.
    pub categories: CommandCategories,
    /// Queues it may execute on.
    pub affinity: u64,
}

impl Recording {
    /// True if the program is executed once: then memory of its own would cost more than it saves.
    pub fn is_one_shot(&self) -> bool {
        self.mode.contains(CommandBufferMode::ONE_SHOT)
    }
}

/// A command of steps as described in profiles. Consecutive steps that launch the same function share one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Command {
    /// The function of a dispatch.
    pub function: FunctionRef,
    /// Bytes of a transfer, when they are known.
    pub length: u64,
    /// The kind of the command.
    pub kind: CommandKind,
}

/// A step of a program, in one cache line of the host: most of the recording time is spent on its stores.
///
/// It begins with the words of a dispatch packet that are known at recording. The words that executions fill in are
/// replaced by other data.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The known words, including header and setup; the header is for packets whose order the recording determines
    /// alone. For a step that is not a dispatch of a known grid, only the order is valid.
    head: [u64; 5],
    /// The action.
    pub action: Action,
    /// The index of its command in [`arena::Storage::commands`].
    pub command: u32,
    /// The position of the command among all commands, including barriers and commands without effect.
    pub index: u32,
}

const _: () = assert!(size_of::<Step>() == 64);

impl Step {
    /// A dispatch of a known grid. The kernarg address and the completion signal of `packet` are ignored.
    #[inline(always)]
    pub fn dispatch(packet: KernelDispatchPacket, kernargs: KernargSource, command: u32, index: u32) -> Self {
        let packet = KernelDispatchPacket { header: UNORDERED.header(), ..packet };
        let [first, second, third, fourth, fifth, ..] = body_of_dispatch(&packet);
        let head = [first, second, third, fourth, fifth];
        Self { head, action: Action::Dispatch(kernargs), command, index }
    }

    /// A step with the action of this index.
    pub fn non_dispatch(non_dispatch: u32, command: u32, index: u32) -> Self {
        let head = [UNORDERED.header().0.into(), 0, 0, 0, 0];
        Self { head, action: Action::NonDispatch(non_dispatch), command, index }
    }

    fn header(&self) -> PacketHeader {
        PacketHeader(self.head[0] as u16)
    }

    /// The order of its packet with respect to its neighbours.
    pub fn order(&self) -> Order {
        let header = self.header();
        Order { barrier: header.barrier(), acquire: header.acquire_scope(), release: header.release_scope() }
    }

    /// Changes the order.
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

    /// The dispatch packet with its kernargs at this address, field by field.
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

    /// The blocks of a dispatch's arguments that are fully known and copied for each execution.
    #[inline(always)]
    fn known_blocks(&self) -> Option<Span> {
        match self.action {
            Action::Dispatch(KernargSource::Template { is_bound: false, blocks, .. }) => Some(blocks),
            _ => None,
        }
    }
}

/// A finished recording. Immutable: any number of executions may use it at the same time.
#[derive(Debug)]
pub struct Program {
    /// The properties with which it was made.
    pub recording: Recording,
    /// The contents.
    pub stored: PooledStorage,
    /// The largest demand of a step, for packets and kernarg bytes separately.
    pub largest: Demand,
    /// Packets of all steps.
    pub packets: u32,
    /// Kernarg bytes of all steps.
    pub kernarg_bytes: u64,
    /// All steps as commands of the packet processor, if they can be.
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

    /// True if it has no commands that do anything.
    pub fn is_empty(&self) -> bool {
        self.stored.steps.is_empty()
    }

    /// The slots of the binding table that commands use.
    pub fn used_slots(&self) -> impl Iterator<Item = usize> {
        self.stored.slot_extents.iter().enumerate().filter_map(|(slot, extent)| (*extent > 0).then_some(slot))
    }

    /// The action of this index.
    pub fn non_dispatch(&self, index: u32) -> &NonDispatch {
        &self.stored.non_dispatches[index as usize]
    }

    /// The packets and kernarg bytes that an execution needs for a step.
    fn needs(&self, step: &Step) -> (u32, usize) {
        match step.action {
            Action::Dispatch(kernargs) => (1, kernargs.ring_bytes()),
            Action::NonDispatch(index) => self.non_dispatch(index).needs(),
        }
    }

    /// True if everything recorded before a step is complete before the step starts.
    fn is_serial(&self, step: &Step) -> bool {
        // In an indirect dispatch, the serial packet is the patch kernel in front.
        step.order().barrier && self.needs(step).0 == 1
    }

    /// The launch of a step for profiles; without a function if it is a transfer.
    pub fn launch_info(&self, step: &Step) -> LaunchInfo {
        let ((workgroup_count, workgroup_size), indirect) = match step.action {
            Action::Dispatch(_) => (records::geometry(&step.packet(0)), false),
            Action::NonDispatch(index) => match self.non_dispatch(index) {
                NonDispatch::IndirectDispatch { launch, .. } => (([0; 3], launch.shape.size.map(u32::from)), true),
                NonDispatch::Fill { .. } | NonDispatch::Copy { .. } | NonDispatch::Update { .. } => {
                    (([0; 3], [0; 3]), false)
                }
            },
        };
        LaunchInfo {
            function: self.stored.commands[step.command as usize].function,
            command_index: step.index,
            workgroup_count,
            workgroup_size,
            indirect,
        }
    }
}

/// The order of neighbours that no execution barrier separates: they may overlap.
pub const UNORDERED: Order = Order { barrier: false, acquire: HsaFenceScope::AGENT, release: HsaFenceScope::NONE };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_templates_are_addresses_or_places_in_a_table() {
        let address = 0xffff_ffff_ffff_fff0 >> 1;
        assert_eq!(AddressSource::Fixed(address).word(), Some(address));
        assert_eq!(AddressSource::in_table(address), None);
        let (entries, offsets) = (1 << AddressSource::ENTRY_BITS, 1 << AddressSource::OFFSET_BITS);
        for (index, offset) in [(0, 0), (3, 0x100), (entries - 1, offsets - 1)] {
            let word = AddressSource::Binding { index, offset }.word().expect("few entries and bytes");
            assert_eq!(AddressSource::in_table(word), Some((index as usize, offset)));
        }
        assert_eq!(AddressSource::Binding { index: entries, offset: 0 }.word(), None);
        assert_eq!(AddressSource::Binding { index: 0, offset: offsets }.word(), None);
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
