// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Submissions that fail amid their parts.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Mutex;

use super::*;
use crate::core::operations::transfer::Barrier;
use crate::core::profile::EventInfo;
use crate::core::profile::session::Session;
use crate::core::queue::demand::Demand;
use crate::core::queue::epoch_wait::EpochWait;
use crate::core::queue::record::CompletionAction;
use crate::ffi::profile::schema::QueueEventKind;
use crate::ffi::{BufferHandle, Resource, iree, raw, status};
use crate::testing::{self, List, Rig, params};

/// The first queue of the rig's device, idle.
fn queue(rig: &Rig) -> Arc<Queue> {
    let (queue, _) = testing::queue(rig);
    queue.wait_until_drained();
    queue
}

/// Records if the hardware of a queue was stopped when a buffer was destroyed.
struct Witness {
    queue: Arc<Queue>,
    was_stopped: Mutex<Option<bool>>,
}

unsafe extern "C" fn note_end(witness: *mut c_void, _buffer: *mut raw::iree_hal_buffer_t) {
    // SAFETY: the witness lives until the test ends.
    let witness = unsafe { &*witness.cast::<Witness>() };
    *witness.was_stopped.lock().unwrap() = Some(witness.queue.inactivated.is_completed());
}

/// Memory whose end calls `witness`.
fn memory(rig: &Rig, bytes: &mut [u64], witness: &Witness) -> BufferHandle {
    let mut buffer = null_mut();
    // SAFETY: the bytes and the witness outlive the buffer; the result goes to a local, with its reference.
    unsafe {
        let mut external: raw::iree_hal_external_buffer_t = std::mem::zeroed();
        external.type_ = raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION;
        external.size = size_of_val(bytes);
        external.handle.host_allocation.ptr = bytes.as_mut_ptr().cast();
        let usage = raw::IREE_HAL_BUFFER_USAGE_TRANSFER;
        let host = raw::IREE_HAL_MEMORY_TYPE_HOST_LOCAL | raw::IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE;
        let release = raw::iree_hal_buffer_release_callback_t {
            fn_: Some(note_end),
            user_data: (&raw const *witness).cast_mut().cast(),
        };
        let (allocator, params) = (rig.allocator(), params(host, usage));
        iree!(raw::iree_hal_allocator_import_buffer(allocator, params, &raw mut external, release, &raw mut buffer))
            .unwrap();
        BufferHandle::from_owned(buffer).unwrap()
    }
}

/// An operation whose device is lost and whose ring is closed when it has retained what it uses.
struct Unlucky(Mutex<Option<Resource>>);

impl Operation for Unlucky {
    fn plan(&mut self, _queue: &Queue, _waits: &[EpochWait]) -> Result<Planned> {
        Ok(Planned::Ready(Demand { overlapping: true, ..Demand::default() }))
    }

    fn write(&mut self, _emitter: &mut Emitter<'_>) -> Progress {
        Progress::Done
    }

    fn retained_resources(&self, queue: &Queue) -> Result<RetainedSet> {
        // Nobody is woken: the submission thread would stop the hardware, too.
        let _ = queue.shared().lost_status.set(status!(DATA_LOSS, "on purpose"));
        queue.rings.lock().closed = true;
        RetainedSet::new(queue.vec_pools(), self.0.lock().unwrap().take(), 0, std::iter::empty())
    }

    fn completion_action(&mut self) -> CompletionAction {
        CompletionAction::None
    }

    fn profile_event(&self, _session: &Session) -> EventInfo {
        EventInfo::of(QueueEventKind::Barrier)
    }
}

impl Submit for Unlucky {
    type Owned = Self;

    fn into_owned(self) -> Result<Self> {
        Ok(self)
    }
}

#[test]
fn a_lost_device_is_stopped_before_memory_goes_that_its_packets_may_use() {
    let rig = Rig::new();
    let witness = Witness { queue: queue(&rig), was_stopped: Mutex::default() };
    let mut bytes = vec![0; 1024];
    let kept = memory(&rig, &mut bytes, &witness).into_resource();
    let unlucky = Unlucky(Mutex::new(Some(kept)));
    let refused = submit(&witness.queue, SemaphoreList::EMPTY, SemaphoreList::EMPTY, || unlucky).unwrap_err();
    assert_eq!(refused.code(), crate::ffi::Code::DATA_LOSS);
    assert_eq!(*witness.was_stopped.lock().unwrap(), Some(true));
    drop(submit(&witness.queue, SemaphoreList::EMPTY, SemaphoreList::EMPTY, || Barrier));
}

/// An operation that does not become packets.
enum Faulty {
    /// It writes fewer packets than it asked for.
    Careless,
    /// It has no plan.
    Impossible,
}

impl Operation for Faulty {
    fn plan(&mut self, _queue: &Queue, _waits: &[EpochWait]) -> Result<Planned> {
        match self {
            Self::Careless => Ok(Planned::Ready(Demand { packets: 2, ..Demand::default() })),
            Self::Impossible => Err(status!(INVALID_ARGUMENT, "on purpose")),
        }
    }

    fn write(&mut self, emitter: &mut Emitter<'_>) -> Progress {
        emitter.barrier();
        Progress::Done
    }

    fn retained_resources(&self, _queue: &Queue) -> Result<RetainedSet> {
        Ok(RetainedSet::NONE)
    }

    fn completion_action(&mut self) -> CompletionAction {
        CompletionAction::None
    }

    fn profile_event(&self, _session: &Session) -> EventInfo {
        EventInfo::of(QueueEventKind::Barrier)
    }
}

impl Submit for Faulty {
    type Owned = Self;

    fn into_owned(self) -> Result<Self> {
        Ok(self)
    }
}

#[test]
fn signals_of_what_is_refused_are_untouched_however_many() {
    let rig = Rig::new();
    let queue = queue(&rig);
    for count in 1..=4 {
        let semaphores: Vec<_> = (0..count).map(|_| rig.semaphore()).collect();
        let signals: Vec<_> = semaphores.iter().map(|semaphore| (semaphore, 1)).collect();
        let list = List::new(&signals);
        let list = list.raw();
        // SAFETY: the list and its semaphores live as long as this.
        let list = unsafe { SemaphoreList::from_raw(&list) }.unwrap();
        let refused = submit(&queue, SemaphoreList::EMPTY, list, || Faulty::Impossible).unwrap_err();
        assert_eq!(refused.code(), crate::ffi::Code::INVALID_ARGUMENT);
        for semaphore in &semaphores {
            assert_eq!(semaphore.borrow().query().unwrap(), 0, "of {count}");
        }
        submit(&queue, SemaphoreList::EMPTY, list, || Barrier).unwrap();
        for semaphore in &semaphores {
            testing::wait(semaphore, 1).unwrap();
        }
    }
}

#[test]
fn a_submission_that_panics_takes_no_epoch() {
    let rig = Rig::new();
    let queue = queue(&rig);
    let none = SemaphoreList::EMPTY;
    let submission = std::panic::AssertUnwindSafe(|| submit(&queue, none, none, || Faulty::Careless));
    assert!(std::panic::catch_unwind(submission).is_err());
    assert_eq!(queue.single_entry_frontier(&[]), Some((queue.axis(), 1)));
}

#[test]
fn a_frontier_of_many_queues_is_whole() {
    let rig = Rig::new();
    let queue = queue(&rig);
    let axes = |frontier: crate::ffi::Frontier| frontier.entries().map(|(_, epoch)| epoch).collect::<Vec<_>>();
    assert_eq!(queue.single_entry_frontier(&[]), Some((queue.axis(), 1)));
    {
        let mut submission = queue.rings.lock();
        for ordinal in 1..64 {
            submission.waited[ordinal] = ordinal as u64;
            queue.frontier.record_wait(ordinal as u32);
        }
    }
    assert_eq!(queue.single_entry_frontier(&[]), None);
    let epochs: Vec<_> = (1..64).collect();
    assert_eq!(axes(queue.frontier(&[]))[1..], epochs);
}
