// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Recording: from commands to the steps of a program.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use device_binaries::{plan_copy, plan_fill};
use hsa_abi::{HsaFenceScope, KernelDispatchPacket};
use smallvec::SmallVec;

use crate::core::gpu::Gpu;
use crate::core::gpu::kernargs::{Contents, StoredKernargs};
use crate::core::gpu::streams::Streams;
use crate::core::memory::{device_address, own_address};
use crate::core::operations::dispatch::WORKGROUP_COUNT_LENGTH;
use crate::core::operations::launch::{ArgumentLayout, IndirectArguments, Launch};
use crate::core::operations::transfer::{Range, check_pattern, check_span, invalid};
use crate::core::program::arena::{Arena, Stored};
use crate::core::program::stream::Stream;
use crate::core::program::{
    Action, ArgumentBuffer, Command, KernargSource, Line, Patch, Place, Program, Recording, Span, Special, Step,
    UNORDERED,
};
use crate::core::queue::operation::{Demand, Image};
use crate::ffi::profile::schema::CommandKind;
use crate::ffi::{
    Borrowed, Buffer, BufferRef, BufferRefs, Code, CommandBufferMode, CommandCategories, HalResource, Resource, Result,
    Status, WHOLE_BUFFER, status,
};
use crate::ring::{bytes_of, bytes_of_mut};

/// Bytes of a line.
const LINE_BYTES: usize = size_of::<Line>();

/// A place with the length that the command gave.
#[derive(Debug, Clone, Copy)]
struct Target {
    place: Place,
    /// None: whatever the table's entry has.
    length: Option<u64>,
}

/// A recording under way.
#[derive(Debug)]
pub struct Recorder {
    recording: Recording,
    storage: Stored,
    /// The objects that commands use are kept, as callers mostly want.
    retains: bool,
    /// There are dispatches whose arguments are all known. Until the recording ends their source is a template without
    /// patches.
    has_static: bool,
    command_count: u32,
    /// What the steps so far need.
    largest: Demand,
    packets: u32,
    kernarg_bytes: u64,
    open_debug_groups: usize,
}

impl Recorder {
    /// A recording for the GPU of `arena`, made of what that has, of a command buffer with `slots` slots in its binding
    /// table.
    pub fn new(
        arena: Arc<Arena>,
        (mode, categories, affinity): (CommandBufferMode, CommandCategories, u64),
        slots: usize,
    ) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let recording = Recording { id, mode, categories, affinity };
        let mut storage = Stored::new(arena);
        storage.reach.resize(slots, 0);
        Self {
            recording,
            storage,
            retains: !mode.contains(CommandBufferMode::UNRETAINED),
            has_static: false,
            command_count: 0,
            largest: Demand { overlapping: true, ..Demand::default() },
            packets: 0,
            kernarg_bytes: 0,
            open_debug_groups: 0,
        }
    }

    /// Keeps `object` alive for as long as the program, unless its caller does.
    #[inline(always)]
    pub fn keep<T: HalResource>(&mut self, object: Borrowed<'_, T>) {
        if self.retains {
            keep(&mut self.storage.resources, object);
        }
    }

    /// The GPU that the recording is for.
    #[inline]
    pub fn gpu(&self) -> &Arc<Gpu> {
        self.storage.arena().gpu()
    }

    /// Everything after it waits for everything before it, with fences of `scope`.
    pub fn barrier(&mut self, scope: HsaFenceScope) {
        let command = self.begin(CommandKind::Barrier);
        let storage = &mut *self.storage;
        storage.barriers.push(command.index);
        storage.marks.add(storage.steps.len(), scope);
    }

    /// What was written to `target` before the last barrier is to be visible outside the GPU.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    #[cfg_attr(not(iree_command_buffer_flush), allow(dead_code, reason = "IREE 3.12 has no such command"))]
    pub fn flush(&mut self, target: BufferRef<'_>) -> Result<()> {
        self.target(target)?;
        self.storage.marks.flush();
        Ok(())
    }

    /// What was written to `target` outside the GPU is to be visible after the next barrier.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    #[cfg_attr(not(iree_command_buffer_flush), allow(dead_code, reason = "IREE 3.12 has no such command"))]
    pub fn invalidate(&mut self, target: BufferRef<'_>) -> Result<()> {
        self.target(target)?;
        self.storage.marks.invalidate();
        Ok(())
    }

    /// A hint about `target`: checked, and that is all, as there is no paging or prefetching to steer.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    pub fn advise(&mut self, target: BufferRef<'_>) -> Result<()> {
        self.target(target).map(|_| ())
    }

    /// Opens a debug group. Its label is for tools; no tool listens yet.
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

    /// Launches a function.
    ///
    /// # Errors
    /// Unusable buffers or slots; a grid that is too large.
    #[inline(always)]
    pub fn dispatch(
        &mut self,
        launch: &Launch,
        count: [u32; 3],
        constants: &[u8],
        bindings: BufferRefs<'_>,
    ) -> Result<()> {
        let (index, binding_count) = (self.count_command(), bindings.len());
        if count.contains(&0) {
            return Ok(());
        }
        let grid = launch.grid(count)?;
        if let ArgumentLayout::Indirect(needs) = launch.layout {
            let kernargs = self.argument_buffer(needs, bindings)?;
            // A buffer that holds the kernargs is no binding.
            let (packet, command) = (launch.packet(grid, 0), Command::dispatch(index, launch.function, 0));
            let step = self.storage.steps.len() as u32;
            self.storage.checked.push(step);
            self.push(Action::Dispatch { packet, kernargs }, command, 0, 1);
            return Ok(());
        }
        let length = launch.kernarg_length(binding_count, constants.len());
        if (1..=LINE_BYTES).contains(&length) && !launch.has_implicit() {
            return self.dispatch_of_a_line(launch, (grid, index), constants, bindings);
        }
        let (lines, patches) = self.kernargs(launch, count, constants, bindings)?;
        // Made here, so that they need not stay in registers meanwhile.
        let (packet, command) = (launch.packet(grid, 0), Command::dispatch(index, launch.function, binding_count));
        self.push_dispatch(packet, command, lines, patches);
        Ok(())
    }

    /// The usual dispatch: bindings and constants are all of its kernargs, and fit a line.
    ///
    /// The step comes first, as if all depended on the table, so that little has to stay in registers meanwhile.
    #[inline(always)]
    fn dispatch_of_a_line(
        &mut self,
        launch: &Launch,
        (grid, index): ([u32; 3], u32),
        constants: &[u8],
        bindings: BufferRefs<'_>,
    ) -> Result<()> {
        let storage = &mut *self.storage;
        let (start, first_patch) = (storage.templates.len(), storage.patches.len());
        let lines = Span::new(start, start + 1);
        storage.steps.push(Step {
            action: Action::Dispatch {
                packet: KernelDispatchPacket { header: UNORDERED.header(), ..launch.packet(grid, 0) },
                kernargs: KernargSource::Template { lines, patches: Span::new(first_patch, first_patch) },
            },
            command: Command::dispatch(index, launch.function, bindings.len()),
            order: UNORDERED,
            kernarg_bytes: LINE_BYTES as u32,
            packets: 1,
        });
        // In place: a line that was made elsewhere, word by word, would be copied before its words have arrived there.
        storage.templates.push([0; _]);
        let (mut storage, retains) = (storage, self.retains);
        let mut line = &mut storage.templates[start];
        for (at, reference) in bindings.iter().enumerate() {
            let BufferRef { buffer, slot, offset, length } = reference;
            // A slot of the table, or bytes of a buffer that has its memory, as nearly all are.
            if let Some(buffer) = buffer {
                if offset.checked_add(length).is_some_and(|end| end <= buffer.byte_length())
                    && let Some(address) = own_address(buffer, offset)
                {
                    if retains {
                        keep(&mut storage.resources, buffer);
                    }
                    line[at] = address;
                    continue;
                }
            } else if storage.late.is_empty()
                && let Some(reach) = storage.reach.get_mut(slot as usize)
            {
                let patch = Patch { at: (at * size_of::<u64>()) as u32, index: slot, offset: offset as u64 };
                *reach = patch.reach().max(*reach);
                storage.patches.push(patch);
                continue;
            }
            match self.other_place(bindings, at) {
                Ok(Place::Known(address)) => self.storage.templates[start][at] = address,
                Ok(Place::Table { index, offset }) => {
                    self.patch(Patch { at: (at * size_of::<u64>()) as u32, index, offset });
                }
                Err(status) => {
                    self.storage.steps.pop();
                    self.storage.templates.pop();
                    self.forget_patches(first_patch);
                    return Err(status);
                }
            }
            storage = &mut *self.storage;
            line = &mut storage.templates[start];
        }
        if !constants.is_empty() {
            LineImage(bytes_of_mut(line)).put(size_of::<u64>() * bindings.len(), constants);
        }
        let end = storage.patches.len();
        if end == first_patch && !self.recording.is_one_shot() {
            if let Some(step) = storage.steps.last_mut() {
                step.kernarg_bytes = 0;
            }
            self.has_static = true;
            self.count_packets(0, 1);
            return Ok(());
        }
        if let Some(Step {
            action: Action::Dispatch { kernargs: KernargSource::Template { patches, .. }, .. }, ..
        }) = storage.steps.last_mut()
        {
            patches.end = end as u32;
        }
        self.count_packets(LINE_BYTES as u32, 1);
        Ok(())
    }

    /// Launches a function with workgroup counts that the device reads at `count`.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    pub fn dispatch_indirect(
        &mut self,
        launch: &Launch,
        count: BufferRef<'_>,
        constants: &[u8],
        bindings: BufferRefs<'_>,
    ) -> Result<()> {
        let has_bindings = !matches!(launch.layout, ArgumentLayout::Indirect(_));
        let binding_count = if has_bindings { bindings.len() } else { 0 };
        let command = Command::dispatch(self.count_command(), launch.function, binding_count);
        let count = BufferRef { length: WORKGROUP_COUNT_LENGTH, ..count };
        let count = self.target(count)?.place;
        let (kernargs, bytes) = if let ArgumentLayout::Indirect(needs) = launch.layout {
            (self.argument_buffer(needs, bindings)?, 0)
        } else {
            let (lines, patches) = self.kernargs(launch, [0; 3], constants, bindings)?;
            (KernargSource::Template { lines, patches }, lines.len() * LINE_BYTES)
        };
        // The patch kernel has arguments of its own.
        let special = Special::IndirectDispatch { launch: *launch, kernargs, count };
        self.push_special(special, command, bytes + LINE_BYTES, 2);
        Ok(())
    }

    /// Repeats `pattern` over `target`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for the pattern's length; unusable buffers or slots.
    pub fn fill(&mut self, target: BufferRef<'_>, pattern: &[u8]) -> Result<()> {
        let mut command = self.begin(CommandKind::Fill);
        check_pattern(pattern)?;
        let Target { place, length } = self.target(target)?;
        command.length = length.unwrap_or(0);
        match (place, length) {
            (_, Some(0)) => Ok(()),
            (Place::Known(address), Some(length)) => {
                let launch = plan_fill(self.gpu().shape(), address, length, pattern).map_err(invalid)?;
                self.library_dispatch(self.gpu().library_packet(&launch, 0), command, &launch.args.to_bytes());
                Ok(())
            }
            _ => {
                let special = Special::Fill { target: place, length, pattern: SmallVec::from_slice(pattern) };
                self.push_special(special, command, LINE_BYTES, 1);
                Ok(())
            }
        }
    }

    /// Copies `source` to `target`.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    pub fn copy(&mut self, source: BufferRef<'_>, target: BufferRef<'_>) -> Result<()> {
        let mut command = self.begin(CommandKind::Copy);
        let source = self.target(source)?;
        let target = self.target(target)?;
        let length = target.length.or(source.length);
        command.length = length.unwrap_or(0);
        if source.length.zip(length).is_some_and(|(has, length)| has < length) {
            return Err(status!(
                INVALID_ARGUMENT,
                "a copy of more bytes than its source has: {source:?} to {target:?}"
            ));
        }
        match (source.place, target.place, length) {
            (_, _, Some(0)) => Ok(()),
            (Place::Known(from), Place::Known(to), Some(length)) => {
                let launch = plan_copy(self.gpu().shape(), from, to, length).map_err(invalid)?;
                self.library_dispatch(self.gpu().library_packet(&launch, 0), command, &launch.args.to_bytes());
                Ok(())
            }
            (source, target, length) => {
                self.push_special(Special::Copy { source, target, length }, command, LINE_BYTES, 1);
                Ok(())
            }
        }
    }

    /// Writes `bytes` to `target`; they are captured here.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    pub fn update(&mut self, bytes: &[u8], target: BufferRef<'_>) -> Result<()> {
        let mut command = self.begin(CommandKind::Update);
        if bytes.is_empty() {
            return Ok(());
        }
        command.length = bytes.len() as u64;
        let target = self.target(target)?.place;
        let lines = append(&mut self.storage.templates, bytes.len());
        self.image(lines).put(0, bytes);
        let special = Special::Update { lines, length: bytes.len() as u32, target };
        self.push_special(special, command, device_binaries::UPDATE_PAYLOAD_OFFSET + bytes.len(), 1);
        Ok(())
    }

    /// Ends the recording: static kernargs are written now, once.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when a debug group is open; RESOURCE_EXHAUSTED.
    pub fn finish(mut self) -> Result<Program> {
        if self.open_debug_groups > 0 {
            let open = self.open_debug_groups;
            return Err(status!(FAILED_PRECONDITION, "{open} debug groups are open at the end of the recording"));
        }
        let storage = &mut *self.storage;
        storage.marks.apply(&mut storage.steps);
        storage.marks.clear();
        let (mut static_kernargs, mut stream) = (None, None);
        if self.has_static || self.gpu().streams().is_some() {
            let mut scratch = self.storage.arena().scratch();
            let written = self.write_static_kernargs(&mut scratch.lines);
            if let (Ok(_), Some(streams)) = (&written, self.gpu().streams()) {
                stream = self.stream(streams, &mut scratch.commands);
            }
            self.storage.arena().give_scratch(scratch);
            static_kernargs = written?;
        }
        Ok(Program {
            recording: self.recording,
            gpu: self.gpu().index(),
            stored: self.storage,
            largest: self.largest,
            packets: self.packets,
            kernarg_bytes: self.kernarg_bytes,
            stream,
            _static_kernargs: static_kernargs,
        })
    }

    /// Writes them, by way of `lines`, which is empty.
    fn write_static_kernargs(&mut self, lines: &mut Vec<Line>) -> Result<Option<StoredKernargs>> {
        if !self.has_static {
            return Ok(None);
        }
        self.storage.take_static_lines(lines);
        let stored = match bytes_of(lines.as_flattened()) {
            [] => None,
            arguments => Some(StoredKernargs::new(self.gpu(), Contents::Kernargs, arguments)?),
        };
        let mut address = stored.as_ref().map_or(0, StoredKernargs::address);
        for step in &mut self.storage.steps {
            if let Some(lines) = step.static_lines()
                && let Action::Dispatch { packet, kernargs } = &mut step.action
            {
                (packet.kernarg_address, *kernargs) = (address, KernargSource::Static);
                address += (lines.len() * LINE_BYTES) as u64;
            }
        }
        Ok(stored)
    }

    /// The stream that executions run, by way of `commands`, which is empty; none if they are packets, as they are
    /// without memory for it, too.
    fn stream(&self, streams: &Streams, commands: &mut Vec<u32>) -> Option<Stream> {
        let stream = Stream::new(self.gpu(), streams, &self.recording, &self.storage, commands);
        stream.unwrap_or_else(|status| {
            streams.tell_missing(&status);
            None
        })
    }

    #[inline(always)]
    fn push(&mut self, action: Action, command: Command, kernarg_bytes: usize, packets: u8) {
        let kernarg_bytes = kernarg_bytes.next_multiple_of(LINE_BYTES) as u32;
        self.count_packets(kernarg_bytes, packets);
        let mut step = Step { action, command, order: UNORDERED, kernarg_bytes, packets };
        step.note_order();
        self.storage.steps.push(step);
    }

    /// Counts what a step takes of the rings.
    #[inline(always)]
    fn count_packets(&mut self, kernarg_bytes: u32, packets: u8) {
        self.packets += u32::from(packets);
        self.kernarg_bytes += u64::from(kernarg_bytes);
        self.largest.packets = self.largest.packets.max(packets.into());
        self.largest.kernarg_bytes = self.largest.kernarg_bytes.max(kernarg_bytes.into());
    }

    /// A step whose executions have something to check.
    fn push_special(&mut self, special: Special, command: Command, kernarg_bytes: usize, packets: u8) {
        let step = self.storage.steps.len() as u32;
        self.storage.checked.push(step);
        let index = self.storage.specials.len() as u32;
        self.storage.specials.push(special);
        self.push(Action::Special(index), command, kernarg_bytes, packets);
    }

    /// The position of the command that is recorded now, which it counts.
    #[inline(always)]
    fn count_command(&mut self) -> u32 {
        let index = self.command_count;
        self.command_count += 1;
        index
    }

    fn begin(&mut self, kind: CommandKind) -> Command {
        Command { index: self.count_command(), kind, ..Command::default() }
    }

    /// A dispatch of a known grid with kernargs in `lines`, the last templates, but for what `patches` are for. When
    /// all are known, they go to memory of the program at its end.
    #[inline(always)]
    fn push_dispatch(&mut self, packet: KernelDispatchPacket, command: Command, lines: Span, patches: Span) {
        let is_static = patches.is_empty() && !self.recording.is_one_shot();
        self.has_static |= is_static;
        let bytes = if is_static { 0 } else { lines.len() * LINE_BYTES };
        let kernargs = KernargSource::Template { lines, patches };
        self.push(Action::Dispatch { packet, kernargs }, command, bytes, 1);
    }

    fn library_dispatch(&mut self, packet: KernelDispatchPacket, command: Command, args: &[u8]) {
        let none = self.storage.patches.len();
        let lines = append(&mut self.storage.templates, args.len());
        self.image(lines).put(0, args);
        self.push_dispatch(packet, command, lines, Span::new(none, none));
    }

    /// The bytes of `lines`, the last templates.
    #[inline(always)]
    fn image(&mut self, lines: Span) -> LineImage<'_> {
        let lines = &mut self.storage.templates[lines.start as usize..];
        LineImage(bytes_of_mut(lines.as_flattened_mut()))
    }

    /// Kernargs in the buffer that the one of `bindings` names.
    fn argument_buffer(&mut self, needs: IndirectArguments, bindings: BufferRefs<'_>) -> Result<KernargSource> {
        let binding =
            bindings.get(0).ok_or_else(|| status!(INVALID_ARGUMENT, "indirect arguments without a binding"))?;
        let Target { place, length } = self.target(binding)?;
        // The length of a whole slot shows at execution.
        length.map_or(Ok(()), |length| needs.check_length(length))?;
        if let Place::Known(address) = place {
            needs.check_address(address)?;
        }
        let index = self.storage.argument_buffers.len() as u32;
        self.storage.argument_buffers.push(ArgumentBuffer { place, needs });
        Ok(KernargSource::Buffer(index))
    }

    /// Appends the kernargs of a dispatch of `launch` to the templates; returns which lines they are, and the patches
    /// of addresses that executions tell, which are 0 until then.
    #[inline(always)]
    fn kernargs(
        &mut self,
        launch: &Launch,
        count: [u32; 3],
        constants: &[u8],
        bindings: BufferRefs<'_>,
    ) -> Result<(Span, Span)> {
        let (binding_count, first_patch) = (bindings.len(), self.storage.patches.len());
        let length = launch.kernarg_length(binding_count, constants.len());
        let lines = append(&mut self.storage.templates, length);
        let first_word = lines.start as usize * Line::default().len();
        for (index, reference) in bindings.iter().enumerate() {
            let at = (index * size_of::<u64>()) as u32;
            let BufferRef { buffer, slot, offset, length } = reference;
            // A slot of the table, or bytes of a buffer that has its memory, as nearly all are.
            if let Some(buffer) = buffer {
                if offset.checked_add(length).is_some_and(|end| end <= buffer.byte_length())
                    && let Some(address) = own_address(buffer, offset)
                {
                    self.keep(buffer);
                    self.storage.templates.as_flattened_mut()[first_word + index] = address;
                    continue;
                }
            } else if (slot as usize) < self.storage.slots() {
                self.patch(Patch { at, index: slot, offset: offset as u64 });
                continue;
            }
            match self.other_place(bindings, index) {
                Ok(Place::Known(address)) => {
                    self.storage.templates.as_flattened_mut()[first_word + index] = address;
                }
                Ok(Place::Table { index, offset }) => self.patch(Patch { at, index, offset }),
                Err(status) => {
                    self.storage.templates.truncate(lines.start as usize);
                    self.forget_patches(first_patch);
                    return Err(status);
                }
            }
        }
        let at = binding_count * size_of::<u64>();
        launch.write_constants(&mut self.image(lines), at, length, constants, || count);
        Ok((lines, Span::new(first_patch, self.storage.patches.len())))
    }

    /// Appends a patch, and notes how far into its entry of the table it reaches.
    #[inline(always)]
    fn patch(&mut self, patch: Patch) {
        let storage = &mut *self.storage;
        if let Some(reach) = storage.reach.get_mut(patch.index as usize) {
            *reach = patch.reach().max(*reach);
        }
        storage.patches.push(patch);
    }

    /// Leaves only so many patches: those behind are of a command that failed.
    #[cold]
    fn forget_patches(&mut self, count: usize) {
        self.storage.patches.truncate(count);
        // What was used stays so.
        self.storage.reach.iter_mut().for_each(|reach| *reach = (*reach).min(1));
        for patch in std::mem::take(&mut self.storage.patches) {
            self.patch(patch);
        }
    }

    /// Where the binding of this index is, which may be impossible.
    #[inline(never)]
    fn other_place(&mut self, bindings: BufferRefs<'_>, index: usize) -> Result<Place> {
        let reference = bindings.get(index).ok_or_else(|| status!(INTERNAL, "binding {index} is not there"))?;
        match reference.buffer {
            Some(buffer) => self.place(buffer, &reference),
            None => self.slot(&reference).map(|target| target.place),
        }
    }

    /// What `reference` names.
    fn target(&mut self, reference: BufferRef<'_>) -> Result<Target> {
        let whole = reference.length == WHOLE_BUFFER;
        let Some(buffer) = reference.buffer else { return self.slot(&reference) };
        let place = self.place(buffer, &reference)?;
        let length = if whole { buffer.byte_length().saturating_sub(reference.offset) } else { reference.length };
        Ok(Target { place, length: Some(length as u64) })
    }

    /// Where `reference` is in its `buffer`. One whose memory does not exist yet (a queue allocation under way) is
    /// resolved at execution.
    fn place(&mut self, buffer: Buffer<'_>, reference: &BufferRef<'_>) -> Result<Place> {
        check_span(buffer, reference.offset, reference.length)?;
        self.keep(buffer);
        match device_address(buffer, reference.offset) {
            Ok(address) => Ok(Place::Known(address)),
            Err(status) => self.late_place(buffer, reference.offset, status),
        }
    }

    /// The same of a buffer that has no address, which `status` says the reason of.
    #[cold]
    fn late_place(&mut self, buffer: Buffer<'_>, offset: usize, status: Status) -> Result<Place> {
        if status.code() != Code::FAILED_PRECONDITION {
            return Err(status);
        }
        let index = self.storage.reach.len() as u32;
        self.storage.late.push(Range::new(buffer, 0).into_owned());
        self.storage.reach.push(1);
        Ok(Place::Table { index, offset: offset as u64 })
    }

    #[cold]
    fn slot(&mut self, reference: &BufferRef<'_>) -> Result<Target> {
        let (slot, slots) = (reference.slot, self.storage.slots());
        if slot as usize >= slots {
            return Err(status!(INVALID_ARGUMENT, "slot {slot} of a command buffer made for {slots} binding slots"));
        }
        let reach = &mut self.storage.reach[slot as usize];
        *reach = (*reach).max(1);
        let length = (reference.length != WHOLE_BUFFER).then_some(reference.length as u64);
        Ok(Target { place: Place::Table { index: reference.slot, offset: reference.offset as u64 }, length })
    }
}

/// Has `object` among `resources`. Commands in a row mostly use the same few objects, which are kept once.
#[inline(always)]
fn keep<T: HalResource>(resources: &mut Vec<Resource>, object: Borrowed<'_, T>) {
    const LOOK_BACK: usize = 8;
    let pointer = object.as_ptr().cast();
    let newest = &resources[resources.len().saturating_sub(LOOK_BACK)..];
    if !newest.iter().any(|kept| kept.as_ptr() == pointer) {
        resources.push(object.retain_resource());
    }
}

/// Lines of zeros that kernargs are written to.
struct LineImage<'a>(&'a mut [u8]);

impl Image for LineImage<'_> {
    #[inline(always)]
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        let target = &mut self.0[offset..offset + bytes.len()];
        // Of as many as constants mostly are, the compiler makes moves of registers in place of a call.
        match bytes.len() {
            4 => target[..4].copy_from_slice(&bytes[..4]),
            8 => target[..8].copy_from_slice(&bytes[..8]),
            16 => target[..16].copy_from_slice(&bytes[..16]),
            _ => target.copy_from_slice(bytes),
        }
    }
}

/// Appends lines of zeros for `length` bytes to `lines`, and returns which they are.
#[inline(always)]
fn append(lines: &mut Vec<Line>, length: usize) -> Span {
    let start = lines.len();
    // As nearly all have: one.
    if (1..=LINE_BYTES).contains(&length) {
        lines.push([0; _]);
        return Span::new(start, start + 1);
    }
    lines.resize(start + length.div_ceil(LINE_BYTES), [0; _]);
    Span::new(start, lines.len())
}
