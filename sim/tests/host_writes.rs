// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Host writes to a GPU's memory, with and without a flush.

mod common;

use common::code::*;
use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

#[test]
fn host_writes_to_a_gpus_memory_need_a_flush() {
    host_writes("gfx1100", false, Err("host wrote bytes 4 to 4 of this allocation of 2097152 bytes of agent 1"));
    host_writes("gfx1100", true, Ok([64, 64 + 5]));
    host_writes("gfx1100:hdp=trusted", false, Ok([64, 64 + 5]));
    host_writes("gfx1100:memory=shared", false, Ok([64, 64 + 5]));
}

/// Makes the host write one of two counters that kernels then add to. Expects their values, or a fault with this text.
fn host_writes(agents: &str, flush: bool, expected: Result<[u32; 2], &str>) {
    // SAFETY: the only test of this binary calls this, and no other thread of it looks at the environment.
    unsafe { std::env::set_var("HSA_SIM_AGENTS", agents) };
    let hsa = Hsa::new();
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    let queue = Queue::new(hsa.gpu(), 64);
    let done = signal(2);
    // Large enough to be zero.
    let memory = allocate(hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED), 2 << 20).unwrap();
    allow_access(memory, &[hsa.cpu, hsa.gpu()]);
    let counters: *mut u32 = memory.cast();
    // SAFETY: within the allocation, which no kernel uses yet.
    unsafe { counters.add(1).write_volatile(5) };
    if flush {
        let hdp: HsaAmdHdpFlush = agent_info(hsa.gpu(), HsaAgentInfo::AMD_HDP_FLUSH);
        // SAFETY: the GPU's register.
        unsafe { hdp.mem_flush_cntl.write_volatile(1) };
    }
    for counter in 0..2 {
        let args = kernargs(&hsa, counters.wrapping_add(counter));
        queue.submit(&code.packet("count_items", 1, args, done));
    }
    match expected {
        Ok(values) => {
            wait_for(done, 0);
            assert_eq!(read(counters, 2), values, "{agents}");
        }
        Err(text) => {
            assert_eq!(queue.wait_error(), HsaStatus::ERROR);
            assert!(queue.fault().contains(text), "{}", queue.fault());
        }
    }
    assert_eq!(free(memory), HsaStatus::SUCCESS);
    // SAFETY: destroyed once.
    assert_eq!(unsafe { hsa_signal_destroy(done) }, HsaStatus::SUCCESS);
}
