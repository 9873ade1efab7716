// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Handlers of signals (`hsa_amd_signal_async_handler`).
//!
//! One thread waits for the conditions of all handlers and calls the handlers that are due, one after another, as
//! ROCR's `AsyncEventsLoop` does (`runtime.cpp`). It starts with the first handler. A handler keeps its signal: a
//! program that destroys the signal only gives up its handle.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use hsa_abi::{HsaAmdSignalHandler, HsaStatus};
use parking_lot::Mutex;

use crate::machine::events;
use crate::machine::signal::{self, Condition, Signals, Waiting};

/// The parts of the machine that the handlers' thread uses.
pub trait Host: Send + Sync {
    /// The handlers.
    fn handlers(&self) -> &Handlers;
    /// The signals.
    fn signals(&self) -> &Signals;
    /// True if the thread must end.
    fn stopping(&self) -> bool;
    /// Called when the thread begins to wait, see [`Signals::wait_any`].
    fn watch(&self);
}

/// A function of the program, and the condition on which it is called.
struct Handler {
    condition: Condition,
    function: HsaAmdSignalHandler,
    argument: *mut c_void,
}

// SAFETY: `argument` is the host program's; it is only handed back to its function, and a program that registers a
// handler accepts that a thread of the runtime calls it.
unsafe impl Send for Handler {}

/// The thread that calls handlers, and the handlers that it has not taken over yet.
#[derive(Default)]
pub struct Handlers {
    added: Mutex<Vec<Handler>>,
    has_added: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Handlers {
    /// Calls `function` on the handlers' thread when `condition` holds, until it returns false.
    pub fn add(
        &self,
        host: &Arc<impl Host + 'static>,
        condition: Condition,
        function: HsaAmdSignalHandler,
        argument: *mut c_void,
    ) -> Result<(), HsaStatus> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let host = Arc::clone(host);
            let started = thread::Builder::new().name("hsa-sim-handler".into()).spawn(move || run(&*host));
            *thread = Some(started.map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)?);
        }
        host.signals().retain(condition.signal);
        self.added.lock().push(Handler { condition, function, argument });
        self.has_added.store(true, Ordering::SeqCst);
        if let Some(thread) = &*thread {
            thread.thread().unpark();
        }
        Ok(())
    }

    /// Ends the thread after a running handler. The machine must already be stopping.
    pub fn stop(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            // A thread that panicked has nothing left to call.
            let _ = thread.join();
        }
    }

    fn take(&self) -> Vec<Handler> {
        let mut added = self.added.lock();
        self.has_added.store(false, Ordering::SeqCst);
        std::mem::take(&mut *added)
    }
}

fn run(host: &impl Host) {
    events::set_calling_back();
    let mut handlers = Vec::new();
    while !host.stopping() {
        handlers.append(&mut host.handlers().take());
        if handlers.is_empty() {
            thread::park();
            continue;
        }
        let conditions: Vec<_> = handlers.iter().map(|handler| handler.condition).collect();
        let sleeps = conditions.iter().all(|condition| signal::mailbox(condition.signal).is_some());
        let how = if sleeps { Waiting::Sleeping } else { Waiting::Polling };
        let stop = || host.stopping() || host.handlers().has_added.load(Ordering::SeqCst);
        if host.signals().wait_any(how, &conditions, None, || host.watch(), stop).is_some() {
            handlers.retain(|handler| call_if_due(host.signals(), handler));
        }
    }
}

/// Calls a handler whose condition holds. Returns true if the handler stays.
fn call_if_due(signals: &Signals, handler: &Handler) -> bool {
    let Some(value) = handler.condition.met() else { return true };
    // SAFETY: the program registered this function for this argument.
    let stays = unsafe { (handler.function)(value, handler.argument) };
    if !stays {
        signals.release(handler.condition.signal);
    }
    stays
}
