// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Host calls: functions of the application that queues order (`iree_hal_device_queue_host_call`).

use smallvec::SmallVec;

use crate::core::queue::timeline::SignalList;
use crate::core::queue::trace::HostTrace;
use crate::ffi::{Code, HalRef, Result, Status, WeakDevice, iree, raw, status};

/// A call to be made on the host worker. While it waits for its semaphores it does not keep the device alive: a device that is released
/// cancels it.
pub struct HostCall {
    function: Function,
    device: WeakDevice,
    affinity: u64,
    args: [u64; 4],
    non_blocking: bool,
    trace: HostTrace,
}

/// A function of the application that may be called once, on any thread.
struct Function(raw::iree_hal_host_call_t);

// SAFETY: the promise of [`HostCall::new`].
unsafe impl Send for Function {}

impl HostCall {
    /// A call on `device`, which lives while the function runs, by the queue with the bit `affinity`. If it is `non_blocking`, the
    /// semaphores advance before the function is called, which neither sees them nor can fail them.
    ///
    /// # Safety
    /// The function of `call` may be called once with its user data, on any thread and at any time, with the arguments and context that
    /// `iree/hal/device.h` describes.
    pub unsafe fn new(
        call: raw::iree_hal_host_call_t,
        args: [u64; 4],
        (device, affinity): (WeakDevice, u64),
        non_blocking: bool,
        trace: HostTrace,
    ) -> Self {
        Self { function: Function(call), device, affinity, args, non_blocking, trace }
    }

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
        let Function(call) = &self.function;
        let Some(function) = call.fn_ else {
            return Err(status!(INVALID_ARGUMENT, "the host call has no function"));
        };
        let (mut semaphores, mut values): (SmallVec<[_; 4]>, SmallVec<[_; 4]>) =
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
        // SAFETY: [`Self::new`] was promised that the function may be called, and `run` takes the call; arguments, context, device and semaphores live during the call, and
        // it returns a status that is ours.
        unsafe { iree!(function(call.user_data, self.args.as_ptr(), &raw mut context)) }
    }
}
