// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A device's position in its device groups, for C callers (`iree_hal_device_topology_info`).
//!
//! IREE assumes one group per device. There are several if an application makes a group for each session. C callers get
//! the position in the oldest existing group, so that it does not change for users of that group. C keeps pointers to
//! the position as long as the device lives. Its memory is reused only after its group is gone.

use std::cell::UnsafeCell;
use std::sync::{Arc, Weak};
use std::thread::ThreadId;

use parking_lot::Mutex;
use smallvec::SmallVec;

use amdgpu_ffi::raw::iree_hal_device_topology_info_t as Info;
use amdgpu_queue::groups::Member;

/// A position in one group.
struct Place {
    /// Boxed, because C callers have pointers to it.
    info: Box<UnsafeCell<Info>>,
    /// The membership; dead once the device has left the group.
    member: Weak<Member>,
    /// The thread that made the group.
    by: ThreadId,
}

/// A device's positions, in the order of its groups.
pub struct Places {
    list: Mutex<Vec<Place>>,
    /// The position of a device in no group: all zeros.
    none: UnsafeCell<Info>,
}

// SAFETY: infos are plain values and pointers that are only handed out; they are written under the lock, before anybody
// has a pointer to them, or after their group is gone.
unsafe impl Send for Places {}
// SAFETY: as above.
unsafe impl Sync for Places {}

impl Default for Places {
    fn default() -> Self {
        // SAFETY: all-zero is the info of a device in no group.
        Self { list: Mutex::default(), none: UnsafeCell::new(unsafe { std::mem::zeroed() }) }
    }
}

impl Places {
    /// Adds the position `info` in the group of `member`, which the device has joined.
    pub fn add(&self, info: &Info, member: &Arc<Member>) {
        let mut list = self.list.lock();
        let free = list.iter().position(|place| place.member.strong_count() == 0);
        let boxed = match free.map(|index| list.remove(index).info) {
            Some(boxed) => {
                // SAFETY: of a group that is gone, so that it has no reader.
                unsafe { boxed.get().write(*info) };
                boxed
            }
            None => Box::new(UnsafeCell::new(*info)),
        };
        list.push(Place { info: boxed, member: Arc::downgrade(member), by: std::thread::current().id() });
    }

    /// Removes the position in the newest group that this thread has made, or in the newest of all if it has made none:
    /// the group could not be made. IREE reports that on the thread that makes the group.
    pub fn abandon(&self) {
        let mut list = self.list.lock();
        let this_thread = std::thread::current().id();
        let own = list.iter().rposition(|place| place.by == this_thread);
        if let Some(index) = own.or(list.len().checked_sub(1)) {
            list[index].member = Weak::new();
        }
    }

    /// The position in the oldest existing group; in the last one if none exists, and zeros before the first. Valid as
    /// long as `self`.
    pub fn current(&self) -> *const Info {
        let list = self.list.lock();
        let held = |place: &Place| Some((place.info.get().cast_const(), place.member.upgrade()?));
        let members: SmallVec<[_; 1]> = list.iter().filter_map(held).collect();
        // One of them may be the last to hold its tracker, which calls its waiters back: not under the lock.
        drop(list);
        let wanted = members.iter().find(|(_, member)| member.is_wanted());
        wanted.or(members.last()).map_or(self.none.get().cast_const(), |(info, _)| *info)
    }
}
