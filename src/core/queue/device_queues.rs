// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The queues of a logical device.

use std::sync::{Arc, OnceLock};

use crate::Queue;

/// The queues of a logical device, made when it first joins a device group. They stay until the device goes, so that a
/// submission finds its queue without a lock and without a reference of its own.
#[derive(Debug, Default)]
pub struct DeviceQueues(OnceLock<Box<[Arc<Queue>]>>);

impl DeviceQueues {
    /// The queues by their ordinals; empty before the device is in a group.
    #[inline]
    pub fn list(&self) -> &[Arc<Queue>] {
        self.0.get().map_or(&[], |queues| queues)
    }

    /// Adds the queues, once.
    pub fn set(&self, queues: Box<[Arc<Queue>]>) {
        assert!(self.0.set(queues).is_ok(), "the queues of a device are made once");
    }
}
