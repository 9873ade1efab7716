// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Faults that the runtime reports for a whole GPU: accesses to unmapped memory, hangs, memory errors.
//!
//! ROCR (6.2 to 1.18, `runtime.cpp`) reports these only here: it calls no queue's error callback, and packets in
//! progress never complete. It calls every handler of the process; if none returns SUCCESS, it prints the fault and
//! ends the process. One handler is registered with each runtime. It passes a fault to all listeners, and returns
//! SUCCESS if one of them takes it on.
//!
//! A memory fault or a reset ends the GPU for the process: the kernel driver removes all its queues from the hardware,
//! including those of other libraries and later ones (`kfd_dqm_evict_pasid`). ROCR does not report a second one, on any
//! GPU. [`fault_of`] checks for such a GPU before it is used.

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};

use hsa_abi::{
    HSA_AMD_MEMORY_FAULT_HOST_ONLY, HSA_AMD_MEMORY_FAULT_IMPRECISE, HSA_AMD_MEMORY_FAULT_NX,
    HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT, HSA_AMD_MEMORY_FAULT_READ_ONLY, HsaAgent, HsaAmdEvent, HsaAmdEventType,
    HsaStatus,
};
use parking_lot::{Condvar, Mutex};

use super::Library;
use super::error::Result;
use amdgpu_ffi::messages;

/// The registered listeners. Not locked while a listener runs.
static LISTENERS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
/// Threads of runtimes that are calling listeners.
static CALLING: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());
/// Signaled when one of them has returned.
static CALLED: Condvar = Condvar::new();
/// GPUs that run nothing more for this process. Each keeps its runtime up: another `hsa_init` would give the GPU
/// another handle and not restore it.
static ENDED: Mutex<Vec<(Arc<Library>, Fault)>> = Mutex::new(Vec::new());
/// Runtimes that have reported other faults. They stay up as well, so that none is shut down on its own thread, by the
/// last reference, held by a call of a listener.
static TOLD: Mutex<Vec<Arc<Library>>> = Mutex::new(Vec::new());
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

struct Entry {
    id: u64,
    runtime: usize,
    listener: Arc<Listener>,
}

type Listener = dyn Fn(&Fault) -> Option<String> + Send + Sync;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A kernel accessed memory that it may not.
    Memory,
    /// The GPU hung or was reset.
    Exception,
    /// Memory in use was found to be damaged.
    MemoryError,
}

/// A fault of a GPU. Displays as a sentence.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    /// The GPU.
    pub agent: HsaAgent,
    /// The address of a memory fault; ROCR rounds it down to a page.
    pub address: Option<u64>,
    /// The reason bits as the runtime gave them.
    pub reason: u32,
    /// Further information of the runtime in words; empty with ROCR.
    pub details: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            FaultKind::Memory => f.write_str("GPU memory access fault")?,
            FaultKind::Exception => f.write_str("GPU hang or reset")?,
            FaultKind::MemoryError => f.write_str("GPU memory error")?,
        }
        if let Some(address) = self.address {
            write!(f, " at address {address:#x}")?;
        }
        match self.kind {
            FaultKind::Memory => write!(f, ": {}", memory_reasons(self.reason))?,
            _ => write!(f, ", reason {:#x}", self.reason)?,
        }
        if self.details.is_empty() { Ok(()) } else { write!(f, "; {}", self.details) }
    }
}

/// The reasons of a memory fault in words.
fn memory_reasons(mask: u32) -> String {
    let words = [
        (HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT, "the page is not present or not accessible to the GPU"),
        (HSA_AMD_MEMORY_FAULT_READ_ONLY, "write to read-only memory"),
        (HSA_AMD_MEMORY_FAULT_NX, "memory that may not be executed"),
        (HSA_AMD_MEMORY_FAULT_HOST_ONLY, "memory that only the host may access"),
        (HSA_AMD_MEMORY_FAULT_IMPRECISE, "the address is not exact"),
    ];
    let mut reasons: Vec<_> =
        words.iter().filter(|(bit, _)| mask & bit != 0).map(|(_, word)| (*word).to_owned()).collect();
    let known = words.iter().fold(0, |bits, (bit, _)| bits | bit);
    if mask & !known != 0 || reasons.is_empty() {
        reasons.push(format!("reason {mask:#x}"));
    }
    reasons.join(", ")
}

/// Keeps a listener registered. Its drop unregisters the listener and waits for calls in progress on other threads.
#[derive(Debug)]
pub struct FaultListener {
    id: u64,
}

impl Drop for FaultListener {
    fn drop(&mut self) {
        let mut listeners = LISTENERS.lock();
        let entry = listeners.iter().position(|entry| entry.id == self.id).map(|i| listeners.remove(i));
        // The closure's captures are dropped without the lock.
        drop(listeners);
        drop(entry);
        // Otherwise the thread of a call might drop the closure's captures last, and shut the runtime down on one of
        // the runtime's own threads, at an unknown time.
        let own = thread::current().id();
        let mut calling = CALLING.lock();
        while calling.iter().any(|thread| *thread != own) {
            CALLED.wait(&mut calling);
        }
    }
}

/// Calls `listener` for each fault of any agent, on a thread of the runtime, until the result is dropped. If the
/// listener takes the fault on, it returns the message for it; then the runtime neither prints the fault nor ends the
/// process. It must not wait for anything that only the runtime's threads can do, nor for the thread that drops the
/// result, which may have locked standard error.
///
/// Not all faults are reported ([`tells_faults`]).
pub fn listen(library: &Library, listener: impl Fn(&Fault) -> Option<String> + Send + Sync + 'static) -> FaultListener {
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let entry = Entry { id, runtime: key(library), listener: Arc::new(listener) };
    LISTENERS.lock().push(entry);
    FaultListener { id }
}

/// Returns true if the next fault of a GPU will be reported. No fault is reported after the first one, with
/// HSA_ENABLE_INTERRUPT=0 (`runtime.cpp`, `VMFaultHandler` and `BindErrorHandlers`), or if [`Library::reports_faults`]
/// is false.
pub fn tells_faults(library: &Library) -> bool {
    let has_told = || {
        let ended = ENDED.lock().iter().any(|(other, _)| key(other) == key(library));
        ended || TOLD.lock().iter().any(|other| key(other) == key(library))
    };
    let listens = std::env::var_os("HSA_ENABLE_INTERRUPT").is_none_or(|value| value != "0");
    listens && library.reports_faults() && !has_told()
}

/// The fault that ended `agent` for this process, if there was one.
pub fn fault_of(library: &Library, agent: HsaAgent) -> Option<Fault> {
    let ended = ENDED.lock();
    let (_, fault) = ended.iter().find(|(other, fault)| key(other) == key(library) && fault.agent == agent)?;
    Some(fault.clone())
}

/// Registers the handler with a runtime that has just been initialised. Returns true if faults will be reported.
pub(super) fn register(library: &Library) -> Result<bool> {
    let Some(register) = library.symbols.hsa_amd_register_system_event_handler else { return Ok(false) };
    // SAFETY: the callback lives for ever, and its data is a number.
    let status = unsafe { register(Some(on_event), std::ptr::without_provenance_mut(key(library))) };
    // Older runtimes take only one handler: another user of this process has it then.
    Ok(status == HsaStatus::SUCCESS)
}

/// The identity of a runtime within the process.
pub(super) fn key(library: &Library) -> usize {
    library.symbols.hsa_init as usize
}

unsafe extern "C" fn on_event(event: *const HsaAmdEvent, data: *mut c_void) -> HsaStatus {
    // SAFETY: the runtime gives an event that is valid during the call, or null.
    let Some(event) = (unsafe { event.as_ref() }) else { return HsaStatus::ERROR };
    // Nothing may unwind into the runtime.
    let handled = catch_unwind(AssertUnwindSafe(|| decode(event).is_some_and(|fault| dispatch(data.addr(), fault))));
    // An error leaves the fault to the runtime's default, which is to end the process.
    if handled.unwrap_or(false) { HsaStatus::SUCCESS } else { HsaStatus::ERROR }
}

fn decode(event: &HsaAmdEvent) -> Option<Fault> {
    let fault = |kind, agent, address, reason| Some(Fault { kind, agent, address, reason, details: String::new() });
    match event.event_type {
        HsaAmdEventType::GPU_MEMORY_FAULT => {
            // SAFETY: the type says that this member is the valid one.
            let data = unsafe { event.data.memory_fault };
            fault(FaultKind::Memory, data.agent, Some(data.virtual_address), data.fault_reason_mask)
        }
        HsaAmdEventType::GPU_HW_EXCEPTION => {
            // SAFETY: the type says that `hw_exception` is the valid member.
            let data = unsafe { event.data.hw_exception };
            fault(FaultKind::Exception, data.agent, None, data.reset_cause)
        }
        HsaAmdEventType::GPU_MEMORY_ERROR => {
            // SAFETY: the type says that `memory_error` is the valid member.
            let data = unsafe { event.data.memory_error };
            fault(FaultKind::MemoryError, data.agent, Some(data.virtual_address), data.error_reason_mask)
        }
        _ => None,
    }
}

/// Calls the listeners. Returns true if one of them takes the fault on.
fn dispatch(runtime: usize, mut fault: Fault) -> bool {
    let calling = Calling::begin();
    if let Some(library) = Library::of_key(runtime) {
        fault.details = library.last_fault(std::ptr::null()).unwrap_or_default();
        match fault.kind {
            FaultKind::MemoryError => TOLD.lock().push(library),
            _ => ENDED.lock().push((library, fault.clone())),
        }
    }
    let concerned = |entry: &&Entry| entry.runtime == runtime;
    let listeners: Vec<_> = LISTENERS.lock().iter().filter(concerned).map(|entry| entry.listener.clone()).collect();
    // All of them hear of it.
    let told: Vec<_> = listeners.iter().filter_map(|listener| listener(&fault)).collect();
    // A thread that waits for the end of the calls may have locked standard error.
    drop(listeners);
    drop(calling);
    told.iter().for_each(|text| messages::emit(text));
    !told.is_empty()
}

/// Marks this thread as calling listeners until it is dropped, which must be after its references to them.
struct Calling;

impl Calling {
    fn begin() -> Self {
        CALLING.lock().push(thread::current().id());
        Self
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        let own = thread::current().id();
        let mut calling = CALLING.lock();
        if let Some(index) = calling.iter().position(|thread| *thread == own) {
            calling.swap_remove(index);
        }
        CALLED.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsa_abi::{HsaAmdEventData, HsaAmdMemoryFault};

    fn memory_fault(agent: u64, address: u64, mask: u32) -> HsaAmdEvent {
        let memory_fault =
            HsaAmdMemoryFault { agent: HsaAgent { handle: agent }, virtual_address: address, fault_reason_mask: mask };
        HsaAmdEvent { event_type: HsaAmdEventType::GPU_MEMORY_FAULT, data: HsaAmdEventData { memory_fault } }
    }

    fn raise(runtime: usize, event: &HsaAmdEvent) -> HsaStatus {
        // SAFETY: the event is valid during the call.
        unsafe { on_event(event, std::ptr::without_provenance_mut(runtime)) }
    }

    fn entry(
        id: u64,
        runtime: usize,
        agent: u64,
        listener: impl Fn(&Fault) -> Option<String> + Send + Sync + 'static,
    ) -> FaultListener {
        let listener = move |fault: &Fault| if fault.agent.handle == agent { listener(fault) } else { None };
        LISTENERS.lock().push(Entry { id, runtime, listener: Arc::new(listener) });
        FaultListener { id }
    }

    #[test]
    fn faults_reach_the_listeners_of_their_agent_only() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        let listener = entry(u64::MAX, 0x1001, 7, move |fault| {
            sink.lock().push(fault.to_string());
            Some("taken on, as a test".to_owned())
        });
        assert_eq!(raise(0x1001, &memory_fault(7, 0x7f00_0000, 0b11)), HsaStatus::SUCCESS);
        assert_eq!(raise(0x1001, &memory_fault(8, 0, 1)), HsaStatus::ERROR, "another agent");
        assert_eq!(raise(0x1002, &memory_fault(7, 0, 1)), HsaStatus::ERROR, "another runtime");
        drop(listener);
        assert_eq!(raise(0x1001, &memory_fault(7, 0, 1)), HsaStatus::ERROR, "no longer listening");
        let text = "GPU memory access fault at address 0x7f000000: the page is not present or not accessible to the GPU, \
                    write to read-only memory";
        assert_eq!(*seen.lock(), [text]);
    }

    #[test]
    fn a_fault_is_taken_on_when_any_listener_says_so_and_all_hear_of_it() {
        let heard = Arc::new(AtomicU64::new(0));
        let listener = |id, takes: bool| {
            let heard = heard.clone();
            entry(id, 0x1004, 7, move |_| {
                heard.fetch_add(1, Ordering::Relaxed);
                takes.then(|| "taken on, as a test".to_owned())
            })
        };
        let idle = listener(u64::MAX - 2, false);
        assert_eq!(raise(0x1004, &memory_fault(7, 0, 1)), HsaStatus::ERROR, "nobody's");
        let busy = [listener(u64::MAX - 3, true), listener(u64::MAX - 4, false)];
        assert_eq!(raise(0x1004, &memory_fault(7, 0, 1)), HsaStatus::SUCCESS);
        assert_eq!(heard.load(Ordering::Relaxed), 4);
        drop((idle, busy));
    }

    #[test]
    fn a_listener_that_panics_or_unlistens_does_no_harm() {
        let own = Arc::new(Mutex::new(None));
        let slot = own.clone();
        let listener = entry(u64::MAX - 1, 0x1003, 1, move |_| {
            *slot.lock() = None;
            panic!("on purpose");
        });
        *own.lock() = Some(listener);
        assert_eq!(raise(0x1003, &memory_fault(1, 0, 1)), HsaStatus::ERROR);
        assert!(!LISTENERS.lock().iter().any(|entry| entry.runtime == 0x1003));
    }

    #[test]
    fn a_listener_that_is_gone_has_left_nothing_to_a_call() {
        let (entered, begun) = std::sync::mpsc::channel();
        let held = Arc::new(());
        let of_listener = held.clone();
        let listener = entry(u64::MAX - 5, 0x1005, 1, move |_| {
            let _held = &of_listener;
            entered.send(()).unwrap();
            // Until the drop has begun; and then it has time to be wrong.
            while LISTENERS.lock().iter().any(|entry| entry.runtime == 0x1005) {
                thread::yield_now();
            }
            (0..10_000).for_each(|_| thread::yield_now());
            None
        });
        let raising = thread::spawn(|| raise(0x1005, &memory_fault(1, 0, 1)));
        begun.recv().unwrap();
        drop(listener);
        assert_eq!(Arc::strong_count(&held), 1);
        assert_eq!(raising.join().unwrap(), HsaStatus::ERROR);
    }

    #[test]
    fn a_listener_goes_while_standard_error_is_locked() {
        let (entered, begun) = std::sync::mpsc::channel();
        let listener = entry(u64::MAX - 6, 0x1006, 1, move |_| {
            entered.send(()).unwrap();
            Some("taken on, as a test".to_owned())
        });
        let locked = std::io::stderr().lock();
        let raising = thread::spawn(|| raise(0x1006, &memory_fault(1, 0, 1)));
        begun.recv().unwrap();
        drop(listener);
        drop(locked);
        assert_eq!(raising.join().unwrap(), HsaStatus::SUCCESS);
    }

    #[test]
    fn unknown_reasons_and_events_are_shown_or_left_to_the_runtime() {
        assert_eq!(memory_reasons(0), "reason 0x0");
        assert_eq!(memory_reasons(0x8000_0020), "the address is not exact, reason 0x80000020");
        let mut event = memory_fault(1, 0, 1);
        event.event_type = HsaAmdEventType(99);
        assert_eq!(raise(1, &event), HsaStatus::ERROR);
    }
}
