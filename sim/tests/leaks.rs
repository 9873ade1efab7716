// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Reports of `HSA_SIM_LEAKS=1`. Each case runs in a process of its own; the tests check its standard error.

mod common;

use std::process::Command;
use std::ptr;

use common::code::*;
use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

const CASE: &str = "LEAKS_TEST_CASE";
const OK: HsaStatus = HsaStatus::SUCCESS;

/// Creates one object of each kind, and then destroys or leaks them.
fn make_everything(leak: bool) {
    let hsa = Hsa::new();
    let pool = hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED);
    let memory = allocate(pool, 100).unwrap();
    let signals: Vec<_> = (0..10).map(signal).collect();
    let queue = Queue::new(hsa.gpu(), 64);
    let executable = load_code(hsa.gpu(), GFX11).unwrap();
    let mut own = [0_u64; 2];
    let own = as_data(&mut own);
    let (mut reader, mut locked, mut va, mut handle) =
        (HsaCodeObjectReader::NULL, ptr::null_mut(), ptr::null_mut(), HsaVmemAllocHandle::NULL);
    // SAFETY: the outputs are valid places, and the named objects are live.
    unsafe {
        assert_eq!(hsa_code_object_reader_create_from_memory(GFX11.as_ptr().cast(), GFX11.len(), &mut reader), OK);
        assert_eq!(hsa_amd_memory_lock(own, 16, ptr::null_mut(), 0, &mut locked), OK);
        assert_eq!(hsa_amd_vmem_address_reserve_align(&mut va, 8192, 0, 0, 0), OK);
        assert_eq!(hsa_amd_vmem_handle_create(pool, 4096, HsaVmemMemoryType::NONE, 0, &mut handle), OK);
        assert_eq!(hsa_amd_vmem_map(va, 4096, 0, handle, 0), OK);
        if leak {
            std::mem::forget((queue, executable));
            return;
        }
        assert_eq!(hsa_amd_vmem_unmap(va, 4096), OK);
        assert_eq!(hsa_amd_vmem_handle_release(handle), OK);
        assert_eq!(hsa_amd_vmem_address_free(va, 8192), OK);
        assert_eq!(hsa_amd_memory_unlock(own), OK);
        assert_eq!(hsa_code_object_reader_destroy(reader), OK);
        for signal in signals {
            assert_eq!(hsa_signal_destroy(signal), OK);
        }
    }
    assert_eq!(free(memory), OK);
}

fn act(case: &str) {
    match case {
        "clean" => make_everything(false),
        "leak" => make_everything(true),
        // Two references, one of them dropped, and a signal.
        "exit" => {
            let hsa = Hsa::new();
            signal(7);
            std::mem::forget(Hsa::new());
            drop(hsa);
        }
        // Objects that the first shut-down reports are gone at the second.
        "twice" => {
            let hsa = Hsa::new();
            signal(7);
            drop(hsa);
            make_everything(false);
        }
        other => panic!("no case {other}"),
    }
}

/// Runs a case. Returns the sim's lines on standard error.
fn run(case: &str, leaks: &str) -> Vec<String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "everything_that_is_left_is_named", "--nocapture"])
        .env(CASE, case)
        .env("HSA_SIM_LEAKS", leaks)
        .env("HSA_SIM_AGENTS", "gfx1100")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{case}: {text}");
    text.lines().filter(|line| line.starts_with("hsa-sim")).map(str::to_owned).collect()
}

#[test]
fn everything_that_is_left_is_named() {
    if let Ok(case) = std::env::var(CASE) {
        return act(&case);
    }
    assert_eq!(run("clean", "1"), [""; 0]);
    assert_eq!(run("leak", "0"), [""; 0]);
    assert_eq!(run("exit", "0"), [""; 0]);

    let lines = run("leak", "1");
    let summaries: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("hsa-sim: hsa_shut_down: ")).collect();
    assert_eq!(
        summaries,
        [
            "1 queues left",
            "1 allocations (100 bytes) left",
            "10 signals left",
            "1 locked ranges of host memory left",
            "1 executables left",
            "1 code object readers left",
            "1 address reservations (8192 bytes) left",
            "1 virtual memory handles (4096 bytes) left",
            "1 virtual memory mappings (4096 bytes) left",
        ]
    );
    for named in [
        "queue 0 of agent 1, 64 packets",
        "100 bytes at 0x",
        "memory of agent 1",
        "value 7",
        "16 bytes at 0x",
        "kernels: fill count_items",
        "reader ",
        "8192 bytes at 0x",
        "handle 1 of 4096 bytes, memory of agent 1",
        "and 2 more",
    ] {
        assert!(
            lines.iter().any(|line| line.starts_with("hsa-sim:   ") && line.contains(named)),
            "{named}: {lines:#?}"
        );
    }
    assert_eq!(lines.len(), 9 + 8 + 8 + 1, "{lines:#?}");

    let lines = run("exit", "1");
    assert_eq!(lines[..2], ["hsa-sim: exit: 1 references on HSA left", "hsa-sim: exit: 1 signals left"]);
    assert_eq!(lines.len(), 3, "{lines:#?}");
    let lines = run("twice", "1");
    assert_eq!(lines[0], "hsa-sim: hsa_shut_down: 1 signals left");
    assert_eq!(lines.len(), 2, "{lines:#?}");
}
