// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The submission thread, which resumes submissions that could not go to the rings at once.
//!
//! Each hardware queue has one. It sleeps until it is called ([`Wakeup`]). It is called when a submission has become
//! ready, when parked submissions may have room, when the device is lost or has joined a group, and when the queue is
//! to stop. It resumes submissions, fails the work in flight on a lost device, and ends the queue's threads when it has
//! stopped. Semaphores that it fails may call back into the application; no callback runs under a lock of the driver's.
//!
//! [`Wakeup`]: crate::wakeup::Wakeup

use std::collections::LinkedList;
use std::sync::Arc;
use std::time::Duration;

use crate::complete::{self, DrainGuard};
use crate::{Queue, submit};

/// The interval for checks of a full ring when nothing is in flight whose completion would call the thread: the packet
/// processor may free the slots of the last packets after it has signaled them.
const ROOM_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// The body of the submission thread. Returns when the queue has stopped and takes no more submissions.
pub fn run(queue: &Arc<Queue>) {
    loop {
        if let Some(mut draining) = DrainGuard::try_begin_or_ask(queue) {
            draining.report_to_new_groups();
        }
        if let Some(failure) = queue.failure() {
            complete::fail_all(queue, failure);
        }
        let mut parked = LinkedList::new();
        for ready in queue.backlog.take_ready() {
            if !parked.is_empty() && ready.wants_room() {
                // Free room is for submissions that have waited longer.
                parked.push_back(ready);
            } else {
                parked.extend(submit::resume(queue, ready));
            }
        }
        let lacks_room = !parked.is_empty();
        queue.backlog.park(parked);
        if queue.is_stopping() && queue.is_idle() && queue.close() {
            return;
        }
        let only_lacks_room = lacks_room && queue.is_quiet();
        queue.wakeup.wait(only_lacks_room.then_some(ROOM_CHECK_INTERVAL));
    }
}
