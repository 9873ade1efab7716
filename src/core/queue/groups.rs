// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Device groups of a logical device, whose frontier trackers are told of its queues' progress.
//!
//! IREE makes a device group for each session, with a frontier tracker of its own, and calls no driver back at the end
//! of one. Queues are made once and serve all groups, so an epoch of a queue has several names:
//!
//! * the queue's own axis, which no other queue of the process has. Frontiers that the driver makes name it: those of
//!   semaphores and of memory that went back to its pool. Every group's tracker knows it.
//! * the axis that a group gave the queue, by the device's place in that group. The group's tracker alone knows it.
//!
//! A [`Member`] holds its group's tracker. The group is gone once the tracker has no other holder. The member is then
//! removed when a queue next completes something or the device joins another group. The last member stays, as the
//! driver's own waits for epochs need a tracker.
//!
//! The thread that drains a queue reports progress to the members in the drain's list ([`Seen`]). It holds no lock,
//! because trackers call back into waiters. A changed list is detected by its address before the next record is taken
//! out. Joining a group calls the submission threads for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use amdgpu_ffi::frontier::FrontierListening;
use amdgpu_ffi::{Annotate, Code, Frontier, FrontierTracker, Listener, Result, Status, status};

/// Where the queue ordinal is in the axis of a queue (`iree/async/frontier.h`).
const QUEUE_AXIS_SHIFT: u32 = 24;

/// The bits of an axis below the queue ordinal. Zeros in axes that IREE makes; a device's number in its own axes.
const DEVICE_BITS: u64 = (1 << QUEUE_AXIS_SHIFT) - 1;

/// The axis of queue `ordinal`, given that of the first queue of its device.
#[inline]
pub fn axis_of(base_axis: u64, ordinal: u32) -> u64 {
    base_axis | u64::from(ordinal) << QUEUE_AXIS_SHIFT
}

/// A device's place in a group.
#[derive(Debug)]
pub struct Member {
    tracker: FrontierTracker,
    /// The axis that the group gave the device's first queue.
    base_axis: u64,
}

impl Member {
    /// Returns true if anybody else has a reference to the group's tracker.
    pub fn is_wanted(&self) -> bool {
        !self.tracker.is_unshared()
    }

    /// Both names of the queue `ordinal` of the device with `own_axis`.
    #[inline]
    fn axes(&self, own_axis: u64, ordinal: u32) -> [u64; 2] {
        [axis_of(own_axis, ordinal), axis_of(self.base_axis, ordinal)]
    }
}

type Members = SmallVec<[Arc<Member>; 1]>;

/// The members that a drain of a queue knows of; none before its first look.
#[derive(Debug, Default)]
pub struct Seen(Option<Arc<Members>>);

/// The groups of one logical device.
#[derive(Debug)]
pub struct Groups {
    own_axis: u64,
    queue_count: u32,
    /// Oldest first. Replaced, never changed.
    members: Mutex<Arc<Members>>,
    /// The address of `members`, to detect a changed list without the lock.
    newest: AtomicPtr<Members>,
}

impl Groups {
    /// The groups of the device with the process-wide unique number `device` and `queue_count` queues; none at first.
    pub fn new(device: u64, queue_count: u32) -> Self {
        let members = Arc::<Members>::default();
        let newest = AtomicPtr::new(Arc::as_ptr(&members).cast_mut());
        // Never 0, which would be an axis of IREE's.
        let own_axis = device % DEVICE_BITS + 1;
        Self { own_axis, queue_count, members: Mutex::new(members), newest }
    }

    /// The axis of the queue `ordinal` in frontiers that the driver makes.
    #[inline]
    pub fn axis(&self, ordinal: u32) -> u64 {
        axis_of(self.own_axis, ordinal)
    }

    /// The ordinal of the queue with this own axis.
    #[inline]
    pub fn queue_of(&self, axis: u64) -> Option<u32> {
        let ordinal = (axis >> QUEUE_AXIS_SHIFT) as u32;
        (ordinal < self.queue_count && axis == self.axis(ordinal)).then_some(ordinal)
    }

    /// Registers the device's queues with `tracker`, by the axes from `base_axis` on and by their own. A queue that is
    /// registered already stays as it is. Does not block.
    ///
    /// # Errors
    /// The tracker's error: ALREADY_EXISTS when another device has the axes in it, RESOURCE_EXHAUSTED when it has no
    /// room for two axes of each queue. The device's other groups are as they were.
    pub fn join(&self, tracker: &FrontierTracker, base_axis: u64) -> Result<Arc<Member>> {
        let mut members = self.members.lock();
        let of_tracker = |member: &&Arc<Member>| member.tracker.is(tracker);
        if let Some(member) = members.iter().filter(of_tracker).find(|member| member.base_axis == base_axis) {
            return Ok(member.clone());
        }
        let is_known = members.iter().any(|member| of_tracker(&member));
        let member = Member { tracker: tracker.clone(), base_axis };
        self.register(&member, is_known)?;
        let member = Arc::new(member);
        let wanted = members.iter().filter(|member| member.is_wanted()).chain([&member]);
        let list = wanted.cloned().collect();
        let before = self.replace(&mut members, list);
        drop(members);
        // May be the end of trackers, which call their waiters back: not under the lock.
        drop(before);
        Ok(member)
    }

    /// Registers the axes of `member` with its tracker, and the queues' own axes unless `is_known`.
    fn register(&self, member: &Member, is_known: bool) -> Result<()> {
        let axes = (0..self.queue_count).flat_map(|ordinal| {
            let [own, given] = member.axes(self.own_axis, ordinal);
            [Some(given), (!is_known).then_some(own)].into_iter().flatten()
        });
        for (count, axis) in axes.clone().enumerate() {
            if let Err(status) = member.tracker.register_axis(axis) {
                for axis in axes.take(count) {
                    let left = status!(CANCELLED, "the device did not join the group");
                    member.tracker.retire_axis(axis, left);
                }
                let queues = self.queue_count;
                return Err(status).annotate(|| {
                    format!("registering two axes for each of {queues} hardware queues with a device group's tracker")
                });
            }
        }
        Ok(())
    }

    /// Puts `list` in the place of `members` and returns the old list.
    fn replace(&self, members: &mut Arc<Members>, list: Members) -> Arc<Members> {
        let before = std::mem::replace(members, Arc::new(list));
        self.newest.store(Arc::as_ptr(members).cast_mut(), Ordering::Release);
        before
    }

    /// Returns true if `seen` are the current members.
    #[inline]
    pub fn are(&self, seen: &Seen) -> bool {
        // `seen` holds its list, so that no other list can have its address.
        let newest = self.newest.load(Ordering::Acquire).cast_const();
        seen.0.as_ref().is_some_and(|seen| Arc::as_ptr(seen) == newest)
    }

    /// Reports the completion of `epoch` of the queue `ordinal` to the groups. `seen` is the list of the queue's last
    /// drain. Trackers call their waiters back.
    #[inline]
    pub fn tell(&self, seen: &mut Seen, ordinal: u32, epoch: u64) {
        if !self.are(seen) {
            self.look(seen);
        }
        let Some(members) = &seen.0 else { return };
        for member in members.iter() {
            for axis in member.axes(self.own_axis, ordinal) {
                member.tracker.advance(axis, epoch);
            }
        }
        if members.len() > 1 && !members.iter().all(|member| member.is_wanted()) {
            self.forget_unwanted();
        }
    }

    #[cold]
    fn look(&self, seen: &mut Seen) {
        let members = self.members.lock().clone();
        drop(seen.0.replace(members));
    }

    /// Removes members whose groups are gone, except for the newest member.
    #[cold]
    fn forget_unwanted(&self) {
        let mut members = self.members.lock();
        let Some(newest) = members.last() else { return };
        let wanted = members.iter().filter(|member| member.is_wanted() || Arc::ptr_eq(member, newest));
        let list: Members = wanted.cloned().collect();
        if list.len() < members.len() {
            let before = self.replace(&mut members, list);
            drop(members);
            drop(before);
        }
    }

    /// Reports the completion of `epoch` of the queue `ordinal` to the group of `member`.
    pub fn catch_up(&self, member: &Member, ordinal: u32, epoch: u64) {
        for axis in member.axes(self.own_axis, ordinal) {
            member.tracker.advance(axis, epoch);
        }
    }

    /// Fails the waiters for the queue `ordinal`, which completes nothing more.
    pub fn fail(&self, ordinal: u32, failure: &Status) {
        let members = self.members.lock().clone();
        for member in members.iter() {
            for axis in member.axes(self.own_axis, ordinal) {
                member.tracker.fail_axis(axis, failure.clone());
            }
        }
    }

    /// Retires the queue `ordinal`, which is no longer drained: waits for epochs that have not passed fail.
    pub fn retire(&self, ordinal: u32) {
        let members = self.members.lock().clone();
        for member in members.iter() {
            for axis in member.axes(self.own_axis, ordinal) {
                member.tracker.retire_axis(axis, status!(CANCELLED, "the queue was destroyed"));
            }
        }
    }

    /// Returns true if `epoch` of `axis`, an axis of another device, is known to the device's groups to have passed. An
    /// axis that a group gave means something else in the next group, so that no such epoch of a device in several
    /// groups is known to have passed.
    pub fn know_passed(&self, axis: u64, epoch: u64) -> bool {
        let members = self.members.lock();
        let is_unique = axis & DEVICE_BITS != 0 || members.len() == 1;
        is_unique && members.iter().any(|member| member.tracker.has_passed(axis, epoch))
    }

    /// As [`FrontierTracker::listen`], in a group whose tracker knows the axes.
    ///
    /// # Errors
    /// NOT_FOUND for axes that none knows; FAILED_PRECONDITION before the device is in a group.
    pub fn listen(&self, frontier: &Frontier, listener: &Arc<impl Listener>) -> Result<FrontierListening> {
        // Their references keep the members.
        let trackers: SmallVec<[_; 1]> = self.members.lock().iter().map(|member| member.tracker.clone()).collect();
        let mut unknown = status!(FAILED_PRECONDITION, "the device is in no device group");
        for tracker in trackers.iter().rev() {
            match tracker.listen(frontier, listener.clone()) {
                Err(status) if status.code() == Code::NOT_FOUND => unknown = status,
                begun => return begun,
            }
        }
        Err(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_ffi::{Allocator, raw};

    fn tracker(capacity: u32) -> FrontierTracker {
        let mut tracker = std::ptr::null_mut();
        // SAFETY: plain options; the result goes to a local, with its reference.
        unsafe {
            let mut options = raw::iree_async_frontier_tracker_options_default();
            options.axis_table_capacity = capacity;
            let allocator = Allocator::system().to_raw();
            amdgpu_ffi::iree!(raw::iree_async_frontier_tracker_create(options, allocator, &raw mut tracker)).unwrap();
            FrontierTracker::from_owned(tracker).unwrap()
        }
    }

    const BASE: u64 = 1 << 56;

    /// The result that a listener was called with.
    #[derive(Default)]
    struct Heard(Mutex<Option<Result<()>>>);

    impl Listener for Heard {
        fn reached(self: Arc<Self>, result: Result<()>) {
            *self.0.lock() = Some(result);
        }
    }

    #[test]
    fn each_group_hears_of_both_axes_until_it_is_gone() {
        let groups = Groups::new(7, 2);
        let mut seen = Seen::default();
        let [first, second] = [tracker(4), tracker(4)];
        groups.join(&first, BASE).unwrap();
        groups.tell(&mut seen, 1, 3);
        let member = groups.join(&second, BASE).unwrap();
        groups.catch_up(&member, 1, 3);
        drop(member);
        groups.tell(&mut seen, 0, 5);
        for tracker in [&first, &second] {
            for (axis, epoch) in [(BASE, 5), (groups.axis(0), 5), (axis_of(BASE, 1), 3), (groups.axis(1), 3)] {
                assert!(tracker.has_passed(axis, epoch) && !tracker.has_passed(axis, epoch + 1), "{axis:#x}");
            }
        }
        drop(first);
        groups.tell(&mut seen, 0, 6);
        assert_eq!(groups.members.lock().len(), 1);
        assert!(second.has_passed(groups.axis(0), 6));
        drop(second);
        groups.tell(&mut seen, 0, 7);
        let frontier = Frontier::new([(groups.axis(0), 7)].into_iter());
        let heard = Arc::<Heard>::default();
        let listening = groups.listen(&frontier, &heard).expect("the last group stays");
        assert!(heard.0.lock().as_ref().is_some_and(Result::is_ok));
        drop(listening);
    }

    #[test]
    fn groups_do_not_accumulate() {
        let groups = Groups::new(7, 2);
        for _ in 0..100 {
            groups.join(&tracker(4), BASE).unwrap();
            assert_eq!(groups.members.lock().len(), 1);
        }
        let kept = tracker(4);
        for _ in 0..100 {
            groups.join(&kept, BASE).unwrap();
        }
        assert_eq!(groups.members.lock().len(), 1);
    }

    #[test]
    fn a_group_that_refuses_the_device_changes_nothing() {
        let (groups, other) = (Groups::new(7, 2), Groups::new(8, 1));
        let [first, taken, small] = [tracker(4), tracker(8), tracker(3)];
        groups.join(&first, BASE).unwrap();
        other.join(&taken, axis_of(BASE, 1)).unwrap();
        assert_eq!(groups.join(&taken, BASE).unwrap_err().code(), Code::ALREADY_EXISTS);
        assert_eq!(groups.join(&small, BASE).unwrap_err().code(), Code::RESOURCE_EXHAUSTED);
        groups.tell(&mut Seen::default(), 0, 4);
        assert!(first.has_passed(BASE, 4));
        // Axes that were registered before the refusal keep no thread waiting.
        let frontier = Frontier::new([(BASE, 4)].into_iter());
        let wait = taken.wait(&frontier).unwrap();
        assert_eq!(wait.wait_for(std::time::Duration::ZERO).unwrap_err().code(), Code::CANCELLED);
    }

    #[test]
    fn own_axes_are_told_from_those_of_other_devices_and_groups() {
        let (groups, other) = (Groups::new(7, 2), Groups::new(8, 2));
        assert_eq!([0, 1].map(|ordinal| groups.queue_of(groups.axis(ordinal))), [Some(0), Some(1)]);
        for axis in [BASE, 0, other.axis(0), groups.axis(2)] {
            assert_eq!(groups.queue_of(axis), None, "{axis:#x}");
        }
        // Two groups may give one axis to different devices.
        let [first, second] = [tracker(4), tracker(4)];
        groups.join(&first, BASE).unwrap();
        other.join(&second, BASE).unwrap();
        second.advance(BASE, 9);
        assert!(!groups.know_passed(BASE, 9));
        assert_eq!(groups.join(&second, BASE | 1 << 32).unwrap_err().code(), Code::RESOURCE_EXHAUSTED);
        let roomy = tracker(8);
        groups.join(&roomy, BASE | 1 << 32).unwrap();
        other.join(&roomy, BASE).unwrap();
        other.tell(&mut Seen::default(), 1, 2);
        assert!(groups.know_passed(other.axis(1), 2), "its own axes are unique");
        roomy.advance(BASE, 9);
        assert!(!groups.know_passed(BASE, 9), "the axis is the device's own in the first group");
    }
}
