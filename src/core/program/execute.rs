// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Execution: the operation that feeds a program to a queue, as many steps at a time as the rings take.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use device_binaries::{BindArgs, plan_bind, plan_copy, plan_fill, plan_patch_dispatch};
use hsa_abi::HsaFenceScope;
use smallvec::SmallVec;

use crate::arena::Storage;
use crate::stream::{Claimed, Stream};
use crate::{Action, AddressSource, ArgumentBuffer, KernargBlock, KernargSource, NonDispatch, Program, Step};
use amdgpu_ffi::{
    Binding, BindingTable, Borrowed, Buffer, Held, RawCommandBuffer, Result, WHOLE_BUFFER, fallible, status,
};
use amdgpu_gpu::Gpu;
use amdgpu_memory::device_address;
use amdgpu_operations::dispatch::{WORKGROUP_COUNT_LENGTH, check_count_address};
use amdgpu_operations::transfer::{Range, check_span, invalid};
use amdgpu_profile::EventInfo;
use amdgpu_profile::session::Session;
use amdgpu_queue::Queue;
use amdgpu_queue::demand::Demand;
use amdgpu_queue::emitter::{Emitter, Order, SinglePacket, SinglePacketSpace};
use amdgpu_queue::epoch_wait::EpochWait;
use amdgpu_queue::kernargs::{KernargCursor, Kernargs};
use amdgpu_queue::operation::{Operation, Planned, Progress, Submit};
use amdgpu_queue::retained::RetainedSet;
use amdgpu_ring::{KERNARG_ALIGNMENT, bytes_of};

/// The binding of a table slot for one execution.
#[derive(Debug)]
struct Bound<'a> {
    /// The buffer and the offset of the binding.
    range: Range<'a>,
    /// Bytes bound.
    length: u64,
}

impl<'a> Bound<'a> {
    fn new(binding: Binding<'a>) -> Option<Self> {
        let buffer = binding.buffer?;
        let rest = buffer.byte_length().saturating_sub(binding.offset);
        let length = if binding.length == WHOLE_BUFFER { rest } else { binding.length };
        Some(Self { range: Range::new(buffer, binding.offset), length: length as u64 })
    }
}

/// The binding table of an execution.
enum Bindings<'a> {
    /// Borrowed from the caller.
    Borrowed(BindingTable<'a>),
    /// Owned, for a deferred execution.
    Owned(Vec<Option<Bound<'static>>>),
}

impl Bindings<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Borrowed(table) => table.len(),
            Self::Owned(bindings) => bindings.len(),
        }
    }

    /// The buffer that `slot` is bound to.
    #[inline]
    fn buffer(&self, slot: usize) -> Option<Buffer<'_>> {
        match self {
            Self::Borrowed(table) => table.get(slot)?.buffer,
            Self::Owned(bindings) => bindings.get(slot)?.as_ref().map(|bound| bound.range.buffer.borrow()),
        }
    }

    /// The binding of `slot`.
    fn get(&self, slot: usize) -> Option<Bound<'_>> {
        match self {
            Self::Borrowed(table) => table.get(slot).and_then(Bound::new),
            Self::Owned(bindings) => {
                let bound = bindings.get(slot)?.as_ref()?;
                let range = Range::new(bound.range.buffer.borrow(), bound.range.offset);
                Some(Bound { range, length: bound.length })
            }
        }
    }
}

/// The offset of an execution's binding table in the arguments of the kernel that binds a stream: behind the arguments
/// proper.
const BIND_TABLE: usize = size_of::<BindArgs>();

/// A resolved table entry.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    address: u64,
    length: u64,
}

/// An execution of a program.
pub struct Execute<'a> {
    program: Cow<'a, Arc<Program>>,
    command_buffer: Held<'a, RawCommandBuffer>,
    bindings: Bindings<'a>,
    /// The caller keeps the buffers of the binding table alive until the execution is complete.
    borrows: bool,
    entries: SmallVec<[Entry; 16]>,
    /// The first step of the prepared part.
    next: usize,
    end: usize,
    /// The claim of the program's stream, if that runs instead of the steps.
    claimed: Option<Claimed>,
    /// A profile needs the times of packets.
    is_profiled: Cell<bool>,
}

impl<'a> Execute<'a> {
    /// Checks that `program` can be executed with `bindings` for its slots.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if a slot that the program uses is not bound; OUT_OF_RANGE if it is bound to bytes past its
    /// buffer's end.
    pub fn check(program: &Program, bindings: BindingTable<'_>) -> Result<()> {
        for slot in program.used_slots() {
            let Some(bound) = bindings.get(slot).and_then(Bound::new) else {
                return Err(status!(
                    INVALID_ARGUMENT,
                    "the command buffer uses slot {slot}, which the binding table of {} entries does not bind",
                    bindings.len()
                ));
            };
            check_span(bound.range.buffer.borrow(), bound.range.offset, bound.length as usize)?;
        }
        Ok(())
    }

    /// Makes an execution of the program of `command_buffer` with `bindings`, which were [checked](Self::check).
    #[inline(always)]
    pub fn new(
        program: &'a Arc<Program>,
        command_buffer: Borrowed<'a, RawCommandBuffer>,
        bindings: BindingTable<'a>,
        borrows: bool,
    ) -> Self {
        Self {
            program: Cow::Borrowed(program),
            command_buffer: Held::Borrowed(command_buffer),
            bindings: Bindings::Borrowed(bindings),
            borrows,
            entries: SmallVec::new(),
            next: 0,
            end: 0,
            claimed: None,
            is_profiled: Cell::new(false),
        }
    }

    /// Resolves the table of this execution on `gpu`, once.
    fn resolve(&mut self, gpu: &Gpu) -> Result<()> {
        let has_table =
            !self.program.stored.slot_extents.is_empty() || !self.program.stored.unallocated_buffers.is_empty();
        if has_table && self.entries.is_empty() { self.resolve_table(gpu) } else { Ok(()) }
    }

    fn resolve_table(&mut self, gpu: &Gpu) -> Result<()> {
        let mut entries = SmallVec::<[Entry; 16]>::new();
        let stored = &self.program.stored;
        let (slots, unallocated) = (stored.slot_extents.len(), stored.unallocated_buffers.len());
        let count = if unallocated > 0 { stored.first_unallocated + unallocated } else { slots };
        fallible::make_room(&mut entries, count)?;
        for (slot, extent) in stored.slot_extents.iter().enumerate() {
            let bound = if *extent > 0 { self.bindings.get(slot) } else { None };
            entries.push(match bound {
                Some(bound) => Entry { address: bound.range.address(gpu)?, length: bound.length },
                None => Entry::default(),
            });
        }
        entries.resize(count - unallocated, Entry::default());
        for unallocated in &stored.unallocated_buffers {
            let (address, length) =
                (device_address(unallocated.buffer(), 0, gpu)?, unallocated.buffer().byte_length() as u64);
            entries.push(Entry { address, length });
        }
        self.entries = entries;
        Ok(())
    }

    /// The ring space for the program's stream; none if its steps are to run.
    fn stream_demand(&mut self, queue: &Queue, waits: u32) -> Option<Demand> {
        let stream = self.program.stream.as_deref()?;
        let kernarg_bytes = match stream.is_bound() {
            false => 0,
            true => (BIND_TABLE + size_of::<u64>() * self.entries.len()) as u64,
        };
        let kernarg_bytes = kernarg_bytes.next_multiple_of(KERNARG_ALIGNMENT);
        let demand = Demand { packets: stream.packets(), kernarg_bytes, ..Demand::default() };
        if self.is_profiled.get() || queue.check_fits(demand, waits).is_err() {
            self.claimed = None;
            return None;
        }
        if self.claimed.is_none() {
            self.claimed = Claimed::new(&self.program, queue);
        }
        self.claimed.is_some().then_some(demand)
    }

    /// The packets of the program's stream.
    fn emit_stream(&self, stream: &Stream, emitter: &mut Emitter<'_>) {
        if stream.is_bound() {
            let mut kernargs = emitter.room().take(BIND_TABLE + size_of::<u64>() * self.entries.len());
            let args = stream.bind_args(kernargs.address() + BIND_TABLE as u64).expect("a stream that is bound");
            kernargs.write(0, &args.to_bytes());
            for (index, entry) in self.entries.iter().enumerate() {
                kernargs.write(BIND_TABLE + size_of::<u64>() * index, &entry.address.to_le_bytes());
            }
            let packet = emitter.gpu().library_packet(&plan_bind(args), kernargs.address());
            // An earlier execution may still use the written memory.
            let order = Order { barrier: true, acquire: HsaFenceScope::AGENT, release: HsaFenceScope::AGENT };
            emitter.dispatch(&packet, order);
        } else if stream.packets() > 1 {
            emitter.acquire();
        }
        let (address, dwords) = stream.commands();
        emitter.stream(address, dwords, stream.order());
    }

    /// The next part: all remaining steps, or as many as fit half of the rings, so that parts overlap.
    fn next_part(&self, queue: &Queue) -> (usize, Demand) {
        let (most_packets, most_bytes) = queue.part_limits();
        let (program, steps) = (&**self.program, &self.program.stored.steps);
        if self.next == 0 && self.program.packets <= most_packets && self.program.kernarg_bytes <= most_bytes {
            let demand = Demand {
                packets: self.program.packets,
                kernarg_bytes: self.program.kernarg_bytes,
                overlapping: overlaps(program, steps),
                ..Demand::default()
            };
            return (steps.len(), demand);
        }
        let (mut packets, mut bytes, mut end) = (0, 0, self.next);
        for step in &steps[self.next..] {
            let (step_packets, step_bytes) = program.needs(step);
            let (more_packets, more_bytes) = (packets + step_packets, bytes + step_bytes as u64);
            // One step always goes, whatever it needs: the queue refuses it if it never fits.
            if end > self.next && (more_packets > most_packets || more_bytes > most_bytes) {
                break;
            }
            (packets, bytes, end) = (more_packets, more_bytes, end + 1);
        }
        let overlapping = overlaps(program, &steps[self.next..end]);
        (end, Demand { packets, kernarg_bytes: bytes, overlapping, ..Demand::default() })
    }
}

/// True if steps of one part may still run when its last packet completes. A last step behind a barrier carries the
/// epoch itself.
fn overlaps(program: &Program, steps: &[Step]) -> bool {
    match steps {
        [_] => false,
        [.., last] => !program.is_serial(last),
        [] => true,
    }
}

impl Submit for Execute<'_> {
    type Owned = Execute<'static>;

    fn into_owned(self) -> Result<Execute<'static>> {
        let owned = |slot| {
            let bound = self.bindings.get(slot)?;
            Some(Bound { range: bound.range.into_owned(), length: bound.length })
        };
        Ok(Execute {
            bindings: Bindings::Owned(fallible::collect((0..self.bindings.len()).map(owned))?),
            program: Cow::Owned(self.program.into_owned()),
            command_buffer: self.command_buffer.into_owned(),
            borrows: self.borrows,
            entries: self.entries,
            next: self.next,
            end: self.end,
            claimed: self.claimed,
            is_profiled: self.is_profiled,
        })
    }
}

/// Checks that a recording for the GPU `of_recording` may execute on `gpu`: its addresses and code are valid on one
/// agent only, whichever logical devices use the agent.
#[cold]
fn check_same(of_recording: &Gpu, gpu: &Gpu) -> Result<()> {
    if of_recording.agent().handle() == gpu.agent().handle() {
        return Ok(());
    }
    let (from, to) = (of_recording.place(), gpu.place());
    Err(status!(
        INVALID_ARGUMENT,
        "a command buffer recorded for {from} cannot execute on a queue of {to}; record it for that queue"
    ))
}

impl Operation for Execute<'_> {
    fn plan(&mut self, queue: &Queue, waits: &[EpochWait]) -> Result<Planned> {
        if !Arc::ptr_eq(self.program.gpu(), queue.gpu()) {
            check_same(self.program.gpu(), queue.gpu())?;
        }
        if self.next == 0 {
            // All steps before the first part: once a part is in the ring, the rest must follow.
            if let Some(gone) = self.program.stored.lent.iter().find(|buffer| buffer.is_gone()) {
                return Err(gone.gone());
            }
            self.resolve(queue.gpu())?;
            let (program, table) = (&**self.program, Table(&self.entries));
            for (index, extent) in (0..).zip(&program.stored.slot_extents) {
                table.check_span(AddressSource::Binding { index, offset: extent.saturating_sub(1) }, 0)?;
            }
            for step in &program.stored.steps_to_validate {
                table.check(program, &program.stored.steps[*step as usize], queue)?;
            }
            if let Some(stream) = &program.stream {
                stream.wait()?;
            }
            if let Some(demand) = self.stream_demand(queue, waits.len() as u32) {
                return Ok(Planned::Ready(demand));
            }
            queue.check_fits(self.program.largest, 0)?;
        }
        let (end, demand) = self.next_part(queue);
        self.end = end;
        Ok(Planned::Ready(demand))
    }

    fn write(&mut self, emitter: &mut Emitter<'_>) -> Progress {
        let (table, program) = (Table(&self.entries), &**self.program);
        if let (Some(_), Some(stream)) = (&self.claimed, &program.stream) {
            self.emit_stream(stream, emitter);
            return Progress::Done;
        }
        // Looked up once.
        let stored = &*program.stored;
        let mut steps = &stored.steps[self.next..self.end];
        while let Some((step, rest)) = steps.split_first() {
            match step.action {
                // Nearly all of a long program.
                Action::Dispatch(_) if emitter.is_inner() => {
                    let dispatches = steps.iter().map_while(|step| match step.action {
                        Action::Dispatch(kernargs) => Some((step, kernargs)),
                        Action::NonDispatch(_) => None,
                    });
                    let written = emitter.inner_dispatches(dispatches, |room, (step, kernargs)| {
                        step.body(table.kernargs(stored, kernargs, room))
                    });
                    steps = &steps[written as usize..];
                    continue;
                }
                _ => {
                    emitter.launches(program.needs(step).0 - 1, || Some(program.launch_info(step)));
                    table.emit(program, step, emitter);
                }
            }
            steps = rest;
        }
        self.next = self.end;
        if self.next == self.program.stored.steps.len() { Progress::Done } else { Progress::More }
    }

    fn retained_resources(&self, queue: &Queue) -> Result<RetainedSet> {
        let bindings = if self.borrows { 0 } else { self.bindings.len() };
        let buffers = (0..bindings).map(|index| self.bindings.buffer(index).map(Borrowed::retain_resource));
        let own = Some(self.command_buffer.borrow().retain_resource());
        RetainedSet::new(queue.vec_pools(), own, bindings, buffers)
    }

    fn write_single(&mut self, _gpu: &Gpu, _room: &mut SinglePacketSpace) -> Option<SinglePacket> {
        // Only a stream without a table is a single packet: binding a table and acquiring copied commands take another
        // one.
        let stream = self.claimed.as_ref().and(self.program.stream.as_deref())?;
        let (address, dwords) = stream.commands();
        (stream.packets() == 1).then_some(SinglePacket::Command(address, dwords))
    }

    fn on_submitted(&mut self, _queue: &Queue, epoch: u64) {
        if let Some(claimed) = self.claimed.take() {
            claimed.submitted(epoch);
        }
    }

    fn profile_event(&self, session: &Session) -> EventInfo {
        self.is_profiled.set(session.records_packets());
        session.add_program(self.program.recording.id, || self.program.records());
        self.program.profile_event()
    }
}

/// The addresses of one execution.
struct Table<'a>(&'a [Entry]);

impl Table<'_> {
    fn address(&self, place: AddressSource) -> u64 {
        match place {
            AddressSource::Fixed(address) => address,
            AddressSource::Binding { index, offset } => self.0[index as usize].address + offset,
        }
    }

    /// Bytes from `place` to the end of its entry.
    fn rest(&self, place: AddressSource) -> u64 {
        match place {
            AddressSource::Fixed(_) => 0,
            AddressSource::Binding { index, offset } => self.0[index as usize].length.saturating_sub(offset),
        }
    }

    /// Checks that `length` bytes from `place` on are within its entry.
    fn check_span(&self, place: AddressSource, length: u64) -> Result<()> {
        let AddressSource::Binding { index, offset } = place else { return Ok(()) };
        let bound = self.0[index as usize].length;
        if offset.checked_add(length).is_none_or(|end| end > bound) {
            return Err(status!(
                OUT_OF_RANGE,
                "a command uses {length} bytes from {offset} on of slot {index}, which is bound to {bound} bytes"
            ));
        }
        Ok(())
    }

    /// Checks all that depends on the table, so that emitting cannot fail.
    fn check(&self, program: &Program, step: &Step, queue: &Queue) -> Result<()> {
        let non_dispatch = match step.action {
            Action::Dispatch(kernargs) => return self.check_kernargs(program, kernargs),
            Action::NonDispatch(index) => program.non_dispatch(index),
        };
        let shape = queue.gpu().shape();
        match non_dispatch {
            NonDispatch::Fill { target, length, pattern } => {
                let length = length.unwrap_or_else(|| self.rest(*target));
                self.check_span(*target, length)?;
                plan_fill(shape, self.address(*target), length, pattern).map_err(invalid)?;
            }
            NonDispatch::Copy { source, target, length } => {
                let length = length.unwrap_or_else(|| self.rest(*source));
                self.check_span(*source, length)?;
                self.check_span(*target, length)?;
                plan_copy(shape, self.address(*source), self.address(*target), length).map_err(invalid)?;
            }
            NonDispatch::Update { length, target, .. } => {
                let length = u64::from(*length);
                self.check_span(*target, length)?;
                plan_copy(shape, 0, self.address(*target), length).map_err(invalid)?;
            }
            NonDispatch::IndirectDispatch { count, kernargs, .. } => {
                self.check_kernargs(program, *kernargs)?;
                self.check_span(*count, WORKGROUP_COUNT_LENGTH as u64)?;
                check_count_address(self.address(*count))?;
            }
        }
        Ok(())
    }

    fn check_kernargs(&self, program: &Program, kernargs: KernargSource) -> Result<()> {
        let KernargSource::Buffer(index) = kernargs else { return Ok(()) };
        let ArgumentBuffer { place, needs } = program.stored.argument_buffers[index as usize];
        self.check_span(place, needs.size.into())?;
        needs.check_address(self.address(place))
    }

    fn emit(&self, program: &Program, step: &Step, emitter: &mut Emitter<'_>) {
        let gpu = emitter.gpu();
        let non_dispatch = match step.action {
            Action::Dispatch(kernargs) => {
                let kernargs = self.kernargs(&program.stored, kernargs, emitter.room());
                return emitter.dispatch(&step.packet(kernargs), step.order());
            }
            Action::NonDispatch(index) => program.non_dispatch(index),
        };
        let packet = match non_dispatch {
            NonDispatch::IndirectDispatch { launch, kernargs, count } => {
                let kernargs = self.kernargs(&program.stored, *kernargs, emitter.room());
                let header = emitter.published_header(step.order());
                let args = launch.patch_args(self.address(*count), emitter.packet_address(1), header, kernargs);
                let packet = launch.packet([0; 3], kernargs);
                return emitter.patch_and_dispatch(&plan_patch_dispatch(args), &packet, step.order());
            }
            NonDispatch::Fill { target, length, pattern } => {
                let length = length.unwrap_or_else(|| self.rest(*target));
                let plan = plan_fill(gpu.shape(), self.address(*target), length, pattern);
                let launch = plan.expect("checked when the part was prepared");
                gpu.library_packet(&launch, emitter.arguments(&launch.args.to_bytes()))
            }
            NonDispatch::Copy { source, target, length } => {
                let length = length.unwrap_or_else(|| self.rest(*source));
                let plan = plan_copy(gpu.shape(), self.address(*source), self.address(*target), length);
                let launch = plan.expect("checked when the part was prepared");
                gpu.library_packet(&launch, emitter.arguments(&launch.args.to_bytes()))
            }
            NonDispatch::Update { blocks, length, target } => {
                let bytes = &bytes_of(blocks.of(&program.stored.templates).as_flattened())[..*length as usize];
                emitter.update(bytes, |shape, payload| {
                    let plan = plan_copy(shape, payload, self.address(*target), bytes.len() as u64);
                    plan.expect("checked when the part was prepared")
                })
            }
        };
        emitter.dispatch(&packet, step.order());
    }

    /// The address of a dispatch's kernargs. Copies a template to the kernarg ring and then writes the bindings of this
    /// execution to the copy.
    #[inline(always)]
    fn kernargs(&self, stored: &Storage, source: KernargSource, room: &mut KernargCursor) -> u64 {
        let (is_bound, bindings, blocks) = match source {
            KernargSource::Stored { address, .. } => return address,
            KernargSource::Buffer(index) => {
                return self.address(stored.argument_buffers[index as usize].place);
            }
            KernargSource::Template { is_bound, bindings, blocks } => (is_bound, bindings as usize, blocks),
        };
        if blocks.count() != 1 {
            return self.kernargs_of_blocks(bindings, blocks.of(&stored.templates), room);
        }
        // As nearly all are: a few moves of registers.
        let block = &stored.templates[blocks.start as usize];
        let mut kernargs = room.take(size_of_val(block));
        kernargs.write_block(block);
        if is_bound {
            self.bind(&mut kernargs, block.iter().take(bindings));
        }
        kernargs.address()
    }

    #[inline(never)]
    fn kernargs_of_blocks(&self, bindings: usize, blocks: &[KernargBlock], room: &mut KernargCursor) -> u64 {
        let words = blocks.as_flattened();
        let mut kernargs = room.take(size_of_val(words));
        kernargs.write(0, bytes_of(words));
        self.bind(&mut kernargs, words[..bindings].iter());
        kernargs.address()
    }

    /// Writes the addresses of those `bindings` that are places in the table.
    #[inline(always)]
    fn bind<'b>(&self, kernargs: &mut Kernargs, bindings: impl Iterator<Item = &'b u64>) {
        for (at, word) in bindings.enumerate() {
            if let Some((index, offset)) = AddressSource::in_table(*word) {
                let address = self.0[index].address + offset;
                kernargs.write(at * size_of::<u64>(), &address.to_le_bytes());
            }
        }
    }
}
