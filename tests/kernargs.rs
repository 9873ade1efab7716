// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Kernel arguments in the GPU's memory: each submission's are seen where its GPU has cached those of an earlier one.

#[path = "support/costs.rs"]
mod counting;
mod support;

use counting::count;
use support::recording::{Mode, Recording, indirect};
use support::{Rig, passes_alone, wait};

/// Places in rings as small as they can be come round again and again.
const RINGS: [(&str, &str); 3] =
    [("aql_queue_capacity", "64"), ("kernarg_capacity", "128"), ("notification_capacity", "64")];
const ROUNDS: usize = 300;

/// Fills by themselves, and in recordings whose commands nothing orders.
fn check_arguments() {
    // SAFETY: nothing else runs in this process while there is no device.
    unsafe { std::env::set_var("HSA_SIM_MEMORY", "strict") };
    let rig = Rig::with(&RINGS);
    let (one, many, done) = (rig.buffer(ROUNDS), rig.buffer(3 * ROUNDS), rig.semaphore());
    let recording = Recording::begin(&rig, Mode::Unvalidated, 1);
    for command in 0..3 {
        recording.fill(indirect(0, command, 1), 1 + command as u8).unwrap();
    }
    recording.end();
    for round in 0..ROUNDS {
        let value = 2 * round as u64;
        let at = |step| [(&done, value + step)];
        rig.fill(1, &at(0), &at(1), &one, (round, 1), &[round as u8]).unwrap();
        recording.execute(&rig, 1, &at(1), &at(2), &[(&many, 3 * round, 3)]).unwrap();
    }
    wait(&done, 2 * ROUNDS as u64).unwrap();
    let expected: Vec<u8> = (0..ROUNDS).map(|round| round as u8).collect();
    assert_eq!(rig.read(&one, 0, ROUNDS), expected);
    assert_eq!(rig.read(&many, 0, 3 * ROUNDS), [1, 2, 3].repeat(ROUNDS));
}

#[test]
fn arguments_are_seen_in_places_of_earlier_ones_on_gfx1100() {
    passes_alone("arguments_are_seen_in_places_of_earlier_ones_on_gfx1100", "gfx1100", check_arguments);
}

#[test]
fn arguments_are_seen_in_places_of_earlier_ones_on_gfx942() {
    passes_alone("arguments_are_seen_in_places_of_earlier_ones_on_gfx942", "gfx942", check_arguments);
}

#[test]
fn arguments_are_seen_where_the_host_has_the_gpus_memory_without_a_flush() {
    let name = "arguments_are_seen_where_the_host_has_the_gpus_memory_without_a_flush";
    passes_alone(name, "gfx942:memory=shared", check_arguments);
}

/// Lines of kernel arguments that a fill reads over PCIe.
fn lines(options: &[(&str, &str)]) -> Option<u64> {
    let rig = Rig::with(options);
    let (buffer, done) = (rig.buffer(64), rig.semaphore());
    let submit = || rig.fill(1, &[], &[(&done, 1)], &buffer, (0, 64), &[1]).unwrap();
    count(submit, || wait(&done, 1).unwrap()).get("kernarg_lines").copied()
}

#[test]
fn arguments_are_in_the_gpus_memory_unless_the_knob_says_otherwise() {
    passes_alone("arguments_are_in_the_gpus_memory_unless_the_knob_says_otherwise", "gfx1100", || {
        assert_eq!(lines(&[]), None);
        assert_eq!(lines(&[("kernarg_memory", "host")]), Some(1));
    });
}

#[test]
fn arguments_are_in_the_hosts_memory_where_that_reaches_no_other() {
    passes_alone("arguments_are_in_the_hosts_memory_where_that_reaches_no_other", "gfx1100:bar=none", || {
        assert_eq!(lines(&[]), Some(1));
    });
}
