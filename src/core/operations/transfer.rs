// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Barriers, fills, copies and updates: operations on the device library's kernels.

use std::borrow::Cow;

use device_binaries::{UPDATE_PAYLOAD_OFFSET, plan_copy, plan_fill};
use hsa_abi::KernelDispatchPacket;

use amdgpu_ffi::profile::schema::QueueEventKind;
use amdgpu_ffi::{Buffer, BufferUsage, Held, MemoryAccess, RawBuffer, Result, Status, WHOLE_BUFFER, fallible, status};
use amdgpu_gpu::Gpu;
use amdgpu_memory::device_address;
use amdgpu_profile::EventInfo;
use amdgpu_profile::session::Session;
use amdgpu_queue::demand::Demand;
use amdgpu_queue::emitter::{Emitter, Order, SinglePacket, SinglePacketSpace};
use amdgpu_queue::epoch_wait::EpochWait;
use amdgpu_queue::kernargs::KernargCursor;
use amdgpu_queue::operation::{Operation, Planned, Progress, Submit};
use amdgpu_queue::retained::RetainedSet;
use amdgpu_queue::{Queue, pm4};
use amdgpu_ring::KERNARG_ALIGNMENT;

/// A barrier, which only orders its semaphores.
#[derive(Debug)]
pub struct Barrier;

impl Submit for Barrier {
    type Owned = Self;

    fn into_owned(self) -> Result<Self> {
        Ok(self)
    }
}

impl Operation for Barrier {
    fn plan(&mut self, _queue: &Queue, _waits: &[EpochWait]) -> Result<Planned> {
        Ok(Planned::Ready(Demand { overlapping: true, ..Demand::default() }))
    }

    #[inline(always)]
    fn write_single(&mut self, _gpu: &Gpu, _room: &mut SinglePacketSpace) -> Option<SinglePacket> {
        Some(SinglePacket::Barrier)
    }

    fn profile_event(&self, _session: &Session) -> EventInfo {
        EventInfo::of(QueueEventKind::Barrier)
    }
}

/// The part of a buffer that an operation uses, from `offset` on.
#[derive(Debug)]
pub struct Range<'a> {
    /// The buffer.
    pub buffer: Held<'a, RawBuffer>,
    /// Bytes from its start.
    pub offset: usize,
}

impl<'a> Range<'a> {
    /// The range from `offset` on.
    #[inline]
    pub fn new(buffer: Buffer<'a>, offset: usize) -> Self {
        Self { buffer: Held::Borrowed(buffer), offset }
    }

    /// The range, with the buffer retained.
    pub fn into_owned<'b>(self) -> Range<'b> {
        Range { buffer: self.buffer.into_owned(), offset: self.offset }
    }

    /// The range for an access to `length` bytes from `offset` on ([`WHOLE_BUFFER`]: to its end).
    ///
    /// # Errors
    /// OUT_OF_RANGE for bytes past the buffer's end.
    #[inline]
    fn of_length(buffer: Buffer<'a>, offset: usize, length: usize) -> Result<Self> {
        check_span(buffer, offset, length)?;
        Ok(Self::new(buffer, offset))
    }

    /// The range for a transfer of `length` bytes from `offset` on that needs `usage` and `access`.
    ///
    /// # Errors
    /// PERMISSION_DENIED for accesses that the buffer does not allow; OUT_OF_RANGE for bytes past its end.
    pub fn of_transfer(
        buffer: Buffer<'a>,
        offset: usize,
        length: usize,
        usage: BufferUsage,
        access: MemoryAccess,
    ) -> Result<Self> {
        check_use(buffer, usage, access)?;
        if length == WHOLE_BUFFER {
            return Err(status!(OUT_OF_RANGE, "transfers need their length in bytes"));
        }
        Self::of_length(buffer, offset, length)
    }

    /// True if the first `length` bytes of both ranges share memory.
    pub fn overlaps(&self, other: &Self, length: usize) -> bool {
        self.buffer.borrow().overlaps(self.offset, (other.buffer.borrow(), other.offset), length)
    }

    /// The device address of the range's first byte for `gpu`.
    ///
    /// # Errors
    /// As for [`device_address`].
    #[inline]
    pub fn address(&self, gpu: &Gpu) -> Result<u64> {
        device_address(self.buffer.borrow(), self.offset, gpu)
    }
}

/// Checks that `buffer` allows `usage` and `access`.
///
/// # Errors
/// PERMISSION_DENIED.
#[inline]
pub fn check_use(buffer: Buffer<'_>, usage: BufferUsage, access: MemoryAccess) -> Result<()> {
    let (allowed_usage, allowed_access) = (buffer.allowed_usage(), buffer.allowed_access());
    // ANY is a flag of its own, which asks for nothing.
    let needs = access.difference(MemoryAccess::ANY);
    if allowed_usage.contains(usage) && allowed_access.contains(needs) {
        return Ok(());
    }
    buffer.refuse_use(usage, access)
}

/// Checks that `buffer` has `length` bytes from `offset` on ([`WHOLE_BUFFER`]: any number).
///
/// # Errors
/// OUT_OF_RANGE.
#[inline]
pub fn check_span(buffer: Buffer<'_>, offset: usize, length: usize) -> Result<()> {
    let size = buffer.byte_length();
    let length = if length == WHOLE_BUFFER { 0 } else { length };
    if offset.checked_add(length).is_none_or(|end| end > size) {
        return Err(not_within(offset, length, size));
    }
    Ok(())
}

#[cold]
fn not_within(offset: usize, length: usize, size: usize) -> Status {
    status!(OUT_OF_RANGE, "{length} bytes from {offset} on are not within a buffer of {size} bytes")
}

/// The kind of a transfer.
#[derive(Debug)]
enum Kind<'a> {
    Fill { pattern: [u8; 4], pattern_length: usize },
    Copy { source: Range<'a> },
    Update { bytes: Cow<'a, [u8]> },
}

/// The launch of a transfer, resolved.
#[derive(Debug)]
enum Plan {
    Nothing,
    /// A command that the packet processor executes itself.
    Command(pm4::Move),
    Fill(device_binaries::Launch<device_binaries::FillArgs>),
    Copy(device_binaries::Launch<device_binaries::CopyArgs>),
    /// Bytes `range` of the payload.
    Update {
        target: u64,
        range: std::ops::Range<usize>,
    },
}

/// A fill, copy or update of one range.
#[derive(Debug)]
pub struct Transfer<'a> {
    kind: Kind<'a>,
    target: Range<'a>,
    length: usize,
    /// Bytes of an update that are in the ring. An update too large for the kernarg ring is split into parts.
    updated: usize,
    plan: Plan,
    /// The kind in profiles of a copy from or to a file's memory.
    of_file: Option<QueueEventKind>,
}

impl<'a> Transfer<'a> {
    fn new(kind: Kind<'a>, target: Range<'a>, length: usize) -> Self {
        Self { kind, target, length, updated: 0, plan: Plan::Nothing, of_file: None }
    }

    /// The transfer, named `kind` in profiles.
    pub fn named(mut self, kind: QueueEventKind) -> Self {
        self.of_file = Some(kind);
        self
    }

    /// Repeats `pattern` (1, 2 or 4 bytes) over `length` bytes.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for other pattern lengths.
    pub fn fill(target: Range<'a>, length: usize, pattern: &[u8]) -> Result<Self> {
        check_pattern(pattern)?;
        let byte = |index| pattern.get(index).copied().unwrap_or(0);
        let word = [byte(0), byte(1), byte(2), byte(3)];
        Ok(Self::new(Kind::Fill { pattern: word, pattern_length: pattern.len() }, target, length))
    }

    /// Copies `length` bytes; the ranges do not overlap.
    pub fn copy(source: Range<'a>, target: Range<'a>, length: usize) -> Self {
        Self::new(Kind::Copy { source }, target, length)
    }

    /// Writes `bytes`.
    pub fn update(bytes: &'a [u8], target: Range<'a>) -> Self {
        Self::new(Kind::Update { bytes: Cow::Borrowed(bytes) }, target, bytes.len())
    }
}

impl Submit for Transfer<'_> {
    type Owned = Transfer<'static>;

    fn into_owned(self) -> Result<Transfer<'static>> {
        Ok(Transfer {
            kind: match self.kind {
                Kind::Fill { pattern, pattern_length } => Kind::Fill { pattern, pattern_length },
                Kind::Copy { source } => Kind::Copy { source: source.into_owned() },
                Kind::Update { bytes } => Kind::Update { bytes: Cow::Owned(owned(bytes)?) },
            },
            target: self.target.into_owned(),
            length: self.length,
            updated: self.updated,
            plan: self.plan,
            of_file: self.of_file,
        })
    }
}

impl Transfer<'_> {
    /// The command for the whole transfer, if `queue` takes commands and one is enough.
    #[inline]
    fn command(&self, queue: &Queue, target: u64) -> Result<Option<pm4::Move>> {
        // Profiles need the times of a kernel: packet processors give no times for commands.
        if self.length > pm4::Move::MOST || !queue.takes_commands() {
            return Ok(None);
        }
        self.small_command(queue.gpu(), target)
    }

    fn small_command(&self, gpu: &Gpu, target: u64) -> Result<Option<pm4::Move>> {
        Ok(match &self.kind {
            Kind::Fill { pattern, pattern_length } => {
                let bytes: [u8; pm4::Move::MOST] = std::array::from_fn(|i| pattern[i % pattern_length]);
                pm4::write(target, &bytes[..self.length])
            }
            Kind::Copy { source } => pm4::copy(source.address(gpu)?, target, self.length as u64),
            Kind::Update { bytes } => pm4::write(target, bytes),
        })
    }

    /// Plans a launch of the device library, and returns the bytes of its kernargs.
    #[inline]
    fn launch(&mut self, queue: &Queue, target: u64) -> Result<u64> {
        let (shape, length) = (queue.gpu().shape(), self.length as u64);
        match &self.kind {
            Kind::Fill { pattern, pattern_length } => {
                let launch = plan_fill(shape, target, length, &pattern[..*pattern_length]);
                self.plan = Plan::Fill(launch.map_err(invalid)?);
            }
            Kind::Copy { source } => {
                let launch = plan_copy(shape, source.address(queue.gpu())?, target, length);
                self.plan = Plan::Copy(launch.map_err(invalid)?);
            }
            Kind::Update { bytes } => {
                let most = (queue.part_limits().1 as usize).saturating_sub(UPDATE_PAYLOAD_OFFSET);
                let most = most.max(KERNARG_ALIGNMENT as usize);
                let range = self.updated..bytes.len().min(self.updated + most);
                let kernarg_bytes = (UPDATE_PAYLOAD_OFFSET + range.len()) as u64;
                self.plan = Plan::Update { target, range };
                return Ok(kernarg_bytes);
            }
        }
        Ok(KERNARG_ALIGNMENT)
    }

    /// Writes the planned launch's kernargs and returns its packet; none for a command, or an empty transfer.
    #[inline(always)]
    fn packet(&mut self, gpu: &Gpu, room: &mut KernargCursor) -> Option<KernelDispatchPacket> {
        match (&self.plan, &self.kind) {
            (Plan::Fill(launch), _) => Some(gpu.library_packet(launch, room.arguments(&launch.args.to_bytes()))),
            (Plan::Copy(launch), _) => Some(gpu.library_packet(launch, room.arguments(&launch.args.to_bytes()))),
            (Plan::Update { target, range }, Kind::Update { bytes }) => {
                self.updated = range.end;
                let (target, bytes) = (*target, &bytes[range.clone()]);
                Some(room.update(gpu, bytes, |shape, payload| {
                    let launch = plan_copy(shape, payload, target, bytes.len() as u64);
                    launch.expect("the target's range was checked and the payload is in the kernarg ring")
                }))
            }
            _ => None,
        }
    }
}

impl Operation for Transfer<'_> {
    fn plan(&mut self, queue: &Queue, _waits: &[EpochWait]) -> Result<Planned> {
        if self.length == 0 {
            self.plan = Plan::Nothing;
            return Ok(Planned::Ready(Demand { overlapping: true, ..Demand::default() }));
        }
        let target = match &self.plan {
            // Resolved with the first part, which is in the ring: the rest must follow.
            Plan::Update { target, range } if self.updated > 0 => target + (self.updated - range.start) as u64,
            _ => self.target.address(queue.gpu())?,
        };
        let command = self.command(queue, target)?;
        let mut demand = Demand { packets: 1, has_commands: command.is_some(), ..Demand::default() };
        match command {
            Some(command) => self.plan = Plan::Command(command),
            None => demand.kernarg_bytes = self.launch(queue, target)?,
        }
        Ok(Planned::Ready(demand))
    }

    fn write(&mut self, emitter: &mut Emitter<'_>) -> Progress {
        if let Plan::Command(command) = &self.plan {
            emitter.command(command.dwords(), Order::ALONE);
            return Progress::Done;
        }
        let Some(packet) = self.packet(emitter.gpu(), emitter.room()) else { return Progress::Done };
        emitter.dispatch(&packet, Order::ALONE);
        let is_part = matches!(self.plan, Plan::Update { .. }) && self.updated < self.length;
        if is_part { Progress::More } else { Progress::Done }
    }

    #[inline(always)]
    fn write_single(&mut self, gpu: &Gpu, room: &mut SinglePacketSpace) -> Option<SinglePacket> {
        match &self.plan {
            Plan::Nothing => Some(SinglePacket::Barrier),
            Plan::Command(command) => Some(room.command(command.dwords())),
            Plan::Update { range, .. } if range.end < self.length => None,
            _ => self.packet(gpu, &mut room.kernargs).map(SinglePacket::Dispatch),
        }
    }

    #[inline(always)]
    fn retained_resources(&self, _queue: &Queue) -> Result<RetainedSet> {
        let target = Some(self.target.buffer.borrow().retain_resource());
        let source = match &self.kind {
            Kind::Copy { source } => Some(source.buffer.borrow().retain_resource()),
            _ => None,
        };
        Ok(RetainedSet::two(target, source))
    }

    fn profile_event(&self, _session: &Session) -> EventInfo {
        let kind = match (self.of_file, &self.kind) {
            (Some(kind), _) => kind,
            (None, Kind::Fill { .. }) => QueueEventKind::Fill,
            (None, Kind::Copy { .. }) => QueueEventKind::Copy,
            (None, Kind::Update { .. }) => QueueEventKind::Update,
        };
        EventInfo::one(kind, self.length as u64)
    }
}

/// `bytes` as an owned vector.
fn owned(bytes: Cow<'_, [u8]>) -> Result<Vec<u8>> {
    match bytes {
        Cow::Borrowed(bytes) => fallible::copy(bytes),
        Cow::Owned(bytes) => Ok(bytes),
    }
}

/// Checks the length of a fill's pattern.
///
/// # Errors
/// INVALID_ARGUMENT for lengths other than 1, 2 and 4.
pub fn check_pattern(pattern: &[u8]) -> Result<()> {
    match pattern.len() {
        1 | 2 | 4 => Ok(()),
        length => Err(status!(INVALID_ARGUMENT, "fill patterns have 1, 2 or 4 bytes, not {length}")),
    }
}

/// The refusal of a plan as a status.
#[cold]
pub fn invalid(error: device_binaries::PlanError) -> Status {
    status!(INVALID_ARGUMENT, "{error}")
}
