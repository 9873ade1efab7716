// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Asynchronous callbacks to the program: errors of queues, faults of agents.
//!
//! One thread calls all callbacks, one after another, so that a callback that blocks delays all others. As in ROCR (6.2
//! to 1.18: `runtime.cpp`, `VMFaultHandler`, `HwExceptionHandler`; `amd_aql_queue.cpp`, `ExceptionHandler`):
//!
//! * A memory fault goes to the handlers of system events only; the queue's error callback is never called. Every
//!   handler is called. If none returns SUCCESS, the process ends.
//! * The runtime stops listening after the first memory fault, and after the first reset. The program is not told of a
//!   second one, on any agent.
//! * Without interrupts (`HSA_ENABLE_INTERRUPT=0`) it never listens to either (`BindErrorHandlers`).
//! * After either, the kernel driver evicts all queues of the process from the agent (`kfd_dqm_evict_pasid`) until the
//!   process ends: packets in progress never complete, and queues created later never run.

use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hsa_abi::{
    HsaAmdEvent, HsaAmdEventData, HsaAmdEventType, HsaAmdHwException, HsaAmdMemoryFault, HsaAmdSystemEventCallback,
    HsaStatus,
};
use parking_lot::Mutex;

use crate::machine::agent_id::{self, AgentIndex};
use crate::machine::memory::allocation::PAGE;

/// `HSA_AMD_HW_EXCEPTION_RESET_TYPE_OTHER` and `HSA_AMD_HW_EXCEPTION_CAUSE_GPU_HANG`.
const RESET_TYPE_OTHER: u32 = 1 << 0;
const CAUSE_GPU_HANG: u32 = 1 << 0;

/// Interval at which a processor that waits for scratch memory checks if its queue was stopped.
const SCRATCH_CHECK: Duration = Duration::from_millis(1);

#[derive(Clone, Copy)]
struct Handler {
    callback: HsaAmdSystemEventCallback,
    data: *mut c_void,
}

// SAFETY: `data` is the host program's; it is only handed back to its callback, and a program that
// registers a handler accepts that a thread of the runtime calls it.
unsafe impl Send for Handler {}

enum Report {
    /// The error callback of a queue.
    Queue(Box<dyn FnOnce() + Send>),
    System(HsaAmdEvent),
    /// A packet processor waits for scratch memory. The answer releases it.
    Scratch(Sender<()>),
}

type Handlers = Arc<Mutex<Vec<Handler>>>;

/// The thread that calls the program's callbacks, and its queue of messages.
#[derive(Default)]
pub struct Events {
    handlers: Handlers,
    reports: Mutex<Option<Sender<Report>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    is_deaf: bool,
    fault_was_reported: AtomicBool,
    reset_was_reported: AtomicBool,
}

impl Events {
    /// Creates the events. Without `interrupts`, memory faults and resets reach no handler.
    pub fn new(interrupts: bool) -> Self {
        Self { is_deaf: !interrupts, ..Self::default() }
    }

    /// Starts the thread.
    pub fn start(&self) -> io::Result<()> {
        let (sender, receiver) = mpsc::channel();
        let handlers = self.handlers.clone();
        let run = move || report_all(&receiver, &handlers);
        *self.thread.lock() = Some(thread::Builder::new().name("hsa-sim-events".into()).spawn(run)?);
        *self.reports.lock() = Some(sender);
        Ok(())
    }

    /// Ends the thread after all messages.
    pub fn stop(&self) {
        *self.reports.lock() = None;
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
        {
            // A thread that panicked has nothing left to tell.
            let _ = thread.join();
        }
    }

    /// Registers a handler of system events for the life of the machine.
    pub fn add_handler(&self, callback: HsaAmdSystemEventCallback, data: *mut c_void) {
        self.handlers.lock().push(Handler { callback, data });
    }

    /// Schedules `call`, which calls a queue's error callback.
    pub fn queue_error(&self, call: impl FnOnce() + Send + 'static) {
        self.send(Report::Queue(Box::new(call)));
    }

    /// Calls the handlers for an access to `address`. The hardware reports its page.
    pub fn memory_fault(&self, agent: AgentIndex, address: u64, reason: u32) {
        let memory_fault = HsaAmdMemoryFault {
            agent: agent_id::agent_handle(agent),
            virtual_address: address & !(PAGE as u64 - 1),
            fault_reason_mask: reason,
        };
        let data = HsaAmdEventData { memory_fault };
        self.send_first(&self.fault_was_reported, HsaAmdEventType::GPU_MEMORY_FAULT, data);
    }

    /// Calls the handlers for a reset of `agent`.
    pub fn reset(&self, agent: AgentIndex) {
        let agent = agent_id::agent_handle(agent);
        let hw_exception = HsaAmdHwException { agent, reset_type: RESET_TYPE_OTHER, reset_cause: CAUSE_GPU_HANG };
        let data = HsaAmdEventData { hw_exception };
        self.send_first(&self.reset_was_reported, HsaAmdEventType::GPU_HW_EXCEPTION, data);
    }

    /// Requests scratch memory for a packet processor, and waits for it while it is `wanted`. The callbacks' thread
    /// provides it, after all callbacks that are due.
    pub fn provide_scratch(&self, wanted: impl Fn() -> bool) {
        let (answer, answered) = mpsc::channel();
        self.send(Report::Scratch(answer));
        while wanted() && answered.recv_timeout(SCRATCH_CHECK) == Err(RecvTimeoutError::Timeout) {}
    }

    fn send_first(&self, was_reported: &AtomicBool, event_type: HsaAmdEventType, data: HsaAmdEventData) {
        if self.is_deaf {
            eprintln!("hsa-sim: the program is not told: without interrupts ROCR does not listen to the kernel driver");
        } else if was_reported.swap(true, Ordering::SeqCst) {
            eprintln!("hsa-sim: the program is not told: ROCR reports only the first event of a kind");
        } else {
            self.send(Report::System(HsaAmdEvent { event_type, data }));
        }
    }

    fn send(&self, report: Report) {
        if let Some(reports) = &*self.reports.lock() {
            // The thread ends only after the sender has gone.
            let _ = reports.send(report);
        }
    }
}

fn report_all(reports: &Receiver<Report>, handlers: &Handlers) {
    set_calling_back();
    for report in reports {
        match report {
            Report::Queue(call) => call(),
            Report::System(event) => tell(&event, handlers),
            // The queue that asked may have been stopped.
            Report::Scratch(answer) => drop(answer.send(())),
        }
    }
}

fn tell(event: &HsaAmdEvent, handlers: &Handlers) {
    let handlers = handlers.lock().clone();
    let mut is_handled = false;
    for Handler { callback, data } in handlers {
        // SAFETY: the host program registered this callback for events with this data.
        is_handled |= unsafe { callback(ptr::from_ref(event), data) } == HsaStatus::SUCCESS;
    }
    if !is_handled {
        eprintln!("hsa-sim: no handler took care of {:?}: the process is ended, as ROCR does", event.event_type);
        std::process::abort();
    }
}

thread_local! {
    // Whether this thread calls back.
    static CALLS_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one that calls the program's callbacks.
pub fn set_calling_back() {
    CALLS_BACK.set(true);
}

/// True if this thread is in a callback.
pub fn is_calling_back() -> bool {
    CALLS_BACK.get()
}
