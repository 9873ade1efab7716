// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! What `HSA_SIM_CHECK` and its like do to a process. Each case runs in one of its own, whose standard error is looked
//! at.

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::code::*;
use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::{hsa_sim_memory_part_begin, hsa_sim_memory_part_end};

/// Set in the processes of the cases, to one.
const CASE: &str = "CHECKS_CASE";

/// The code object without the wait for the arguments of `fill`, which is `s_nop n`.
fn without_wait(n: u32) -> Vec<u8> {
    // s_waitcnt lgkmcnt(0), of which the kernel has one.
    let (wait, nop) = (0xbf89_fc07_u32.to_le_bytes(), (0xbf80_0000_u32 + n).to_le_bytes());
    let mut code = GFX11.to_vec();
    let at = code.windows(4).position(|bytes| bytes == wait).unwrap();
    code[at..at + 4].copy_from_slice(&nop);
    code
}

/// Fills memory twice with a kernel that does not wait, or that does.
fn act(case: &str) {
    let hsa = Hsa::new();
    if case.starts_with("bounds") {
        return overrun_part(&hsa, case == "bounds");
    }
    let code = if case == "right" { GFX11.to_vec() } else { without_wait(0) };
    // Another kernel of the same name.
    let again = if case == "two" { without_wait(1) } else { code.clone() };
    let code = [code, again].map(|code| load_code(hsa.gpu(), &code).unwrap());
    let queue = Queue::new(hsa.gpu(), 64);
    let out = hsa.host_memory::<u32>(1000);
    let args = kernargs(&hsa, FillArgs { out, value: 7, count: 1000 });
    let done = signal(2);
    for code in &code {
        queue.submit(&code.packet("fill", 16, args, done));
    }
    if case == "fatal" {
        assert_eq!(queue.wait_error(), HsaStatus::ERROR_EXCEPTION);
    } else {
        wait_for(done, 0);
    }
}

/// Fills 64 dwords where only 63 are said to be in use; the queue stops there if they are looked at.
fn overrun_part(hsa: &Hsa, is_checked: bool) {
    hsa.handle_faults();
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    let queue = Queue::new(hsa.gpu(), 64);
    let out = hsa.host_memory::<u32>(1024);
    // SAFETY: the memory stays allocated.
    unsafe {
        assert_eq!(hsa_sim_memory_part_begin(out.cast(), 252), HsaStatus::SUCCESS);
        let last = hsa_sim_memory_part_begin(out.add(64).cast(), 4096);
        assert_eq!(last, if is_checked { HsaStatus::ERROR_INVALID_ARGUMENT } else { HsaStatus::SUCCESS });
    }
    let done = signal(1);
    queue.submit(&code.packet("fill", 1, kernargs(hsa, FillArgs { out, value: 7, count: 63 }), done));
    wait_for(done, 0);
    let args = kernargs(hsa, FillArgs { out, value: 7, count: 64 });
    let again = signal(1);
    queue.submit(&code.packet("fill", 1, args, again));
    if is_checked {
        queue.wait_stopped(HsaStatus::ERROR_MEMORY_FAULT);
        let text = queue.fault();
        let place = "byte 252 of an allocation of 4096 bytes, in no part of it that is in use";
        assert!(text.contains(place), "{text}");
    } else {
        wait_for(again, 0);
    }
    // SAFETY: as above.
    let end = || unsafe { hsa_sim_memory_part_end(out.cast_const().cast()) };
    assert_eq!(end(), HsaStatus::SUCCESS);
    assert_eq!(end(), if is_checked { HsaStatus::ERROR_INVALID_ALLOCATION } else { HsaStatus::SUCCESS });
}

/// What a case prints of the sim's, with these variables set.
fn run(case: &str, variables: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "findings_are_told", "--nocapture"])
        .env(CASE, case)
        .env("HSA_SIM_AGENTS", "gfx1100")
        .env("HSA_SIM_THREADS", "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{case}: {text}");
    text
}

#[test]
fn findings_are_told() {
    if let Ok(case) = std::env::var(CASE) {
        return act(&case);
    }
    assert!(!run("wrong", &[]).contains("wait:"));
    assert!(!run("wrong", &[("HSA_SIM_CHECK", "sync")]).contains("wait:"));
    assert!(!run("right", &[("HSA_SIM_CHECK", "all")]).contains("hsa-sim"));
    assert!(!run("bounds-off", &[]).contains("hsa-sim"));
    run("bounds", &[("HSA_SIM_CHECK", "bounds")]);

    let output = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("findings.json");
    // Findings are appended.
    let _ = std::fs::remove_file(&output);
    let text = run("wrong", &[("HSA_SIM_CHECK", "wait"), ("HSA_SIM_CHECK_OUTPUT", output.to_str().unwrap())]);
    let told = text.matches("hsa-sim: wait: kernel fill: ").count();
    assert!(told > 0, "{text}");
    assert!(text.contains("is missing\n") && text.contains("; dispatch 0 of queue 0 on agent 1 (gfx1100)"), "{text}");
    // 1024 items are 32 waves, twice.
    assert!(text.contains(": 64 times"), "{text}");
    let json = std::fs::read_to_string(&output).unwrap();
    let lines: Vec<&str> = json.lines().collect();
    assert_eq!(lines.len(), 2 * told, "{json}");
    assert!(lines[0].starts_with("{\"check\":\"wait\",\"kernel\":\"fill\",\"code\":\""), "{json}");
    assert!(lines[0].contains("\"dispatch\":0,\"queue\":\"queue 0 on agent 1 (gfx1100)\"}"), "{json}");
    assert!(lines.last().unwrap().ends_with("\"times\":64}"), "{json}");

    let twice = run("two", &[("HSA_SIM_CHECK", "wait")]);
    assert_eq!(twice.matches("hsa-sim: wait: kernel fill: ").count(), 2 * told, "{twice}");

    let text = run("fatal", &[("HSA_SIM_CHECK", "wait"), ("HSA_SIM_CHECK_FATAL", "1")]);
    assert!(text.contains("is missing"), "{text}");
}
