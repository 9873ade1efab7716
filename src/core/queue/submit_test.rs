// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Submissions that fail amid their parts.

use std::ffi::c_void;
use std::sync::Mutex;

use super::*;
use crate::demand::Demand;
use crate::epoch_wait::EpochWait;
use crate::record::CompletionAction;
use crate::testing::{Barrier, List, Rig, wait};
use amdgpu_ffi::profile::schema::QueueEventKind;
use amdgpu_ffi::{Allocator, Code, Frontier, HalObject, HalRef, Header, Resource, raw, status, thunk};
use amdgpu_profile::EventInfo;
use amdgpu_profile::session::Session;

/// The queue of `rig`, idle after its first epoch.
fn queue(rig: &Rig) -> Arc<Queue> {
    let semaphore = rig.semaphore();
    rig.barrier(&[], &[(&semaphore, 1)]).unwrap();
    wait(&semaphore, 1).unwrap();
    rig.queue().wait_until_drained();
    rig.queue().clone()
}

/// An object that packets may use. At its end it notes if the hardware of its queue was stopped.
#[repr(C)]
struct Kept {
    header: Header,
    queue: Arc<Queue>,
    was_stopped: Arc<Mutex<Option<bool>>>,
}

static VTABLE: raw::iree_hal_event_vtable_t = raw::iree_hal_event_vtable_t { destroy: thunk::destroy::<Kept, _>() };

// SAFETY: repr(C), the header is first, VTABLE is used here only.
unsafe impl HalObject for Kept {
    type Raw = raw::iree_hal_event_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        Allocator::system()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        *self.was_stopped.lock().unwrap() = Some(self.queue.inactivated.is_completed());
    }
}

/// An operation whose device is lost and whose ring is closed when it has retained its resources.
struct Unlucky(Mutex<Option<Resource>>);

impl Operation for Unlucky {
    fn plan(&mut self, _queue: &Queue, _waits: &[EpochWait]) -> Result<Planned> {
        Ok(Planned::Ready(Demand { overlapping: true, ..Demand::default() }))
    }

    fn write(&mut self, _emitter: &mut Emitter<'_>) -> Progress {
        Progress::Done
    }

    fn retained_resources(&self, queue: &Queue) -> Result<RetainedSet> {
        // No thread is woken: the submission thread would stop the hardware, too.
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
    let rig = Rig::open();
    let (queue, was_stopped) = (queue(&rig), Arc::<Mutex<Option<bool>>>::default());
    let kept = Kept { header: Header::new::<Kept>(), queue: queue.clone(), was_stopped: was_stopped.clone() };
    let unlucky = Unlucky(Mutex::new(Some(HalRef::new(kept).unwrap().into_resource())));
    let refused = submit(&queue, SemaphoreList::EMPTY, SemaphoreList::EMPTY, || unlucky).unwrap_err();
    assert_eq!(refused.code(), Code::DATA_LOSS);
    assert_eq!(*was_stopped.lock().unwrap(), Some(true));
    drop(submit(&queue, SemaphoreList::EMPTY, SemaphoreList::EMPTY, || Barrier));
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
    let rig = Rig::open();
    let queue = queue(&rig);
    for count in 1..=4 {
        let semaphores: Vec<_> = (0..count).map(|_| rig.semaphore()).collect();
        let signals: Vec<_> = semaphores.iter().map(|semaphore| (semaphore, 1)).collect();
        let list = List::new(&signals);
        let list = list.get();
        let refused = submit(&queue, SemaphoreList::EMPTY, list, || Faulty::Impossible).unwrap_err();
        assert_eq!(refused.code(), Code::INVALID_ARGUMENT);
        for semaphore in &semaphores {
            assert_eq!(semaphore.borrow().query().unwrap(), 0, "of {count}");
        }
        submit(&queue, SemaphoreList::EMPTY, list, || Barrier).unwrap();
        for semaphore in &semaphores {
            wait(semaphore, 1).unwrap();
        }
    }
}

#[test]
fn a_submission_that_panics_takes_no_epoch() {
    let rig = Rig::open();
    let queue = queue(&rig);
    let none = SemaphoreList::EMPTY;
    let submission = std::panic::AssertUnwindSafe(|| submit(&queue, none, none, || Faulty::Careless));
    assert!(std::panic::catch_unwind(submission).is_err());
    assert_eq!(queue.single_entry_frontier(&[]), Some((queue.axis(), 1)));
}

#[test]
fn a_frontier_of_many_queues_is_whole() {
    let rig = Rig::open();
    let queue = queue(&rig);
    let axes = |frontier: Frontier| frontier.entries().map(|(_, epoch)| epoch).collect::<Vec<_>>();
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
