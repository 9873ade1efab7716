// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Host calls: functions of the application that queues order (`iree_hal_device_queue_host_call`).

use crate::core::profile::trace::HostTrace;
use crate::core::semaphore::SignalList;
use crate::ffi::{Code, HalRef, Result, Status, WeakDevice, iree, raw, status};

/// A call to be made on the host worker. While it waits for its semaphores it does not keep the device alive: a device that is released
/// cancels it.
pub struct HostCall {
    /// The device it was queued on, which lives while the function runs.
    pub device: WeakDevice,
    /// The bit of the queue it was queued on.
    pub affinity: u64,
    /// The function and its user data.
    pub call: raw::iree_hal_host_call_t,
    /// Arguments.
    pub args: [u64; 4],
    /// The semaphores advance before the function is called, which neither sees them nor can fail them.
    pub non_blocking: bool,
    /// For the profile.
    pub trace: HostTrace,
}

// SAFETY: the user data goes to the function only, which the application gave to be called on any thread (`iree/hal/device.h`).
unsafe impl Send for HostCall {}

impl HostCall {
    /// Calls the function and signals or fails `signals` as it says.
    pub fn run(mut self, signals: SignalList) {
        let Some(device) = self.device.upgrade() else {
            return signals.fail(status!(CANCELLED, "the device was destroyed before the host call was made"));
        };
        self.trace.begin();
        if self.non_blocking {
            signals.signal();
            // Nobody can see what it returns: the semaphores have advanced.
            let result = self.invoke(&device, &SignalList::default());
            self.trace.end(result.as_ref().err().map(Status::code));
            return;
        }
        let result = self.invoke(&device, &signals);
        self.trace.end(result.as_ref().err().map(Status::code));
        // Before the semaphores advance, so that whoever waits for them and then releases the device destroys it on its own thread.
        drop(device);
        match result {
            Ok(()) => signals.signal(),
            Err(status) if status.code() == Code::DEFERRED => signals.forget(),
            Err(status) => signals.fail(status),
        }
    }

    fn invoke(&self, device: &HalRef<raw::iree_hal_device_t>, signals: &SignalList) -> Result<()> {
        let Some(function) = self.call.fn_ else {
            return Err(status!(INVALID_ARGUMENT, "the host call has no function"));
        };
        let (mut semaphores, mut values): (Vec<_>, Vec<_>) =
            signals.iter().map(|(semaphore, value)| (semaphore.as_ptr(), value)).unzip();
        let mut context = raw::iree_hal_host_call_context_t {
            device: device.as_ptr(),
            queue_affinity: self.affinity,
            signal_semaphore_list: raw::iree_hal_semaphore_list_t {
                count: semaphores.len(),
                semaphores: semaphores.as_mut_ptr(),
                payload_values: values.as_mut_ptr(),
            },
        };
        // SAFETY: the application's function with its own user data; arguments, context, device and semaphores live during the call, and
        // it returns a status that is ours.
        unsafe { iree!(function(self.call.user_data, self.args.as_ptr(), &raw mut context)) }
    }
}
