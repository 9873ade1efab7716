// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! User-mode queues (HSA Runtime 2.5), which are made and destroyed here. Their packets are written by `ring`.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use hsa_abi::{AmdQueue, AmdSignal, AmdSignalKind, HsaPointerType, HsaQueue, HsaQueueType, HsaStatus};

use super::error::{Error, Result, check, check_with, report};
use super::{Agent, Library, pointer_info};

/// Called when a queue stops with an error, on a thread of the runtime, with the error. It must not destroy the queue,
/// nor wait for anything that only the runtime's threads can do.
pub type QueueErrorHandler = Box<dyn Fn(Error) + Send + Sync>;

/// A hardware queue, destroyed when dropped: packets that have not run by then never will. It must not be dropped in
/// its own error handler.
pub struct HardwareQueue {
    agent: Agent,
    queue: NonNull<AmdQueue>,
    doorbell: NonNull<u64>,
    is_on_agent: bool,
    // The user data of the error callback.
    _errors: Arc<Errors>,
}

struct Errors {
    library: Arc<Library>,
    handler: QueueErrorHandler,
}

// SAFETY: a queue is a few addresses that are shared with a device anyway; the runtime's functions may be called from
// any thread, and the handler is Send and Sync.
unsafe impl Send for HardwareQueue {}
// SAFETY: shared references only read addresses and call functions of the runtime that are thread-safe.
unsafe impl Sync for HardwareQueue {}

impl std::fmt::Debug for HardwareQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HardwareQueue({:p})", self.queue)
    }
}

impl HardwareQueue {
    /// Makes a queue of `packets` (a power of two) for any number of producers.
    ///
    /// # Errors
    /// The status of the call, with the arguments and the agent's limits;
    /// [`Error::Incompatible`] if its doorbell is not a plain 64-bit store (gfx8 and older).
    pub fn new(agent: &Agent, packets: u32, on_error: QueueErrorHandler) -> Result<Self> {
        let library = agent.library();
        let errors = Arc::new(Errors { library: library.clone(), handler: on_error });
        let data = Arc::as_ptr(&errors).cast_mut().cast::<c_void>();
        let mut queue: *mut HsaQueue = std::ptr::null_mut();
        // SAFETY: the callback and its data go together, and the data lives until the queue is destroyed. UINT32_MAX
        // leaves both segment sizes to the runtime.
        let status = unsafe {
            (library.symbols.hsa_queue_create)(
                agent.handle(),
                packets,
                HsaQueueType::MULTI,
                Some(on_queue_error),
                data,
                u32::MAX,
                u32::MAX,
                &mut queue,
            )
        };
        let info = agent.info();
        let details = || {
            format!(
                "a queue of {packets} packets on {} ({}), which takes {} to {} packets and {} queues",
                info.product, info.name, info.queue_min_size, info.queue_max_size, info.queues_max
            )
        };
        check_with("hsa_queue_create", status, details)?;
        let Some(queue) = NonNull::new(queue.cast::<AmdQueue>()) else {
            let status = HsaStatus::ERROR_OUT_OF_RESOURCES;
            return Err(Error::Call { call: "hsa_queue_create", status, details: details() });
        };
        let found = match doorbell_of(queue) {
            Some(doorbell) => is_memory_of(agent, base_address(queue)).map(|is_on_agent| (doorbell, is_on_agent)),
            None => {
                let reason = format!("the doorbell of a queue on {} is not a 64-bit register", info.name);
                Err(Error::Incompatible { library: library.path().to_path_buf(), reason })
            }
        };
        match found {
            Ok((doorbell, is_on_agent)) => {
                Ok(Self { agent: agent.clone(), queue, doorbell, is_on_agent, _errors: errors })
            }
            Err(error) => {
                // SAFETY: made above and used by no one.
                let status = unsafe { (library.symbols.hsa_queue_destroy)(queue.as_ptr().cast()) };
                report("hsa_queue_destroy", status);
                Err(error)
            }
        }
    }

    /// The queue object, shared with the packet processor. Valid for as long as `self`.
    pub fn as_ptr(&self) -> NonNull<AmdQueue> {
        self.queue
    }

    /// The ring of packets: [`capacity`](Self::capacity) slots of 64 bytes. Valid for as long as `self`.
    #[cfg(test)]
    pub fn ring(&self) -> *mut u8 {
        base_address(self.queue)
    }

    /// Returns true if the ring of packets is in the agent's own memory, as ROCR puts it for
    /// HSA_ALLOCATE_QUEUE_DEV_MEM=1.
    pub fn is_on_agent(&self) -> bool {
        self.is_on_agent
    }

    /// The number of packets in the ring, a power of two; may be more than requested.
    #[cfg(test)]
    pub fn capacity(&self) -> u32 {
        // SAFETY: the runtime made the queue; the field never changes.
        unsafe { (&raw const (*self.queue.as_ptr()).hsa_queue.size).read() }
    }

    /// The doorbell: a 64-bit register that takes the id of the last packet published, by one volatile or atomic store.
    /// Valid for as long as `self`.
    pub fn doorbell(&self) -> NonNull<u64> {
        self.doorbell
    }

    /// Aborts running packets and takes no more (HSA Runtime 1.2, `hsa_queue_inactivate`).
    pub fn inactivate(&self) {
        // SAFETY: the queue lives.
        let status = unsafe { (self.agent.library().symbols.hsa_queue_inactivate)(self.queue.as_ptr().cast()) };
        report("hsa_queue_inactivate", status);
    }

    /// Enables or disables time stamps of the packet processor in the completion signals of dispatches.
    ///
    /// # Errors
    /// UNIMPLEMENTED if the runtime has no such function; the status of the call.
    pub fn set_profiling(&self, enabled: bool) -> Result<()> {
        let library = self.agent.library();
        let Some(set) = library.symbols.hsa_amd_profiling_set_profiler_enabled else {
            return Err(library.missing("hsa_amd_profiling_set_profiler_enabled", "profile dispatches"));
        };
        // SAFETY: the queue lives.
        let status = unsafe { set(self.queue.as_ptr().cast(), enabled.into()) };
        check("hsa_amd_profiling_set_profiler_enabled", status)
    }
}

impl Drop for HardwareQueue {
    fn drop(&mut self) {
        // SAFETY: made by this runtime and not destroyed before. The runtime calls the error callback no more once this
        // has returned, so the handler may go after it.
        let status = unsafe { (self.agent.library().symbols.hsa_queue_destroy)(self.queue.as_ptr().cast()) };
        report("hsa_queue_destroy", status);
    }
}

/// The ring of packets of a queue.
fn base_address(queue: NonNull<AmdQueue>) -> *mut u8 {
    // SAFETY: the runtime made the queue; the field never changes.
    unsafe { (&raw const (*queue.as_ptr()).hsa_queue.base_address).read() }.cast()
}

/// Returns true if `pointer` is to memory of `agent` itself; false if the runtime has no such allocation.
pub(super) fn is_memory_of(agent: &Agent, pointer: *const u8) -> Result<bool> {
    let info = pointer_info(agent.library(), pointer)?;
    Ok(info.kind != HsaPointerType::UNKNOWN && info.owner == agent.handle())
}

/// The hardware doorbell register behind a queue's doorbell signal (`amd_signal_t`), if it is one that takes 64 bits.
fn doorbell_of(queue: NonNull<AmdQueue>) -> Option<NonNull<u64>> {
    // SAFETY: the runtime made the queue; the field never changes.
    let signal = unsafe { (&raw const (*queue.as_ptr()).hsa_queue.doorbell_signal).read() };
    let signal: *mut AmdSignal = signal.as_ptr();
    if signal.is_null() {
        return None;
    }
    // SAFETY: with ROCR a signal's handle is the address of its object, and a doorbell's fields never change.
    let (kind, value) = unsafe { ((&raw const (*signal).kind).read(), (&raw const (*signal).value).read()) };
    if kind != AmdSignalKind::DOORBELL {
        return None;
    }
    NonNull::new(std::ptr::with_exposed_provenance_mut(value as usize))
}

unsafe extern "C" fn on_queue_error(status: HsaStatus, queue: *mut HsaQueue, data: *mut c_void) {
    // SAFETY: `data` is the pointer that `new` gave, and lives until the queue is destroyed.
    let errors = unsafe { &*data.cast::<Errors>() };
    // Nothing may unwind into the runtime; a handler that panics has reported all that it could.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let details = errors.library.last_fault(queue).unwrap_or_default();
        (errors.handler)(Error::Call { call: "a hardware queue", status, details });
    }));
}
