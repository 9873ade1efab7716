// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Transfers between files and buffers.
//!
//! A file whose memory the device can address is one end of a device copy. Other files are read and written
//! synchronously on the host worker: directly in the buffer if the host can map it, otherwise through a small staging
//! buffer, of which the device copies one chunk while the next one is read or written. A few transfers run at once and
//! the others are queued, so that neither threads nor staging memory grow with their number or length. Staging buffers
//! are reused.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::transfer::{Range, Transfer};
use amdgpu_ffi::device::DeviceHandle;
use amdgpu_ffi::file::FileRef;
use amdgpu_ffi::profile::schema::QueueEventKind;
use amdgpu_ffi::{
    Annotate, BufferHandle, BufferParams, BufferUsage, Held, MemoryAccess, MemoryType, Result, SemaphoreRef, Status,
    WeakDevice, status, thunk,
};
use amdgpu_memory::mappable;
use amdgpu_queue::signal_list::SignalList;
use amdgpu_queue::trace::host::HostTrace;

/// Blocks of a staging slot, of the size of the knob `host_block_pool_large_size`.
const SLOT_BLOCKS: usize = 64;

/// Slots of a staging buffer: the device works on one, the file on the other.
const SLOTS: usize = 2;

/// Most transfers of a device that run at once.
const MOST_RUNNING: usize = 4;

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the file to the buffer.
    Read,
    /// From the buffer to the file.
    Write,
}

/// A transfer between a range of a file and a range of a buffer.
#[derive(Debug)]
pub struct FileTransfer {
    /// The direction.
    pub direction: Direction,
    /// The file.
    pub file: FileRef,
    /// Bytes from the start of the file.
    pub file_offset: u64,
    /// The buffer.
    pub buffer: Range<'static>,
    /// Bytes to transfer.
    pub length: usize,
    /// The bit of the queue that copies.
    pub affinity: u64,
}

/// The way in which a transfer is carried out.
#[derive(Debug)]
pub enum Route {
    /// There is nothing to transfer.
    Nothing,
    /// By the device.
    Device(Transfer<'static>),
    /// On the host worker.
    Host(FileTransfer),
}

impl Direction {
    /// The kind of the transfer in profiles.
    pub fn kind(self) -> QueueEventKind {
        match self {
            Self::Read => QueueEventKind::Read,
            Self::Write => QueueEventKind::Write,
        }
    }
}

impl FileTransfer {
    /// Checks access and ranges and chooses the route.
    ///
    /// # Errors
    /// PERMISSION_DENIED for accesses that the file or buffer does not allow; OUT_OF_RANGE past the end of either;
    /// UNIMPLEMENTED for files that have neither memory that the device can address nor synchronous access.
    pub fn route(self) -> Result<Route> {
        let (file, buffer) = (self.file.borrow(), self.buffer.buffer.borrow());
        let (file_access, buffer_access) = match self.direction {
            Direction::Read => (MemoryAccess::READ, MemoryAccess::WRITE),
            Direction::Write => (MemoryAccess::WRITE, MemoryAccess::READ),
        };
        file.check_access(file_access)?;
        buffer.check_access(buffer_access)?;
        buffer.check_range(self.buffer.offset, self.length)?;
        self.check_file_range()?;
        if self.length == 0 {
            return Ok(Route::Nothing);
        }
        if let Some(storage) = file.storage() {
            return Ok(Route::Device(self.device_copy(storage)?));
        }
        if !file.has_synchronous_access() {
            return Err(status!(
                UNIMPLEMENTED,
                "transfers with a file that has no synchronous access (iree_hal_file_supports_synchronous_io)"
            ));
        }
        Ok(Route::Host(self))
    }

    fn check_file_range(&self) -> Result<()> {
        let file_length = self.file.borrow().length();
        let end = self.file_offset.checked_add(self.length as u64);
        if end.is_none_or(|end| end > file_length) {
            return Err(status!(
                OUT_OF_RANGE,
                "{} bytes at offset {} of a file of {file_length} bytes",
                self.length,
                self.file_offset
            ));
        }
        Ok(())
    }

    /// The copy between the buffer and the file's memory. The memory's buffer keeps it alive without the file.
    fn device_copy(self, storage: BufferHandle) -> Result<Transfer<'static>> {
        let offset = self.file_offset as usize;
        storage.borrow().check_range(offset, self.length)?;
        let storage = Range { buffer: Held::Owned(storage), offset };
        let copy = match self.direction {
            Direction::Read => Transfer::copy(storage, self.buffer, self.length),
            Direction::Write => Transfer::copy(self.buffer, storage, self.length),
        };
        Ok(copy.named(self.direction.kind()))
    }

    /// True if the host can map the buffer.
    fn is_mappable(&self) -> bool {
        let buffer = self.buffer.buffer.borrow();
        buffer.memory_type().contains(MemoryType::HOST_VISIBLE)
            && buffer.allowed_usage().contains(BufferUsage::MAPPING_SCOPED)
    }

    fn run(&self, device: &DeviceHandle, staging: &StagingBuffers) -> Result<()> {
        if self.is_mappable() {
            return self.access_file(&self.buffer, 0, self.length);
        }
        let size = self.length.min(staging.slot.saturating_mul(SLOTS));
        let buffer = match staging.take(self.affinity, size) {
            Some(buffer) => buffer,
            None => staging_buffer(device, self.affinity, size)?,
        };
        Staging::new(self, device, &buffer, staging.slot).and_then(Staging::run)?;
        // After a failure it is unknown whether the device still copies.
        staging.give(self.affinity, buffer);
        Ok(())
    }

    /// Reads or writes `length` bytes at `position` of the transfer, from or to `buffer`.
    fn access_file(&self, buffer: &Range<'_>, position: usize, length: usize) -> Result<()> {
        let (file, file_offset) = (self.file.borrow(), self.file_offset + position as u64);
        let (buffer, offset) = mappable(buffer.buffer.borrow(), buffer.offset)?;
        let range = (buffer.borrow(), offset);
        match self.direction {
            Direction::Read => file.read(file_offset, range, length),
            Direction::Write => file.write(file_offset, range, length),
        }
        .annotate(|| format!("{:?} of {length} bytes at offset {file_offset} of a file", self.direction))
    }
}

/// Host memory for a staged transfer of `size` bytes or less, by queue `affinity`.
fn staging_buffer(device: &DeviceHandle, affinity: u64, size: usize) -> Result<BufferHandle> {
    let params = BufferParams {
        usage: (BufferUsage::TRANSFER | BufferUsage::MAPPING).bits(),
        access: MemoryAccess::ALL.bits(),
        type_: (MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE).bits(),
        queue_affinity: affinity,
        min_alignment: 0,
    };
    let size = size.next_power_of_two();
    device
        .borrow()
        .allocate_buffer(params, size)
        .annotate(|| format!("allocating {size} bytes to stage a file transfer (host_block_pool_large_size)"))
}

/// Unused staging buffers, each with its queue. They are kept because making one pins host memory. Only buffers of the
/// driver's own allocator are kept: buffers of another may need it when they are freed.
struct StagingBuffers {
    /// Bytes of a slot, which one file access and one device copy move.
    slot: usize,
    buffers: Mutex<Vec<(u64, BufferHandle)>>,
    /// The device has another allocator than the driver's.
    keeps_none: AtomicBool,
}

impl StagingBuffers {
    /// Takes a buffer of at least `size` bytes.
    fn take(&self, affinity: u64, size: usize) -> Option<BufferHandle> {
        let mut buffers = self.buffers.lock();
        let fits = |(queue, buffer): &(u64, BufferHandle)| *queue == affinity && buffer.borrow().byte_length() >= size;
        let index = buffers.iter().position(fits)?;
        Some(buffers.swap_remove(index).1)
    }

    /// Takes a buffer back. Keeps as many as transfers run at once, the newest.
    fn give(&self, affinity: u64, buffer: BufferHandle) {
        if self.keeps_none.load(Ordering::Acquire) {
            return;
        }
        let mut buffers = self.buffers.lock();
        let oldest = (buffers.len() == MOST_RUNNING).then(|| buffers.remove(0));
        buffers.push((affinity, buffer));
        drop(buffers);
        drop(oldest);
    }

    fn trim(&self) {
        // Buffers are not released under the lock.
        let buffers = std::mem::take(&mut *self.buffers.lock());
        drop(buffers);
    }
}

/// A staged transfer in progress. The device copies in order on one queue; copy `n` signals the semaphore to `n + 1`.
struct Staging<'a> {
    transfer: &'a FileTransfer,
    device: &'a DeviceHandle,
    buffer: &'a BufferHandle,
    slot: usize,
    semaphore: SemaphoreRef,
    submitted: u64,
}

impl<'a> Staging<'a> {
    fn new(
        transfer: &'a FileTransfer,
        device: &'a DeviceHandle,
        buffer: &'a BufferHandle,
        slot: usize,
    ) -> Result<Self> {
        let semaphore = device.borrow().create_semaphore(transfer.affinity)?;
        Ok(Self { transfer, device, buffer, slot, semaphore, submitted: 0 })
    }

    fn run(mut self) -> Result<()> {
        let moved = match self.transfer.direction {
            Direction::Read => self.read(),
            Direction::Write => self.write(),
        };
        // Also after a failure: its observers may rely on nothing being written any more.
        let copied = self.wait_for(self.submitted);
        moved.and(copied)
    }

    fn read(&mut self) -> Result<()> {
        for chunk in 0..self.chunk_count() {
            self.wait_for((chunk + 1).saturating_sub(SLOTS) as u64)?;
            self.access_file(chunk)?;
            self.copy(chunk)?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        self.copy(0)?;
        for chunk in 0..self.chunk_count() {
            if chunk + 1 < self.chunk_count() {
                self.copy(chunk + 1)?;
            }
            self.wait_for(chunk as u64 + 1)?;
            self.access_file(chunk)?;
        }
        Ok(())
    }

    fn chunk_count(&self) -> usize {
        self.transfer.length.div_ceil(self.slot)
    }

    /// The position of a chunk in the transfer, and its length.
    fn span(&self, chunk: usize) -> (usize, usize) {
        let position = chunk * self.slot;
        (position, self.slot.min(self.transfer.length - position))
    }

    fn slot(&self, chunk: usize) -> Range<'_> {
        Range::new(self.buffer.borrow(), chunk % SLOTS * self.slot)
    }

    fn access_file(&self, chunk: usize) -> Result<()> {
        let (position, length) = self.span(chunk);
        self.transfer.access_file(&self.slot(chunk), position, length)
    }

    /// Submits the device's copy of a chunk between its slot and the buffer.
    fn copy(&mut self, chunk: usize) -> Result<()> {
        let (position, length) = self.span(chunk);
        let slot = self.slot(chunk);
        let buffer = &self.transfer.buffer;
        let buffer = Range::new(buffer.buffer.borrow(), buffer.offset + position);
        let (source, target) = match self.transfer.direction {
            Direction::Read => (slot, buffer),
            Direction::Write => (buffer, slot),
        };
        let value = chunk as u64 + 1;
        self.device.borrow().copy(
            self.transfer.affinity,
            (source.buffer.borrow(), source.offset),
            (target.buffer.borrow(), target.offset),
            length,
            (self.semaphore.borrow(), value),
        )?;
        self.submitted = value;
        Ok(())
    }

    /// Waits until the copies up to `value` are complete.
    fn wait_for(&self, value: u64) -> Result<()> {
        if value == 0 {
            return Ok(());
        }
        self.semaphore.borrow().wait(value)
    }
}

/// The transfers of a device that are ready to run on its host worker.
#[derive(Clone)]
pub struct FileTransfers(Arc<Inner>);

struct Inner {
    transfers: Mutex<Transfers>,
    staging: StagingBuffers,
}

#[derive(Default)]
struct Transfers {
    queued: VecDeque<Job>,
    running: usize,
}

/// A transfer, its signals, and the device, which it does not keep alive while it waits.
struct Job {
    transfer: FileTransfer,
    signals: SignalList,
    device: WeakDevice,
    trace: HostTrace,
}

impl FileTransfers {
    /// The transfers of a device. One file access and one device copy move 64 blocks of `block_size` bytes, or the
    /// whole transfer if that is less.
    pub fn new(block_size: usize) -> Self {
        let slot = block_size.saturating_mul(SLOT_BLOCKS);
        let staging = StagingBuffers { slot, buffers: Mutex::default(), keeps_none: AtomicBool::default() };
        Self(Arc::new(Inner { transfers: Mutex::default(), staging }))
    }

    /// Runs the transfer and then those queued meanwhile, on this thread; queues it if enough threads run transfers
    /// already.
    pub fn run(&self, transfer: FileTransfer, signals: SignalList, device: WeakDevice, trace: HostTrace) {
        let mut job = Job { transfer, signals, device, trace };
        {
            let mut transfers = self.0.transfers.lock();
            if transfers.running == MOST_RUNNING {
                transfers.queued.push_back(job);
                return;
            }
            transfers.running += 1;
        }
        loop {
            // A panic has dropped the job's signals, which fails them.
            let _ = thunk::catch(|| job.run(&self.0.staging));
            let mut transfers = self.0.transfers.lock();
            let Some(next) = transfers.queued.pop_front() else {
                transfers.running -= 1;
                return;
            };
            job = next;
        }
    }

    /// Takes host memory to stage up to `length` bytes by queue `affinity` in one piece; the size is the buffer's.
    ///
    /// # Errors
    /// The error of the allocator.
    pub fn take_staging(&self, device: &DeviceHandle, affinity: u64, length: usize) -> Result<BufferHandle> {
        let size = length.min(self.0.staging.slot);
        match self.0.staging.take(affinity, size) {
            Some(buffer) => Ok(buffer),
            None => staging_buffer(device, affinity, size),
        }
    }

    /// Takes memory of [`Self::take_staging`] back, which nothing uses any more.
    pub fn give_staging(&self, affinity: u64, buffer: BufferHandle) {
        self.0.staging.give(affinity, buffer);
    }

    /// Stops keeping staging buffers, because the device gets another allocator.
    pub fn keep_none(&self) {
        self.0.staging.keeps_none.store(true, Ordering::Release);
        self.trim();
    }

    /// Frees the unused staging buffers.
    pub fn trim(&self) {
        self.0.staging.trim();
    }
}

impl Job {
    fn run(self, staging: &StagingBuffers) {
        let Self { transfer, signals, device, mut trace } = self;
        let Some(device) = device.upgrade() else {
            return signals.fail(status!(CANCELLED, "the device was destroyed before the file transfer ran"));
        };
        trace.begin();
        let result = transfer.run(&device, staging);
        trace.end(result.as_ref().err().map(Status::code));
        // Before the semaphores advance, so that whoever waits for them and then releases the last of these does so on
        // its own thread.
        drop((transfer, device));
        match result {
            Ok(()) => signals.signal(),
            Err(status) => signals.fail(status),
        }
    }
}
