// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The sim's counts of packets' costs. One test, because counts are the process's.

mod common;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};

use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;
use hsa_runtime64::machine::exports::{hsa_sim_hold, hsa_sim_iterate_costs};

/// Costs counted so far, without zeros.
fn costs() -> BTreeMap<String, u64> {
    unsafe extern "C" fn add(name: *const c_char, count: u64, data: *mut c_void) {
        // SAFETY: the function's contract: a string, and the data that this test passed.
        let (name, costs) = unsafe { (CStr::from_ptr(name), &mut *data.cast::<BTreeMap<String, u64>>()) };
        costs.insert(name.to_string_lossy().into_owned(), count);
    }
    let mut costs = BTreeMap::new();
    // SAFETY: the callback takes this map.
    unsafe { hsa_sim_iterate_costs(add, (&raw mut costs).cast()) };
    costs.retain(|_, count| *count != 0);
    costs
}

#[test]
fn held_packets_wait_and_later_ones_are_round_trips() {
    let hsa = Hsa::new();
    let queue = Queue::new(hsa.gpu(), 64);
    let (first, last) = (signal(1), signal(1));
    hsa_sim_hold(true);
    let mut ordered = barrier_and(&[], first);
    ordered.header = PacketHeader::new(HsaPacketType::BARRIER_AND, true, HsaFenceScope::SYSTEM, HsaFenceScope::AGENT);
    queue.submit(&ordered);
    queue.submit(&barrier_and(&[], HsaSignal::NULL));
    assert_eq!((load(first), costs().len()), (1, 0));
    hsa_sim_hold(false);
    wait_for(first, 0);

    // Two packets that are written before the queue looks are one round trip; memory is of now.
    hsa_sim_hold(true);
    hsa_sim_hold(false);
    let pool = hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED);
    let memory = allocate(pool, 1 << 20).unwrap();
    let ids = [queue.reserve(), queue.reserve()];
    queue.publish(ids[0], &barrier_and(&[], HsaSignal::NULL));
    queue.publish(ids[1], &barrier_and(&[], last));
    queue.ring(ids[1]);
    wait_for(last, 0);
    let expected = [
        ("acquires_system", 4),
        ("barrier_bits", 1),
        ("barrier_packets", 4),
        ("host_round_trips", 1),
        ("interrupts", 2),
        ("releases_agent", 1),
        ("releases_system", 3),
        ("vram_bytes", 1 << 20),
    ];
    assert_eq!(costs(), expected.map(|(name, count)| (name.to_owned(), count)).into());
    assert_eq!(free(memory), HsaStatus::SUCCESS);
    for signal in [first, last] {
        // SAFETY: live, and destroyed once.
        assert_eq!(unsafe { hsa_signal_destroy(signal) }, HsaStatus::SUCCESS);
    }
}
