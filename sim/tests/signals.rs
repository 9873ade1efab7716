// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Signals and the waits for them.

mod common;

use std::ptr;
use std::thread;

use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

#[test]
fn waits_end_when_another_thread_changes_the_signal() {
    let _hsa = Hsa::new();
    let (ping, pong) = (signal(0), signal(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 1..=1000 {
                wait_for(ping, i);
                // SAFETY: the signal is live.
                unsafe { hsa_signal_add_screlease(pong, 1) };
            }
        });
        for i in 1..=1000 {
            store(ping, i);
            wait_for(pong, i);
        }
    });
    destroy(&[ping, pong]);
}

#[test]
fn waits_time_out() {
    let _hsa = Hsa::new();
    let one = signal(3);
    // SAFETY: the signal is live; the arrays have one element.
    unsafe {
        let state = HsaWaitState::BLOCKED;
        let seen = hsa_signal_wait_scacquire(one, HsaSignalCondition::LT, 3, 1_000_000, state);
        assert_eq!(seen, 3);
        let (mut signal, mut condition, mut value) = (one, HsaSignalCondition::NE, 0);
        let any = |signal: &mut HsaSignal, condition: &mut _, value: &mut i64, out: &mut i64| {
            hsa_amd_signal_wait_any(1, signal, condition, value, u64::MAX, state, out)
        };
        let mut out = 0;
        assert_eq!(any(&mut signal, &mut condition, &mut value, &mut out), 0);
        assert_eq!(out, 3);
    }
    destroy(&[one]);
}

#[test]
fn wait_any_tells_which_signal_it_was() {
    let _hsa = Hsa::new();
    let mut signals = [signal(1), signal(1), signal(1)];
    thread::scope(|scope| {
        let second = signals[1];
        let waiter = scope.spawn(move || {
            let mut conditions = [HsaSignalCondition::LT; 3];
            let mut values = [0; 3];
            let mut value = 0;
            let timeout = TIMEOUT.as_nanos() as u64;
            // SAFETY: the arrays have three elements.
            let index = unsafe {
                hsa_amd_signal_wait_any(
                    3,
                    signals.as_mut_ptr(),
                    conditions.as_mut_ptr(),
                    values.as_mut_ptr(),
                    timeout,
                    HsaWaitState::BLOCKED,
                    &mut value,
                )
            };
            (index, value)
        });
        // SAFETY: the signal is live.
        unsafe { hsa_signal_subtract_relaxed(second, 5) };
        // The value is told for the first signal only.
        assert_eq!(waiter.join().unwrap(), (1, 0));
    });
    destroy(&signals);
}

#[test]
fn a_wait_for_any_that_ends_by_the_second_signal_is_reported() {
    let ended = alone("a_wait_for_any_that_ends_by_the_second_signal_is_reported", "gfx1100", || {
        let _hsa = Hsa::new();
        let (first, second) = (signal(0), signal(7));
        let (mut conditions, mut values) = ([HsaSignalCondition::EQ; 2], [7; 2]);
        for mut signals in [[second, first], [first, second], [first, second]] {
            let (signals, conditions, values) = (signals.as_mut_ptr(), conditions.as_mut_ptr(), values.as_mut_ptr());
            let state = HsaWaitState::BLOCKED;
            // SAFETY: the arrays have two elements.
            unsafe { hsa_amd_signal_wait_any(2, signals, conditions, values, u64::MAX, state, ptr::null_mut()) };
        }
        destroy(&[first, second]);
    });
    if let Some((status, text)) = ended {
        assert!(status.success() && text.matches("ended by signal 1 of 2").count() == 1, "{text}");
    }
}

#[test]
fn null_signals_do_not_hold_up_waits() {
    let _hsa = Hsa::new();
    let state = HsaWaitState::BLOCKED;
    let mut signals = [signal(1), signal(5), HsaSignal::NULL];
    let mut conditions = [HsaSignalCondition::LT, HsaSignalCondition::GTE, HsaSignalCondition::NE];
    let (mut operands, mut met) = ([1, 5, 0], [7; 3]);
    let mut all = |signals: &mut [HsaSignal; 3], timeout, met: *mut i64| {
        let (signals, conditions, operands) = (signals.as_mut_ptr(), conditions.as_mut_ptr(), operands.as_mut_ptr());
        // SAFETY: the arrays have three elements.
        unsafe {
            let all = hsa_amd_signal_wait_all(3, signals, conditions, operands, timeout, state, met);
            if all == u32::MAX {
                return (u32::MAX, all);
            }
            (hsa_amd_signal_wait_any(2, signals, conditions, operands, timeout, state, ptr::null_mut()), all)
        }
    };
    assert_eq!(all(&mut signals, 1_000_000, met.as_mut_ptr()), (u32::MAX, u32::MAX));
    assert_eq!(met, [7; 3]);
    thread::scope(|scope| {
        let first = signals[0];
        scope.spawn(move || store(first, -2));
        let timeout = TIMEOUT.as_nanos() as u64;
        assert_eq!(all(&mut signals, timeout, met.as_mut_ptr()), (0, 0));
    });
    assert_eq!(met, [-2, 5, 0]);
    assert_eq!(all(&mut signals, 0, ptr::null_mut()), (0, 0));
    destroy(&signals[..2]);
}

#[test]
fn signal_operations_return_what_they_should() {
    let _hsa = Hsa::new();
    let one = signal(0b1100);
    // SAFETY: the signal is live.
    unsafe {
        hsa_signal_and_relaxed(one, 0b0110);
        assert_eq!(load(one), 0b0100);
        hsa_signal_or_scacquire(one, 0b0001);
        hsa_signal_xor_screlease(one, 0b1111);
        assert_eq!(load(one), 0b1010);
        assert_eq!(hsa_signal_exchange_scacq_screl(one, 5), 0b1010);
        assert_eq!(hsa_signal_cas_scacq_screl(one, 4, 6), 5);
        assert_eq!(load(one), 5);
        assert_eq!(hsa_signal_cas_relaxed(one, 5, 6), 5);
        assert_eq!(hsa_signal_load_relaxed(one), 6);
    }
    destroy(&[one]);
}

/// In ROCR from 2025-03 on, the behaviour at the timeout is undefined.
#[test]
fn a_wait_for_any_that_expires_ends_the_process() {
    let ended = alone("a_wait_for_any_that_expires_ends_the_process", "gfx1100", || {
        let _hsa = Hsa::new();
        let (mut signal, mut condition, mut value) = (signal(3), HsaSignalCondition::NE, 3);
        let state = HsaWaitState::BLOCKED;
        // SAFETY: the signal is live; the arrays have one element.
        unsafe { hsa_amd_signal_wait_any(1, &mut signal, &mut condition, &mut value, 1_000, state, ptr::null_mut()) };
    });
    if let Some((status, text)) = ended {
        assert!(!status.success() && text.contains("hsa_amd_signal_wait_any timed out"), "{text}");
    }
}
