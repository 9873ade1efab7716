// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Host calls: functions of the application that queues order (`iree_hal_device_queue_host_call`).

use crate::signal_list::SignalList;
use crate::trace::host::HostTrace;
use amdgpu_ffi::host_call::HostFunction;
use amdgpu_ffi::{Code, Status, WeakDevice, status};

/// A call to be made on the host worker. While it waits for its semaphores it does not keep the device alive: the
/// release of the device cancels it.
pub struct HostCall {
    function: HostFunction,
    device: WeakDevice,
    affinity: u64,
    args: [u64; 4],
    non_blocking: bool,
    trace: HostTrace,
}

impl HostCall {
    /// A call of `function` on `device`, by the queue with the bit `affinity`. If it is `non_blocking`, the semaphores
    /// advance before the function is called, which neither sees them nor can fail them.
    pub fn new(
        function: HostFunction,
        (device, affinity): (WeakDevice, u64),
        args: [u64; 4],
        non_blocking: bool,
        trace: HostTrace,
    ) -> Self {
        Self { function, device, affinity, args, non_blocking, trace }
    }

    /// Calls the function, and fails or leaves `signals` according to its result; returns those that the caller is to
    /// advance. Releases the device before the semaphores advance, so that an application thread that waits for them
    /// and then releases the device destroys it itself.
    pub fn run(mut self, signals: SignalList) -> Option<SignalList> {
        let Some(device) = self.device.upgrade() else {
            signals.fail(status!(CANCELLED, "the device was destroyed before the host call was made"));
            return None;
        };
        self.trace.begin();
        if self.non_blocking {
            signals.signal();
            // Its result has no receiver: the semaphores have advanced.
            let result = self.function.call((&device, self.affinity), &self.args, SignalList::default().iter());
            self.trace.end(result.as_ref().err().map(Status::code));
            return None;
        }
        let result = self.function.call((&device, self.affinity), &self.args, signals.iter());
        self.trace.end(result.as_ref().err().map(Status::code));
        drop(device);
        match result {
            Ok(()) => return Some(signals),
            Err(status) if status.code() == Code::DEFERRED => signals.release_unsignaled(),
            Err(status) => signals.fail(status),
        }
        None
    }
}
