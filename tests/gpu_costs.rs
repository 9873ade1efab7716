// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Operations' costs to the GPU: packets, barrier bits and fences, and waits that only the host could end.

#[path = "support/costs.rs"]
mod counting;
mod support;

use amdgpu_rs::ffi::QUEUE_AFFINITY_ANY;
use counting::{Costs, costs, count};
use support::recording::{Mode, Recording, direct};
use support::{Rig, passes_alone, wait};

/// A barrier on one queue and another on a second queue that waits for it.
fn edge() -> Costs {
    let rig = Rig::new();
    let (first, second) = (rig.semaphore(), rig.semaphore());
    let submit = || {
        rig.barrier(1, &[], &[(&first, 1)]).unwrap();
        rig.barrier(2, &[(&first, 1)], &[(&second, 1)]).unwrap();
    };
    count(submit, || wait(&second, 1).unwrap())
}

/// The wait is all that the second barrier is. Neither acquires anything, as nothing runs behind them.
fn edge_by<const N: usize>(wait: [(&str, u64); N]) -> Costs {
    let mut expected = costs([
        ("barrier_packets", 1),
        ("barrier_bits", 2),
        ("acquires_none", 2),
        ("releases_system", 2),
        ("interrupts", 2),
    ]);
    expected.extend(costs(wait));
    expected
}

#[test]
fn queues_wait_for_each_other_by_pm4_on_gfx1100() {
    passes_alone("queues_wait_for_each_other_by_pm4_on_gfx1100", "gfx1100", || {
        assert_eq!(edge(), edge_by([("pm4_ib_packets", 1), ("pm4_commands", 1)]));
    });
}

#[test]
fn queues_wait_for_each_other_by_pm4_on_gfx1201() {
    passes_alone("queues_wait_for_each_other_by_pm4_on_gfx1201", "gfx1201", || {
        assert_eq!(edge(), edge_by([("pm4_ib_packets", 1), ("pm4_commands", 1)]));
    });
}

#[test]
fn queues_wait_for_each_other_by_values_on_gfx942() {
    passes_alone("queues_wait_for_each_other_by_values_on_gfx942", "gfx942", || {
        assert_eq!(edge(), edge_by([("barrier_value_packets", 1)]));
    });
}

#[test]
fn queues_wait_for_each_other_on_the_host_on_gfx908() {
    passes_alone("queues_wait_for_each_other_on_the_host_on_gfx908", "gfx908", || {
        assert_eq!(edge().get("host_round_trips"), Some(&1));
    });
}

/// Transfers of 4 and 8 bytes, many of them before the first one runs. Returns the number of packets with commands.
fn small_transfers() -> Option<u64> {
    // SAFETY: nothing else runs in this process while there is no device.
    unsafe { std::env::set_var("HSA_SIM_MEMORY", "strict") };
    const ROUNDS: usize = 16;
    let rig = Rig::new();
    let (words, copies, update, done) =
        (rig.buffer(8 * ROUNDS), rig.buffer(8 * ROUNDS), rig.buffer(8), rig.semaphore());
    let submit = || {
        for round in 0..ROUNDS {
            let (at, value) = (8 * round, 4 * round as u64);
            let next = |step: u64| ([(&done, value + step)], [(&done, value + step + 1)]);
            let pattern = [round as u8, 0x40];
            rig.fill(1, &next(0).0, &next(0).1, &words, (at, 4), &pattern).unwrap();
            rig.fill(1, &next(1).0, &next(1).1, &words, (at + 4, 4), &pattern[..1]).unwrap();
            rig.copy(1, &next(2).0, &next(2).1, (&words, at), (&copies, at), 8).unwrap();
            rig.update(1, &next(3).0, &next(3).1, &[round as u8; 8], &update).unwrap();
        }
    };
    let counted = count(submit, || wait(&done, 4 * ROUNDS as u64).unwrap());
    let expected: Vec<u8> = (0..ROUNDS as u8).flat_map(|i| [i, 0x40, i, 0x40, i, i, i, i]).collect();
    assert_eq!(rig.read(&copies, 0, 8 * ROUNDS), expected);
    assert_eq!(rig.read(&update, 0, 8), [ROUNDS as u8 - 1; 8]);
    assert_eq!(counted.get("pm4_ib_packets"), counted.get("pm4_commands"));
    assert_ne!(counted.contains_key("pm4_ib_packets"), counted.contains_key("dispatch_packets"));
    counted.get("pm4_commands").copied()
}

#[test]
fn small_transfers_are_commands_on_gfx1100() {
    passes_alone("small_transfers_are_commands_on_gfx1100", "gfx1100", || assert_eq!(small_transfers(), Some(64)));
}

#[test]
fn small_transfers_are_commands_on_gfx1201() {
    passes_alone("small_transfers_are_commands_on_gfx1201", "gfx1201", || assert_eq!(small_transfers(), Some(64)));
}

#[test]
fn small_transfers_are_kernels_on_gfx942() {
    passes_alone("small_transfers_are_kernels_on_gfx942", "gfx942", || assert_eq!(small_transfers(), None));
}

/// Lines of kernel arguments that replaying three fills of known memory reads over PCIe.
fn replayed_lines() -> Option<u64> {
    let rig = Rig::new();
    let (buffer, done) = (rig.buffer(64), rig.semaphore());
    let recording = Recording::begin(&rig, Mode::Unvalidated, 0);
    for offset in [0, 16, 32] {
        recording.fill(direct(&buffer, offset, 16), 1).unwrap();
    }
    recording.end();
    let submit = || recording.execute(&rig, 1, &[], &[(&done, 1)], &[]).unwrap();
    count(submit, || wait(&done, 1).unwrap()).get("kernarg_lines").copied()
}

#[test]
fn static_arguments_are_in_the_gpus_own_memory() {
    passes_alone("static_arguments_are_in_the_gpus_own_memory", "gfx1100", || assert_eq!(replayed_lines(), None));
}

#[test]
fn static_arguments_are_in_the_hosts_memory_where_that_reaches_no_other() {
    passes_alone("static_arguments_are_in_the_hosts_memory_where_that_reaches_no_other", "gfx1100:bar=none", || {
        assert_eq!(replayed_lines(), Some(3))
    });
}

/// Barrier bits of a barrier and of a recording of three fills behind it, which waits for it or not.
fn bits_behind_a_barrier(waits: bool) -> Option<u64> {
    let rig = Rig::new();
    let (buffer, first, second) = (rig.buffer(64), rig.semaphore(), rig.semaphore());
    let recording = Recording::begin(&rig, Mode::Unvalidated, 0);
    for offset in [0, 16, 32] {
        recording.fill(direct(&buffer, offset, 16), 1).unwrap();
    }
    recording.end();
    let submit = || {
        rig.barrier(1, &[], &[(&first, 1)]).unwrap();
        let waits = [(&first, 1)][..usize::from(waits)].to_vec();
        recording.execute(&rig, 1, &waits, &[(&second, 1)], &[]).unwrap();
    };
    count(submit, || wait(&second, 1).unwrap()).get("barrier_bits").copied()
}

/// The packets that carry the epochs have one each.
#[test]
fn recordings_start_behind_earlier_work_if_they_wait_for_it() {
    passes_alone("recordings_start_behind_earlier_work_if_they_wait_for_it", "gfx1100", || {
        assert_eq!((bits_behind_a_barrier(true), bits_behind_a_barrier(false)), (Some(3), Some(2)));
    });
}

/// A barrier that may go to any queue behind one of the second queue's.
#[test]
fn work_goes_to_the_queue_of_what_it_waits_for_if_it_may() {
    passes_alone("work_goes_to_the_queue_of_what_it_waits_for_if_it_may", "gfx1100", || {
        let rig = Rig::new();
        let (first, second) = (rig.semaphore(), rig.semaphore());
        let submit = || {
            rig.barrier(2, &[], &[(&first, 1)]).unwrap();
            rig.barrier(QUEUE_AFFINITY_ANY, &[(&first, 1)], &[(&second, 1)]).unwrap();
        };
        assert_eq!(count(submit, || wait(&second, 1).unwrap()).get("pm4_ib_packets"), None);
    });
}

/// Two allocations that nothing orders, and a barrier behind both.
#[test]
fn what_waits_for_several_allocations_finds_them_on_one_queue() {
    passes_alone("what_waits_for_several_allocations_finds_them_on_one_queue", "gfx1100", || {
        let rig = Rig::new();
        let [first, second, done] = [(); 3].map(|()| rig.semaphore());
        let submit = || {
            for taken in [&first, &second] {
                rig.alloca(QUEUE_AFFINITY_ANY, &[], &[(taken, 1)], 64).unwrap();
            }
            rig.barrier(QUEUE_AFFINITY_ANY, &[(&first, 1), (&second, 1)], &[(&done, 1)]).unwrap();
        };
        assert_eq!(count(submit, || wait(&done, 1).unwrap()).get("pm4_ib_packets"), None);
    });
}
