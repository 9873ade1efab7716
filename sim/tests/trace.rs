// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Traces of `HSA_SIM_TRACE`. Each case runs in a process of its own; the tests check its standard error.

mod common;

use std::process::Command;

use common::code::*;
use common::pm4::{Commands, packet};
use common::*;

/// Environment variable that is set in the processes of the cases.
const CASE: &str = "TRACE_CASE";

/// Returns the trace of a kernel that fills 100 dwords with 128 work-items.
fn trace(variables: &[(&str, &str)]) -> String {
    trace_of("kernels_waves_and_instructions_are_told", variables)
}

/// Returns the trace of the case of the test function `name`.
fn trace_of(name: &str, variables: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .envs([(CASE, "1"), ("HSA_SIM_AGENTS", "gfx1100"), ("HSA_SIM_THREADS", "1")])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn kernels_waves_and_instructions_are_told() {
    if std::env::var_os(CASE).is_some() {
        let hsa = Hsa::new();
        let code = load_code(hsa.gpu(), GFX11).unwrap();
        let queue = Queue::new(hsa.gpu(), 64);
        let out = hsa.host_memory::<u32>(100);
        let done = signal(1);
        queue.submit(&code.packet("fill", 2, kernargs(&hsa, FillArgs { out, value: 7, count: 100 }), done));
        return wait_for(done, 0);
    }
    let kernel = trace(&[("HSA_SIM_TRACE", "kernel")]);
    for part in [
        "hsa-sim: trace: kernel fill begins: [128, 1, 1] work-items in workgroups of [64, 1, 1], arguments at 0x",
        "; dispatch 0 of queue 0 on agent 1 (gfx1100)\n",
        "hsa-sim: trace: kernel fill ends: 4 waves, 72 instructions, ",
    ] {
        assert!(kernel.contains(part), "{kernel}");
    }
    assert_eq!(kernel.matches("trace:").count(), 2, "{kernel}");

    let packets = trace(&[("HSA_SIM_TRACE", "packets")]);
    let told = "trace: packet 0 of queue 0 on agent 1 (gfx1100): dispatch of 0x";
    assert!(
        packets.contains(told) && packets.contains(" over [128, 1, 1] in [64, 1, 1], arguments at 0x"),
        "{packets}"
    );
    assert_eq!(packets.matches("trace:").count(), 1, "{packets}");

    let wave = trace(&[("HSA_SIM_TRACE", "wave,il")]);
    assert!(wave.contains("trace: fill (1, 0, 0) wave 1: begins with lanes 0xffffffff\n"), "{wave}");
    assert!(wave.contains("trace: fill (1, 0, 0) wave 1: ends after 18 instructions\n"), "{wave}");
    assert_eq!(wave.matches("trace:").count(), 2 + 2 * 4, "{wave}");

    let instruction = trace(&[("HSA_SIM_TRACE", "instruction")]);
    // The last wave has four items left.
    let store = "trace: fill (1, 0, 0) wave 1: +0x58  global_store_b32 v[1:2], v0, off  ; lanes 0xf\n";
    assert!(instruction.contains(store), "{instruction}");
    assert_eq!(instruction.matches("; lanes ").count(), 72, "{instruction}");
    // Loads are complete, as nothing here takes time; unchanged registers are not printed.
    for change in ["s_load_b64 s[2:3], s[0:1], 0x8  ; lanes 0xffffffff", "wave 1:   s2 = 0x7, s3 = 0x64\n"] {
        assert!(instruction.contains(change), "{instruction}");
    }

    assert!(!trace(&[("HSA_SIM_TRACE", "instruction,copy")]).contains("trace:"));
    let checked = trace(&[("HSA_SIM_TRACE", "kernel"), ("HSA_SIM_CHECK", "all")]);
    assert_eq!(checked.matches("trace:").count(), 2, "{checked}");
}

#[test]
fn commands_are_told_with_their_packets() {
    if std::env::var_os(CASE).is_some() {
        let hsa = Hsa::new();
        let commands = Commands::new(
            &hsa,
            &[
                packet(0x10, &[0]),
                packet(0x76, &[0x207, 64, 1]),
                packet(0x76, &[0x228, 9]),
                packet(0x46, &[0x407]),
                packet(0x79, &[0x1808, 2]),
                packet(0x58, &[0, u32::MAX, 0xff, 0, 0, 10, 0xc380]),
            ],
        );
        let queue = Queue::new(hsa.gpu(), 64);
        let done = signal(1);
        queue.submit(&commands.packet(done));
        wait_for(done, 0);
        return;
    }
    let told = trace_of("commands_are_told_with_their_packets", &[("HSA_SIM_TRACE", "packets")]);
    for part in [
        "trace: packet 0 of queue 0 on agent 1 (gfx1100): PM4-IB of 22 dwords at 0x",
        "trace: packet 0, dword 0: NOP\n",
        "trace: packet 0, dword 2: SET_SH_REG COMPUTE_NUM_THREAD_X = 0x40, COMPUTE_NUM_THREAD_X + 1 = 0x1\n",
        "trace: packet 0, dword 6: SET_SH_REG COMPUTE_PGM_RSRC3 = 0x9\n",
        "trace: packet 0, dword 9: EVENT_WRITE CS_PARTIAL_FLUSH\n",
        "trace: packet 0, dword 11: SET_UCONFIG_REG CP_PERFMON_CNTL = 0x2\n",
        "trace: packet 0, dword 14: ACQUIRE_MEM invalidate vector caches, invalidate GL1, invalidate scalar caches, \
         write L2 back, invalidate L2\n",
    ] {
        assert!(told.contains(part), "{told}");
    }
}
