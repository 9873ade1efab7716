// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Agents of several targets in one process run their own code at the same time. One test, because the environment is
//! the process's.

mod common;

use std::env;
use std::ffi::c_void;

use common::code::*;
use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

static GFX90A: &[u8] = include_bytes!("kernels/kernels.gfx90a.co");
static GFX942: &[u8] = include_bytes!("kernels/kernels.gfx942.co");

#[test]
fn agents_of_different_targets_run_independently() {
    // SAFETY: this process has one test and the runtime is not initialised, so that no other thread
    // looks at the environment.
    unsafe { env::set_var("HSA_SIM_AGENTS", "gfx1100,gfx942,gfx90a,gfx942") };
    let hsa = Hsa::new();
    let objects = [GFX11, GFX942, GFX90A, GFX942];
    let widths: Vec<u32> = hsa.gpus.iter().map(|&gpu| agent_info(gpu, HsaAgentInfo::WAVEFRONT_SIZE)).collect();
    assert_eq!(widths, [32, 64, 64, 64]);
    for (at, &gpu) in hsa.gpus.iter().enumerate() {
        for (other, object) in objects.into_iter().enumerate() {
            assert_eq!(load_code(gpu, object).is_ok(), object == objects[at], "code of agent {other} on agent {at}");
        }
    }
    let codes: Vec<_> = hsa.gpus.iter().zip(objects).map(|(&gpu, object)| load_code(gpu, object).unwrap()).collect();
    let queues: Vec<_> = hsa.gpus.iter().map(|&gpu| Queue::new(gpu, 64)).collect();
    let done = signal(12);
    // All count in one place; each fills its own buffer and reads its own table.
    let shared = |memory: *mut c_void| {
        allow_access(memory, &hsa.gpus);
        memory
    };
    let memory = |count: usize| shared(hsa.host_memory::<u32>(count).cast()).cast::<u32>();
    let counter = memory(1);
    let outputs: Vec<_> = (0..4)
        .map(|at| {
            let (out, table) = (memory(1000), memory(4));
            let (code, queue) = (&codes[at as usize], &queues[at as usize]);
            let fill = shared(kernargs(&hsa, FillArgs { out, value: 100 * at, count: 1000 }));
            queue.submit(&code.packet("fill", 16, fill, done));
            queue.submit(&code.packet("count_items", 9, shared(kernargs(&hsa, counter)), done));
            queue.submit(&code.packet("read_table", 1, shared(kernargs(&hsa, table)), done));
            (out, table)
        })
        .collect();
    wait_for(done, 0);
    for (at, (out, table)) in outputs.into_iter().enumerate() {
        let first = 100 * at as u32;
        assert_eq!(read(out, 1000), (first..first + 1000).collect::<Vec<_>>());
        assert_eq!(read(table, 4), [3, 6, 9, 12]);
    }
    assert_eq!(read(counter, 1), [4 * 9 * 64]);
    // SAFETY: destroyed once.
    assert_eq!(unsafe { hsa_signal_destroy(done) }, HsaStatus::SUCCESS);
}
