// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Effects of environment variables. One test, because the environment is the process's.

mod common;

use std::env;

use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

fn set(name: &str, value: &str) {
    // SAFETY: this process has one test and the runtime is not initialised, so that no other thread
    // looks at the environment.
    unsafe { env::set_var(name, value) };
}

#[test]
fn the_environment_chooses_agents_and_statistics() {
    let stats = env::temp_dir().join(format!("hsa-sim-stats-{}.json", std::process::id()));
    set("HSA_SIM_STATS", stats.to_str().unwrap());
    // SAFETY: no preconditions.
    unsafe {
        assert_eq!(hsa_shut_down(), HsaStatus::ERROR_NOT_INITIALIZED);
        let status = hsa_iterate_agents(None, std::ptr::null_mut());
        assert_ne!(status, HsaStatus::SUCCESS);
        for (name, value) in [
            ("HSA_SIM_AGENTS", "gfx1100,gfx9999"),
            ("HSA_SIM_AGENTS", ""),
            ("HSA_SIM_EXECUTE", "yes"),
            ("HSA_SIM_THREADS", "-1"),
            ("HSA_SIM_TIMEOUT", "soon"),
            ("HSA_SIM_SEED", "18446744073709551616"),
        ] {
            set(name, value);
            assert_eq!(hsa_init(), HsaStatus::ERROR_INVALID_ARGUMENT, "{name}={value}");
            env::remove_var(name);
        }
    }

    set("HSA_SIM_AGENTS", "gfx1100,gfx942, gfx1201,gfx90a,gfx1100");
    set("HSA_SIM_LEAKS", "1");
    for seed in ["1", "2", "3"] {
        set("HSA_SIM_SEED", seed);
        let hsa = Hsa::new();
        let name = |&agent| agent_text::<64>(agent, HsaAgentInfo::NAME);
        let names: Vec<_> = hsa.gpus.iter().map(name).collect();
        assert_eq!(names, ["gfx1100", "gfx942", "gfx1201", "gfx90a", "gfx1100"]);
        let uuid = |&agent| agent_text::<21>(agent, HsaAgentInfo::AMD_UUID);
        let mut uuids: Vec<_> = hsa.gpus.iter().map(uuid).collect();
        uuids.dedup();
        assert_eq!(uuids.len(), 5);
        assert_eq!(agent_info::<u32>(hsa.gpus[1], HsaAgentInfo::WAVEFRONT_SIZE), 64);
        unordered_packets_overlap_but_barriers_hold(&hsa);
    }
    let json = std::fs::read_to_string(&stats).unwrap();
    std::fs::remove_file(&stats).unwrap();
    assert!(json.starts_with("{\"agents\":[\"gfx1100\",\"gfx942\",\"gfx1201\",\"gfx90a\",\"gfx1100\"]"));
    assert!(json.contains("\"dispatches\":0,\"packets\":603,"), "{json}");
    assert!(json.contains("\"calls\":{") && json.contains("\"hsa_queue_create\":3,"), "{json}");
    let (_, cpu) = json.split_once("\"cpu_ns\":").unwrap();
    let cpu: u64 = cpu.split_once(',').unwrap().0.parse().unwrap();
    assert!(cpu > 1_000, "{json}");
    assert!(json.ends_with("}}\n"));
}

/// With a seed, a packet may overtake a blocked barrier unless it has the barrier bit.
fn unordered_packets_overlap_but_barriers_hold(hsa: &Hsa) {
    let queue = Queue::new(hsa.gpu(), 64);
    let (gate, overtaking, held) = (signal(1), signal(1), signal(1));
    queue.submit(&barrier_and(&[gate], HsaSignal::NULL));
    queue.submit(&barrier_and(&[], overtaking));
    let mut packet = barrier_and(&[], held);
    packet.header = header(HsaPacketType::BARRIER_AND, true);
    queue.submit(&packet);
    wait_for(overtaking, 0);
    assert_eq!(load(held), 1);
    store(gate, 0);
    wait_for(held, 0);

    // Whatever the order, everything completes once and slots are reused only when free.
    let done = signal(600);
    for _ in 0..600 {
        queue.submit(&barrier_and(&[], done));
    }
    wait_for(done, 0);
    for signal in [gate, overtaking, held, done] {
        // SAFETY: live, and destroyed once.
        assert_eq!(unsafe { hsa_signal_destroy(signal) }, HsaStatus::SUCCESS);
    }
}
