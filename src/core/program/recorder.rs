// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Recording: from commands to the steps of a program.

mod places;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use device_binaries::{plan_copy, plan_fill};
use hsa_abi::{HsaFenceScope, KernelDispatchPacket};
use smallvec::SmallVec;

use crate::arena::{Arena, PooledStorage, Scratch, Storage};
use crate::recorder::places::{Target, bind_common, extend_all, keep, recount_extents};
use crate::stream::Stream;
use crate::{
    Action, AddressSource, ArgumentBuffer, Command, KernargBlock, KernargSource, NonDispatch, Program, Recording, Span,
    Step,
};
use amdgpu_ffi::profile::schema::CommandKind;
use amdgpu_ffi::{
    Borrowed, BufferRef, BufferRefs, CommandBufferMode, CommandCategories, Fallible, HalResource, RawExecutable,
    Result, status,
};
use amdgpu_gpu::Gpu;
use amdgpu_gpu::kernargs::{Contents, StoredKernargs};
use amdgpu_gpu::streams::Streams;
use amdgpu_operations::dispatch::WORKGROUP_COUNT_LENGTH;
use amdgpu_operations::launch::{ArgumentLayout, IndirectArguments, Launch};
use amdgpu_operations::transfer::{check_pattern, invalid};
use amdgpu_profile::FunctionRef;
use amdgpu_queue::demand::Demand;
use amdgpu_queue::kernargs::KernargSink;
use amdgpu_ring::{bytes_of, bytes_of_mut};

/// A dispatch to be recorded.
#[derive(Clone, Copy)]
pub struct Dispatch<'a> {
    /// The executable of the function.
    pub executable: Executable<'a>,
    /// The launch of the function on the recording's GPU.
    pub launch: &'a Launch,
    /// The constants' bytes.
    pub constants: &'a [u8],
    /// The buffers.
    pub bindings: BufferRefs<'a>,
}

type Executable<'a> = Borrowed<'a, RawExecutable>;

/// Slots for which a recording has room at first. It makes room for others when they are used.
const FEW_SLOTS: usize = 64;

/// Bytes of a block.
const BLOCK_BYTES: usize = size_of::<KernargBlock>();

/// A recording under way.
#[derive(Debug)]
pub struct Recorder {
    recording: Recording,
    /// Slots of the binding table.
    slots: usize,
    storage: PooledStorage,
    /// The objects of commands are retained. Most callers want that.
    retains: bool,
    /// The function of the last command, if that is a dispatch.
    function: Option<FunctionRef>,
    command_count: u32,
    /// There are dispatches with known arguments, which are stored when the recording ends.
    has_stored: bool,
    /// Packets of the steps so far, without the first of each step.
    more_packets: u32,
    /// Kernarg bytes that executions need for the steps so far.
    kernarg_bytes: u64,
    /// The demand of the largest step.
    largest: Demand,
    open_debug_groups: usize,
}

impl Recorder {
    /// A recording for the GPU of `arena`, with memory of the arena, for a command buffer with `slots` slots in its
    /// binding table.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn new(
        arena: Arc<Arena>,
        (mode, categories, affinity): (CommandBufferMode, CommandCategories, u64),
        slots: usize,
    ) -> Result<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let recording = Recording { id, mode, categories, affinity };
        let mut storage = PooledStorage::new(arena);
        storage.slot_extents.try_resize(slots.min(FEW_SLOTS), 0)?;
        storage.first_unallocated = slots.min(AddressSource::MOST_ENTRIES);
        Ok(Self {
            recording,
            slots,
            storage,
            retains: !mode.contains(CommandBufferMode::UNRETAINED),
            function: None,
            command_count: 0,
            has_stored: false,
            more_packets: 0,
            kernarg_bytes: 0,
            // At least the demand of nearly every step.
            largest: Demand { packets: 1, kernarg_bytes: BLOCK_BYTES as u64, overlapping: true, ..Demand::default() },
            open_debug_groups: 0,
        })
    }

    /// Retains `object` for the program, unless the caller keeps it alive.
    fn keep<T: HalResource>(&mut self, object: Borrowed<'_, T>) -> Result<()> {
        if self.retains { keep(&mut self.storage.resources, object) } else { Ok(()) }
    }

    /// The GPU that the recording is for.
    #[inline]
    pub fn gpu(&self) -> &Arc<Gpu> {
        self.storage.arena().gpu()
    }

    /// Records a barrier with fences of `scope`: later commands wait for all earlier ones.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn barrier(&mut self, scope: HsaFenceScope) -> Result<()> {
        let index = self.count_command();
        let storage = &mut *self.storage;
        storage.barriers.try_push(index)?;
        storage.pending_barriers.add(storage.steps.len(), scope)
    }

    /// Makes writes to `target` before the last barrier visible outside the GPU.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    pub fn flush(&mut self, target: BufferRef<'_>) -> Result<()> {
        self.target(target)?;
        self.storage.pending_barriers.flush();
        Ok(())
    }

    /// Makes writes to `target` from outside the GPU visible after the next barrier.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    pub fn invalidate(&mut self, target: BufferRef<'_>) -> Result<()> {
        self.target(target)?;
        self.storage.pending_barriers.invalidate();
        Ok(())
    }

    /// Checks a hint about `target`. It has no effect, because there is no paging or prefetching to control.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    pub fn advise(&mut self, target: BufferRef<'_>) -> Result<()> {
        self.target(target).map(|_| ())
    }

    /// Opens a debug group. Its label is for tools; no tool uses it yet.
    pub fn begin_debug_group(&mut self) {
        self.open_debug_groups += 1;
    }

    /// Closes the innermost debug group.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when none is open.
    pub fn end_debug_group(&mut self) -> Result<()> {
        let left = self.open_debug_groups.checked_sub(1);
        self.open_debug_groups = left.ok_or_else(|| status!(FAILED_PRECONDITION, "no debug group is open"))?;
        Ok(())
    }

    /// Launches a function. Its workgroup counts are passed by reference: C callers have mostly written them just now,
    /// one by one. A copy would read two at a time, for which a processor waits until both stores are in its cache.
    ///
    /// # Errors
    /// Unusable buffers or slots; a grid that is too large.
    #[inline(always)]
    pub fn dispatch(&mut self, dispatch: Dispatch<'_>, count: &[u32; 3]) -> Result<()> {
        // The usual dispatch: bindings and constants are all of its kernargs, and fit a block.
        if dispatch.launch.fits_one_block
            && let Some(grid) = dispatch.launch.grid_if_nonzero(count)
            && self.dispatch_of_one_block(dispatch, grid).is_some()
        {
            return Ok(());
        }
        self.other_dispatch(dispatch, *count).inspect_err(|_| recount_extents(&mut self.storage))
    }

    /// Records a dispatch with [`Launch::fits_one_block`]. Returns none if one of its bindings is unusual or memory
    /// runs out; nothing is recorded then, but slots may have larger extents. Room is reserved first, and nothing is
    /// appended before all is known.
    #[inline(always)]
    fn dispatch_of_one_block(&mut self, dispatch: Dispatch<'_>, grid: [u32; 3]) -> Option<()> {
        let Dispatch { executable, launch, constants, bindings } = dispatch;
        let command = self.dispatch_command(executable, launch.function).ok()?;
        let storage = &mut *self.storage;
        storage.templates.make_room(1).ok()?;
        storage.steps.make_room(1).ok()?;
        let (start, binding_count) = (storage.templates.len(), bindings.len());
        // In place: a block that was made elsewhere, word by word, would be copied before its words have arrived there.
        let block: &mut KernargBlock = storage.templates.spare_capacity_mut().first_mut()?.write([0; _]);
        let (extents, resources) = (&mut storage.slot_extents[..], &mut storage.resources);
        let all = bind_common(block, extents, resources, bindings, self.retains)?;
        if !constants.is_empty() {
            TemplateSink(bytes_of_mut(block)).write_bytes(size_of::<u64>() * binding_count, constants);
        }
        let index = self.command_count;
        self.command_count += 1;
        // SAFETY: `make_room` has reserved the block behind the last, and `write` has initialised it.
        unsafe { storage.templates.set_len(start + 1) };
        let is_bound = AddressSource::in_table(all).is_some();
        let blocks = Span::new(start, start + 1);
        let kernargs = KernargSource::Template { is_bound, bindings: binding_count as u32, blocks };
        storage.steps.push(Step::dispatch(launch.packet(grid, 0), kernargs, command, index));
        if is_bound || self.recording.is_one_shot() {
            // No more than the largest is at least.
            self.kernarg_bytes += BLOCK_BYTES as u64;
        } else {
            self.has_stored = true;
        }
        Some(())
    }

    /// Records a dispatch of another layout, with unusual bindings, or without workgroups.
    #[inline(never)]
    fn other_dispatch(&mut self, dispatch: Dispatch<'_>, count: [u32; 3]) -> Result<()> {
        let Dispatch { executable, launch, constants, bindings } = dispatch;
        let index = self.count_command();
        if count.contains(&0) {
            return Ok(());
        }
        let grid = launch.grid(count)?;
        self.make_room_for_step()?;
        let command = self.dispatch_command(executable, launch.function)?;
        let kernargs = match launch.layout {
            ArgumentLayout::Indirect(needs) => self.argument_buffer(needs, bindings)?,
            _ => self.kernargs(launch, count, constants, bindings)?,
        };
        if let KernargSource::Buffer(_) = kernargs {
            let step = self.storage.steps.len() as u32;
            self.storage.steps_to_validate.push(step);
        }
        self.push_dispatch(launch.packet(grid, 0), kernargs, command, index);
        Ok(())
    }

    /// Launches a function with workgroup counts that the device reads at `count`.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    pub fn dispatch_indirect(&mut self, dispatch: Dispatch<'_>, count: BufferRef<'_>) -> Result<()> {
        let Dispatch { executable, launch, constants, bindings } = dispatch;
        let index = self.count_command();
        launch.check_indirect_counts()?;
        let count = BufferRef { length: WORKGROUP_COUNT_LENGTH, ..count };
        let count = self.target(count)?.place;
        self.make_room_for_step()?;
        let command = self.dispatch_command(executable, launch.function)?;
        let kernargs = match launch.layout {
            ArgumentLayout::Indirect(needs) => self.argument_buffer(needs, bindings)?,
            _ => self.kernargs(launch, [0; 3], constants, bindings)?,
        };
        self.push_non_dispatch(NonDispatch::IndirectDispatch { launch: *launch, kernargs, count }, command, index);
        Ok(())
    }

    /// Repeats `pattern` over `target`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for the pattern's length; unusable buffers or slots.
    pub fn fill(&mut self, target: BufferRef<'_>, pattern: &[u8]) -> Result<()> {
        let index = self.count_command();
        check_pattern(pattern)?;
        let Target { place, length } = self.target(target)?;
        let command = (CommandKind::Fill, length.unwrap_or(0));
        match (place, length) {
            (_, Some(0)) => Ok(()),
            (AddressSource::Fixed(address), Some(length)) => {
                let launch = plan_fill(self.gpu().shape(), address, length, pattern).map_err(invalid)?;
                self.library_dispatch(self.gpu().library_packet(&launch, 0), command, index, &launch.args.to_bytes())
            }
            _ => {
                let non_dispatch = NonDispatch::Fill { target: place, length, pattern: SmallVec::from_slice(pattern) };
                self.push_transfer(non_dispatch, command, index)
            }
        }
    }

    /// Copies `source` to `target`.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    pub fn copy(&mut self, source: BufferRef<'_>, target: BufferRef<'_>) -> Result<()> {
        let index = self.count_command();
        let source = self.target(source)?;
        let target = self.target(target)?;
        let length = target.length.or(source.length);
        let command = (CommandKind::Copy, length.unwrap_or(0));
        if source.length.zip(length).is_some_and(|(has, length)| has < length) {
            return Err(status!(
                INVALID_ARGUMENT,
                "a copy of more bytes than its source has: {source:?} to {target:?}"
            ));
        }
        match (source.place, target.place, length) {
            (_, _, Some(0)) => Ok(()),
            (AddressSource::Fixed(from), AddressSource::Fixed(to), Some(length)) => {
                let launch = plan_copy(self.gpu().shape(), from, to, length).map_err(invalid)?;
                self.library_dispatch(self.gpu().library_packet(&launch, 0), command, index, &launch.args.to_bytes())
            }
            (source, target, length) => {
                self.push_transfer(NonDispatch::Copy { source, target, length }, command, index)
            }
        }
    }

    /// Writes `bytes` to `target`. The bytes are copied now.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    pub fn update(&mut self, bytes: &[u8], target: BufferRef<'_>) -> Result<()> {
        let index = self.count_command();
        if bytes.is_empty() {
            return Ok(());
        }
        let target = self.target(target)?.place;
        self.make_room_for_step()?;
        let blocks = append(&mut self.storage.templates, bytes.len())?;
        sink(&mut self.storage, blocks).write_bytes(0, bytes);
        let non_dispatch = NonDispatch::Update { blocks, length: bytes.len() as u32, target };
        self.push_transfer(non_dispatch, (CommandKind::Update, bytes.len() as u64), index)
    }

    /// True if no command was recorded.
    pub fn is_untouched(&self) -> bool {
        self.command_count == 0
    }

    /// Ends the program before a collective. Returns it, if it does anything, and a recorder for the commands behind
    /// the collective, in the same debug groups.
    ///
    /// # Errors
    /// As for [`Self::finish`].
    pub fn cut(mut self) -> Result<(Option<Arc<Program>>, Self)> {
        let Recording { mode, categories, affinity, .. } = self.recording;
        let mut next = Self::new(self.storage.arena().clone(), (mode, categories, affinity), self.slots)?;
        next.open_debug_groups = std::mem::take(&mut self.open_debug_groups);
        let program = if self.storage.steps.is_empty() { None } else { Some(self.finish()?) };
        Ok((program, next))
    }

    /// Ends the recording and writes the kernargs that are known.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when a debug group is open; RESOURCE_EXHAUSTED; the error of a stream's copy to the GPU.
    pub fn finish(mut self) -> Result<Arc<Program>> {
        if self.open_debug_groups > 0 {
            let open = self.open_debug_groups;
            return Err(status!(FAILED_PRECONDITION, "{open} debug groups are open at the end of the recording"));
        }
        let storage = &mut *self.storage;
        storage.pending_barriers.apply(&mut storage.steps);
        storage.pending_barriers.clear();
        let (mut stored_kernargs, mut stream) = (None, None);
        if !self.recording.is_one_shot() && (self.has_stored || self.gpu().streams().is_some()) {
            let mut scratch = self.storage.arena().scratch();
            let written = self.store_kernargs(&mut scratch.blocks);
            if let (Ok(_), Some(streams)) = (&written, self.gpu().streams()) {
                stream = self.stream(streams, &mut scratch);
            }
            self.storage.arena().recycle_scratch(scratch);
            stored_kernargs = written?;
            if let (Some(made), Some(streams)) = (stream.take(), self.gpu().streams()) {
                stream = Some(made.publish(streams)?);
            }
        }
        // Made in place: it is large.
        Ok(Arc::new(Program {
            recording: self.recording,
            packets: self.storage.steps.len() as u32 + self.more_packets,
            stored: self.storage,
            largest: self.largest,
            kernarg_bytes: self.kernarg_bytes,
            stream: stream.map(Box::new),
            _stored_kernargs: stored_kernargs,
        }))
    }

    /// Writes known arguments to their final memory, by way of `blocks`, which is empty.
    fn store_kernargs(&mut self, blocks: &mut Vec<KernargBlock>) -> Result<Option<StoredKernargs>> {
        if !self.has_stored {
            return Ok(None);
        }
        // Executions would take room for others.
        self.storage.take_known_blocks(self.kernarg_bytes == 0, blocks)?;
        let stored = match bytes_of(blocks.as_flattened()) {
            [] => None,
            arguments => Some(StoredKernargs::new(self.gpu(), Contents::Kernargs, arguments)?),
        };
        let mut address = stored.as_ref().map_or(0, StoredKernargs::address);
        for step in &mut self.storage.steps {
            if let Action::Dispatch(kernargs) = &mut step.action
                && let KernargSource::Template { is_bound: false, bindings, blocks } = *kernargs
            {
                *kernargs = KernargSource::Stored { bindings, address };
                address += (blocks.count() * BLOCK_BYTES) as u64;
            }
        }
        Ok(stored)
    }

    /// The program's stream, made in `scratch`; none if executions are packets. A lack of memory makes them packets,
    /// too.
    fn stream(&self, streams: &Streams, scratch: &mut Scratch) -> Option<Stream> {
        let stream = Stream::new(self.gpu(), streams, &self.recording, &self.storage, scratch);
        stream.unwrap_or_else(|status| {
            streams.tell_missing(&status);
            None
        })
    }

    /// Counts the command that is being recorded, and returns its position.
    #[inline(always)]
    fn count_command(&mut self) -> u32 {
        let index = self.command_count;
        self.command_count += 1;
        index
    }

    /// Reserves room for all that a step pushes except its templates, so that it is recorded whole or not at all.
    fn make_room_for_step(&mut self) -> Result<()> {
        let storage = &mut *self.storage;
        storage.steps.make_room(1)?;
        storage.steps_to_validate.make_room(1)?;
        storage.non_dispatches.make_room(1)?;
        storage.commands.make_room(1)
    }

    /// Adds a step that executions have to check. Its caller has made room.
    fn push_non_dispatch(&mut self, non_dispatch: NonDispatch, command: u32, index: u32) {
        let (packets, bytes) = non_dispatch.needs();
        let storage = &mut *self.storage;
        storage.steps_to_validate.push(storage.steps.len() as u32);
        storage.steps.push(Step::non_dispatch(storage.non_dispatches.len() as u32, command, index));
        storage.non_dispatches.push(non_dispatch);
        self.more_packets += packets - 1;
        self.largest.packets = self.largest.packets.max(packets);
        self.take_kernargs(bytes);
    }

    /// Adds a transfer of `length` bytes as a step that is no dispatch.
    fn push_transfer(
        &mut self,
        non_dispatch: NonDispatch,
        (kind, length): (CommandKind, u64),
        index: u32,
    ) -> Result<()> {
        self.make_room_for_step()?;
        let command = self.push_command(Command { kind, length, ..Command::default() });
        self.push_non_dispatch(non_dispatch, command, index);
        Ok(())
    }

    /// Appends the command of the next step. Its caller has made room.
    fn push_command(&mut self, command: Command) -> u32 {
        let index = self.storage.commands.len() as u32;
        self.storage.commands.push(command);
        self.function = (command.kind == CommandKind::Dispatch).then_some(command.function);
        index
    }

    /// Appends the command of a dispatch of `function`, and retains the executable.
    #[inline(always)]
    fn dispatch_command(&mut self, executable: Executable<'_>, function: FunctionRef) -> Result<u32> {
        if self.function == Some(function) {
            return Ok(self.storage.commands.len() as u32 - 1);
        }
        self.first_dispatch_command(executable, function)
    }

    /// As [`Self::dispatch_command`], for another function than the last command's.
    #[inline(never)]
    fn first_dispatch_command(&mut self, executable: Executable<'_>, function: FunctionRef) -> Result<u32> {
        self.storage.commands.make_room(1)?;
        self.keep(executable)?;
        Ok(self.push_command(Command { function, length: 0, kind: CommandKind::Dispatch }))
    }

    /// Counts the kernarg bytes that executions need for a step.
    #[inline(always)]
    fn take_kernargs(&mut self, bytes: usize) {
        self.kernarg_bytes += bytes as u64;
        self.largest.kernarg_bytes = self.largest.kernarg_bytes.max(bytes as u64);
    }

    /// Adds a dispatch of a known grid. If all of its arguments are known, they are stored in the program's memory at
    /// the end. The caller has made room.
    fn push_dispatch(&mut self, packet: KernelDispatchPacket, kernargs: KernargSource, command: u32, index: u32) {
        self.storage.steps.push(Step::dispatch(packet, kernargs, command, index));
        match kernargs {
            KernargSource::Template { is_bound: false, .. } if !self.recording.is_one_shot() => self.has_stored = true,
            _ => self.take_kernargs(kernargs.ring_bytes()),
        }
    }

    fn library_dispatch(
        &mut self,
        packet: KernelDispatchPacket,
        (kind, length): (CommandKind, u64),
        index: u32,
        args: &[u8],
    ) -> Result<()> {
        self.make_room_for_step()?;
        let blocks = append(&mut self.storage.templates, args.len())?;
        sink(&mut self.storage, blocks).write_bytes(0, args);
        let command = self.push_command(Command { kind, length, ..Command::default() });
        self.push_dispatch(packet, KernargSource::Template { is_bound: false, bindings: 0, blocks }, command, index);
        Ok(())
    }

    /// Adds the caller buffer with the kernargs that is the one of `bindings`.
    fn argument_buffer(&mut self, needs: IndirectArguments, bindings: BufferRefs<'_>) -> Result<KernargSource> {
        let binding =
            bindings.get(0).ok_or_else(|| status!(INVALID_ARGUMENT, "indirect arguments without a binding"))?;
        let Target { place, length } = self.target(binding)?;
        // The length of a whole slot shows at execution.
        length.map_or(Ok(()), |length| needs.check_length(length))?;
        if let AddressSource::Fixed(address) = place {
            needs.check_address(address)?;
        }
        let index = self.storage.argument_buffers.len() as u32;
        self.storage.argument_buffers.try_push(ArgumentBuffer { place, needs })?;
        Ok(KernargSource::Buffer(index))
    }

    /// Appends the kernargs of a dispatch of `launch` to the templates.
    fn kernargs(
        &mut self,
        launch: &Launch,
        count: [u32; 3],
        constants: &[u8],
        bindings: BufferRefs<'_>,
    ) -> Result<KernargSource> {
        let mut words = std::mem::take(&mut self.storage.words);
        words.clear();
        let all = self.bind(bindings, &mut words)?;
        let length = launch.kernarg_length(bindings.len(), constants.len());
        let blocks = append(&mut self.storage.templates, length)?;
        let is_bound = AddressSource::in_table(all).is_some();
        if is_bound {
            extend_all(&mut self.storage.slot_extents, &words);
        }
        let mut sink = sink(&mut self.storage, blocks);
        sink.write_bytes(0, bytes_of(&words[..]));
        launch.write_constants(&mut sink, size_of_val(&words[..]), length, constants, || count);
        self.storage.words = words;
        Ok(KernargSource::Template { is_bound, bindings: bindings.len() as u32, blocks })
    }
}

/// The bytes of `blocks`, the last templates.
#[inline(always)]
fn sink(storage: &mut Storage, blocks: Span) -> TemplateSink<'_> {
    TemplateSink(bytes_of_mut(storage.templates[blocks.start as usize..].as_flattened_mut()))
}

/// Zeroed blocks to which kernargs are written.
struct TemplateSink<'a>(&'a mut [u8]);

impl KernargSink for TemplateSink<'_> {
    #[inline(always)]
    fn write_bytes(&mut self, offset: usize, bytes: &[u8]) {
        let target = &mut self.0[offset..offset + bytes.len()];
        // For the usual sizes of constants, the compiler emits register moves instead of a call.
        match bytes.len() {
            4 => target[..4].copy_from_slice(&bytes[..4]),
            8 => target[..8].copy_from_slice(&bytes[..8]),
            16 => target[..16].copy_from_slice(&bytes[..16]),
            _ => target.copy_from_slice(bytes),
        }
    }
}

/// Appends zeroed blocks for `length` bytes to `blocks`, and returns their span.
#[inline(always)]
fn append(blocks: &mut Vec<KernargBlock>, length: usize) -> Result<Span> {
    let start = blocks.len();
    // As nearly all have: one.
    if (1..=BLOCK_BYTES).contains(&length) {
        blocks.try_push([0; _])?;
        return Ok(Span::new(start, start + 1));
    }
    blocks.try_resize(start + length.div_ceil(BLOCK_BYTES), [0; _])?;
    Ok(Span::new(start, blocks.len()))
}
