// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Signals and waits for them.

use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hsa_abi::*;
use hsa_runtime64::hsa::*;
use hsa_runtime64::machine::lifecycle::machine;

use crate::common::*;
use crate::{abort_of, every_release, in_environment, release};

fn create(consumers: &[HsaAgent], attributes: u64) -> Result<HsaSignal, HsaStatus> {
    let mut signal = HsaSignal::NULL;
    // SAFETY: the list is as long as said, the output is a valid place.
    let status =
        unsafe { hsa_amd_signal_create(7, consumers.len() as u32, consumers.as_ptr(), attributes, &mut signal) };
    if status.is_ok() { Ok(signal) } else { Err(status) }
}

fn destroy(signal: HsaSignal) {
    // SAFETY: each test destroys its signals once.
    assert_eq!(unsafe { hsa_signal_destroy(signal) }, HsaStatus::SUCCESS);
}

fn has_interrupt(signal: HsaSignal) -> bool {
    // SAFETY: the signal is live.
    unsafe { (*signal.as_ptr()).event_mailbox_ptr != 0 && (*signal.as_ptr()).event_id != 0 }
}

/// A store that bypasses the runtime.
fn bare_store(signal: HsaSignal, value: i64) {
    // SAFETY: the value of a live signal may be stored to atomically by anyone.
    unsafe { AtomicI64::from_ptr(&raw mut (*signal.as_ptr()).value) }.store(value, Ordering::Release);
}

#[test]
fn signals_that_a_cpu_need_not_see_have_no_interrupt() {
    every_release(|hsa| {
        let (cpu, gpu) = (hsa.cpu, hsa.gpu());
        let ipc_or_gpu_only = [HSA_AMD_SIGNAL_IPC, HSA_AMD_SIGNAL_AMD_GPU_ONLY];
        for (consumers, attributes, interrupt) in [
            (&[][..], 0, true),
            (&[cpu], 0, true),
            (&[gpu, cpu], 0, true),
            (&[gpu], 0, false),
            (&[], ipc_or_gpu_only[0], false),
            (&[cpu], ipc_or_gpu_only[1], false),
            // Unknown attributes choose nothing.
            (&[], 1 << 60, true),
        ] {
            let signal = create(consumers, attributes).unwrap();
            assert_eq!(has_interrupt(signal), interrupt, "{consumers:?} {attributes:#x}");
            assert_eq!(load(signal), 7);
            destroy(signal);
        }
    });
}

#[test]
fn lists_of_consumers_are_checked_where_they_matter() {
    every_release(|hsa| {
        let mut out = HsaSignal::NULL;
        let twice = [hsa.gpu(), hsa.gpu()];
        assert_eq!(create(&twice, 0), Err(HsaStatus::ERROR_INVALID_ARGUMENT));
        destroy(create(&twice, HSA_AMD_SIGNAL_AMD_GPU_ONLY).unwrap());
        // SAFETY: null lists are refused or not looked at.
        unsafe {
            assert_eq!(hsa_amd_signal_create(0, 1, ptr::null(), 0, &mut out), HsaStatus::ERROR_INVALID_ARGUMENT);
            let attributes = HSA_AMD_SIGNAL_AMD_GPU_ONLY;
            assert_eq!(hsa_amd_signal_create(0, 1, ptr::null(), attributes, &mut out), HsaStatus::SUCCESS);
            assert_eq!(hsa_amd_signal_create(0, 0, ptr::null(), 0, ptr::null_mut()), HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        destroy(out);
    });
}

#[test]
fn null_and_destroyed_signals_are_not_destroyed() {
    every_release(|_| {
        let one = signal(0);
        destroy(one);
        // SAFETY: a handle that was a signal may be passed.
        unsafe {
            assert_eq!(hsa_signal_destroy(one), HsaStatus::ERROR_INVALID_SIGNAL);
            assert_eq!(hsa_signal_destroy(HsaSignal::NULL), HsaStatus::ERROR_INVALID_ARGUMENT);
        }
    });
}

#[test]
fn loads_of_the_null_signal_abort() {
    let text = abort_of(|_| assert_eq!(load(HsaSignal::NULL), 0));
    assert!(text.contains("signal 0x0 is null or was destroyed"), "{text}");
}

#[test]
fn stores_to_a_destroyed_signal_abort() {
    abort_of(|_| {
        let one = signal(0);
        destroy(one);
        store(one, 1);
    });
}

#[test]
fn waits_for_a_destroyed_signal_abort() {
    abort_of(|_| {
        let one = signal(0);
        destroy(one);
        wait_for(one, 0);
    });
}

#[test]
fn values_wrap() {
    every_release(|hsa| {
        let one = signal(i64::MIN);
        let queue = Queue::new(hsa.gpu(), 64);
        queue.submit(&barrier_and(&[], one));
        wait_for(one, i64::MAX);
        // SAFETY: the signal is live.
        unsafe { hsa_signal_add_screlease(one, 1) };
        assert_eq!(load(one), i64::MIN);
        drop(queue);
        destroy(one);
    });
}

fn wait(signal: HsaSignal, condition: HsaSignalCondition, ticks: u64, state: HsaWaitState) -> i64 {
    // SAFETY: the signal is live when the wait begins.
    unsafe { hsa_signal_wait_scacquire(signal, condition, 7, ticks, state) }
}

#[test]
fn timeouts_are_ticks_of_the_system_clock_and_give_the_value() {
    every_release(|_| {
        let one = signal(3);
        for ticks in [0, 3_000_000] {
            let start = Instant::now();
            assert_eq!(wait(one, HsaSignalCondition::EQ, ticks, HsaWaitState::BLOCKED), 3);
            assert!(start.elapsed() >= Duration::from_nanos(ticks));
        }
        destroy(one);
    });
}

#[test]
fn an_unknown_condition_ends_the_wait_in_6_2_and_never_holds_in_7_0() {
    let wait = || {
        let one = signal(7);
        let start = Instant::now();
        let seen = wait(one, HsaSignalCondition(99), 2_000_000, HsaWaitState::BLOCKED);
        destroy(one);
        (seen, start.elapsed() >= Duration::from_millis(2))
    };
    assert_eq!(release("6.2", |_| wait().0), 0);
    assert_eq!(release("7.0", |_| wait()), (7, true));
}

/// Returns when another thread waits for a signal.
fn until_one_waits() {
    let start = Instant::now();
    while machine().unwrap().signals.waiters() == 0 {
        assert!(start.elapsed() < TIMEOUT, "nobody waits");
        thread::yield_now();
    }
}

/// Waits for 7 on another thread and calls `act` meanwhile. Returns the result and the duration of the wait.
fn meanwhile(signal: HsaSignal, ticks: u64, state: HsaWaitState, act: impl FnOnce()) -> (i64, Duration) {
    thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            let start = Instant::now();
            (wait(signal, HsaSignalCondition::EQ, ticks, state), start.elapsed())
        });
        until_one_waits();
        act();
        waiter.join().unwrap()
    })
}

const LONG: u64 = TIMEOUT.as_nanos() as u64;

#[test]
fn destroying_a_signal_ends_the_waits_for_it_with_zero() {
    every_release(|_| {
        let one = signal(3);
        let (seen, took) = meanwhile(one, LONG, HsaWaitState::BLOCKED, || destroy(one));
        assert_eq!(seen, 0);
        assert!(took < TIMEOUT);
    });
}

#[test]
fn a_sleeping_wait_does_not_see_bare_stores() {
    every_release(|_| {
        let one = signal(0);
        let ticks = 20_000_000;
        // A wait that is about to sleep still sees the store: the next one may not.
        let slept = (0..1000).any(|_| {
            store(one, 0);
            let (seen, took) = meanwhile(one, ticks, HsaWaitState::BLOCKED, || bare_store(one, 7));
            assert_eq!(seen, 7, "it is what the value is at the end");
            took >= Duration::from_nanos(ticks)
        });
        assert!(slept, "each wait saw the store");
        destroy(one);
    });
}

#[test]
fn a_sleeping_wait_sees_the_runtimes_stores() {
    every_release(|_| {
        let one = signal(0);
        assert_eq!(meanwhile(one, LONG, HsaWaitState::BLOCKED, || store(one, 7)).0, 7);
        destroy(one);
    });
}

#[test]
fn a_sleeping_wait_is_woken_through_the_mailbox() {
    every_release(|_| {
        let one = signal(0);
        let (seen, took) = meanwhile(one, LONG, HsaWaitState::BLOCKED, || {
            bare_store(one, 7);
            // SAFETY: the signal is live and has a mailbox, a word that is only accessed atomically.
            unsafe {
                let (mailbox, event) = ((*one.as_ptr()).event_mailbox_ptr, (*one.as_ptr()).event_id);
                let mailbox = ptr::with_exposed_provenance_mut(mailbox as usize);
                AtomicU64::from_ptr(mailbox).store(event.into(), Ordering::Release);
            }
        });
        assert_eq!(seen, 7);
        assert!(took < TIMEOUT);
        destroy(one);
    });
}

#[test]
fn active_waits_and_waits_without_interrupts_see_bare_stores() {
    every_release(|hsa| {
        let without = create(&[hsa.gpu()], 0).unwrap();
        store(without, 0);
        for (signal, state) in [(signal(0), HsaWaitState::ACTIVE), (without, HsaWaitState::BLOCKED)] {
            assert_eq!(meanwhile(signal, LONG, state, || bare_store(signal, 7)).0, 7);
            destroy(signal);
        }
    });
    in_environment(&[("HSA_ENABLE_INTERRUPT", "0")], |_| {
        let one = signal(0);
        assert_eq!(meanwhile(one, LONG, HsaWaitState::BLOCKED, || bare_store(one, 7)).0, 7);
        destroy(one);
    });
}

/// Waits for any of the signals to equal its operand. Returns its index and the reported value.
fn wait_any(mut signals: Vec<HsaSignal>, mut operands: Vec<i64>, ticks: u64) -> (u32, i64) {
    let (mut conditions, mut value) = (vec![HsaSignalCondition::EQ; signals.len()], 99);
    let (count, state) = (signals.len() as u32, HsaWaitState::BLOCKED);
    let (signals, conditions, operands) = (signals.as_mut_ptr(), conditions.as_mut_ptr(), operands.as_mut_ptr());
    // SAFETY: the lists are as long as said, the output is a valid place.
    let index = unsafe { hsa_amd_signal_wait_any(count, signals, conditions, operands, ticks, state, &mut value) };
    (index, value)
}

#[test]
fn a_wait_for_several_expires_in_6_2() {
    release("6.2", |_| {
        let one = signal(0);
        assert_eq!(wait_any(vec![one], vec![7], 1_000), (u32::MAX, 99));
        destroy(one);
    });
}

#[test]
fn a_wait_for_several_must_not_expire_in_7_0() {
    let text = abort_of(|_| assert_eq!(wait_any(vec![signal(0)], vec![7], 1_000).0, u32::MAX));
    assert!(text.contains("hsa_amd_signal_wait_any timed out"), "{text}");
}

#[test]
fn the_value_of_all_signals_but_the_first_is_lost_in_7_0() {
    for (name, second) in [("6.2", 7), ("7.0", 0)] {
        release(name, |_| {
            let (one, two) = (signal(7), signal(7));
            assert_eq!(wait_any(vec![one, two], vec![7, 0], LONG), (0, 7));
            assert_eq!(wait_any(vec![one, two], vec![0, 7], LONG), (1, second));
            destroy(one);
            destroy(two);
        });
    }
}

#[test]
fn signals_behind_a_null_one_get_its_operand_in_7_0() {
    release("7.0", |_| {
        let (one, two) = (signal(1), signal(2));
        assert_eq!(wait_any(vec![HsaSignal::NULL, one, two], vec![0, 2, 9], LONG), (2, 0));
        destroy(one);
        destroy(two);
    });
}

#[test]
fn waiting_for_no_signal_ends_at_once() {
    release("7.0", |_| assert_eq!(wait_any(vec![HsaSignal::NULL; 2], vec![0; 2], LONG).0, u32::MAX));
}

#[test]
fn a_wait_for_several_polls_if_one_has_no_interrupt() {
    every_release(|hsa| {
        let (without, with) = (create(&[hsa.gpu()], 0).unwrap(), signal(0));
        store(without, 0);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| wait_any(vec![without, with], vec![7; 2], LONG).0);
            until_one_waits();
            bare_store(with, 7);
            assert_eq!(waiter.join().unwrap(), 1);
        });
        destroy(without);
        destroy(with);
    });
}

#[test]
fn packets_see_bare_stores_to_what_they_wait_for() {
    every_release(|hsa| {
        let (gate, done) = (signal(1), signal(1));
        let queue = Queue::new(hsa.gpu(), 64);
        queue.submit(&barrier_and(&[gate], done));
        bare_store(gate, 0);
        wait_for(done, 0);
        drop(queue);
        destroy(gate);
        destroy(done);
    });
}
