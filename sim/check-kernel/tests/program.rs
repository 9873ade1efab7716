// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The program `check-kernel`, run as users run it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/kernels.gfx1100.co")
}

/// Code object of the sim's tests, with the only wait of `fill`, or with a no-op in its place.
fn fill(waits: bool) -> PathBuf {
    let mut code =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/kernels/kernels.gfx11-generic.co")).unwrap();
    if !waits {
        // s_waitcnt lgkmcnt(0), s_nop 0
        let at = code.windows(4).position(|bytes| bytes == 0xbf89_fc07_u32.to_le_bytes()).unwrap();
        code[at..at + 4].copy_from_slice(&0xbf80_0000_u32.to_le_bytes());
    }
    // Tests write it at the same time, and each reads a whole one.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let partial = folder.join(format!("fill-{waits}.{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    std::fs::write(&partial, code).unwrap();
    let path = folder.join(format!("fill-{waits}.co"));
    std::fs::rename(partial, &path).unwrap();
    path
}

/// Code object of assembly kernels that lack a wait or barrier, with debug information.
fn order() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/order.gfx942.co")
}

/// Runs the program. Returns the exit code, standard output and standard error.
fn run(file: &Path, arguments: &str) -> (i32, String, String) {
    run_with(file, arguments, &[])
}

/// Runs the program with these environment variables. Returns the exit code, standard output and standard error.
fn run_with(file: &Path, arguments: &str, variables: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_check-kernel"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HSA_")) {
        command.env_remove(name);
    }
    let output = command
        .arg(file)
        .args(arguments.split_whitespace())
        .env("HSA_SIM_THREADS", "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_kernel_without_findings_succeeds_and_its_buffer_is_shown() {
    let dump = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fill.bin");
    let (code, out, err) = run(
        &fill(true),
        &format!(
            "fill --grid 1 --block 64 --arg buffer:48=zero --arg u32:7 --arg u32:10 --dump 0:u32 --dump 0={}",
            dump.display()
        ),
    );
    assert_eq!(code, 0, "{err}");
    assert_eq!(out, "argument 0:\n       0: 7 8 9 10 11 12 13 14\n       8: 15 16 0 0\n");
    assert!(err.contains("kernel fill on gfx1100: nothing found by all"), "{err}");
    let numbers: Vec<u32> =
        std::fs::read(dump).unwrap().chunks(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap())).collect();
    assert_eq!(numbers, [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0, 0]);
}

#[test]
fn findings_and_faults_fail() {
    let arguments = "fill --grid 1 --block 64 --arg buffer:256 --arg u32:7 --arg u32:64";
    let (code, _, err) = run(&fill(false), arguments);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("hsa-sim: wait: kernel fill: ") && err.contains("kernel fill on gfx1100: 1 finding\n"),
        "{err}"
    );
    let (code, _, err) = run(&fill(false), &format!("{arguments} --check race"));
    assert_eq!(code, 0, "{err}");

    let (code, _, err) = run(&fill(true), "fill --grid 1 --block 64 --arg buffer:252 --arg u32:7 --arg u32:64");
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("fault: kernel fill: ") && err.contains("an allocation of 252 bytes"), "{err}");
    assert_eq!(err.matches("memory violation").count(), 1, "{err}");

    let neighbours = "neighbours --grid 1 --block 256 --arg buffer:2048=iota-f32 --arg buffer:2048 --arg f32:0.5";
    let (code, out, err) = run(&kernels(), &format!("{neighbours} --arg u32:2 --dump 1:f32"));
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("race: kernel neighbours: data race on LDS byte 0x80: write by wave 1 at +0x94, previous read by wave 0 at +0xb4\n"), "{err}");
    assert!(out.starts_with("argument 1:\n       0: 16 17 18 19 "), "{out}");
    // One row has no race.
    let (code, _, err) = run(&kernels(), &format!("{neighbours} --arg u32:1"));
    assert_eq!(code, 0, "{err}");
}

#[test]
fn a_load_that_is_not_waited_for_is_found_where_the_source_has_it() {
    let copy = "--grid 1 --block 64 --arg buffer:256=iota-u32 --arg buffer:256 --dump 1:u32";
    let (code, out, err) = run(&order(), &format!("copy {copy}"));
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains(
            "v2 is read before the global_load_dword that writes it has completed: s_waitcnt vmcnt(0) is missing"
        ),
        "{err}"
    );
    for line in ["global_load_dword v2, v[10:11], off  ; order.s:39\n", "ds_write_b32 v3, v2  ; order.s:41\n"] {
        assert!(err.contains(line), "{err}");
    }
    let right = "argument 1:\n       0: 0 1 2 3 4 5 6 7\n";
    assert!(out.starts_with(right), "{out}");
    // With late results it is one or the other.
    let outputs: Vec<bool> =
        (1..9).map(|seed| run(&order(), &format!("copy {copy} --seed {seed}")).1.starts_with(right)).collect();
    assert!(outputs.contains(&true) && outputs.contains(&false), "{outputs:?}");
    for seed in 1..9 {
        let (code, out, err) = run(&order(), &format!("copy_waits {copy} --seed {seed}"));
        assert_eq!(code, 0, "{err}");
        assert!(out.starts_with(right), "{out}");
    }
}

#[test]
fn workgroups_that_wait_for_later_ones_are_found() {
    // A GPU of 304 compute units, each with LDS for one workgroup.
    let next = "wait_for_next --grid 307 --block 64 --dynamic-lds 40000 --arg buffer:1232";
    let (code, _, err) = run_with(&order(), &format!("{next}=zero"), &[("HSA_SIM_TIMEOUT", "1")]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("sync: kernel wait_for_next: no forward progress: ") && err.contains("order.s:"), "{err}");
    assert!(err.contains("; 3 of 307 workgroups have not begun"), "{err}");
    let fault = err.lines().find(|line| line.starts_with("fault: ")).unwrap();
    assert!(fault.contains("longer than HSA_SIM_TIMEOUT=1") && fault.contains("; order.s:"), "{fault}");
    assert!(err.contains("a fault, 1 findings"), "{err}");
    // Flags that are set already.
    assert_eq!(run(&order(), "wait_for_next --grid 3 --block 64 --arg buffer:16=iota-u32").0, 0);
}

#[test]
fn a_profile_takes_the_place_of_checks() {
    let profile = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("neighbours.txt");
    // One of an earlier run is not taken for it.
    let _ = std::fs::remove_file(&profile);
    let arguments = format!(
        "neighbours --grid 1 --block 256 --arg buffer:2048=iota-f32 --arg buffer:2048 --arg f32:0.5 --arg u32:2 \
         --profile {}",
        profile.display()
    );
    let (code, _, err) = run(&kernels(), &arguments);
    assert_eq!(code, 0, "{err}");
    let text = std::fs::read_to_string(profile).unwrap();
    let store = text.lines().find(|line| line.contains("ds_store_b32")).unwrap();
    // 8 waves, twice; no two lanes share a bank.
    let words: Vec<_> = store.split_whitespace().collect();
    assert_eq!(words[..4], ["16", "32.0", "2048", "1.0/1.0"], "{text}");
}

#[test]
fn a_trace_takes_the_place_of_checks() {
    let copy = "copy --grid 1 --block 64 --arg buffer:256=iota-u32 --arg buffer:256 --trace";
    let (code, _, err) = run(&order(), &format!("{copy} instruction"));
    assert_eq!(code, 0, "{err}");
    let wave = "hsa-sim: trace: copy (0, 0, 0) wave 0: ";
    for told in
        ["+0x24  global_load_dword v2, v[10:11], off  ; lanes 0xffffffffffffffff, order.s:39\n", "  v2 = [0x1 0x2 0x3 "]
    {
        assert!(err.contains(&format!("{wave}{told}")), "{err}");
    }
    assert!(err.contains("kernel copy on gfx942: not checked"), "{err}");
    let (code, _, err) = run(&order(), &format!("{} wave,workgroup=1", copy.replace("--grid 1", "--grid 3")));
    assert_eq!((code, err.matches("wave 0: begins").count()), (0, 1), "{err}");
    assert!(err.contains("trace: copy (1, 0, 0) wave 0: begins"), "{err}");
}

#[test]
fn hidden_arguments_are_filled_in() {
    let (code, out, err) =
        run(&kernels(), "shape --grid 3,2,5 --block 8,4,2 --arg buffer:28 --dump 0:u32 --check wait");
    assert_eq!(code, 0, "{err}");
    assert_eq!(out, "argument 0:\n       0: 3 2 5 8 4 2 3\n");
}

#[test]
fn a_kernel_that_calls_itself_has_the_stack_that_it_is_given() {
    let deep = "deep --grid 1 --block 1 --arg buffer:4 --arg u32:9 --dump 0:u32 --stack";
    let (code, out, err) = run(&kernels(), &format!("{deep} 4096"));
    assert_eq!(code, 0, "{err}");
    assert_eq!(out, "argument 0:\n       0: 45\n");
    let (code, _, err) = run(&kernels(), &format!("{deep} 128"));
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("scratch"), "{err}");
}

#[test]
fn results_are_compared_with_expected_ones() {
    let fill = |more: &str| run(&fill(true), &format!("fill --grid 1 --block 64 --arg @x=buffer:16=zero {more}"));
    let (code, _, err) = fill("--arg u32:7 --arg u32:3 --expect 0:u32=7,8,9,0 --expect 0:u8=file:/dev/null");
    assert_eq!(code, 3, "{err}");
    let (code, _, err) = fill("--arg u32:7 --arg u32:3 --expect 0:u32=7,8,9,0");
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = fill("--arg u32:7 --arg u32:3 --expect 0:u32=iota-u32");
    assert_eq!(code, 1, "{err}");
    let told = "expected: argument 0: 4 of 4 numbers differ\n  [0] is 7, expected 0\n";
    assert!(err.contains(told) && err.contains("kernel fill on gfx1100: 1 finding\n"), "{err}");
}

#[test]
fn bytes_that_nothing_has_written_are_told() {
    let fill = |more: &str| {
        run(
            &fill(true),
            &format!("fill --grid 1 --block 64 --arg buffer:20 --arg u32:7 --arg u32:3 --dump 0:u32 {more}"),
        )
    };
    let (code, out, err) = fill("");
    assert_eq!((code, out.as_str()), (0, "argument 0:\n       0: 7 8 9 - -\n"), "{err}");
    let (code, _, err) = fill("--check all,result");
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("result: argument 0 has 8 uninitialized bytes of 20, the first at 0xc: never written"),
        "{err}"
    );
    // Without the check nothing is known of it.
    let (code, out, err) = fill("--check none");
    assert!(code == 0 && !out.contains('-'), "{out}{err}");
}

#[test]
fn arrays_of_numpy_come_and_go() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("filled.npy");
    let written = format!(
        "fill --grid 1 --block 64 --arg buffer:16=u32:5 --arg u32:7 --arg u32:3 --dump 0:u32={}",
        file.display()
    );
    assert_eq!(run(&fill(true), &written).0, 0);
    let shown = format!("fill --grid 1 --block 64 --arg npy:{} --arg u32:1 --arg u32:1 --dump 0:u32", file.display());
    assert_eq!(run(&fill(true), &shown).1, "argument 0:\n       0: 1 8 9 5\n");
}

#[test]
fn launches_of_a_file_share_buffers() {
    let list = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("launches.txt");
    let code = fill(true).display().to_string();
    let lines = format!(
        "# Two fills of one buffer.\n{code} fill --grid 1 --block 64 --arg @x=buffer:32=zero --arg u32:7 --arg u32:8\n\n\
         {code} fill --grid 1 --block 64 --arg @x+16 --arg u32:1 --arg u32:2 --dump 0:u32 --expect 0:u32=1,2,13,14\n"
    );
    std::fs::write(&list, lines).unwrap();
    let (code, out, err) = run(Path::new("--launches"), &list.display().to_string());
    assert_eq!(code, 0, "{err}");
    assert_eq!(out, "argument 0:\n       0: 1 2 13 14\n");
    assert_eq!(err.matches("kernel fill on gfx1100: nothing found by all").count(), 2, "{err}");
    std::fs::write(&list, "x.co fill --grid 1\n").unwrap();
    let (code, _, err) = run(Path::new("--launches"), &list.display().to_string());
    assert!(code == 3 && err.contains("launches.txt:1: ") && err.contains("--block"), "{err}");
}

#[test]
fn code_objects_are_found_in_other_files() {
    let bytes = std::fs::read(fill(true)).unwrap();
    let module = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("module.vmfb");
    std::fs::write(&module, [&b"PK\x03\x04 some header"[..], &bytes, b" and more"].concat()).unwrap();
    let launch = "fill --grid 1 --block 64 --arg buffer:16=zero --arg u32:7 --arg u32:3 --expect 0:u32=7,8,9,0";
    let (code, _, err) = run(&module, launch);
    assert_eq!(code, 0, "{err}");
    // For two GPUs.
    let other = std::fs::read(order()).unwrap();
    std::fs::write(&module, [&bytes[..], &other].concat()).unwrap();
    assert_eq!(run(&module, launch).0, 0);
}

#[test]
fn standard_error_may_be_closed() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_check-kernel"));
    let arguments = "fill --grid 1 --block 64 --arg buffer:256 --arg u32:7 --arg u32:64";
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command.arg(fill(false)).args(arguments.split_whitespace()).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

/// The file has the command lines and the whole output of each.
#[test]
fn refusals_name_their_cause() {
    trycmd::TestCases::new().case("tests/refused.trycmd").env("HSA_SIM_THREADS", "1");
}

#[test]
fn a_look_at_all_paths_needs_no_run() {
    let (code, out, err) = run(&fill(true), "--static");
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    // Code for gfx11-generic is looked at as RDNA 3 and as RDNA 3.5 run it.
    assert_eq!(err.matches("on gfx1100: nothing found on all paths of ").count(), 4, "{err}");
    assert_eq!(err.matches("on gfx1150: nothing found on all paths of ").count(), 4, "{err}");
    let (code, _, err) = run(&fill(false), "fill --static");
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("wait: kernel fill: ") && err.contains("s_waitcnt lgkmcnt(0) is missing"), "{err}");
    // With source lines.
    let (code, _, err) = run(&order(), "copy --static");
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("ds_write_b32 v3, v2  ; order.s:41"), "{err}");
}
