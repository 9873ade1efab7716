// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Signals (HSA Runtime 2.4).

use std::sync::Arc;
use std::time::Duration;

use hsa_abi::{HsaAgent, HsaSignal, HsaSignalCondition, HsaSignalValue, HsaWaitState};

use super::Library;
use super::error::{Result, check, report};

/// A signal, destroyed when dropped.
///
/// It must not be dropped while a packet or a wait that names it is pending.
#[derive(Debug)]
pub struct Signal {
    library: Arc<Library>,
    handle: HsaSignal,
}

impl Signal {
    /// Makes a signal with a value. `consumers` are the agents that will wait on it, all if empty; `attributes` are
    /// `HSA_AMD_SIGNAL_*` bits, usually 0.
    ///
    /// This takes tens of microseconds on real runtimes, so that signals are reused.
    pub fn new(library: &Arc<Library>, value: HsaSignalValue, consumers: &[HsaAgent], attributes: u64) -> Result<Self> {
        let mut handle = HsaSignal::NULL;
        let list = if consumers.is_empty() { std::ptr::null() } else { consumers.as_ptr() };
        // SAFETY: the list is as long as said; the result goes to a local.
        let status = unsafe {
            (library.symbols.hsa_amd_signal_create)(value, consumers.len() as u32, list, attributes, &mut handle)
        };
        check("hsa_amd_signal_create", status)?;
        Ok(Self { library: library.clone(), handle })
    }

    /// The HSA handle, for packets.
    pub fn handle(&self) -> HsaSignal {
        self.handle
    }

    /// The value, with acquire order.
    #[inline]
    pub fn load(&self) -> HsaSignalValue {
        // SAFETY: the signal lives.
        unsafe { (self.library.symbols.hsa_signal_load_scacquire)(self.handle) }
    }

    /// Sets the value with release order, and wakes its waiters.
    #[inline]
    pub fn store(&self, value: HsaSignalValue) {
        // SAFETY: the signal lives.
        unsafe { (self.library.symbols.hsa_signal_store_screlease)(self.handle, value) }
    }

    /// Waits until the value meets the condition, or about `timeout` has passed (forever if `None`). Returns the value
    /// last seen, with acquire order; the runtime may return early, so callers look at it.
    pub fn wait(
        &self,
        condition: HsaSignalCondition,
        operand: HsaSignalValue,
        timeout: Option<Duration>,
        state: HsaWaitState,
    ) -> HsaSignalValue {
        let ticks = ticks(&self.library, timeout);
        // SAFETY: the signal lives.
        unsafe { (self.library.symbols.hsa_signal_wait_scacquire)(self.handle, condition, operand, ticks, state) }
    }

    /// The start and end of the profiled dispatch that completed this signal, in system ticks.
    ///
    /// # Errors
    /// UNIMPLEMENTED if the runtime has no such function; the status of the call. If the signal was not completed by a
    /// dispatch on a queue with profiling there is no error, and the times mean nothing.
    pub fn dispatch_time(&self, agent: HsaAgent) -> Result<hsa_abi::HsaProfilingDispatchTime> {
        let Some(get) = self.library.symbols.hsa_amd_profiling_get_dispatch_time else {
            return Err(self.library.missing("hsa_amd_profiling_get_dispatch_time", "profile dispatches"));
        };
        let mut time = hsa_abi::HsaProfilingDispatchTime::default();
        // SAFETY: the signal lives; the result goes to a local.
        check("hsa_amd_profiling_get_dispatch_time", unsafe { get(agent, self.handle, &mut time) })?;
        Ok(time)
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        // SAFETY: made by this runtime and not destroyed before; the owner says that no one uses it any more.
        let status = unsafe { (self.library.symbols.hsa_signal_destroy)(self.handle) };
        report("hsa_signal_destroy", status);
    }
}

/// A timeout in system ticks for waits; `u64::MAX` is forever.
fn ticks(library: &Library, timeout: Option<Duration>) -> u64 {
    let Some(timeout) = timeout else { return u64::MAX };
    let frequency = u128::from(library.system().timestamp_frequency);
    let ticks = timeout.as_nanos().saturating_mul(frequency) / 1_000_000_000;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}
