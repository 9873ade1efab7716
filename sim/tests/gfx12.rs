// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Agents of gfx1201 and gfx1250 run code for their targets. One test, because the environment is the process's.

mod common;

use std::env;

use common::code::*;
use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

static GFX12: &[u8] = include_bytes!("kernels/kernels.gfx12-generic.co");
static GFX1250: &[u8] = include_bytes!("kernels/kernels.gfx1250.co");

#[test]
fn agents_of_gfx12_run_kernels() {
    // SAFETY: this process has one test and the runtime is not initialised, so that no other thread
    // looks at the environment.
    unsafe { env::set_var("HSA_SIM_AGENTS", "gfx1201,gfx1250") };
    let hsa = Hsa::new();
    for (agent, ours, theirs) in [(hsa.gpus[0], GFX12, GFX1250), (hsa.gpus[1], GFX1250, GFX12)] {
        for other in [GFX11, theirs] {
            assert!(load_code(agent, other).is_err(), "code for another target must be refused");
        }
        run_kernels(&hsa, agent, ours);
    }
}

fn run_kernels(hsa: &Hsa, agent: HsaAgent, code: &[u8]) {
    let code = load_code(agent, code).unwrap();
    let queue = Queue::new(agent, 64);
    let done = signal(3);
    let out = hsa.host_memory::<u32>(1000);
    let args = kernargs(hsa, FillArgs { out, value: 7, count: 1000 });
    queue.submit(&code.packet("fill", 16, args, done));
    let counter = hsa.host_memory::<u32>(1);
    queue.submit(&code.packet("count_items", 9, kernargs(hsa, counter), done));
    let table = hsa.host_memory::<u32>(4);
    queue.submit(&code.packet("read_table", 1, kernargs(hsa, table), done));
    wait_for(done, 0);
    assert_eq!(read(out, 1000), (7..1007).collect::<Vec<_>>());
    assert_eq!(read(counter, 1), [9 * 64]);
    assert_eq!(read(table, 4), [3, 6, 9, 12]);
    // SAFETY: destroyed once.
    assert_eq!(unsafe { hsa_signal_destroy(done) }, HsaStatus::SUCCESS);
}
