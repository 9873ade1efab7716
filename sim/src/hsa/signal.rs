// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Signals.

use std::ffi::c_void;
use std::sync::Once;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use hsa_abi::{
    AmdSignalKind, HsaAgent, HsaAmdSignalHandler, HsaSignal, HsaSignalCondition, HsaSignalValue, HsaStatus,
    HsaWaitState,
};

use super::{Out, check_signatures, guard, slice};
use crate::machine::Machine;
use crate::machine::agent_id::CPU;
use crate::machine::clock::CLOCK_HZ;
use crate::machine::lifecycle::machine;
use crate::machine::product::rocr::Release;
use crate::machine::signal::{self, Condition, Waiting};

check_signatures! {
    hsa_signal_create hsa_amd_signal_create hsa_signal_destroy
    hsa_signal_wait_scacquire hsa_signal_wait_relaxed hsa_amd_signal_wait_any hsa_amd_signal_wait_all
    hsa_amd_signal_async_handler hsa_amd_signal_value_pointer
}

/// See HSA Runtime 2.4. Every agent can wait for every signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_signal_create(
    initial_value: HsaSignalValue,
    consumer_count: u32,
    consumers: *const HsaAgent,
    signal: *mut HsaSignal,
) -> HsaStatus {
    // SAFETY: the same contract.
    unsafe { hsa_amd_signal_create(initial_value, consumer_count, consumers, 0, signal) }
}

/// See `hsa_ext_amd.h`. Signals are visible to all agents of this process. Other processes can attach those for them. A
/// signal for GPUs only, for other processes, or with consumers but no CPU among them, has no interrupt: waiters poll
/// it.
/// Consumers are read only if the attributes allow an interrupt, and are checked more strictly than in ROCR.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_signal_create(
    initial_value: HsaSignalValue,
    consumer_count: u32,
    consumers: *const HsaAgent,
    attributes: u64,
    signal: *mut HsaSignal,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(signal)?;
        let is_shared = attributes & hsa_abi::HSA_AMD_SIGNAL_IPC != 0;
        let mut interrupt = !is_shared && attributes & hsa_abi::HSA_AMD_SIGNAL_AMD_GPU_ONLY == 0;
        if interrupt && consumer_count > 0 {
            // SAFETY: `consumers` is null or the caller's `consumer_count` elements, which do not change meanwhile.
            let consumers = unsafe { slice(consumers, consumer_count as usize)? };
            let mask = machine.agent_mask(consumers)?;
            if mask.count() != consumers.len() {
                return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
            }
            interrupt = mask.has(CPU);
        }
        let signal = if is_shared {
            machine.create_shared_signal(initial_value)?
        } else {
            machine.create_signal(AmdSignalKind::USER, initial_value, interrupt)?
        };
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(signal) };
        Ok(())
    })
}

/// A destroyed signal is an error where packets name it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_signal_destroy(signal: HsaSignal) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        if signal.is_null() {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        machine.signals.destroy(signal)
    })
}

/// Value word of a signal. A null or destroyed signal ends the process, because there is no status to return. ROCR
/// throws an uncaught exception then.
fn word(signal: HsaSignal) -> &'static AtomicI64 {
    if signal.is_null() || signal::kind(signal) == AmdSignalKind::INVALID {
        eprintln!(
            "hsa-sim: signal {:#x} is null or was destroyed, and the function that was called has no status",
            signal.handle
        );
        std::process::abort();
    }
    signal::value(signal)
}

/// Wakes the waiters of `signal` after a change of its value.
fn changed(signal: HsaSignal) {
    if let Ok(machine) = machine() {
        machine.signals.changed(signal);
    }
}

/// Stores a value. A store to a doorbell goes to the hardware doorbell and wakes its queue.
fn store(signal: HsaSignal, value: HsaSignalValue, order: Ordering) {
    let word = word(signal);
    if signal::kind(signal) == AmdSignalKind::DOORBELL {
        let doorbell = std::ptr::with_exposed_provenance_mut(word.load(Ordering::Relaxed) as usize);
        // SAFETY: a doorbell signal holds the address of its queue's doorbell word, which lives as
        // long as the queue and is only accessed atomically.
        unsafe { AtomicI64::from_ptr(doorbell) }.store(value, order);
        if let Ok(machine) = machine() {
            machine.wake_rung_queues();
        }
    } else {
        word.store(value, order);
        changed(signal);
    }
}

macro_rules! loads_and_stores {
    (load $($load:ident $load_order:ident)*; store $($store:ident $store_order:ident)*;) => {
        $(
            /// See HSA Runtime 2.4.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $load(signal: HsaSignal) -> HsaSignalValue {
                word(signal).load(Ordering::$load_order)
            }
            check_signatures! { $load }
        )*
        $(
            /// See HSA Runtime 2.4. Silent stores wake waiters, too.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $store(signal: HsaSignal, value: HsaSignalValue) {
                store(signal, value, Ordering::$store_order);
            }
            check_signatures! { $store }
        )*
    };
}

loads_and_stores! {
    load
        hsa_signal_load_scacquire Acquire
        hsa_signal_load_relaxed Relaxed;
    store
        hsa_signal_store_relaxed Relaxed
        hsa_signal_store_screlease Release
        hsa_signal_silent_store_relaxed Relaxed
        hsa_signal_silent_store_screlease Release;
}

macro_rules! updates {
    ($($operation:ident: $($name:ident $order:ident)*;)*) => {$($(
        /// See HSA Runtime 2.4.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(signal: HsaSignal, value: HsaSignalValue) {
            word(signal).$operation(value, Ordering::$order);
            changed(signal);
        }
        check_signatures! { $name }
    )*)*};
}

updates! {
    fetch_add:
        hsa_signal_add_scacq_screl AcqRel hsa_signal_add_scacquire Acquire
        hsa_signal_add_relaxed Relaxed hsa_signal_add_screlease Release;
    fetch_sub:
        hsa_signal_subtract_scacq_screl AcqRel hsa_signal_subtract_scacquire Acquire
        hsa_signal_subtract_relaxed Relaxed hsa_signal_subtract_screlease Release;
    fetch_and:
        hsa_signal_and_scacq_screl AcqRel hsa_signal_and_scacquire Acquire
        hsa_signal_and_relaxed Relaxed hsa_signal_and_screlease Release;
    fetch_or:
        hsa_signal_or_scacq_screl AcqRel hsa_signal_or_scacquire Acquire
        hsa_signal_or_relaxed Relaxed hsa_signal_or_screlease Release;
    fetch_xor:
        hsa_signal_xor_scacq_screl AcqRel hsa_signal_xor_scacquire Acquire
        hsa_signal_xor_relaxed Relaxed hsa_signal_xor_screlease Release;
}

macro_rules! exchanges {
    ($($exchange:ident $cas:ident $order:ident $failure:ident;)*) => {$(
        /// See HSA Runtime 2.4.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $exchange(
            signal: HsaSignal,
            value: HsaSignalValue,
        ) -> HsaSignalValue {
            let before = word(signal).swap(value, Ordering::$order);
            changed(signal);
            before
        }

        /// See HSA Runtime 2.4.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $cas(
            signal: HsaSignal,
            expected: HsaSignalValue,
            value: HsaSignalValue,
        ) -> HsaSignalValue {
            let word = word(signal);
            match word.compare_exchange(expected, value, Ordering::$order, Ordering::$failure) {
                Ok(before) => {
                    changed(signal);
                    before
                }
                Err(before) => before,
            }
        }
        check_signatures! { $exchange $cas }
    )*};
}

exchanges! {
    hsa_signal_exchange_scacq_screl hsa_signal_cas_scacq_screl AcqRel Acquire;
    hsa_signal_exchange_scacquire hsa_signal_cas_scacquire Acquire Acquire;
    hsa_signal_exchange_relaxed hsa_signal_cas_relaxed Relaxed Relaxed;
    hsa_signal_exchange_screlease hsa_signal_cas_screlease Release Relaxed;
}

/// End of a wait of `ticks`; `None` for waits beyond a machine's life.
fn deadline(ticks: u64) -> Option<Instant> {
    const _: () = assert!(CLOCK_HZ == 1_000_000_000);
    Instant::now().checked_add(Duration::from_nanos(ticks)).filter(|_| ticks < u64::MAX / 2)
}

fn wait(conditions: &[Condition], timeout_hint: u64, state: HsaWaitState) -> Option<(usize, i64)> {
    let machine = machine().ok()?;
    let sleeps =
        state != HsaWaitState::ACTIVE && conditions.iter().all(|condition| signal::mailbox(condition.signal).is_some());
    let how = if sleeps { Waiting::Sleeping } else { Waiting::Polling };
    machine.signals.wait_any(how, conditions, deadline(timeout_hint), || machine.watch(), || machine.stopping())
}

/// Blocks without spinning, whatever the hint says. A blocked wait for a signal with an interrupt does not notice bare
/// stores. The result is zero if the signal is destroyed meanwhile. A condition that HSA does not define is never met;
/// ROCm 6.2 returns zero for it without waiting.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_signal_wait_scacquire(
    signal: HsaSignal,
    condition: HsaSignalCondition,
    compare_value: HsaSignalValue,
    timeout_hint: u64,
    wait_state_hint: HsaWaitState,
) -> HsaSignalValue {
    let word = word(signal);
    let known = condition.evaluate(0, 0).is_some();
    if !known && machine().is_ok_and(|machine| machine.config.rocr == Release::Rocm6_2) {
        return 0;
    }
    let condition = Condition::new(signal, condition, compare_value, -1);
    match wait(&[condition], timeout_hint, wait_state_hint) {
        Some((_, value)) => value,
        None if signal::kind(signal) == AmdSignalKind::INVALID => 0,
        None => word.load(Ordering::Acquire),
    }
}

/// As [`hsa_signal_wait_scacquire`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_signal_wait_relaxed(
    signal: HsaSignal,
    condition: HsaSignalCondition,
    compare_value: HsaSignalValue,
    timeout_hint: u64,
    wait_state_hint: HsaWaitState,
) -> HsaSignalValue {
    // SAFETY: the same contract.
    unsafe { hsa_signal_wait_scacquire(signal, condition, compare_value, timeout_hint, wait_state_hint) }
}

/// Conditions of a wait for several signals, each with its position. Null signals are skipped, but, as in ROCR, not
/// their conditions and operands: the signals behind take those of others. ROCm 6.2 ends the process for null.
///
/// # Safety
/// The arrays have `count` elements.
unsafe fn conditions(
    release: Release,
    count: u32,
    signals: *const HsaSignal,
    conditions: *const HsaSignalCondition,
    values: *const HsaSignalValue,
) -> Result<(Vec<usize>, Vec<Condition>), HsaStatus> {
    let count = count as usize;
    // SAFETY: the caller's promise.
    let (signals, conditions, values) =
        unsafe { (slice(signals, count)?, slice(conditions, count)?, slice(values, count)?) };
    if release == Release::Rocm6_2 {
        for &signal in signals {
            word(signal);
        }
    }
    let valid = signals.iter().enumerate().filter(|(_, signal)| !signal.is_null());
    Ok(valid
        .zip(conditions.iter().zip(values))
        .map(|((i, &signal), (&condition, &operand))| (i, Condition::new(signal, condition, operand, -1)))
        .unzip())
}

/// Blocks as [`hsa_signal_wait_scacquire`] does, and polls if any signal has no interrupt. Returns `u32::MAX` when an
/// argument is invalid, and in ROCm 6.2 after the timeout.
///
/// As with ROCR since 2025-03 (`hsa_ext_amd.cpp`, `signal.cpp`), the wait must not time out. ROCR then takes -1 for an
/// index: the least effect is a wrong result, the likely one a segmentation fault. The returned value is right for the
/// first signal only: until 2026-07 ROCR stores the value of another signal behind its list, which is reported here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_signal_wait_any(
    signal_count: u32,
    signals: *mut HsaSignal,
    conditions: *mut HsaSignalCondition,
    values: *mut HsaSignalValue,
    timeout_hint: u64,
    wait_hint: HsaWaitState,
    satisfying_value: *mut HsaSignalValue,
) -> u32 {
    let mut result = u32::MAX;
    let _ = guard(|| {
        let machine = machine()?;
        let release = machine.config.rocr;
        let old = release == Release::Rocm6_2;
        // SAFETY: the three arrays are the caller's and have `signal_count` elements.
        let (positions, conditions) = unsafe { self::conditions(release, signal_count, signals, conditions, values)? };
        if conditions.is_empty() {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let Some((index, value)) = wait(&conditions, timeout_hint, wait_hint) else {
            if machine.stopping() || old {
                return Ok(());
            }
            eprintln!(
                "hsa-sim: hsa_amd_signal_wait_any timed out, where ROCR reads out of bounds; the process is ended"
            );
            std::process::abort();
        };
        result = positions[index] as u32;
        if index > 0 && !old {
            report_overrun(index, conditions.len());
        }
        if !satisfying_value.is_null() {
            let value = if index == 0 || old { value } else { 0 };
            // SAFETY: not null; the rest is the caller's contract.
            unsafe { satisfying_value.write(value) };
        }
        Ok(())
    });
    result
}

/// Warns, once in a process, of ROCR's write beyond its list after a wait that ended by the signal `index` of `count`.
#[cold]
fn report_overrun(index: usize, count: usize) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        eprintln!(
            "hsa-sim: hsa_amd_signal_wait_any ended by signal {index} of {count}: ROCR from 2025-03 to 2026-07 writes its value \
             past the end of a list of one, which overwrites other memory unless malloc rounded the size up"
        );
    });
}

/// Blocks without spinning, whatever the hint says, until every condition has been met, not necessarily all at once.
/// Returns 0, or `u32::MAX` after the timeout or for an invalid argument. Null signals count as zero and meet every
/// condition.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_signal_wait_all(
    signal_count: u32,
    signals: *mut HsaSignal,
    conditions: *mut HsaSignalCondition,
    values: *mut HsaSignalValue,
    timeout_hint: u64,
    wait_hint: HsaWaitState,
    satisfying_values: *mut HsaSignalValue,
) -> u32 {
    let mut result = u32::MAX;
    let _ = guard(|| {
        let release = machine()?.config.rocr;
        // SAFETY: the three arrays are the caller's and have `signal_count` elements.
        let (positions, conditions) = unsafe { self::conditions(release, signal_count, signals, conditions, values)? };
        let start = Instant::now();
        let mut met = vec![0; signal_count as usize];
        for (position, condition) in positions.into_iter().zip(conditions) {
            let passed = start.elapsed().as_nanos() as u64;
            match wait(&[condition], timeout_hint.saturating_sub(passed), wait_hint) {
                Some((_, value)) => met[position] = value,
                None => return Ok(()),
            }
        }
        if !satisfying_values.is_null() {
            // SAFETY: not null, and the caller's array has an element for each signal.
            unsafe { satisfying_values.copy_from_nonoverlapping(met.as_ptr(), met.len()) };
        }
        result = 0;
        Ok(())
    });
    result
}

/// Calls `handler` with the value and `arg` each time that the condition holds, until it returns false; see
/// [`crate::machine::handlers`]. While interrupts are in use, the signal must have one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_signal_async_handler(
    signal: HsaSignal,
    condition: HsaSignalCondition,
    value: HsaSignalValue,
    handler: Option<HsaAmdSignalHandler>,
    arg: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let handler = handler.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        check(&machine, signal)?;
        if machine.config.interrupts && signal::mailbox(signal).is_none() {
            return Err(HsaStatus::ERROR_INVALID_SIGNAL);
        }
        machine.handlers.add(&machine, Condition::new(signal, condition, value, -1), handler, arg)
    })
}

/// Refuses null and signals that are not live.
fn check(machine: &Machine, signal: HsaSignal) -> Result<(), HsaStatus> {
    if signal.is_null() {
        return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    let is_user = machine.signals.is_live(signal) && signal::kind(signal) == AmdSignalKind::USER;
    if is_user { Ok(()) } else { Err(HsaStatus::ERROR_INVALID_SIGNAL) }
}

/// Only signals without an interrupt give away their value's address, because waiters poll them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_signal_value_pointer(signal: HsaSignal, value: *mut *mut HsaSignalValue) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(value)?;
        check(&machine, signal)?;
        if signal::mailbox(signal).is_some() {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(signal::value(signal).as_ptr()) };
        Ok(())
    })
}
