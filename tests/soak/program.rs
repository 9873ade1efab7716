// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A program: devices, memory, and operations in an order in which they could run one by one. An operation depends on
//! every earlier operation that it conflicts with, directly or through others, so that every order that the semaphores
//! allow gives the same memory.

use std::collections::BTreeSet;

/// An operation's place in the program as it was generated, which names it also where others were left out.
pub type OpId = usize;

/// A program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub seed: u64,
    /// Knobs of every device.
    pub options: Vec<(&'static str, String)>,
    pub devices: usize,
    pub threads: usize,
    /// The device of each semaphore.
    pub timelines: Vec<usize>,
    pub buffers: Vec<Buffer>,
    pub files: Vec<File>,
    pub recordings: Vec<Recording>,
    pub ops: Vec<Op>,
}

/// Where a buffer's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heap {
    Host,
    Device,
    /// The device's, in the host's reach.
    Visible,
    /// The queues' pool: there from an alloca to a dealloca.
    Queue,
}

impl Heap {
    /// True if the host maps it.
    pub fn is_mappable(self) -> bool {
        matches!(self, Self::Host | Self::Visible)
    }
}

#[derive(Clone, Debug)]
pub struct Buffer {
    pub device: usize,
    pub heap: Heap,
    pub size: usize,
    /// The program lets go of it when its last operation is submitted, and does not look at it in the end.
    pub is_ephemeral: bool,
}

/// How a file is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Asynchronous,
    Synchronous,
    Memory,
}

#[derive(Clone, Debug)]
pub struct File {
    pub device: usize,
    pub kind: FileKind,
    pub size: usize,
}

/// Bytes of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub buffer: usize,
    pub offset: usize,
    pub length: usize,
}

impl Span {
    pub fn overlaps(self, other: Self) -> bool {
        self.buffer == other.buffer
            && self.offset < other.offset + other.length
            && other.offset < self.offset + self.length
    }
}

/// Bytes of a buffer, or of the buffer in a slot of the binding table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Direct(Span),
    Slot { slot: usize, offset: usize, length: usize },
}

impl Place {
    /// Where it is with these bindings.
    pub fn resolve(self, bindings: &[Span]) -> Span {
        match self {
            Self::Direct(span) => span,
            Self::Slot { slot, offset, length } => {
                Span { buffer: bindings[slot].buffer, offset: bindings[slot].offset + offset, length }
            }
        }
    }

    /// True if both may be the same memory. Buffers in slots are separate from all others.
    pub fn overlaps(self, other: Self) -> bool {
        match (self, other) {
            (Self::Direct(a), Self::Direct(b)) => a.overlaps(b),
            (Self::Slot { slot, offset, length }, Self::Slot { slot: slot_b, offset: offset_b, length: length_b }) => {
                slot == slot_b && offset < offset_b + length_b && offset_b < offset + length
            }
            _ => false,
        }
    }
}

/// A kernel of `testdata/soak.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    Combine,
    Gather,
}

/// Memory operations of queues and command buffers.
#[derive(Clone, Debug)]
pub enum Work<P> {
    Fill { target: P, pattern: Vec<u8> },
    Copy { source: P, target: P },
    Update { target: P, noise: u64 },
    Dispatch { kernel: Kernel, target: P, sources: Vec<P>, factor: u32 },
}

impl<P: Copy> Work<P> {
    /// Places that it reads, and the place that it writes.
    pub fn places(&self) -> (Vec<P>, P) {
        match self {
            Self::Fill { target, .. } | Self::Update { target, .. } => (Vec::new(), *target),
            Self::Copy { source, target } => (vec![*source], *target),
            Self::Dispatch { target, sources, .. } => (sources.clone(), *target),
        }
    }

    pub fn map<Q>(&self, place: impl Fn(P) -> Q) -> Work<Q> {
        match self {
            Self::Fill { target, pattern } => Work::Fill { target: place(*target), pattern: pattern.clone() },
            Self::Copy { source, target } => Work::Copy { source: place(*source), target: place(*target) },
            Self::Update { target, noise } => Work::Update { target: place(*target), noise: *noise },
            Self::Dispatch { kernel, target, sources, factor } => Work::Dispatch {
                kernel: *kernel,
                target: place(*target),
                sources: sources.iter().map(|source| place(*source)).collect(),
                factor: *factor,
            },
        }
    }
}

/// How a command buffer is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    OneShot,
    Reusable,
    Unvalidated,
}

#[derive(Clone, Debug)]
pub struct Recording {
    pub device: usize,
    /// The queues that it may be executed on: those of one GPU.
    pub affinity: u64,
    pub mode: Mode,
    /// Bytes that each slot must be bound to.
    pub slots: Vec<usize>,
    /// Work, each with whether a barrier is before it.
    pub commands: Vec<(bool, Work<Place>)>,
}

/// The host's accesses to mapped memory: it compares spans with the model, then writes others.
#[derive(Clone, Debug, Default)]
pub struct Touch {
    pub reads: Vec<Span>,
    pub writes: Vec<(Span, u64)>,
}

/// Kind of an operation.
#[derive(Clone, Debug)]
pub enum Kind {
    Barrier,
    Work(Work<Span>),
    Execute {
        recording: usize,
        bindings: Vec<Span>,
    },
    Alloca {
        buffer: usize,
    },
    Dealloca {
        buffer: usize,
    },
    Read {
        file: usize,
        file_offset: usize,
        target: Span,
    },
    Write {
        source: Span,
        file: usize,
        file_offset: usize,
    },
    /// A host call; a deferred one signals by itself.
    Call {
        touch: Touch,
        is_deferred: bool,
    },
    /// A thread of the program waits, touches memory and signals.
    Host(Touch),
    /// A thread of the program waits and fails the semaphore: cancellation.
    FailHost,
    /// A host call that returns an error.
    FailCall,
    /// A kernel that traps: the end of the device.
    Trap {
        target: Span,
    },
    /// A kernel that writes far from all memory: the end of the GPU for the process.
    MemoryFault {
        target: Span,
    },
    /// A thread of the program waits and makes a session on the device: a device group, which it may keep.
    Session {
        is_kept: bool,
    },
    /// A thread of the program waits, then releases the device and its objects.
    Release,
}

/// Expected outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The operation ends well.
    Certain,
    /// The operation depends on this one, which fails, and must fail without having done anything.
    Doomed(OpId),
    /// The named operation ends its device while this one may run: it fails or not, and leaves any bytes.
    Maybe(OpId),
}

impl Fate {
    /// Operation that decides the outcome, if it is not certain.
    pub fn source(self) -> Option<OpId> {
        match self {
            Self::Certain => None,
            Self::Doomed(source) | Self::Maybe(source) => Some(source),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Op {
    pub id: OpId,
    /// The thread that submits or does it.
    pub thread: usize,
    pub device: usize,
    pub affinity: u64,
    /// Timelines that it signals. It runs after the operation that signals the previous value of each.
    pub timelines: Vec<usize>,
    pub dependencies: Vec<OpId>,
    /// Place in the order of submission: of the operations that can be submitted, the lowest is next.
    pub rank: u64,
    pub fate: Fate,
    pub kind: Kind,
}

/// A place that operations conflict over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Buffer(usize),
    File(usize),
}

/// An access to some bytes of a place.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub room: Room,
    pub start: usize,
    pub end: usize,
    pub is_write: bool,
}

impl Access {
    fn of(span: Span, is_write: bool) -> Self {
        Self { room: Room::Buffer(span.buffer), start: span.offset, end: span.offset + span.length, is_write }
    }

    fn of_file(file: usize, start: usize, length: usize, is_write: bool) -> Self {
        Self { room: Room::File(file), start, end: start + length, is_write }
    }

    pub fn conflicts(&self, other: &Self) -> bool {
        self.room == other.room && (self.is_write || other.is_write) && self.start < other.end && other.start < self.end
    }
}

impl Op {
    /// True if a thread of the program does it, after waiting for its predecessors.
    pub fn is_on_host(&self) -> bool {
        matches!(self.kind, Kind::Host(_) | Kind::FailHost | Kind::Session { .. } | Kind::Release)
    }

    /// True if it ends its device.
    pub fn ends_device(&self) -> bool {
        matches!(self.kind, Kind::Trap { .. } | Kind::MemoryFault { .. } | Kind::Release)
    }

    /// The memory that it touches.
    pub fn accesses(&self, program: &Program) -> Vec<Access> {
        let of_work = |work: &Work<Span>| {
            let (sources, target) = work.places();
            let mut list: Vec<_> = sources.into_iter().map(|span| Access::of(span, false)).collect();
            list.push(Access::of(target, true));
            list
        };
        let whole =
            |buffer: usize| vec![Access::of(Span { buffer, offset: 0, length: program.buffers[buffer].size }, true)];
        match &self.kind {
            Kind::Barrier | Kind::FailHost | Kind::FailCall | Kind::Session { .. } | Kind::Release => Vec::new(),
            Kind::Work(work) => of_work(work),
            Kind::Execute { recording, bindings } => {
                let commands = &program.recordings[*recording].commands;
                commands.iter().flat_map(|(_, work)| of_work(&work.map(|place| place.resolve(bindings)))).collect()
            }
            Kind::Alloca { buffer } | Kind::Dealloca { buffer } => whole(*buffer),
            Kind::Read { file, file_offset, target } => {
                vec![Access::of(*target, true), Access::of_file(*file, *file_offset, target.length, false)]
            }
            Kind::Write { source, file, file_offset } => {
                vec![Access::of(*source, false), Access::of_file(*file, *file_offset, source.length, true)]
            }
            Kind::Call { touch, .. } | Kind::Host(touch) => {
                let reads = touch.reads.iter().map(|span| Access::of(*span, false));
                reads.chain(touch.writes.iter().map(|(span, _)| Access::of(*span, true))).collect()
            }
            Kind::Trap { target } | Kind::MemoryFault { target } => vec![Access::of(*target, true)],
        }
    }

    /// The buffers that it names, some more than once.
    pub fn buffers(&self, program: &Program) -> Vec<usize> {
        let mut list: Vec<_> = match &self.kind {
            // Slots that no command uses are bound, too.
            Kind::Execute { bindings, .. } => bindings.iter().map(|span| span.buffer).collect(),
            _ => Vec::new(),
        };
        list.extend(self.accesses(program).iter().filter_map(|access| match access.room {
            Room::Buffer(buffer) => Some(buffer),
            Room::File(_) => None,
        }));
        list
    }
}

impl Program {
    /// For each operation, in order, all that come before it.
    pub fn predecessors(&self) -> Vec<BTreeSet<OpId>> {
        let mut last: Vec<Option<usize>> = vec![None; self.timelines.len()];
        let mut all: Vec<BTreeSet<OpId>> = Vec::new();
        for (index, op) in self.ops.iter().enumerate() {
            let mut before = BTreeSet::new();
            let direct = op.dependencies.iter().map(|id| self.index(*id));
            let chained = op.timelines.iter().filter_map(|timeline| last[*timeline]);
            for earlier in direct.chain(chained) {
                before.extend(&all[earlier]);
                before.insert(self.ops[earlier].id);
            }
            for timeline in &op.timelines {
                last[*timeline] = Some(index);
            }
            all.push(before);
        }
        all
    }

    /// Where the operation is.
    pub fn index(&self, id: OpId) -> usize {
        self.ops.binary_search_by_key(&id, |op| op.id).expect("an operation of the program")
    }

    /// The semaphore values that each operation waits for and signals.
    pub fn points(&self) -> Vec<Points> {
        let mut values = vec![0_u64; self.timelines.len()];
        let mut all: Vec<Points> = Vec::new();
        for op in &self.ops {
            let mut points = Points::default();
            let mut wait = |timeline: usize, value: u64| match points.waits.iter_mut().find(|point| point.0 == timeline)
            {
                Some(point) => point.1 = point.1.max(value),
                None => points.waits.push((timeline, value)),
            };
            for id in &op.dependencies {
                let signals: &[_] = &all[self.index(*id)].signals;
                let (timeline, value) = signals[op.id % signals.len()];
                wait(timeline, value);
            }
            for timeline in &op.timelines {
                if values[*timeline] > 0 {
                    wait(*timeline, values[*timeline]);
                }
                values[*timeline] += 1;
                points.signals.push((*timeline, values[*timeline]));
            }
            all.push(points);
        }
        all
    }

    /// The order in which operations are submitted, each thread doing its own: an alloca before the users of its
    /// buffer, the signallers of a wait before the wait, and all work of a device before its release. So the first
    /// blocked operation has everything that it needs.
    pub fn order(&self) -> Vec<usize> {
        let predecessors = self.predecessors();
        let allocas: Vec<_> = self
            .ops
            .iter()
            .enumerate()
            .filter_map(|(index, op)| match op.kind {
                Kind::Alloca { buffer } => Some((buffer, index)),
                _ => None,
            })
            .collect();
        let before: Vec<Vec<usize>> = self
            .ops
            .iter()
            .enumerate()
            .map(|(index, op)| {
                let mut list = Vec::new();
                if op.is_on_host() {
                    list.extend(predecessors[index].iter().map(|id| self.index(*id)));
                }
                if let Kind::Release = op.kind {
                    list.extend((0..index).filter(|earlier| self.ops[*earlier].device == op.device));
                }
                let buffers = op.buffers(self);
                list.extend(allocas.iter().filter(|(buffer, _)| buffers.contains(buffer)).map(|(_, alloca)| *alloca));
                list.retain(|earlier| *earlier != index);
                list
            })
            .collect();
        let mut order = Vec::new();
        let mut done = vec![false; self.ops.len()];
        while order.len() < self.ops.len() {
            let ready =
                (0..self.ops.len()).filter(|index| !done[*index] && before[*index].iter().all(|other| done[*other]));
            let next = ready.min_by_key(|index| (self.ops[*index].rank, *index)).expect("edges go forward only");
            done[next] = true;
            order.push(next);
        }
        order
    }
}

/// Semaphores and values that an operation waits for and signals.
#[derive(Clone, Debug, Default)]
pub struct Points {
    pub waits: Vec<(usize, u64)>,
    pub signals: Vec<(usize, u64)>,
}
