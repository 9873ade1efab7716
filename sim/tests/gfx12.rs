// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! A gfx1201 agent runs code for it. One test, because the environment is the process's.

mod common;

use std::env;

use common::code::*;
use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

static GFX12: &[u8] = include_bytes!("kernels/kernels.gfx12-generic.co");

#[test]
fn gfx1201_runs_kernels() {
    // SAFETY: this process has one test and the runtime is not initialised, so that no other thread
    // looks at the environment.
    unsafe { env::set_var("HSA_SIM_AGENTS", "gfx1201") };
    let hsa = Hsa::new();
    assert!(load_code(hsa.gpu(), GFX11).is_err(), "code for another target must be refused");
    let code = load_code(hsa.gpu(), GFX12).unwrap();
    let queue = Queue::new(hsa.gpu(), 64);
    let done = signal(3);
    let out = hsa.host_memory::<u32>(1000);
    let args = kernargs(&hsa, FillArgs { out, value: 7, count: 1000 });
    queue.submit(&code.packet("fill", 16, args, done));
    let counter = hsa.host_memory::<u32>(1);
    queue.submit(&code.packet("count_items", 9, kernargs(&hsa, counter), done));
    let table = hsa.host_memory::<u32>(4);
    queue.submit(&code.packet("read_table", 1, kernargs(&hsa, table), done));
    wait_for(done, 0);
    assert_eq!(read(out, 1000), (7..1007).collect::<Vec<_>>());
    assert_eq!(read(counter, 1), [9 * 64]);
    assert_eq!(read(table, 4), [3, 6, 9, 12]);
    // SAFETY: destroyed once.
    assert_eq!(unsafe { hsa_signal_destroy(done) }, HsaStatus::SUCCESS);
}
