// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Barriers, fills, copies and updates: operations on the device library's kernels.

use device_binaries::{UPDATE_PAYLOAD_OFFSET, plan_copy, plan_fill};
use smallvec::SmallVec;

use crate::core::memory::device_address;
use crate::core::profile::Subject;
use crate::core::profile::session::Session;
use crate::core::queue::Queue;
use crate::core::queue::complete::CompletionAction;
use crate::core::queue::operation::{Demand, Emitter, Operation, Order, Prepared, Progress, Resources};
use crate::core::queue::waits::EpochWait;
use crate::ffi::{Buffer, BufferUsage, HalRef, MemoryAccess, Result, WHOLE_BUFFER, iree, raw, status};
use crate::ring::KERNARG_ALIGNMENT;

/// Nothing but the order of its semaphores.
#[derive(Debug)]
pub struct Barrier;

impl Operation for Barrier {
    fn prepare(&mut self, _queue: &Queue, _waits: &[EpochWait]) -> Result<Prepared> {
        Ok(Prepared::Ready(Demand { packets: 0, kernarg_bytes: 0, overlapping: true }))
    }

    fn emit(&mut self, _emitter: &mut Emitter<'_>) -> Progress {
        Progress::Done
    }

    fn finish(&mut self, _keep: &mut Resources) -> CompletionAction {
        CompletionAction::None
    }

    fn subject(&self, _session: &Session) -> Subject {
        Subject { kind: raw::IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_BARRIER, ..Subject::default() }
    }
}

/// A buffer that an operation uses, kept for as long as it does.
#[derive(Debug, Clone)]
pub struct Range {
    /// The buffer.
    pub buffer: HalRef<raw::iree_hal_buffer_t>,
    /// Bytes from its start.
    pub offset: usize,
}

impl Range {
    /// Retains `buffer`.
    pub fn new(buffer: Buffer<'_>, offset: usize) -> Self {
        Self { buffer: buffer.retain(), offset }
    }

    /// Retains `buffer` for an access to `length` bytes from `offset` on ([`WHOLE_BUFFER`]: to its end).
    ///
    /// # Errors
    /// OUT_OF_RANGE for bytes that it does not have.
    pub fn of_length(buffer: Buffer<'_>, offset: usize, length: usize) -> Result<Self> {
        check_span(buffer, offset, length)?;
        Ok(Self::new(buffer, offset))
    }

    /// Retains `buffer` for a transfer of `length` bytes from `offset` on that needs `usage` and `access`.
    ///
    /// # Errors
    /// PERMISSION_DENIED for what the buffer does not allow; OUT_OF_RANGE for bytes that it does not have.
    pub fn of_transfer(
        buffer: Buffer<'_>,
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

    /// Whether `length` bytes of both share memory.
    pub fn overlaps(&self, other: &Self, length: usize) -> bool {
        // SAFETY: both buffers live.
        let overlap = unsafe {
            raw::iree_hal_buffer_test_overlap(
                self.buffer.as_ptr(),
                self.offset,
                length,
                other.buffer.as_ptr(),
                other.offset,
                length,
            )
        };
        overlap != raw::IREE_HAL_BUFFER_OVERLAP_DISJOINT
    }

    /// The device address of the range's first byte.
    ///
    /// # Errors
    /// Those of [`device_address`].
    pub fn address(&self) -> Result<u64> {
        device_address(self.buffer.borrow(), self.offset)
    }
}

/// Checks that `buffer` allows `usage` and `access`.
///
/// # Errors
/// PERMISSION_DENIED.
pub fn check_use(buffer: Buffer<'_>, usage: BufferUsage, access: MemoryAccess) -> Result<()> {
    let pointer = buffer.as_ptr();
    // SAFETY: the buffer lives.
    unsafe {
        iree!(raw::iree_hal_buffer_validate_usage(raw::iree_hal_buffer_allowed_usage(pointer), usage.bits()))?;
        iree!(raw::iree_hal_buffer_validate_access(raw::iree_hal_buffer_allowed_access(pointer), access.bits()))
    }
}

/// Checks that `buffer` has `length` bytes from `offset` on ([`WHOLE_BUFFER`]: any number).
///
/// # Errors
/// OUT_OF_RANGE.
pub fn check_span(buffer: Buffer<'_>, offset: usize, length: usize) -> Result<()> {
    let size = buffer.byte_length();
    let length = if length == WHOLE_BUFFER { 0 } else { length };
    if offset.checked_add(length).is_none_or(|end| end > size) {
        return Err(status!(OUT_OF_RANGE, "{length} bytes from {offset} on are not within a buffer of {size} bytes"));
    }
    Ok(())
}

/// What a transfer does.
#[derive(Debug)]
enum Kind {
    Fill { pattern: u128, pattern_length: usize },
    Copy { source: Range },
    Update { bytes: SmallVec<[u8; 128]> },
}

/// The launch of a transfer, resolved.
#[derive(Debug)]
enum Plan {
    Nothing,
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
pub struct Transfer {
    kind: Option<Kind>,
    target: Option<Range>,
    length: usize,
    /// Bytes of an update that are in the ring: one too large for the kernarg ring goes in parts.
    updated: usize,
    plan: Plan,
    /// What profiles call a copy from or to a file's memory.
    of_file: Option<u32>,
}

impl Transfer {
    fn new(kind: Kind, target: Range, length: usize) -> Self {
        Self { kind: Some(kind), target: Some(target), length, updated: 0, plan: Plan::Nothing, of_file: None }
    }

    /// The same, as profiles are to name it: a queue event type.
    pub fn named(mut self, kind: u32) -> Self {
        self.of_file = Some(kind);
        self
    }

    /// Repeats `pattern` (1, 2 or 4 bytes) over `length` bytes.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for other pattern lengths.
    pub fn fill(target: Range, length: usize, pattern: &[u8]) -> Result<Self> {
        check_pattern(pattern)?;
        let mut word = [0; 16];
        word[..pattern.len()].copy_from_slice(pattern);
        let kind = Kind::Fill { pattern: u128::from_le_bytes(word), pattern_length: pattern.len() };
        Ok(Self::new(kind, target, length))
    }

    /// Copies `length` bytes; the ranges do not overlap.
    pub fn copy(source: Range, target: Range, length: usize) -> Self {
        Self::new(Kind::Copy { source }, target, length)
    }

    /// Writes `bytes`, which are captured here.
    pub fn update(bytes: &[u8], target: Range) -> Self {
        Self::new(Kind::Update { bytes: SmallVec::from_slice(bytes) }, target, bytes.len())
    }
}

impl Operation for Transfer {
    fn prepare(&mut self, queue: &Queue, _waits: &[EpochWait]) -> Result<Prepared> {
        let (Some(kind), Some(target)) = (&self.kind, &self.target) else {
            return Err(status!(INTERNAL, "a transfer was submitted twice"));
        };
        let mut kernarg_bytes = KERNARG_ALIGNMENT;
        self.plan = if self.length == 0 {
            Plan::Nothing
        } else {
            let shape = queue.gpu().shape();
            let target = match &self.plan {
                // Resolved with the first part, which is in the ring: the rest must follow.
                Plan::Update { target, range } if self.updated > 0 => target + (self.updated - range.start) as u64,
                _ => target.address()?,
            };
            let length = self.length as u64;
            match kind {
                Kind::Fill { pattern, pattern_length } => {
                    let pattern = &pattern.to_le_bytes()[..*pattern_length];
                    Plan::Fill(plan_fill(shape, target, length, pattern).map_err(invalid)?)
                }
                Kind::Copy { source } => {
                    Plan::Copy(plan_copy(shape, source.address()?, target, length).map_err(invalid)?)
                }
                Kind::Update { bytes } => {
                    let most = (queue.part_limits().1 as usize).saturating_sub(UPDATE_PAYLOAD_OFFSET);
                    let most = most.max(KERNARG_ALIGNMENT as usize);
                    let range = self.updated..bytes.len().min(self.updated + most);
                    kernarg_bytes = (UPDATE_PAYLOAD_OFFSET + range.len()) as u64;
                    Plan::Update { target, range }
                }
            }
        };
        let nothing = matches!(self.plan, Plan::Nothing);
        let packets = u32::from(!nothing);
        let kernarg_bytes = if nothing { 0 } else { kernarg_bytes };
        Ok(Prepared::Ready(Demand { packets, kernarg_bytes, overlapping: nothing }))
    }

    fn emit(&mut self, emitter: &mut Emitter<'_>) -> Progress {
        let gpu = emitter.gpu();
        let packet = match (&self.plan, &self.kind) {
            (Plan::Fill(launch), _) => {
                let mut kernargs = emitter.kernargs(KERNARG_ALIGNMENT as usize);
                kernargs.write(0, &launch.args.to_bytes());
                gpu.library_packet(launch, kernargs.address())
            }
            (Plan::Copy(launch), _) => {
                let mut kernargs = emitter.kernargs(KERNARG_ALIGNMENT as usize);
                kernargs.write(0, &launch.args.to_bytes());
                gpu.library_packet(launch, kernargs.address())
            }
            (Plan::Update { target, range }, Some(Kind::Update { bytes })) => {
                self.updated = range.end;
                let bytes = &bytes[range.clone()];
                let mut kernargs = emitter.kernargs(UPDATE_PAYLOAD_OFFSET + bytes.len());
                kernargs.write(UPDATE_PAYLOAD_OFFSET, bytes);
                let payload = kernargs.address() + UPDATE_PAYLOAD_OFFSET as u64;
                let launch = plan_copy(gpu.shape(), payload, *target, bytes.len() as u64)
                    .expect("the target's range was checked and the payload is in the kernarg ring");
                kernargs.write(0, &launch.args.to_bytes());
                gpu.library_packet(&launch, kernargs.address())
            }
            _ => return Progress::Done,
        };
        emitter.dispatch(&packet, Order::ALONE);
        let is_part = matches!(self.plan, Plan::Update { .. }) && self.updated < self.length;
        if is_part { Progress::More } else { Progress::Done }
    }

    fn finish(&mut self, keep: &mut Resources) -> CompletionAction {
        keep.extend(self.target.take().map(|range| range.buffer.into_resource()));
        if let Some(Kind::Copy { source }) = self.kind.take() {
            keep.push(source.buffer.into_resource());
        }
        CompletionAction::None
    }

    fn subject(&self, _session: &Session) -> Subject {
        let kind = match (self.of_file, &self.kind) {
            (Some(kind), _) => kind,
            (None, Some(Kind::Fill { .. })) => raw::IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_FILL,
            (None, Some(Kind::Copy { .. })) => raw::IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_COPY,
            (None, Some(Kind::Update { .. })) => raw::IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_UPDATE,
            (None, None) => raw::IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_NONE,
        };
        Subject::one(kind, self.length as u64)
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

/// A plan's refusal as a status.
pub fn invalid(error: device_binaries::PlanError) -> crate::ffi::Status {
    status!(INVALID_ARGUMENT, "{error}")
}
