// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A queue with its threads, for unit tests of this crate and of the crates above.

use std::marker::PhantomData;
use std::sync::Arc;
use std::thread::JoinHandle;

use amdgpu_ffi::profile::schema::QueueEventKind;
use amdgpu_ffi::{Allocator, Blocks, HalRef, Result, SemaphoreList, SemaphoreRef, iree, raw};
use amdgpu_gpu::Gpu;
use amdgpu_gpu::options::Options;
use amdgpu_gpu::testing::{gpu, proactor};
use amdgpu_hsa as hsa;
use amdgpu_profile::EventInfo;
use amdgpu_profile::session::Session;

use crate::demand::Demand;
use crate::device_queues::DeviceQueues;
use crate::emitter::{SinglePacket, SinglePacketSpace};
use crate::epoch_wait::EpochWait;
use crate::operation::{Operation, Planned, Submit};
use crate::semaphore::DeviceSemaphore;
use crate::shared::DeviceShared;
use crate::submit::submit;
use crate::{Queue, QueueParams, threads};

/// Identifies the device of a rig: no test compares two.
const DEVICE: u64 = 1;

/// A queue of the first GPU, which is the only one of its device.
pub struct Rig {
    queue: Arc<Queue>,
    queues: Arc<DeviceQueues>,
    /// The queue's last thread.
    thread: Option<JoinHandle<()>>,
    semaphores: Arc<Blocks>,
    proactor: HalRef<raw::iree_async_proactor_t>,
    _proactors: HalRef<raw::iree_async_proactor_pool_t>,
}

impl Rig {
    /// A queue without work on the library under test.
    pub fn open() -> Self {
        let options = Options::default();
        let shared = Arc::new(DeviceShared::new(DEVICE, 1));
        let queue = Queue::new(&QueueParams::new(0, &options), gpu(&options), shared.clone()).expect("a queue");
        let listener = hsa::listen(queue.gpu().agent().library(), |_| None);
        let thread = threads::start(&queue, Arc::new(listener)).expect("the queue's threads");
        assert!(shared.epochs.set([queue.epochs()].into()).is_ok());
        let queues = Arc::<DeviceQueues>::default();
        queues.set([queue.clone()].into());
        let semaphores = DeviceSemaphore::blocks(Allocator::system());
        let (_proactors, proactor) = proactor();
        Self { queue, queues, thread: Some(thread), semaphores, proactor, _proactors }
    }

    /// The queue.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// A semaphore of the device, at 0.
    pub fn semaphore(&self) -> SemaphoreRef {
        let queues = Arc::downgrade(&self.queues);
        DeviceSemaphore::create(&self.semaphores, (DEVICE, queues), self.proactor.borrow(), 0)
            .expect("a semaphore")
            .into_any()
    }

    /// Submits a barrier.
    ///
    /// # Errors
    /// As for [`submit`].
    pub fn barrier(&self, waits: Points<'_>, signals: Points<'_>) -> Result<()> {
        submit(&self.queue, List::new(waits).get(), List::new(signals).get(), || Barrier)
    }
}

impl Drop for Rig {
    /// As a logical device ends.
    fn drop(&mut self) {
        self.queue.shared().worker.close();
        self.queue.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Semaphores and values that an operation waits for or signals.
pub type Points<'a> = &'a [(&'a SemaphoreRef, u64)];

/// A semaphore list for one call.
pub struct List<'a> {
    _arrays: (Vec<*mut raw::iree_hal_semaphore_t>, Vec<u64>),
    list: raw::iree_hal_semaphore_list_t,
    points: PhantomData<Points<'a>>,
}

impl<'a> List<'a> {
    /// The list of `points`.
    pub fn new(points: Points<'a>) -> Self {
        let mut semaphores: Vec<_> = points.iter().map(|(semaphore, _)| semaphore.as_ptr()).collect();
        let mut values: Vec<_> = points.iter().map(|(_, value)| *value).collect();
        let list = raw::iree_hal_semaphore_list_t {
            count: points.len(),
            semaphores: semaphores.as_mut_ptr(),
            payload_values: values.as_mut_ptr(),
        };
        Self { _arrays: (semaphores, values), list, points: PhantomData }
    }

    /// The list as operations take it.
    pub fn get(&self) -> SemaphoreList<'_> {
        // SAFETY: the list has its arrays, and the semaphores live as long as the points.
        unsafe { SemaphoreList::from_raw(&self.list) }.expect("no null pointers")
    }
}

/// Waits without limit until `semaphore` has reached `value`.
///
/// # Errors
/// The failure of the semaphore.
pub fn wait(semaphore: &SemaphoreRef, value: u64) -> Result<()> {
    // SAFETY: a live semaphore.
    unsafe { iree!(raw::iree_hal_semaphore_wait(semaphore.as_ptr(), value, raw::iree_infinite_timeout(), 0)) }
}

/// A barrier, which only orders its semaphores.
pub struct Barrier;

impl Operation for Barrier {
    fn plan(&mut self, _queue: &Queue, _waits: &[EpochWait]) -> Result<Planned> {
        Ok(Planned::Ready(Demand { overlapping: true, ..Demand::default() }))
    }

    fn write_single(&mut self, _gpu: &Gpu, _space: &mut SinglePacketSpace) -> Option<SinglePacket> {
        Some(SinglePacket::Barrier)
    }

    fn profile_event(&self, _session: &Session) -> EventInfo {
        EventInfo::of(QueueEventKind::Barrier)
    }
}

impl Submit for Barrier {
    type Owned = Self;

    fn into_owned(self) -> Result<Self> {
        Ok(self)
    }
}
