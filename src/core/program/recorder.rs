// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Recording: from commands to the steps of a program.

use std::ops::Range as IndexRange;
use std::sync::Arc;

use device_binaries::{plan_copy, plan_fill};
use hsa_abi::{HsaFenceScope, KernelDispatchPacket};
use smallvec::SmallVec;

use crate::core::gpu::Gpu;
use crate::core::gpu::kernargs::StoredKernargs;
use crate::core::memory::device_address;
use crate::core::operations::dispatch::{ArgumentLayout, IndirectArguments, Launch, WORKGROUP_COUNT_LENGTH};
use crate::core::operations::transfer::{Range, check_pattern, check_span, invalid};
use crate::core::profile::FunctionRef;
use crate::core::program::arena::{Arena, Scratch, Storage};
use crate::core::program::barriers::Barriers;
use crate::core::program::{Action, Command, KernargSource, Patch, Place, Program, Recording, Step, UNORDERED};
use crate::core::queue::operation::{Demand, Image};
use crate::ffi::profile::schema::CommandKind;
use crate::ffi::{Borrowed, BufferRef, HalResource, Resource, Result, WHOLE_BUFFER, status};
use crate::ring::KERNARG_ALIGNMENT;

/// Addresses of the bindings of a dispatch.
type Addresses = SmallVec<[u64; 16]>;

/// A place with the length that the command gave.
#[derive(Debug, Clone, Copy)]
struct Target {
    place: Place,
    /// None: whatever the table's entry has.
    length: Option<u64>,
}

/// Kernargs of a static command, until [`Recorder::finish`] has memory for them.
#[derive(Debug)]
pub struct StaticKernargs {
    step: usize,
    /// The first of them.
    start: usize,
}

/// A recording under way.
#[derive(Debug)]
pub struct Recorder {
    gpu: Arc<Gpu>,
    recording: Recording,
    arena: Arc<Arena>,
    storage: Storage,
    scratch: Scratch,
    /// The command being recorded.
    command: Command,
    command_count: u32,
    barrier_indices: Vec<u32>,
    slots: Vec<bool>,
    late: Vec<Range<'static>>,
    resources: Vec<Resource>,
    barriers: Barriers,
    open_debug_groups: usize,
}

impl Recorder {
    /// A recording for `gpu` with `slots` slots in its binding table, made of what `arena` has.
    pub fn new(gpu: Arc<Gpu>, arena: Arc<Arena>, recording: Recording, slots: usize) -> Self {
        Self {
            gpu,
            recording,
            storage: arena.storage(),
            scratch: arena.scratch(),
            arena,
            command: Command::default(),
            command_count: 0,
            barrier_indices: Vec::new(),
            slots: vec![false; slots],
            late: Vec::new(),
            resources: Vec::new(),
            barriers: Barriers::default(),
            open_debug_groups: 0,
        }
    }

    /// Keeps `object` alive for as long as the program. Commands in a row mostly use the same few objects, which are kept once.
    pub fn keep<T: HalResource>(&mut self, object: Borrowed<'_, T>) {
        const LOOK_BACK: usize = 8;
        let pointer = object.as_ptr().cast();
        if !self.resources.iter().rev().take(LOOK_BACK).any(|kept| kept.as_ptr() == pointer) {
            self.resources.push(object.retain_resource());
        }
    }

    /// Everything after it waits for everything before it, with fences of `scope`.
    pub fn barrier(&mut self, scope: HsaFenceScope) {
        self.begin(CommandKind::Barrier);
        self.barrier_indices.push(self.command.index);
        self.barriers.add(self.storage.steps.len(), scope);
    }

    /// What was written to `target` before the last barrier is to be visible outside the GPU.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    pub fn flush(&mut self, target: BufferRef<'_>) -> Result<()> {
        self.target(target)?;
        self.barriers.flush();
        Ok(())
    }

    /// What was written to `target` outside the GPU is to be visible after the next barrier.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    pub fn invalidate(&mut self, target: BufferRef<'_>) -> Result<()> {
        self.target(target)?;
        self.barriers.invalidate();
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
    pub fn dispatch<'a>(
        &mut self,
        launch: &Launch,
        count: [u32; 3],
        constants: &[u8],
        bindings: impl Iterator<Item = BufferRef<'a>>,
    ) -> Result<()> {
        self.begin_dispatch(launch.function);
        if count.contains(&0) {
            return Ok(());
        }
        let packet = launch.packet(launch.grid(count)?, 0);
        if let ArgumentLayout::Indirect(needs) = launch.layout {
            let kernargs = self.argument_buffer(needs, bindings)?;
            self.push(Action::Dispatch { packet, kernargs }, 0);
            return Ok(());
        }
        let mut addresses = Addresses::new();
        let patches = self.bind(bindings, &mut addresses)?;
        let length = launch.kernarg_length(addresses.len(), constants.len());
        let write = |image: &mut Tail<'_>| launch.write_kernargs(image, length, &addresses, constants, count);
        if self.recording.is_one_shot() || !patches.is_empty() {
            let kernargs = self.template(patches, write);
            self.push(Action::Dispatch { packet, kernargs }, length);
        } else {
            self.push_static(packet, write);
        }
        Ok(())
    }

    /// Launches a function with workgroup counts that the device reads at `count`.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    pub fn dispatch_indirect<'a>(
        &mut self,
        launch: &Launch,
        count: BufferRef<'a>,
        constants: &[u8],
        bindings: impl Iterator<Item = BufferRef<'a>>,
    ) -> Result<()> {
        self.begin_dispatch(launch.function);
        let count = BufferRef { length: WORKGROUP_COUNT_LENGTH, ..count };
        let count = self.target(count)?.place;
        let (kernargs, bytes) = if let ArgumentLayout::Indirect(needs) = launch.layout {
            (self.argument_buffer(needs, bindings)?, 0)
        } else {
            let mut addresses = Addresses::new();
            let patches = self.bind(bindings, &mut addresses)?;
            let length = launch.kernarg_length(addresses.len(), constants.len());
            let write = |image: &mut Tail<'_>| launch.write_kernargs(image, length, &addresses, constants, [0; 3]);
            (self.template(patches, write), length)
        };
        // The patch kernel has arguments of its own.
        let bytes = bytes.next_multiple_of(KERNARG_ALIGNMENT as usize) + KERNARG_ALIGNMENT as usize;
        self.push(Action::IndirectDispatch { launch: Box::new(*launch), kernargs, count }, bytes);
        Ok(())
    }

    /// Repeats `pattern` over `target`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for the pattern's length; unusable buffers or slots.
    pub fn fill(&mut self, target: BufferRef<'_>, pattern: &[u8]) -> Result<()> {
        self.begin(CommandKind::Fill);
        check_pattern(pattern)?;
        let Target { place, length } = self.target(target)?;
        self.command.length = length.unwrap_or(0);
        match (place, length) {
            (_, Some(0)) => Ok(()),
            (Place::Known(address), Some(length)) => {
                let launch = plan_fill(self.gpu.shape(), address, length, pattern).map_err(invalid)?;
                self.library_dispatch(self.gpu.library_packet(&launch, 0), &launch.args.to_bytes());
                Ok(())
            }
            _ => {
                let action = Action::Fill { target: place, length, pattern: SmallVec::from_slice(pattern) };
                self.push(action, KERNARG_ALIGNMENT as usize);
                Ok(())
            }
        }
    }

    /// Copies `source` to `target`.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    pub fn copy(&mut self, source: BufferRef<'_>, target: BufferRef<'_>) -> Result<()> {
        self.begin(CommandKind::Copy);
        let source = self.target(source)?;
        let target = self.target(target)?;
        let length = target.length.or(source.length);
        self.command.length = length.unwrap_or(0);
        if source.length.zip(length).is_some_and(|(has, length)| has < length) {
            return Err(status!(
                INVALID_ARGUMENT,
                "a copy of more bytes than its source has: {source:?} to {target:?}"
            ));
        }
        match (source.place, target.place, length) {
            (_, _, Some(0)) => Ok(()),
            (Place::Known(from), Place::Known(to), Some(length)) => {
                let launch = plan_copy(self.gpu.shape(), from, to, length).map_err(invalid)?;
                self.library_dispatch(self.gpu.library_packet(&launch, 0), &launch.args.to_bytes());
                Ok(())
            }
            (source, target, length) => {
                self.push(Action::Copy { source, target, length }, KERNARG_ALIGNMENT as usize);
                Ok(())
            }
        }
    }

    /// Writes `bytes` to `target`; they are captured here.
    ///
    /// # Errors
    /// Unusable buffers or slots.
    pub fn update(&mut self, bytes: &[u8], target: BufferRef<'_>) -> Result<()> {
        self.begin(CommandKind::Update);
        if bytes.is_empty() {
            return Ok(());
        }
        self.command.length = bytes.len() as u64;
        let target = self.target(target)?.place;
        let start = self.storage.templates.len() as u32;
        self.storage.templates.extend_from_slice(bytes);
        let range = start..self.storage.templates.len() as u32;
        self.push(Action::Update { bytes: range, target }, device_binaries::UPDATE_PAYLOAD_OFFSET + bytes.len());
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
        let static_kernargs = self.write_static_kernargs()?;
        self.barriers.apply(&mut self.storage.steps);
        let packets = self.storage.steps.iter().map(Step::packets).sum();
        let kernarg_bytes = self.storage.steps.iter().map(|step| u64::from(step.kernarg_bytes)).sum();
        let largest = self.storage.steps.iter().map(Step::demand).fold(Demand::default(), |largest, demand| Demand {
            packets: largest.packets.max(demand.packets),
            kernarg_bytes: largest.kernarg_bytes.max(demand.kernarg_bytes),
            overlapping: true,
            ..Demand::default()
        });
        let mut reach = vec![0; self.slots.len() + self.late.len()];
        for patch in &self.storage.patches {
            let reach: &mut u64 = &mut reach[patch.index as usize];
            *reach = patch.offset.max(*reach);
        }
        let checked =
            (0..).zip(&self.storage.steps).filter(|(_, step)| step.is_checked()).map(|(index, _)| index).collect();
        Ok(Program {
            recording: self.recording,
            gpu: self.gpu.index(),
            steps: self.storage.steps,
            barriers: self.barrier_indices,
            templates: self.storage.templates,
            patches: self.storage.patches,
            reach,
            slots: self.slots,
            late: self.late,
            checked,
            largest,
            packets,
            kernarg_bytes,
            _static_kernargs: static_kernargs,
            _resources: self.resources,
            arena: self.arena,
        })
    }

    fn write_static_kernargs(&mut self) -> Result<Option<StoredKernargs>> {
        let scratch = std::mem::take(&mut self.scratch);
        let mut memory = None;
        if !scratch.bytes.is_empty() {
            let stored = StoredKernargs::new(&self.gpu, &scratch.bytes)?;
            let base = stored.address();
            for StaticKernargs { step, start } in &scratch.statics {
                if let Action::Dispatch { packet, kernargs } = &mut self.storage.steps[*step].action {
                    packet.kernarg_address = base + *start as u64;
                    *kernargs = KernargSource::Static(packet.kernarg_address);
                }
            }
            memory = Some(stored);
        }
        self.arena.give_scratch(scratch);
        Ok(memory)
    }

    fn push(&mut self, action: Action, kernarg_bytes: usize) {
        let kernarg_bytes = kernarg_bytes.next_multiple_of(KERNARG_ALIGNMENT as usize) as u32;
        self.storage.steps.push(Step { action, command: self.command, order: UNORDERED, kernarg_bytes });
    }

    /// Counts the command that is recorded now.
    fn begin(&mut self, kind: CommandKind) {
        self.command = Command { index: self.command_count, kind, ..Command::default() };
        self.command_count += 1;
    }

    fn begin_dispatch(&mut self, function: FunctionRef) {
        self.begin(CommandKind::Dispatch);
        self.command.function = function;
    }

    /// A dispatch all of whose arguments are known: its kernargs, which `write` appends, go to memory of the program.
    fn push_static(&mut self, packet: KernelDispatchPacket, write: impl FnOnce(&mut Tail<'_>)) {
        let bytes = append(&mut self.scratch.bytes, write);
        self.scratch.bytes.resize(bytes.end.next_multiple_of(KERNARG_ALIGNMENT as usize), 0);
        self.scratch.statics.push(StaticKernargs { step: self.storage.steps.len(), start: bytes.start });
        self.push(Action::Dispatch { packet, kernargs: KernargSource::Static(0) }, 0);
    }

    fn library_dispatch(&mut self, packet: KernelDispatchPacket, args: &[u8]) {
        let write = |image: &mut Tail<'_>| image.put(0, args);
        if self.recording.is_one_shot() {
            let none = self.storage.patches.len() as u32;
            let kernargs = self.template(none..none, write);
            self.push(Action::Dispatch { packet, kernargs }, args.len());
        } else {
            self.push_static(packet, write);
        }
    }

    /// Stores kernargs, which `write` appends but for what `patches` are for.
    fn template(&mut self, patches: IndexRange<u32>, write: impl FnOnce(&mut Tail<'_>)) -> KernargSource {
        let bytes = append(&mut self.storage.templates, write);
        KernargSource::Template { bytes: bytes.start as u32..bytes.end as u32, patches }
    }

    /// Kernargs in the buffer that the one of `bindings` names.
    fn argument_buffer<'a>(
        &mut self,
        needs: IndirectArguments,
        mut bindings: impl Iterator<Item = BufferRef<'a>>,
    ) -> Result<KernargSource> {
        let binding =
            bindings.next().ok_or_else(|| status!(INVALID_ARGUMENT, "indirect arguments without a binding"))?;
        let Target { place, length } = self.target(binding)?;
        // The length of a whole slot shows at execution.
        length.map_or(Ok(()), |length| needs.check_length(length))?;
        if let Place::Known(address) = place {
            needs.check_address(address)?;
        }
        Ok(KernargSource::Buffer { place, needs })
    }

    /// Appends the addresses that the bindings of a dispatch name to `addresses`, and returns the patches of those that
    /// executions tell, which are 0 until then.
    #[inline]
    fn bind<'a>(
        &mut self,
        references: impl Iterator<Item = BufferRef<'a>>,
        addresses: &mut Addresses,
    ) -> Result<IndexRange<u32>> {
        let first = self.storage.patches.len();
        for reference in references {
            if reference.buffer.is_none()
                && let Some(used) = self.slots.get_mut(reference.slot as usize)
            {
                *used = true;
                let at = (size_of::<u64>() * addresses.len()) as u32;
                self.storage.patches.push(Patch { at, index: reference.slot, offset: reference.offset as u64 });
                addresses.push(0);
                continue;
            }
            match self.target(reference) {
                Ok(Target { place: Place::Known(address), .. }) => addresses.push(address),
                Ok(Target { place: Place::Table { index, offset }, .. }) => {
                    let at = (size_of::<u64>() * addresses.len()) as u32;
                    self.storage.patches.push(Patch { at, index, offset });
                    addresses.push(0);
                }
                Err(status) => {
                    self.storage.patches.truncate(first);
                    return Err(status);
                }
            }
        }
        self.command.bindings = addresses.len() as u32;
        Ok(first as u32..self.storage.patches.len() as u32)
    }

    /// What `reference` names. A buffer whose memory does not exist yet (a queue allocation under way) is resolved at execution.
    fn target(&mut self, reference: BufferRef<'_>) -> Result<Target> {
        let whole = reference.length == WHOLE_BUFFER;
        let Some(buffer) = reference.buffer else { return self.slot(&reference) };
        check_span(buffer, reference.offset, reference.length)?;
        self.keep(buffer);
        let length = if whole { buffer.byte_length().saturating_sub(reference.offset) } else { reference.length };
        let place = match device_address(buffer, reference.offset) {
            Ok(address) => Place::Known(address),
            Err(status) if status.code() == crate::ffi::Code::FAILED_PRECONDITION => {
                self.late.push(Range::new(buffer, 0).into_owned());
                let index = (self.slots.len() + self.late.len() - 1) as u32;
                Place::Table { index, offset: reference.offset as u64 }
            }
            Err(status) => return Err(status),
        };
        Ok(Target { place, length: Some(length as u64) })
    }

    fn slot(&mut self, reference: &BufferRef<'_>) -> Result<Target> {
        let slots = self.slots.len();
        let Some(used) = self.slots.get_mut(reference.slot as usize) else {
            let slot = reference.slot;
            return Err(status!(INVALID_ARGUMENT, "slot {slot} of a command buffer made for {slots} binding slots"));
        };
        *used = true;
        let length = (reference.length != WHOLE_BUFFER).then_some(reference.length as u64);
        Ok(Target { place: Place::Table { index: reference.slot, offset: reference.offset as u64 }, length })
    }
}

/// The end of some memory, from `start` on: kernargs that are written in order, so that nothing is filled with zeros
/// first.
struct Tail<'a> {
    memory: &'a mut Vec<u8>,
    start: usize,
}

impl Image for Tail<'_> {
    #[inline]
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        let at = self.start + offset;
        if at == self.memory.len() {
            self.memory.extend_from_slice(bytes);
        } else {
            self.memory[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }
}

/// Has `write` append to `memory`, and returns what it appended.
#[inline]
fn append(memory: &mut Vec<u8>, write: impl FnOnce(&mut Tail<'_>)) -> IndexRange<usize> {
    let start = memory.len();
    write(&mut Tail { memory, start });
    start..memory.len()
}
