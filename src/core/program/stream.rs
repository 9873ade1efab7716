// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Recordings as PM4 streams: fixed commands that one packet runs.
//!
//! A reusable recording of only dispatches with known grids (including fills and copies of known places) has a
//! [`Stream`] beside its steps: commands that dispatch, and set the shader registers that change from one dispatch to
//! the next. Commands behind a barrier wait for all earlier dispatches and invalidate caches, with the scopes of the
//! packets' fences. At its begin and end a stream acquires and releases to the system, as its packet does, because
//! packet processors are not documented to carry out the fences of packets with commands. For the same reason the
//! commands are in host memory, which packet processors read without a fence; or they are copied to the GPU
//! (`pm4_command_buffer_publication_mode`), and each execution begins with a packet that acquires from the system: one
//! that binds a table, or a barrier packet.
//!
//! The commands are never changed. A dispatch with known arguments uses those that its packet would use. Other
//! dispatches use arguments of the stream. The first packet of an execution, a kernel of the device library, writes the
//! addresses of that execution's binding table to them; the table is among the packet's kernel arguments. So at most
//! one execution may be in progress between that packet and the stream's end:
//!
//! * executions on one queue are ordered by the barrier bit of the first and of the second packet;
//! * executions on another queue run as packets while one is in progress (`Bound::claim`).
//!
//! The steps stay valid. Executions run them as packets instead of the stream
//!
//! * under profiling, which reports the times of packets;
//! * with a binding table that does not fit the ring of kernel arguments;
//! * while another queue executes the stream, as above.
//!
//! No stream is made, and all executions are packets, if a step is not such a dispatch (workgroup counts or arguments
//! in a buffer, updates, transfers to places that only an execution knows) or runs a kernel that a stream cannot run
//! ([`KernelState`]); and if the recording is short (`Streams::least`) or longer than a packet can name.

use std::sync::Arc;

use device_binaries::{BindArgs, Fixup};
use hsa_abi::{HsaFenceScope, KernelDispatchPacket};
use parking_lot::Mutex;

use crate::arena::{Scratch, Storage};
use crate::{Action, AddressSource, KernargBlock, KernargSource, Program, Recording, Step};
use amdgpu_ffi::{Fallible, Result};
use amdgpu_gpu::Gpu;
use amdgpu_gpu::commands::Commands;
use amdgpu_gpu::kernargs::{Contents, StoredKernargs};
use amdgpu_gpu::streams::{Dialect, KernelState, Streams};
use amdgpu_queue::emitter::Order;
use amdgpu_queue::shared::Epochs;
use amdgpu_queue::{Queue, pm4};
use amdgpu_ring::bytes_of;

/// A recording as commands of the packet processor.
#[derive(Debug)]
pub struct Stream {
    commands: Commands,
    dwords: u32,
    bound: Option<Bound>,
}

/// The stream's arguments that each execution binds.
#[derive(Debug)]
struct Bound {
    /// The arguments, followed by the list of fixups.
    memory: StoredKernargs,
    /// The address of the list of fixups.
    fixups: u64,
    count: u32,
    claim: Mutex<Claim>,
}

/// The use of the arguments by executions of one queue.
#[derive(Debug, Default)]
struct Claim {
    /// The epochs of the queue; none before the first claim.
    epochs: Option<Epochs>,
    /// Executions of the queue that are not in its ring yet.
    waiting: usize,
    /// The epoch of the last execution that is in the ring.
    last: u64,
}

impl Stream {
    /// The stream of a finished recording; none if its executions are packets. Uses `scratch`, which has no commands
    /// yet.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn new(
        gpu: &Arc<Gpu>,
        streams: &Streams,
        recording: &Recording,
        storage: &Storage,
        scratch: &mut Scratch,
    ) -> Result<Option<Self>> {
        let steps = &storage.steps;
        if recording.is_one_shot() || steps.is_empty() || steps.len() < streams.least() {
            return Ok(None);
        }
        // Recorded steps that are not such dispatches are in one of these lists.
        if !storage.non_dispatches.is_empty() || !storage.argument_buffers.is_empty() {
            return Ok(None);
        }
        let bound = Bound::new(gpu, storage, &mut scratch.bound)?;
        let commands = &mut scratch.commands;
        let address = bound.as_ref().map_or(0, |bound| bound.memory.address());
        let is_written = write(commands, steps, streams.dialect(), address, |object| streams.kernel(object));
        if is_written.is_none() || commands.len() > pm4::MOST_DWORDS {
            return Ok(None);
        }
        Ok(Some(Self { dwords: commands.len() as u32, commands: Commands::new(gpu, bytes_of(commands))?, bound }))
    }

    /// Publishes the commands as `streams` says.
    ///
    /// # Errors
    /// As for [`Commands::publish`].
    pub fn publish(self, streams: &Streams) -> Result<Self> {
        Ok(Self { commands: self.commands.publish(streams.publication())?, ..self })
    }

    /// Waits until the stream can be run. Under no lock.
    ///
    /// # Errors
    /// The error of copying its commands.
    #[inline]
    pub fn wait(&self) -> Result<()> {
        self.commands.wait()
    }

    /// The number of packets of an execution.
    #[inline]
    pub fn packets(&self) -> u32 {
        1 + u32::from(self.is_bound() || self.commands.are_copied())
    }

    /// The address and the number of dwords of the commands.
    pub fn commands(&self) -> (u64, u32) {
        (self.commands.address(), self.dwords)
    }

    /// The order of the packet that runs the commands: after the packet in front of it, if there is one. A submission's
    /// first and only packet has the barrier bit anyway.
    pub fn order(&self) -> Order {
        Order { barrier: true, acquire: HsaFenceScope::AGENT, release: HsaFenceScope::AGENT }
    }

    /// The arguments of the kernel that writes the addresses at `table` to the stream's arguments; none if all of these
    /// are known.
    pub fn bind_args(&self, table: u64) -> Option<BindArgs> {
        let bound = self.bound.as_ref()?;
        let (target, fixups, count) = (bound.memory.address(), bound.fixups, bound.count);
        Some(BindArgs { target, fixups, table, count, reserved: 0 })
    }

    /// True if executions bind arguments.
    pub fn is_bound(&self) -> bool {
        self.bound.is_some()
    }
}

/// The claim of an execution to a program's stream. It ends with `epoch` of the execution's queue, or unused.
#[derive(Debug)]
pub struct Claimed {
    /// None for a stream without arguments that executions bind: any number of executions may run it.
    program: Option<Arc<Program>>,
    epoch: u64,
}

impl Claimed {
    /// Claims the stream of `program` for an execution on `queue`; none if the execution has to be packets.
    pub fn new(program: &Arc<Program>, queue: &Queue) -> Option<Self> {
        let Some(bound) = &program.stream.as_ref()?.bound else { return Some(Self { program: None, epoch: 0 }) };
        bound.claim(queue).then(|| Self { program: Some(program.clone()), epoch: 0 })
    }

    /// Notes that the execution is in the queue's ring and completes at `epoch`.
    pub fn submitted(mut self, epoch: u64) {
        self.epoch = epoch;
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let stream = self.program.as_ref().and_then(|program| program.stream.as_ref());
        if let Some(bound) = stream.and_then(|stream| stream.bound.as_ref()) {
            let mut claim = bound.claim.lock();
            claim.waiting -= 1;
            claim.last = claim.last.max(self.epoch);
        }
    }
}

impl Bound {
    /// The arguments of the recording's dispatches that executions bind; none if there are no such dispatches. Uses
    /// `bytes`, which is empty.
    fn new(gpu: &Arc<Gpu>, storage: &Storage, bytes: &mut Vec<u8>) -> Result<Option<Self>> {
        let length = storage.bound().map(|(_, blocks)| size_of_val(blocks)).sum::<usize>();
        if length == 0 {
            return Ok(None);
        }
        let fixups =
            storage.bound().flat_map(|(bindings, _)| bindings).filter(|word| AddressSource::in_table(**word).is_some());
        bytes.make_room(length + fixups.count() * size_of::<Fixup>())?;
        for (_, blocks) in storage.bound() {
            bytes.extend_from_slice(bytes_of(blocks.as_flattened()));
        }
        let mut start = 0;
        for (bindings, blocks) in storage.bound() {
            for (at, word) in bindings.iter().enumerate() {
                if let Some((index, offset)) = AddressSource::in_table(*word) {
                    let target = (start + at * size_of::<u64>()) as u32;
                    bytes.extend(Fixup { offset, target, index: index as u32 }.to_bytes());
                }
            }
            start += size_of_val(blocks);
        }
        let count = ((bytes.len() - length) / size_of::<Fixup>()) as u32;
        let memory = StoredKernargs::new(gpu, Contents::Kernargs, bytes)?;
        let fixups = memory.address() + length as u64;
        Ok(Some(Self { memory, fixups, count, claim: Mutex::default() }))
    }

    /// Claims the stream for an execution on `queue`. Returns false while another queue has it.
    fn claim(&self, queue: &Queue) -> bool {
        let mut claim = self.claim.lock();
        let is_own = claim.epochs.as_ref().is_some_and(|epochs| queue.owns(epochs));
        if !is_own {
            let is_over = claim.epochs.as_ref().is_none_or(|epochs| epochs.has_passed(claim.last));
            if claim.waiting > 0 || !is_over {
                return false;
            }
            *claim = Claim { epochs: Some(queue.epochs()), waiting: 0, last: 0 };
        }
        claim.waiting += 1;
        true
    }
}

/// The most words of a step with the barrier in front of it, or of a stream's begin.
const MOST_WORDS: usize = 64;

/// Appends the commands of `steps` to `words`. Returns none, after a part of them, if no stream can run one of the
/// kernels or memory runs out. The arguments that executions bind are at `bound`, one step after the other.
fn write(
    words: &mut Vec<u32>,
    steps: &[Step],
    dialect: Dialect,
    mut bound: u64,
    kernel: impl Fn(u64) -> Option<KernelState>,
) -> Option<()> {
    words.make_room(16 * steps.len() + MOST_WORDS).ok()?;
    let mut writer = Writer { dialect, words, set: Set::default(), last: None };
    writer.begin();
    let mut released = HsaFenceScope::NONE;
    for (index, step) in steps.iter().enumerate() {
        let kernargs = match step.action {
            Action::Dispatch(KernargSource::Stored { address, .. }) => address,
            Action::Dispatch(KernargSource::Template { blocks, .. }) => {
                let address = bound;
                bound += (blocks.count() * size_of::<KernargBlock>()) as u64;
                address
            }
            _ => return None,
        };
        writer.words.make_room(MOST_WORDS).ok()?;
        let order = step.order();
        if order.barrier && index > 0 {
            writer.barrier(released.max(order.acquire) == HsaFenceScope::SYSTEM);
        }
        released = order.release;
        writer.dispatch(&step.packet(kernargs), &kernel)?;
    }
    writer.barrier(true);
    Some(())
}

/// The properties that consecutive dispatches mostly share: kernel object, bytes of LDS, work-items of a workgroup.
type Shape = (u64, u32, [u16; 3]);

/// The current values of the registers that dispatches set.
#[derive(Debug, Default)]
struct Set {
    code: Option<u64>,
    resources: Option<[u32; 2]>,
    resource3: Option<u32>,
    size: Option<[u16; 3]>,
}

struct Writer<'a> {
    dialect: Dialect,
    words: &'a mut Vec<u32>,
    set: Set,
    /// The shape and kernel that the registers are set for.
    last: Option<(Shape, KernelState)>,
}

impl Writer<'_> {
    /// Writes the state that all dispatches share. Other registers (counters, compute-unit masks) keep the values of an
    /// earlier packet.
    fn begin(&mut self) {
        use pm4::registers::{RESOURCE_LIMITS, RESTART_X, START_X, TMPRING_SIZE};
        pm4::invalidate_caches(self.words, self.dialect, true);
        pm4::set_registers(self.words, START_X, [0; 3]);
        pm4::set_registers(self.words, RESOURCE_LIMITS, [0]);
        pm4::set_registers(self.words, TMPRING_SIZE, [0]);
        pm4::set_registers(self.words, RESTART_X, [0; 3]);
    }

    fn barrier(&mut self, whole: bool) {
        pm4::wait_for_dispatches(self.words);
        pm4::invalidate_caches(self.words, self.dialect, whole);
    }

    /// Writes a dispatch. Returns none if the registers cannot express the packet.
    #[inline(always)]
    fn dispatch(&mut self, packet: &KernelDispatchPacket, kernel: &impl Fn(u64) -> Option<KernelState>) -> Option<()> {
        let shape = (packet.kernel_object, packet.group_segment_size, packet.workgroup_size);
        let state = match &self.last {
            Some((last, state)) if *last == shape => state,
            _ => self.describe(shape, kernel)?,
        };
        let (before_kernargs, is_wave32) = (state.before_kernargs, state.is_wave32);
        let [x, y, z] = packet.workgroup_size;
        let groups = [count(packet.grid_size[0], x)?, count(packet.grid_size[1], y)?, count(packet.grid_size[2], z)?];
        let command = pm4::dispatch(groups, is_wave32);
        match before_kernargs {
            None => self.words.extend_from_slice(&command),
            Some(before) => {
                // Both at a time: nearly all of a stream.
                let [set, first, low, high] =
                    pm4::set_address(pm4::registers::USER_DATA_0 + before, packet.kernarg_address);
                let [launch, x, y, z, initiator] = command;
                self.words.extend_from_slice(&[set, first, low, high, launch, x, y, z, initiator]);
            }
        }
        Some(())
    }

    /// Sets the registers for dispatches of this shape.
    #[inline(never)]
    fn describe(&mut self, shape: Shape, kernel: &impl Fn(u64) -> Option<KernelState>) -> Option<&KernelState> {
        use pm4::registers::{NUM_THREAD_X, PGM_LO, PGM_RSRC1, pgm_rsrc3};
        let (object, lds, size) = shape;
        let state = match self.last {
            Some(((last, ..), state)) if last == object => state,
            _ => kernel(object)?,
        };
        let words = &mut *self.words;
        if self.set.code.replace(state.entry) != Some(state.entry) {
            words.extend_from_slice(&pm4::set_address(PGM_LO, state.entry >> 8));
        }
        let resources = [state.rsrc1, state.rsrc2(lds)?];
        if self.set.resources.replace(resources) != Some(resources) {
            pm4::set_registers(words, PGM_RSRC1, resources);
        }
        if self.set.resource3.replace(state.rsrc3) != Some(state.rsrc3) {
            pm4::set_registers(words, pgm_rsrc3(self.dialect), [state.rsrc3]);
        }
        if self.set.size.replace(size) != Some(size) {
            pm4::set_registers(words, NUM_THREAD_X, size.map(u32::from));
        }
        Some(&self.last.insert((shape, state)).1)
    }
}

/// The number of workgroups of `size` work-items. None for a partial workgroup; a recording counts workgroups, so that
/// it has none.
#[inline(always)]
fn count(items: u32, size: u16) -> Option<u32> {
    match u32::from(size) {
        // As most are, without a division.
        1 => Some(items),
        size => items.checked_div(size).filter(|groups| groups * size == items),
    }
}

#[cfg(test)]
mod tests {
    use hsa_abi::{HsaSignal, PacketHeader};

    use super::*;
    use crate::Span;

    const FIRST: KernelState = KernelState::for_tests(0x12_3456_7800, [0x11, 0x8c, 0x13], true, Some(0));
    const SECOND: KernelState = KernelState::for_tests(0x9a00, [0x21, 0x84, 0x13], true, Some(4));

    /// A dispatch of a test kernel, given by the address of its kernel object.
    fn step_of(object: u64, workgroup_size: [u16; 3], grid_size: [u32; 3], kernargs: u64, lds: u32) -> Step {
        let packet = KernelDispatchPacket {
            header: PacketHeader::INVALID,
            setup: 3,
            workgroup_size,
            reserved0: 0,
            grid_size,
            private_segment_size: 0,
            group_segment_size: lds,
            kernel_object: object,
            kernarg_address: 0,
            reserved2: 0,
            completion_signal: HsaSignal::NULL,
        };
        Step::dispatch(packet, KernargSource::Stored { bindings: 0, address: kernargs }, 0, 0)
    }

    /// A dispatch of `groups` workgroups of 64 work-items.
    fn step(object: u64, groups: u32, kernargs: u64, lds: u32) -> Step {
        step_of(object, [64, 1, 1], [64 * groups, 2, 1], kernargs, lds)
    }

    fn kernel(object: u64) -> Option<KernelState> {
        [FIRST, SECOND].get(object as usize - 1).copied()
    }

    fn write(steps: &[Step], dialect: Dialect, bound: u64) -> Option<Vec<u32>> {
        let mut words = Vec::new();
        super::write(&mut words, steps, dialect, bound, kernel)?;
        Some(words)
    }

    fn steps() -> Vec<Step> {
        let mut steps =
            vec![step(1, 3, 0x7_0000_0040, 0), step(1, 3, 0x7_0000_0080, 513), step(2, 5, 0x7_0000_00c0, 513)];
        steps[2].reorder(|order| order.barrier = true);
        // Its arguments are the stream's own, the first of them: those before are not.
        steps[2].action =
            Action::Dispatch(KernargSource::Template { is_bound: true, bindings: 1, blocks: Span::new(2, 3) });
        steps
    }

    #[test]
    fn a_stream_sets_what_changes() {
        let written = write(&steps(), Dialect::Gfx10, 0x8_0000_0000).expect("kernels that streams have");
        let expected: &[&[u32]] = &[
            &[0xc006_5800, 0, u32::MAX, 0x1ff_ffff, 0, 0, 10, 0xc3b0],
            // Where to begin, limits, scratch, where to go on.
            &[0xc003_7602, 0x204, 0, 0, 0],
            &[0xc001_7602, 0x215, 0],
            &[0xc001_7602, 0x218, 0],
            &[0xc003_7602, 0x21b, 0, 0, 0],
            // Code, resources, size, arguments.
            &[0xc002_7602, 0x20c, 0x1234_5678, 0],
            &[0xc002_7602, 0x212, 0x11, 0xcc],
            &[0xc001_7602, 0x228, 0x13],
            &[0xc003_7602, 0x207, 64, 1, 1],
            &[0xc002_7602, 0x240, 0x40, 7],
            &[0xc003_1502, 3, 2, 1, 0x8005],
            // Other LDS and arguments.
            &[0xc002_7602, 0x212, 0x11, 2 << 15 | 0xcc],
            &[0xc002_7602, 0x240, 0x80, 7],
            &[0xc003_1502, 3, 2, 1, 0x8005],
            // The barrier, within the GPU.
            &[0xc000_4600, 0x407],
            &[0xc006_5800, 0, u32::MAX, 0x1ff_ffff, 0, 0, 10, 0x380],
            // Other code; the third resource is as it was.
            &[0xc002_7602, 0x20c, 0x9a, 0],
            &[0xc002_7602, 0x212, 0x21, 2 << 15 | 0xc4],
            &[0xc002_7602, 0x244, 0, 8],
            &[0xc003_1502, 5, 2, 1, 0x8005],
            &[0xc000_4600, 0x407],
            &[0xc006_5800, 0, u32::MAX, 0x1ff_ffff, 0, 0, 10, 0xc3b0],
        ];
        assert_eq!(written, expected.concat(), "{written:x?}");
    }

    #[test]
    fn gfx9_has_other_caches_and_another_register() {
        let written = write(&steps(), Dialect::Gfx9, 0).expect("kernels that streams have");
        assert_eq!(written[..7], [0xc005_5802, 0x08c4_0000, u32::MAX, 0xff_ffff, 0, 0, 10]);
        assert!(written.windows(3).any(|words| words == [0xc001_7602, 0x22d, 0x13]));
        let barrier = [0xc000_4600, 0x407, 0xc005_5802, 0x0840_0000];
        assert!(written.windows(4).any(|words| words == barrier));
    }

    #[test]
    fn a_barrier_reaches_as_far_as_its_fences() {
        let whole = [0xc000_4600, 0x407, 0xc006_5800, 0, u32::MAX, 0x1ff_ffff, 0, 0, 10, 0xc3b0];
        let count = |steps: &[Step]| {
            let written = write(steps, Dialect::Gfx10, 0).unwrap();
            written.windows(whole.len()).filter(|words| **words == whole).count()
        };
        // That at the end.
        assert_eq!(count(&steps()), 1);
        let mut acquiring = steps();
        acquiring[2].reorder(|order| order.acquire = HsaFenceScope::SYSTEM);
        assert_eq!(count(&acquiring), 2);
        let mut releasing = steps();
        releasing[1].reorder(|order| order.release = HsaFenceScope::SYSTEM);
        assert_eq!(count(&releasing), 2);
    }

    #[test]
    fn what_registers_cannot_say_has_no_stream() {
        assert!(write(&[step(3, 1, 0, 0)], Dialect::Gfx10, 0).is_none(), "an unknown kernel");
        assert!(write(&[step(1, 1, 0, 65_537)], Dialect::Gfx10, 0).is_none(), "too much LDS");
        let partial = step_of(1, [64, 1, 1], [65, 2, 1], 0, 0);
        assert!(write(&[partial], Dialect::Gfx10, 0).is_none(), "a partial workgroup");
        let other = Step::non_dispatch(0, 0, 0);
        assert!(write(&[other], Dialect::Gfx10, 0).is_none(), "no dispatch");
    }
}
