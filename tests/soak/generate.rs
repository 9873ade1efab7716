// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Generates a random program from a seed.
//!
//! Operations are generated in order. Each depends on every earlier operation that conflicts with it and does not
//! precede it already. Operations that fail are in a group of their own: no other operation signals the group's
//! semaphores, and no operation that must succeed waits for them.

mod chains;

use std::collections::BTreeSet;

use crate::kernels::gpu_count;
use crate::memory_work::{self, Area};
use crate::program::{Buffer, Fate, File, FileKind, Heap, Kind, Mode, Op, OpId, Program, Recording, Room, Span, Touch};
use crate::run;
use random::Random;

/// Generates the program of a seed. Each of its devices has every GPU that the sim simulates.
pub fn program(seed: u64) -> Program {
    let mut generator = Generator::new(seed);
    generator.make_objects();
    generator.make_operations();
    generator.program
}

/// Way in which a device ends while work is in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Trap,
    MemoryFault,
    Release,
}

/// A group of operations with semaphores of its own.
struct Group {
    fate: Fate,
    timelines: Vec<usize>,
    /// The device that ended, in the group of operations behind that end.
    device: Option<usize>,
    /// True for the group of a chain, which takes no further operations.
    is_chain: bool,
}

struct Generator {
    random: Random,
    program: Program,
    predecessors: Vec<BTreeSet<OpId>>,
    /// The first group holds the operations that must succeed.
    groups: Vec<Group>,
    /// Way in which each device ended, and the operation that caused it.
    ended: Vec<Option<(End, OpId)>>,
    /// Buffers allocated from the queues' pool and not yet freed, with the fate of their alloca.
    allocated: Vec<(usize, Fate)>,
    executed: BTreeSet<usize>,
}

impl Generator {
    fn new(seed: u64) -> Self {
        let random = Random::new(seed);
        let program = Program { seed, ..Program::default() };
        Self {
            random,
            program,
            predecessors: Vec::new(),
            groups: Vec::new(),
            ended: Vec::new(),
            allocated: Vec::new(),
            executed: BTreeSet::new(),
        }
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.random.below(count) == 0
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end as u32) as usize
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn noise(&mut self) -> u64 {
        u64::from(self.random.below(u32::MAX))
    }

    /// A size, mostly small.
    fn size(&mut self, most: usize) -> usize {
        let most = match self.random.below(8) {
            0 => most,
            1..3 => most.min(4096),
            _ => most.min(400),
        };
        1 + self.below(most)
    }

    fn make_objects(&mut self) {
        self.program.devices = self.pick(&[1, 1, 1, 2, 2, 3]);
        self.program.threads = 1 + self.below(4);
        self.program.options = self.options();
        self.ended = vec![None; self.program.devices];
        for device in 0..self.program.devices {
            for _ in 0..2 + self.below(5) {
                let heap = self.pick(&[Heap::Host, Heap::Host, Heap::Device, Heap::Device, Heap::Visible]);
                let (size, is_ephemeral) = (self.size(1 << 17), self.one_in(6));
                self.program.buffers.push(Buffer { device, heap, size, is_ephemeral });
            }
            for _ in 0..self.below(3) {
                let kind = self.pick(&[FileKind::Asynchronous, FileKind::Synchronous, FileKind::Memory]);
                let size = self.size(1 << 15);
                self.program.files.push(File { device, kind, size });
            }
            for _ in 0..self.below(3) {
                let recording = self.recording(device);
                self.program.recordings.push(recording);
            }
        }
        let count = 1 + self.below(6);
        let timelines = self.make_timelines(count);
        self.groups.push(Group { fate: Fate::Certain, timelines, device: None, is_chain: false });
    }

    fn options(&mut self) -> Vec<(&'static str, String)> {
        let mut options = vec![("hardware_queues_per_gpu", self.queues().to_string())];
        if self.one_in(5) {
            options.push(("force_wait_barrier_defer", "true".to_owned()));
        }
        if self.one_in(3) {
            options.push(("default_pool_range_length", (1 << 16).to_string()));
        }
        if self.one_in(2) {
            // The smallest ring that HSA allows.
            options.push(("aql_queue_capacity", "64".to_owned()));
            options.push(("kernarg_capacity", self.pick(&["128", "256"]).to_owned()));
            options.push(("notification_capacity", self.pick(&["1", "2", "8"]).to_owned()));
        }
        options
    }

    /// Hardware queues on each GPU. Without `--queues` a function of the seed alone, because affinities need it, too.
    fn queues(&self) -> usize {
        run::queues().unwrap_or(1 + (self.program.seed % 4) as usize)
    }

    /// A random non-empty subset of the queues in `mask`.
    fn affinity(&mut self, mask: u64) -> u64 {
        let queues: Vec<_> = (0..self.queues() * gpu_count()).filter(|queue| mask >> queue & 1 != 0).collect();
        match self.random.below(4) {
            0 => mask,
            1 => 1 << self.pick(&queues) | 1 << self.pick(&queues),
            _ => 1 << self.pick(&queues),
        }
    }

    fn make_timelines(&mut self, count: usize) -> Vec<usize> {
        let first = self.program.timelines.len();
        for _ in 0..count {
            let device = self.below(self.program.devices);
            self.program.timelines.push(device);
        }
        (first..first + count).collect()
    }

    fn recording(&mut self, device: usize) -> Recording {
        let mode = self.pick(&[Mode::OneShot, Mode::Reusable, Mode::Reusable, Mode::Unvalidated]);
        let slot_count = if mode == Mode::OneShot { 0 } else { self.below(4) };
        let slots: Vec<_> = (0..slot_count).map(|_| 64 + self.size(2000)).collect();
        let buffers = self.program.buffers.iter().enumerate();
        let directs = buffers.filter(|(_, buffer)| buffer.device == device && !buffer.is_ephemeral);
        let mut areas: Vec<_> = directs.map(|(index, buffer)| Area::of_buffer(index, buffer.size)).collect();
        if slot_count > 0 && self.one_in(2) {
            areas.clear();
        }
        areas.extend(slots.iter().enumerate().map(|(slot, size)| Area::of_slot(slot, *size)));
        let mut commands = Vec::new();
        for _ in 0..1 + self.below(12) {
            if let Some(work) = memory_work::work(&mut self.random, &areas) {
                let is_needed = memory_work::needs_barrier(&commands, &work);
                commands.push((is_needed || self.random.below(5) == 0, work));
            }
        }
        let gpu = self.below(gpu_count());
        let affinity = ((1 << self.queues()) - 1) << (gpu * self.queues());
        Recording { device, affinity, mode, slots, commands }
    }

    fn make_operations(&mut self) {
        let count = match self.random.below(4) {
            0 => 4 + self.below(12),
            1..3 => 15 + self.below(40),
            _ => 40 + self.below(80),
        };
        let end = match self.random.below(30) {
            0 => Some(End::MemoryFault),
            1..6 => Some(End::Trap),
            6..12 => Some(End::Release),
            _ => None,
        };
        let failures = if self.one_in(3) { 1 + self.below(3) } else { 0 };
        let ends_at = self.below(count);
        let fails_at: Vec<_> = (0..failures).map(|_| self.below(count)).collect();
        // Distance that threads may run ahead of each other and of their dependencies.
        let spread = self.pick(&[1, 8, 1000]);
        let chains_at = if self.one_in(2) { Some(self.below(count)) } else { None };
        for number in 0..count {
            if chains_at == Some(number) {
                self.make_chains(spread);
            }
            if let Some(end) = end.filter(|_| number == ends_at) {
                self.end_device(end, spread);
            }
            if fails_at.contains(&number) {
                self.fail(spread);
            }
            // A try may find no operation that fits.
            (0..4).any(|_| self.make_operation(spread));
        }
        self.release(spread);
    }

    /// Ends a device. Before that, a thread waits for its operations that must succeed and checks its memory.
    fn end_device(&mut self, end: End, spread: u64) {
        let device = self.below(self.program.devices);
        let all = end == End::MemoryFault;
        let is_of = |op: &Op| all || op.device == device;
        let dependencies: Vec<_> =
            self.program.ops.iter().filter(|op| is_of(op) && op.fate == Fate::Certain).map(|op| op.id).collect();
        let buffers = self.program.buffers.iter().enumerate();
        let mapped = buffers.filter(|(_, buffer)| (all || buffer.device == device) && buffer.heap.is_mappable());
        let reads = mapped.map(|(index, buffer)| Span { buffer: index, offset: 0, length: buffer.size }).collect();
        let kind = Kind::Host(Touch { reads, writes: Vec::new() });
        let check = self.place(device, 0, kind, dependencies, spread).expect("it conflicts with nothing that fails");
        let source = self.program.ops.len();
        let ended = if end == End::Release { OpId::MAX } else { source };
        for (index, place) in self.ended.iter_mut().enumerate() {
            if all || index == device {
                *place = Some((end, ended));
            }
        }
        let of_device = (!all).then_some(device);
        let count = 1 + self.below(3);
        let timelines = self.make_timelines(count);
        self.groups.push(Group { fate: Fate::Maybe(ended), timelines, device: of_device, is_chain: false });
        if end == End::Release {
            return;
        }
        let count = 1 + self.below(2);
        let timelines = self.make_timelines(count);
        self.groups.push(Group { fate: Fate::Doomed(ended), timelines, device: of_device, is_chain: false });
        let buffer = self.program.buffers.len();
        self.program.buffers.push(Buffer { device, heap: Heap::Host, size: 16, is_ephemeral: true });
        let target = Span { buffer, offset: 0, length: 16 };
        let kind = if all { Kind::MemoryFault { target } } else { Kind::Trap { target } };
        let group = self.groups.len() - 1;
        self.place(device, group, kind, vec![check], spread).expect("nothing else touches its target");
    }

    /// Appends the release of the device that ends by release. It is last in the program; its thread may reach it
    /// much earlier.
    fn release(&mut self, spread: u64) {
        let Some(device) = self.ended.iter().position(|ended| matches!(ended, Some((End::Release, _)))) else { return };
        let is_check = |op: &&Op| op.fate == Fate::Certain && op.device == device;
        let last = self.program.ops.iter().rfind(is_check).map(|op| op.id);
        let id = self
            .place(device, 0, Kind::Release, last.into_iter().collect(), spread)
            .expect("it conflicts with nothing");
        for op in &mut self.program.ops {
            if op.fate == Fate::Maybe(OpId::MAX) {
                op.fate = Fate::Maybe(id);
            }
        }
    }

    /// Appends an operation that fails without ending a device, and the group that depends on it.
    fn fail(&mut self, spread: u64) {
        let Some(device) = self.open_device() else { return };
        let count = 1 + self.below(3);
        let timelines = self.make_timelines(count);
        let fate = Fate::Doomed(self.program.ops.len());
        self.groups.push(Group { fate, timelines, device: None, is_chain: false });
        let kind = if self.one_in(2) { Kind::FailHost } else { Kind::FailCall };
        let group = self.groups.len() - 1;
        self.place(device, group, kind, Vec::new(), spread).expect("it conflicts with nothing");
    }

    fn open_device(&mut self) -> Option<usize> {
        let open: Vec<_> = (0..self.program.devices).filter(|device| self.ended[*device].is_none()).collect();
        if open.is_empty() { None } else { Some(self.pick(&open)) }
    }

    /// Appends a random operation. Returns false if none fits.
    fn make_operation(&mut self, spread: u64) -> bool {
        let device = self.below(self.program.devices);
        let source = self.ended[device].map(|(_, source)| source);
        let fits = |group: &Group| match source {
            _ if group.is_chain => false,
            Some(_) => group.fate.source() == source,
            None => group.fate == Fate::Certain || (group.device.is_none() && matches!(group.fate, Fate::Doomed(_))),
        };
        let groups: Vec<_> = (0..self.groups.len()).filter(|group| fits(&self.groups[*group])).collect();
        let group = if source.is_none() && !self.one_in(4) { 0 } else { self.pick(&groups) };
        let Some(kind) = self.kind(device, group) else { return false };
        let mut dependencies = Vec::new();
        while self.one_in(3) && !self.program.ops.is_empty() {
            let other = self.below(self.program.ops.len());
            if self.may_depend(group, &self.program.ops[other]) {
                dependencies.push(other);
            }
        }
        self.place(device, group, kind, dependencies, spread).is_some()
    }

    /// True if operations of the group may wait for this one.
    fn may_depend(&self, group: usize, other: &Op) -> bool {
        match (self.groups[group].fate, other.fate) {
            (_, Fate::Certain) => true,
            (Fate::Certain, _) | (Fate::Maybe(_), Fate::Doomed(_)) => false,
            (own, fate) => own.source() == fate.source(),
        }
    }

    /// Appends an operation with its dependencies. Returns `None` if it conflicts with one that it must not wait for.
    fn place(&mut self, device: usize, group: usize, kind: Kind, extra: Vec<OpId>, spread: u64) -> Option<OpId> {
        let id = self.program.ops.len();
        let Group { fate, timelines, .. } = &self.groups[group];
        let (fate, timelines) = (*fate, timelines.clone());
        let mut chosen = vec![self.pick(&timelines)];
        if timelines.len() > 1 && self.one_in(6) {
            let other = self.pick(&timelines);
            chosen.extend((other != chosen[0]).then_some(other));
        }
        let affinity = self.affinity(match kind {
            Kind::Execute { recording, .. } => self.program.recordings[recording].affinity,
            _ => u64::MAX,
        });
        let rank = id as u64 + u64::from(self.random.below(spread as u32));
        let thread = self.below(self.program.threads);
        let mut op = Op { id, thread, device, affinity, timelines: chosen, dependencies: extra, rank, fate, kind };
        let mut before = BTreeSet::new();
        let ops = &self.program.ops;
        let chained = op.timelines.iter().filter_map(|timeline| ops.iter().rfind(|op| op.timelines.contains(timeline)));
        let direct = op.dependencies.iter().map(|id| &ops[*id]);
        for earlier in chained.chain(direct) {
            before.extend(&self.predecessors[earlier.id]);
            before.insert(earlier.id);
        }
        if let Fate::Doomed(source) = fate
            && source != id
            && !before.contains(&source)
        {
            op.dependencies.push(source);
            before.insert(source);
            before.extend(&self.predecessors[source]);
        }
        let accesses = op.accesses(&self.program);
        for earlier in ops.iter().rev().filter(|earlier| earlier.id != id) {
            let others = earlier.accesses(&self.program);
            let conflicts = || accesses.iter().any(|own| others.iter().any(|other| own.conflicts(other)));
            if before.contains(&earlier.id) || !conflicts() {
                continue;
            }
            if self.may_depend(group, earlier) {
                op.dependencies.push(earlier.id);
                before.insert(earlier.id);
                before.extend(&self.predecessors[earlier.id]);
            } else if let (Fate::Certain | Fate::Maybe(_), Fate::Maybe(_)) = (fate, earlier.fate) {
                return None;
            } else if let Kind::Dealloca { .. } = op.kind {
                // An operation that fails before it touches the memory is still refused once the memory is gone.
                return None;
            }
        }
        match op.kind {
            Kind::Alloca { buffer } => self.allocated.push((buffer, fate)),
            Kind::Dealloca { buffer } => self.allocated.retain(|(other, _)| *other != buffer),
            Kind::Execute { recording, .. } => _ = self.executed.insert(recording),
            _ => {}
        }
        self.predecessors.push(before);
        self.program.ops.push(op);
        Some(id)
    }

    /// The memory that operations of the group on the device may touch.
    fn areas(&self, device: usize, group: usize) -> Vec<Area> {
        let buffers = self.program.buffers.iter().enumerate();
        let is_usable = |index: usize, buffer: &Buffer| match buffer.heap {
            Heap::Queue => self.allocated.iter().any(|(other, fate)| {
                let own = self.groups[group].fate;
                let is_fine = match (own, *fate) {
                    (_, Fate::Certain) => true,
                    (Fate::Maybe(_), Fate::Doomed(_)) | (Fate::Certain, _) => false,
                    (own, fate) => own.source() == fate.source(),
                };
                *other == index && is_fine
            }),
            // The targets of faults.
            _ => buffer.size != 16 || !buffer.is_ephemeral,
        };
        let usable = buffers.filter(|(index, buffer)| buffer.device == device && is_usable(*index, buffer));
        usable.map(|(index, buffer)| Area::of_buffer(index, buffer.size)).collect()
    }

    fn kind(&mut self, device: usize, group: usize) -> Option<Kind> {
        let areas = self.areas(device, group);
        let is_released = self.ended[device].is_some_and(|(end, _)| end == End::Release);
        Some(match self.random.below(40) {
            0..2 => Kind::Barrier,
            2..6 => {
                let buffer = self.program.buffers.len();
                let size = self.size(1 << 14);
                self.program.buffers.push(Buffer { device, heap: Heap::Queue, size, is_ephemeral: true });
                Kind::Alloca { buffer }
            }
            6..9 => {
                let is_queues = |area: &&Area| self.program.buffers[area.buffer()].heap == Heap::Queue;
                let queues: Vec<_> = areas.iter().filter(is_queues).map(Area::buffer).collect();
                if queues.is_empty() {
                    return None;
                }
                Kind::Dealloca { buffer: self.pick(&queues) }
            }
            9..14 => self.execute(device, &areas)?,
            14..17 => self.transfer(device, &areas)?,
            17..20 => Kind::Call { touch: self.touch(&areas), is_deferred: self.one_in(4) },
            20..23 if !is_released => Kind::Host(self.touch(&areas)),
            23 if self.ended[device].is_none() => Kind::Session { is_kept: self.one_in(2) },
            _ => Kind::Work(memory_work::work(&mut self.random, &areas)?.map(|place| place.resolve(&[]))),
        })
    }

    /// Reads and writes of mapped memory.
    fn touch(&mut self, areas: &[Area]) -> Touch {
        let mapped: Vec<_> =
            areas.iter().filter(|area| self.program.buffers[area.buffer()].heap.is_mappable()).copied().collect();
        let mut touch = Touch::default();
        if mapped.is_empty() {
            return touch;
        }
        for _ in 0..self.below(3) {
            let area = self.pick(&mapped);
            touch.reads.push(memory_work::part(&mut self.random, area, 1, usize::MAX).resolve(&[]));
        }
        for _ in 0..self.below(3) {
            let area = self.pick(&mapped);
            let span = memory_work::part(&mut self.random, area, 1, usize::MAX).resolve(&[]);
            let noise = self.noise();
            if touch.writes.iter().all(|(other, _)| !other.overlaps(span)) {
                touch.writes.push((span, noise));
            }
        }
        touch
    }

    fn transfer(&mut self, device: usize, areas: &[Area]) -> Option<Kind> {
        let files = self.program.files.iter().enumerate().filter(|(_, file)| file.device == device);
        let files: Vec<_> = files.map(|(index, file)| (index, file.size)).collect();
        if files.is_empty() || areas.is_empty() {
            return None;
        }
        let ((file, size), area) = (self.pick(&files), self.pick(areas));
        let span = memory_work::part(&mut self.random, area, 1, size).resolve(&[]);
        let file_offset = self.below(size - span.length + 1);
        Some(if self.one_in(2) {
            Kind::Read { file, file_offset, target: span }
        } else {
            Kind::Write { source: span, file, file_offset }
        })
    }

    fn execute(&mut self, device: usize, areas: &[Area]) -> Option<Kind> {
        let recordings = self.program.recordings.iter().enumerate();
        let is_usable = |index: usize, recording: &Recording| {
            recording.device == device && (recording.mode != Mode::OneShot || !self.executed.contains(&index))
        };
        let usable: Vec<_> =
            recordings.filter(|(index, recording)| is_usable(*index, recording)).map(|(index, _)| index).collect();
        if usable.is_empty() {
            return None;
        }
        let recording = self.pick(&usable);
        let Recording { slots, commands, .. } = self.program.recordings[recording].clone();
        let mut taken: Vec<Span> = commands.iter().flat_map(|(_, work)| memory_work::direct_spans(work)).collect();
        let mut bindings = Vec::new();
        for size in slots {
            let roomy: Vec<_> = areas.iter().filter(|area| area.size() >= size).copied().collect();
            if roomy.is_empty() {
                return None;
            }
            let span = (0..8).find_map(|_| {
                let area = self.pick(&roomy);
                let offset = self.below((area.size() - size) / 16 + 1) * 16;
                let span = Span { buffer: area.buffer(), offset, length: size };
                taken.iter().all(|other| !other.overlaps(span)).then_some(span)
            })?;
            taken.push(span);
            bindings.push(span);
        }
        Some(Kind::Execute { recording, bindings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory checks rely on this order.
    #[test]
    fn conflicting_operations_are_ordered() {
        for seed in 0..100 {
            let program = program(seed);
            let predecessors = program.predecessors();
            for (index, op) in program.ops.iter().enumerate() {
                for earlier in &program.ops[..index] {
                    let may_run = |op: &Op| !matches!(op.fate, Fate::Doomed(_));
                    if !may_run(op) || !may_run(earlier) || predecessors[index].contains(&earlier.id) {
                        continue;
                    }
                    let others = earlier.accesses(&program);
                    for access in op.accesses(&program) {
                        let conflict = others.iter().find(|other| access.conflicts(other));
                        assert!(conflict.is_none(), "seed {seed}: {} and {}: {access:?}", earlier.id, op.id);
                    }
                }
            }
        }
    }

    #[test]
    fn what_must_end_well_waits_for_nothing_that_fails() {
        for seed in 0..100 {
            let program = program(seed);
            let predecessors = program.predecessors();
            for (op, before) in program.ops.iter().zip(&predecessors) {
                let fates: Vec<_> = before.iter().map(|id| program.ops[program.index(*id)].fate).collect();
                match op.fate {
                    Fate::Certain => assert!(fates.iter().all(|fate| *fate == Fate::Certain), "seed {seed}: {}", op.id),
                    Fate::Doomed(source) => {
                        assert!(source == op.id || before.contains(&source), "seed {seed}: {}", op.id)
                    }
                    Fate::Maybe(_) => {
                        assert!(fates.iter().all(|fate| !matches!(fate, Fate::Doomed(_))), "seed {seed}: {}", op.id);
                    }
                }
            }
        }
    }

    #[test]
    fn programs_use_everything() {
        let kinds: BTreeSet<_> = (0..200).flat_map(|seed| program(seed).ops).map(|op| op.kind.name()).collect();
        assert_eq!(kinds.len(), 18, "{kinds:?}");
    }

    #[test]
    fn files_and_buffers_hold_what_is_accessed() {
        for seed in 0..100 {
            let program = program(seed);
            for access in program.ops.iter().flat_map(|op| op.accesses(&program)) {
                let size = match access.room {
                    Room::Buffer(buffer) => program.buffers[buffer].size,
                    Room::File(file) => program.files[file].size,
                };
                assert!(access.end <= size, "seed {seed}: {access:?}");
            }
        }
    }
}
