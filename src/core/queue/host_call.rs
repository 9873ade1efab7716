// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Host calls: functions of the application that queues order (`iree_hal_device_queue_host_call`).

use std::sync::Arc;

use crate::core::queue::Queue;
use crate::core::queue::host_line::Chain;
use crate::core::queue::host_worker::HostTask;
use crate::core::queue::submit::run_on_host;
use crate::core::queue::timeline::SignalList;
use crate::core::queue::trace::host::HostTrace;
use crate::ffi::host_call::HostFunction;
use crate::ffi::{Code, HalRef, RawDevice, Result, SemaphoreList, Status, WeakDevice, status};

/// A call to be made on the host worker. While it waits for its semaphores it does not keep the device alive: a device
/// that is released cancels it.
pub struct HostCall {
    function: HostFunction,
    affinity: u64,
    args: [u64; 4],
    non_blocking: bool,
    trace: HostTrace,
}

impl HostCall {
    /// A call of `function` by the queue with the bit `affinity`. If it is `non_blocking`, the semaphores advance
    /// before the function is called, which neither sees them nor can fail them.
    pub fn new(function: HostFunction, args: [u64; 4], affinity: u64, non_blocking: bool, trace: HostTrace) -> Self {
        Self { function, affinity, args, non_blocking, trace }
    }

    /// Calls the function on `device` and signals or fails `signals` as it says. In between it asks `lets_go` whether
    /// to let go of the device: before the semaphores advance, so that whoever waits for them and then releases the
    /// device destroys it on its own thread.
    pub fn run(
        mut self,
        device: &mut Option<HalRef<RawDevice>>,
        signals: SignalList,
        lets_go: impl FnOnce(&HalRef<RawDevice>) -> bool,
    ) {
        let Some(target) = device.as_ref() else {
            return signals.fail(device_is_gone());
        };
        self.trace.begin();
        if self.non_blocking {
            signals.keep_promise();
            // Nobody can see what it returns: the semaphores have advanced.
            let result = self.function.call((target, self.affinity), &self.args, SignalList::default().iter());
            self.trace.end(result.as_ref().err().map(Status::code));
            return;
        }
        let result = self.function.call((target, self.affinity), &self.args, signals.iter());
        self.trace.end(result.as_ref().err().map(Status::code));
        if lets_go(target) {
            *device = None;
        }
        match result {
            Ok(()) => signals.keep_promise(),
            Err(status) if status.code() == Code::DEFERRED => signals.forget(),
            Err(status) => signals.fail(status),
        }
    }
}

/// Why a call is not made.
pub fn device_is_gone() -> Status {
    status!(CANCELLED, "the device was destroyed before the host call was made")
}

/// Makes `call` on the host worker, on the device that `device` gives, once `waits` are reached; `signals` follow it.
///
/// # Errors
/// The device is lost; the signal semaphores are untouched.
pub fn submit_call(
    queue: &Arc<Queue>,
    waits: SemaphoreList<'_>,
    signals: SemaphoreList<'_>,
    call: HostCall,
    device: impl FnOnce() -> WeakDevice,
) -> Result<()> {
    queue.check_alive()?;
    // What it signals, if that may be what another call waits for.
    let link = signals.iter().next().filter(|_| signals.len() == 1 && !call.non_blocking);
    if let Some((semaphore, value)) = link
        && let Some(wait) = waits.iter().next().filter(|_| waits.len() == 1)
        && wait.0.as_ptr() == semaphore.as_ptr()
        && let Some(place) = queue.host_line().behind(queue, wait)
    {
        place.take(call, value);
        return Ok(());
    }
    queue.host_line().set_target(queue, device);
    let chain = link.and_then(|(semaphore, value)| Chain::begin(queue, semaphore, value));
    let task: HostTask = match chain {
        Some(chain) => Box::new(move |signals| {
            call.run(&mut chain.device(), signals, |_| true);
            chain.go_on();
            Some(chain)
        }),
        None => {
            let line = queue.host_line().clone();
            Box::new(move |signals| {
                call.run(&mut line.device(), signals, |_| true);
                None
            })
        }
    };
    run_on_host(queue, waits, signals, task);
    Ok(())
}
