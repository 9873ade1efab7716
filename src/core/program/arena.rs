// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Reuse of the memory of recordings: a program that is recorded anew for each invocation gets memory that is large
//! enough and touched.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

use crate::barriers::Barriers;
use crate::{Action, ArgumentBuffer, Command, KernargBlock, KernargSource, NonDispatch, Span, Step};
use amdgpu_ffi::{Fallible, HalRef, Resource, Result};
use amdgpu_gpu::Gpu;
use amdgpu_memory::transient::Transient;

/// The most items of each kind that are kept: enough for recordings of several threads.
const MOST: usize = 4;

/// Blocks of the largest item that is kept, of the size of the knob `host_block_pool_command_buffer_size`.
const MOST_BLOCKS: usize = 32;

/// The contents of a long recording's program.
#[derive(Debug, Default)]
pub struct Storage {
    /// The commands that have packets.
    pub steps: Vec<Step>,
    /// The commands of the steps.
    pub commands: Vec<Command>,
    /// Actions of steps that are not dispatches of known grids.
    pub non_dispatches: Vec<NonDispatch>,
    /// Kernargs of dynamic dispatches and bytes of updates.
    pub templates: Vec<KernargBlock>,
    /// Caller buffers that hold kernargs.
    pub argument_buffers: Vec<ArgumentBuffer>,
    /// The positions of execution barriers among all commands.
    pub barriers: Vec<u32>,
    /// Steps that each execution has to check: they depend on the binding table by more than addresses in templates.
    pub steps_to_validate: Vec<u32>,
    /// For each slot of the table up to the last used one, one more than the largest offset of a template's binding
    /// into it. At least 1 for slots that other commands use; 0 for unused slots, which are ignored.
    pub slot_extents: Vec<u64>,
    /// Queue-allocated buffers that were recorded before they had memory. They are the table entries from
    /// `first_unallocated` on, behind all slots.
    pub unallocated_buffers: Vec<HalRef<Transient>>,
    /// The table entry of the first unallocated buffer.
    pub first_unallocated: usize,
    /// Queue-allocated buffers whose addresses are in commands. Each execution checks that they still own their memory.
    pub lent: Vec<HalRef<Transient>>,
    /// Objects that are kept alive as long as the program.
    pub resources: Vec<Resource>,
    /// The words of a dispatch's bindings, while it is recorded.
    pub words: Vec<u64>,
    /// Execution barriers, during the recording.
    pub pending_barriers: Barriers,
}

impl Storage {
    /// Moves the known arguments into `blocks`, which is empty, in the order of the steps. `are_all` is true if there
    /// are no other templates. If there are others, all templates stay, because removing the known ones would not free
    /// memory.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn take_known_blocks(&mut self, are_all: bool, blocks: &mut Vec<KernargBlock>) -> Result<()> {
        if are_all {
            std::mem::swap(&mut self.templates, blocks);
            return Ok(());
        }
        blocks.make_room(self.steps.iter().filter_map(Step::known_blocks).map(Span::count).sum())?;
        for span in self.steps.iter().filter_map(Step::known_blocks) {
            blocks.extend_from_slice(span.of(&self.templates));
        }
        Ok(())
    }

    /// The bindings and blocks of each dispatch with arguments that executions bind.
    pub fn bound(&self) -> impl Iterator<Item = (&[u64], &[KernargBlock])> {
        let sources = self.steps.iter().filter_map(|step| match step.action {
            Action::Dispatch(kernargs) => Some(kernargs),
            Action::NonDispatch(index) => match self.non_dispatches[index as usize] {
                NonDispatch::IndirectDispatch { kernargs, .. } => Some(kernargs),
                _ => None,
            },
        });
        sources.filter_map(KernargSource::bound).map(|(bindings, blocks)| {
            let blocks = blocks.of(&self.templates);
            (&blocks.as_flattened()[..bindings], blocks)
        })
    }

    fn clear(&mut self) {
        self.steps.clear();
        self.commands.clear();
        self.non_dispatches.clear();
        self.templates.clear();
        self.argument_buffers.clear();
        self.barriers.clear();
        self.steps_to_validate.clear();
        self.slot_extents.clear();
        self.unallocated_buffers.clear();
        self.lent.clear();
        self.resources.clear();
        self.words.clear();
        self.pending_barriers.clear();
    }

    /// The bytes of memory that it keeps.
    fn bytes(&self) -> usize {
        let steps = bytes_of(&self.steps) + bytes_of(&self.commands) + bytes_of(&self.non_dispatches);
        let marks = bytes_of(&self.barriers) + bytes_of(&self.steps_to_validate);
        let arguments = bytes_of(&self.templates) + bytes_of(&self.argument_buffers);
        let table = bytes_of(&self.slot_extents) + bytes_of(&self.unallocated_buffers) + bytes_of(&self.lent);
        steps + marks + arguments + table + bytes_of(&self.resources) + bytes_of(&self.words)
    }
}

/// Memory that is only needed during a recording.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Kernargs of static commands.
    pub blocks: Vec<KernargBlock>,
    /// The commands of a stream.
    pub commands: Vec<u32>,
    /// The stream's arguments that executions bind, and the list of their fixups.
    pub bound: Vec<u8>,
}

/// Unused storages and scratches of a logical device for one of its GPUs.
#[derive(Debug)]
pub struct Arena {
    gpu: Arc<Gpu>,
    spare: Spare,
}

#[derive(Debug)]
struct Spare {
    /// Bytes of the largest item that is kept.
    largest: usize,
    storages: ArrayQueue<Box<Storage>>,
    scratches: ArrayQueue<Box<Scratch>>,
}

impl Arena {
    /// An empty arena for recordings for `gpu`. It keeps items of up to 32 blocks of `block_size` bytes.
    pub fn new(gpu: Arc<Gpu>, block_size: usize) -> Self {
        Self { gpu, spare: Spare::new(block_size) }
    }

    /// The GPU.
    #[inline]
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// An empty scratch.
    pub fn scratch(&self) -> Box<Scratch> {
        self.spare.scratch()
    }

    /// Takes a scratch back.
    pub fn recycle_scratch(&self, scratch: Box<Scratch>) {
        self.spare.recycle_scratch(scratch);
    }
}

impl Spare {
    fn new(block_size: usize) -> Self {
        let largest = block_size.saturating_mul(MOST_BLOCKS);
        Self { largest, storages: ArrayQueue::new(MOST), scratches: ArrayQueue::new(MOST) }
    }

    fn scratch(&self) -> Box<Scratch> {
        self.scratches.pop().unwrap_or_default()
    }

    fn recycle_storage(&self, mut storage: Box<Storage>) {
        // Which releases objects: not under the lock.
        storage.clear();
        let bytes = storage.bytes();
        self.keep(&self.storages, storage, bytes);
    }

    fn recycle_scratch(&self, mut scratch: Box<Scratch>) {
        scratch.blocks.clear();
        scratch.commands.clear();
        scratch.bound.clear();
        let bytes = bytes_of(&scratch.blocks) + bytes_of(&scratch.commands) + bytes_of(&scratch.bound);
        self.keep(&self.scratches, scratch, bytes);
    }

    /// Keeps `item`, of `bytes` bytes, unless it is too large or there are enough.
    fn keep<T>(&self, kept: &ArrayQueue<Box<T>>, item: Box<T>, bytes: usize) {
        if bytes <= self.largest {
            drop(kept.push(item));
        }
    }
}

/// A storage in use, which goes back to its arena.
#[derive(Debug)]
pub struct PooledStorage {
    /// Taken when this is dropped.
    storage: ManuallyDrop<Box<Storage>>,
    arena: Arc<Arena>,
}

impl PooledStorage {
    /// An empty storage of `arena`.
    pub fn new(arena: Arc<Arena>) -> Self {
        let storage = arena.spare.storages.pop().unwrap_or_default();
        Self { storage: ManuallyDrop::new(storage), arena }
    }

    /// The arena of the storage.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }
}

impl Deref for PooledStorage {
    type Target = Storage;

    #[inline(always)]
    fn deref(&self) -> &Storage {
        &self.storage
    }
}

impl DerefMut for PooledStorage {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Storage {
        &mut self.storage
    }
}

impl Drop for PooledStorage {
    fn drop(&mut self) {
        // SAFETY: nothing uses it after its drop.
        let storage = unsafe { ManuallyDrop::take(&mut self.storage) };
        self.arena.spare.recycle_storage(storage);
    }
}

fn bytes_of<T>(vector: &Vec<T>) -> usize {
    vector.capacity() * size_of::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_gpu::options::Options;

    fn spare() -> Spare {
        Spare::new(Options::default().host_block_pool_command_buffer_size)
    }

    #[test]
    fn what_is_given_back_comes_empty_and_as_large() {
        let arena = spare();
        arena.recycle_scratch(Box::new(Scratch { blocks: vec![[1; 8]; 100], ..Scratch::default() }));
        let scratch = arena.scratch();
        assert!(scratch.blocks.is_empty() && scratch.blocks.capacity() >= 100);
        assert_eq!(arena.scratch().blocks.capacity(), 0, "given once");
    }

    #[test]
    fn few_are_kept() {
        let arena = spare();
        for _ in 0..2 * MOST {
            arena.recycle_storage(Box::default());
        }
        assert_eq!(std::iter::from_fn(|| arena.storages.pop()).count(), MOST);
    }

    #[test]
    fn as_much_is_kept_as_the_knob_says() {
        assert_eq!(spare().largest, 4 << 20);
        for block_size in [256, 128 << 10, 1 << 20] {
            let arena = Spare::new(block_size);
            let blocks = MOST_BLOCKS * block_size / size_of::<KernargBlock>();
            let with_room = |blocks| Storage { templates: Vec::with_capacity(blocks), ..Storage::default() };
            arena.recycle_storage(Box::new(with_room(blocks + 1)));
            arena.recycle_storage(Box::new(Storage {
                slot_extents: Vec::with_capacity(blocks + 1),
                ..with_room(blocks)
            }));
            let scratch = Scratch { blocks: Vec::with_capacity(blocks + 1), ..Scratch::default() };
            arena.recycle_scratch(Box::new(scratch));
            assert!(arena.storages.pop().is_none() && arena.scratches.pop().is_none(), "{block_size}");
            arena.recycle_storage(Box::new(with_room(blocks)));
            arena.recycle_scratch(Box::new(Scratch { blocks: Vec::with_capacity(blocks), ..Scratch::default() }));
            assert!(arena.storages.pop().is_some() && arena.scratches.pop().is_some(), "{block_size}");
        }
        assert_eq!(Spare::new(usize::MAX).largest, usize::MAX, "all of it");
    }
}
