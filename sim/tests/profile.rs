// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Profiles of `HSA_SIM_PROFILE`. Each case runs in a process of its own.

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::code::*;
use common::*;
use hsa_abi::KernelDispatchPacket;

/// Environment variable that is set in the processes of the cases.
const CASE: &str = "PROFILE_CASE";

/// Fills 1000 dwords with 1024 work-items, twice. The kernel has debug information of the file `kernels.c`.
fn act() {
    let hsa = Hsa::new();
    let code = load_code(hsa.gpu(), include_bytes!("kernels/lines.gfx1100.co")).unwrap();
    let queue = Queue::new(hsa.gpu(), 64);
    let out = hsa.host_memory::<u32>(1000);
    let args = kernargs(&hsa, FillArgs { out, value: 7, count: 1000 });
    let done = signal(2);
    // Nothing orders the two, which store to the same bytes: both are there before the first begins.
    let header = header(hsa_abi::HsaPacketType::KERNEL_DISPATCH, false);
    for _ in 0..2 {
        let packet = KernelDispatchPacket { header, ..code.packet("fill", 16, args, done) };
        queue.publish(queue.reserve(), &packet);
    }
    queue.ring(1);
    wait_for(done, 0);
}

/// Returns the profile of such a process, in a file of this name, and its standard error.
fn profile(name: &str, others: &[(&str, &str)]) -> (String, String) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "what_instructions_do_is_written", "--nocapture"])
        .envs([(CASE, "1"), ("HSA_SIM_AGENTS", "gfx1100"), ("HSA_SIM_THREADS", "2")])
        .env("HSA_SIM_PROFILE", &path)
        .envs(others.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    (std::fs::read_to_string(path).unwrap(), said)
}

#[test]
fn what_instructions_do_is_written() {
    if std::env::var_os(CASE).is_some() {
        return act();
    }
    let text = profile("profile.txt", &[]).0;
    let line = |text: &str, part: &str| text.lines().find(|line| line.contains(part)).unwrap_or_default().to_owned();
    let head = line(&text, "kernel fill on gfx1100, code ");
    assert!(head.contains(": 2 dispatches, 32 workgroups, 64 waves, "), "{text}");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    // The last wave of each dispatch has 8 lanes left.
    let store = words(&line(&text, "global_store_b32"));
    assert_eq!(&store[..5], ["64", "31.2", "3%", "8000", "1.0/1.0"], "{text}");
    assert_eq!(store[store.len() - 2], ";", "{text}");
    assert!(store.last().is_some_and(|source| source.starts_with("kernels.c:")), "{text}");
    assert_eq!(words(&line(&text, "s_load_b64"))[..3], ["64", "32.0", "512"], "{text}");

    let json = profile("profile.json", &[]).0;
    assert!(json.lines().all(|line| line.starts_with("{\"kernel\":\"fill\",\"target\":\"gfx1100\",\"code\":\"")));
    let first = json.lines().next().unwrap();
    assert!(first.contains("\"dispatches\":2,\"workgroups\":32,\"waves\":64,\"execute_ns\":"), "{json}");
    let store = line(&json, "global_store_b32");
    let figures = "\"times\":64,\"lanes\":2000,\"divergent\":2,\"bytes\":8000,\"lines\":64,\"fewest_lines\":64,\
                   \"passes\":0,\"fewest_passes\":0,\"source\":\"kernels.c:";
    assert!(store.contains(figures), "{store}");

    // A page by itself, with as many rows as there are instructions, and their heads.
    let page = profile("profile.html", &[]).0;
    for outside in ["http", "src=", "@import", "<link", "<script"] {
        assert!(!page.contains(outside), "{outside} in {page}");
    }
    assert_eq!(page.matches("<tr").count(), json.lines().count(), "{page}");
    assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
    let store = line(&page, "global_store_b32");
    assert!(store.starts_with("<tr style=\"--heat:1.000\"><td class=heat>64<td>31.2<td>3%<td>8000"), "{store}");
    assert!(line(&page, "<summary>").contains("<b>fill</b> on gfx1100 <span class=share>100.0%</span>"), "{page}");
}

#[test]
fn profiles_checks_and_traces_observe_the_same_run() {
    let figures = |profile: &str| {
        let line = profile.lines().find(|line| line.contains("global_store_b32")).unwrap();
        line.split(",\"source\"").next().unwrap().to_owned()
    };
    let (alone, _) = profile("alone.json", &[]);
    let others = [("HSA_SIM_CHECK", "all"), ("HSA_SIM_TRACE", "wave,fill,wave=1")];
    let (together, said) = profile("together.json", &others);
    assert_eq!(figures(&together), figures(&alone));
    // 16 workgroups have a second wave, twice.
    assert_eq!(said.matches(" begins with lanes ").count(), 32, "{said}");
    assert!(said.contains("hsa-sim: race: kernel fill: data race between dispatches on memory byte 0x"), "{said}");
}

#[test]
fn profiles_need_a_name_that_says_how() {
    if std::env::var_os(CASE).is_some() {
        // SAFETY: no preconditions.
        assert_ne!(unsafe { hsa_runtime64::hsa::hsa_init() }, hsa_abi::HsaStatus::SUCCESS);
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "profiles_need_a_name_that_says_how", "--nocapture"])
        .envs([(CASE, "1"), ("HSA_SIM_PROFILE", "profile.xml")])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let what = "HSA_SIM_PROFILE=profile.xml: expected a file that ends in .txt, .json or .html";
    assert!(output.status.success() && said.contains(what), "{said}");
}
