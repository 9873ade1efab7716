// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A device's position in its device groups, as C callers read it (`iree_hal_device_topology_info`).
//!
//! IREE assumes one group; there are several where each session of an application makes one. C callers read the
//! position in the oldest group that is left, so that it does not change under users of that group. C keeps pointers to
//! the position for as long as the device lives. Its memory is reused only after its group is gone.

use std::cell::UnsafeCell;
use std::sync::{Arc, Weak};
use std::thread::ThreadId;

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::core::queue::groups::Member;
use crate::ffi::raw::iree_hal_device_topology_info_t as Info;

/// A place in one group.
struct Place {
    /// Boxed, as pointers to it are out.
    info: Box<UnsafeCell<Info>>,
    /// The membership; dead once the device has left the group.
    member: Weak<Member>,
    /// The thread that made the group.
    by: ThreadId,
}

/// A device's places, in the order of its groups.
pub struct Places {
    list: Mutex<Vec<Place>>,
    /// For a device in no group: all zeros.
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
    /// The device has joined the group of `member`, in which its place is `info`.
    pub fn add(&self, info: &Info, member: &Arc<Member>) {
        let mut list = self.list.lock();
        let free = list.iter().position(|place| place.member.strong_count() == 0);
        let boxed = match free.map(|index| list.remove(index).info) {
            Some(boxed) => {
                // SAFETY: of a group that is gone, so that nobody reads it.
                unsafe { boxed.get().write(*info) };
                boxed
            }
            None => Box::new(UnsafeCell::new(*info)),
        };
        list.push(Place { info: boxed, member: Arc::downgrade(member), by: std::thread::current().id() });
    }

    /// The newest group that this thread has made, or any if it has made none, has come to nothing: IREE takes back the
    /// places of a group that it could not make, on the thread that makes it.
    pub fn abandon(&self) {
        let mut list = self.list.lock();
        let this_thread = std::thread::current().id();
        let own = list.iter().rposition(|place| place.by == this_thread);
        if let Some(index) = own.or(list.len().checked_sub(1)) {
            list[index].member = Weak::new();
        }
    }

    /// The place in the oldest group that is left; that in the last one if none is, and zeros before the first. Valid
    /// for as long as `self`.
    pub fn current(&self) -> *const Info {
        let list = self.list.lock();
        let held = |place: &Place| Some((place.info.get().cast_const(), place.member.upgrade()?));
        let members: SmallVec<[_; 1]> = list.iter().filter_map(held).collect();
        // One of them may be the last to hold its tracker, which calls back those who wait: not under the lock.
        drop(list);
        let wanted = members.iter().find(|(_, member)| member.is_wanted());
        wanted.or(members.last()).map_or(self.none.get().cast_const(), |(info, _)| *info)
    }
}
