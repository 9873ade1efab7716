// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Functions of the application that queues order (`iree_hal_host_call_t`).

use smallvec::SmallVec;

use super::{HalRef, RawDevice, Result, SemaphoreRef, iree, raw, status};

/// A function of the application that may be called once, on any thread.
pub struct HostFunction(raw::iree_hal_host_call_t);

// SAFETY: the promise of [`HostFunction::new`].
unsafe impl Send for HostFunction {}

impl HostFunction {
    /// Takes a function of C.
    ///
    /// # Safety
    /// The function of `call` may be called once with its user data, on any thread and at any time, with the arguments
    /// and context that `iree/hal/device.h` describes.
    pub unsafe fn new(call: raw::iree_hal_host_call_t) -> Self {
        Self(call)
    }

    /// Calls the function for the queue of `device` with the bit `affinity`. The function gets `signals`.
    ///
    /// # Errors
    /// The error of the function; INVALID_ARGUMENT if there is none.
    pub fn call<'a>(
        self,
        (device, affinity): (&HalRef<RawDevice>, u64),
        args: &[u64; 4],
        signals: impl Iterator<Item = (&'a SemaphoreRef, u64)>,
    ) -> Result<()> {
        let Some(function) = self.0.fn_ else {
            return Err(status!(INVALID_ARGUMENT, "the host call has no function"));
        };
        let (mut semaphores, mut values): (SmallVec<[_; 4]>, SmallVec<[_; 4]>) =
            signals.map(|(semaphore, value)| (semaphore.as_ptr(), value)).unzip();
        let mut context = raw::iree_hal_host_call_context_t {
            device: device.as_ptr(),
            queue_affinity: affinity,
            signal_semaphore_list: raw::iree_hal_semaphore_list_t {
                count: semaphores.len(),
                semaphores: semaphores.as_mut_ptr(),
                payload_values: values.as_mut_ptr(),
            },
        };
        // SAFETY: `new` was promised that the function may be called once, and this takes it; arguments, context,
        // device and semaphores live during the call, and it returns a status that is ours.
        unsafe { iree!(function(self.0.user_data, args.as_ptr(), &raw mut context)) }
    }
}
