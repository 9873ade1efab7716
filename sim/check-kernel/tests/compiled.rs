// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Results and findings of kernels in C, which clang compiles when the test runs, for every target of the sim.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A processor of each target.
const PROCESSORS: [&str; 9] =
    ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx1010", "gfx1030", "gfx1100", "gfx1201", "gfx1250"];

/// Compiles `tests/compiled/<name>.c`.
fn compiled(name: &str, processor: &str, flags: &[&str]) -> PathBuf {
    compile(&format!("{name}.c"), processor, &[&["-x", "c", "-std=c23"], flags].concat())
}

/// Compiles a file of `tests/compiled`. Clang and the linker are Debian's `clang-22` and `lld-22`.
fn compile(file: &str, processor: &str, flags: &[&str]) -> PathBuf {
    compile_for(file, processor, "-mcpu", &[&["-target", "amdgcn-amd-amdhsa"], flags].concat())
}

/// Compiles a file of `tests/compiled` for a processor, which `option` names.
fn compile_for(file: &str, processor: &str, option: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compiled").join(file);
    let name = file.replace('.', "-");
    let way = flags
        .iter()
        .filter(|flag| !flag.contains('/'))
        .copied()
        .collect::<String>()
        .replace(|c: char| !c.is_ascii_alphanumeric(), "");
    let object = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{processor}{way}.co"));
    let output = Command::new("clang-22")
        .args(["-nogpulib", "-fuse-ld=lld-22", "-Werror"])
        .arg(format!("{option}={processor}"))
        .args(flags)
        .arg(&source)
        .arg("-o")
        .arg(&object)
        .output()
        .expect("starting clang-22, of Debian's package clang-22");
    assert!(output.status.success(), "{processor}: {}", String::from_utf8_lossy(&output.stderr));
    object
}

/// Exit code, results and output of a run of `check-kernel`.
struct Shown {
    code: i32,
    /// Dwords of argument 0.
    words: Vec<u32>,
    /// Standard output and standard error.
    out: String,
    told: String,
}

/// The checks of each run.
const CHECKS: &str = "wait,sync,race,hazard,bounds,init";

/// Runs a kernel of an object with [`CHECKS`], on `threads` threads.
fn run(object: &Path, arguments: &str, threads: u32) -> Shown {
    let dump = object.with_extension("bin");
    // One of an earlier run is not taken for it.
    let _ = std::fs::remove_file(&dump);
    let mut command = Command::new(env!("CARGO_BIN_EXE_check-kernel"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HSA_")) {
        command.env_remove(name);
    }
    command
        .arg(object)
        .args(arguments.split(' '))
        .args(["--check", CHECKS])
        .arg("--dump")
        .arg(format!("0={}", dump.display()));
    let output = command.env("HSA_SIM_THREADS", threads.to_string()).env("HSA_SIM_TIMEOUT", "60").output().unwrap();
    let bytes = std::fs::read(&dump).unwrap_or_default();
    Shown {
        code: output.status.code().unwrap(),
        words: bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect(),
        out: String::from_utf8(output.stdout).unwrap(),
        told: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Expects no findings, and the dwords `right` in argument 0.
fn is_right(object: &Path, arguments: &str, threads: u32, right: &[u32]) {
    let shown = run(object, arguments, threads);
    assert_eq!(shown.code, 0, "{} {arguments}: {}", object.display(), shown.told);
    assert_eq!(shown.words, right, "{} {arguments}", object.display());
}

#[test]
fn addresses_wrap_around() {
    let words = |value: fn(u32) -> u32| (0..64).map(value).collect::<Vec<_>>();
    let reversed = words(|t| 5 * (63 - t));
    let cases = [
        ("reverse_lds", words(|t| 3 * (63 - t))),
        ("reverse_more_lds", words(|t| 5 * (63 - t) + t + 1000 * (63 - t) + 100_000 * t)),
        ("reverse_scratch", reversed.clone()),
        ("reverse_by_pointer", reversed),
    ];
    for processor in PROCESSORS {
        for way in ["-O2", "-O1"] {
            let object = compiled("addresses", processor, &[way]);
            for (kernel, right) in &cases {
                is_right(&object, &format!("{kernel} --grid 1 --block 64 --arg buffer:256"), 1, right);
            }
        }
    }
}

/// A GPU runs all of these workgroups at the same time. So must the sim, with any number of threads.
#[test]
fn workgroups_wait_for_each_other() {
    for processor in PROCESSORS {
        let object = compiled("sync", processor, &["-O2"]);
        for threads in [1, 2, 5] {
            let arguments = "gridbar --grid 4 --block 64 --arg buffer:16=zero --arg buffer:4=zero --arg buffer:16=zero \
                             --arg u32:4 --arg u32:3 --dump 2:u32";
            let shown = run(&object, arguments, threads);
            assert_eq!(shown.code, 0, "{processor}, {threads} threads: {}", shown.told);
            assert!(shown.out.contains("0: 15 18 21 12\n"), "{processor}, {threads} threads: {}", shown.out);
        }
    }
}

/// More workgroups than threads, all of which a barrier waits for, and a scan in which each waits for the one before.
#[test]
fn many_workgroups_wait_for_each_other() {
    let object = compiled("sync", "gfx1100", &["-O2"]);
    let arguments = "gridbar --grid 100 --block 128 --arg buffer:400=zero --arg buffer:4=zero --arg buffer:400=zero \
                     --arg u32:100 --arg u32:2";
    let shown = run(&object, arguments, 1);
    assert_eq!(shown.code, 0, "{}", shown.told);
    assert_eq!(shown.words, (100..200).collect::<Vec<_>>());
}

/// Threads of the simulator count workgroups at the same time; whichever is the last has seen all others.
#[test]
fn the_last_workgroup_sees_all_stores() {
    let right: Vec<u32> = (0..256).map(|t| 16 * (t ^ 128) + 120).collect();
    for processor in PROCESSORS {
        let object = compiled("sync", processor, &["-O2"]);
        for threads in [1, 2, 4, 4, 4, 4] {
            let arguments = "last --grid 16 --block 256 --arg buffer:1024 --arg buffer:16384 --arg buffer:4=zero \
                             --arg u32:16";
            is_right(&object, arguments, threads, &right);
        }
    }
}

#[test]
fn compare_and_swap_loops_are_exact_and_no_races() {
    for processor in PROCESSORS {
        let object = compiled("cas", processor, &["-O2"]);
        for threads in [1, 3] {
            let arguments = "casadd --grid 3 --block 256 --arg buffer:32=zero --arg buffer:8=zero --arg buffer:8=zero \
                             --dump 0:f64 --dump 1:f32";
            let shown = run(&object, arguments, threads);
            assert_eq!(shown.code, 0, "{processor}: {}", shown.told);
            assert!(shown.out.contains("0: 73344 73536 73728 73920\n"), "{processor}: {}", shown.out);
            assert!(shown.out.contains("0: 766 767\n"), "{processor}: {}", shown.out);
        }
    }
}

#[test]
fn recursive_functions_are_right_whatever_the_optimisation() {
    fn fib(n: u32) -> u32 {
        if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
    }
    // ack(2, n)
    let right: Vec<u32> = (0..64).map(|i| fib(i % 12) + 1000 * (2 * (i % 5) + 3)).collect();
    for processor in PROCESSORS {
        for way in ["-O0", "-O2"] {
            let object = compiled("fp", processor, &[way]);
            is_right(&object, "kfib --grid 1 --block 64 --arg buffer:256 --stack 8192", 1, &right);
        }
    }
}

/// Two pointers to LDS behind each other, and a number of the wrong type.
#[test]
fn local_arguments_of_opencl_are_lds() {
    for processor in ["gfx942", "gfx1100", "gfx1250"] {
        let object = compile("local.cl", processor, &["-x", "cl", "-cl-std=CL2.0", "-O2"]);
        let with = |scale: &str| {
            format!(
                "reverse --grid 2 --block 256 --arg buffer:1024 --arg local:1024 --arg local:1024 --arg {scale} --arg u32:256"
            )
        };
        is_right(&object, &with("f32:2"), 1, &(0..256).map(|t| 2 * (255 - t) + 1).collect::<Vec<_>>());
        let shown = run(&object, &with("i32:2"), 1);
        assert!(shown.code == 3 && shown.told.contains("argument 3 is a float, which i32 is not"), "{}", shown.told);
    }
}

#[test]
fn kernels_have_names_in_cpp() {
    let object = compile("names.cpp", "gfx1100", &["-x", "c++", "-O2"]);
    let launch = |kernel: &str, arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_check-kernel"));
        let words = format!("--grid 1 --block 4 --arg buffer:16=f32:1,2 {arguments}");
        let output = command.arg(&object).arg(kernel).args(words.split(' ')).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for name in ["ns::scale", "scale", "ns::scale(float AS1*, float)"] {
        let (code, told) = launch(name, "--arg f32:3 --expect 0:f32=3,6");
        assert_eq!(code, Some(0), "{name}: {told}");
    }
    let (code, told) = launch("ns::add", "--arg f32:3");
    assert!(code == Some(3) && told.contains("ns::add is the name of several kernels: ns::add(float "), "{told}");
}

/// ROCm's device library, of the Python package of IREE's compiler that set-up installs.
fn device_library() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let packages = std::fs::read_dir(root.join("build/venv/lib")).into_iter().flatten().flatten();
    let below = "site-packages/iree/compiler/_mlir_libs/iree_platform_libs/rocm/ockl.bc";
    let mut files = packages.map(|python| python.path().join(below)).filter(|file| file.exists());
    files.next().expect("build/venv has no ockl.bc; `cargo xtask setup` installs it")
}

/// Runs a kernel, and returns its standard output.
fn printed(object: &Path, arguments: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_check-kernel"));
    let output = command.arg(object).args(arguments.split(' ')).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{} {arguments}: {told}", object.display());
    String::from_utf8(output.stdout).unwrap()
}

/// The device library's calls of the host, which the compiler makes of HIP's printf, with all checks.
#[test]
fn kernels_of_hip_print() {
    let library = device_library();
    for processor in ["gfx90a", "gfx1100", "gfx1201"] {
        let link = ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", library.to_str().unwrap()];
        let hip = ["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-O2"];
        let object = compile_for("printf.hip", processor, "--offload-arch", &[&hip[..], &link].concat());
        let text = printed(&object, "print --grid 2 --block 96 --arg f32:2.5 --arg i32:70");
        let mut lines: Vec<_> = text.lines().collect();
        // Waves print in any order.
        lines.sort_unstable();
        let long = "a message that is longer than the fifty-six bytes which one call of the host can take";
        let item = |t: &'static str| [t; 2];
        let items = ["item -4: 2.50, 1099511627776", "item 28: 2.50, 1099511627776", "item 60: 2.50, 1099511627776"];
        assert_eq!(lines, [item(long), item(items[0]), item(items[1]), item(items[2])].concat(), "{processor}");
    }
}

#[test]
fn kernels_of_opencl_print() {
    let library = device_library();
    let link = ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", library.to_str().unwrap()];
    let object = compile("printf.cl", "gfx942", &[&["-x", "cl", "-cl-std=CL2.0", "-O2"][..], &link].concat());
    let text = printed(&object, "print --grid 1 --block 64 --arg f32:0.5");
    assert_eq!(text, "item 0: 0, 0.5 text\nitem 1: -1, 0.5 text\n");
}

/// Code for a generic target (AMDGPUUsage "Generic Processors") runs on each member, under all checks, and a look at
/// all its paths finds nothing. `gfx12-5-generic` is newer than clang 22.
#[test]
fn code_for_a_generic_target_runs_on_its_members() {
    for (generic, members, other) in [
        ("gfx9-generic", &["gfx906", "gfx90c"][..], "gfx908"),
        ("gfx9-4-generic", &["gfx942", "gfx950"], "gfx90a"),
        ("gfx10-1-generic", &["gfx1010"], "gfx1030"),
        ("gfx10-3-generic", &["gfx1030", "gfx1036"], "gfx1010"),
        ("gfx11-generic", &["gfx1100", "gfx1103", "gfx1150", "gfx1151"], "gfx1201"),
        ("gfx12-generic", &["gfx1200", "gfx1201"], "gfx1250"),
    ] {
        let object = compiled("addresses", generic, &["-O2"]);
        let right: Vec<u32> = (0..64).map(|t| 3 * (63 - t)).collect();
        let on = |gpu: &str| format!("reverse_lds --grid 1 --block 64 --arg buffer:256 --target {gpu}");
        members.iter().for_each(|gpu| is_right(&object, &on(gpu), 1, &right));
        let shown = run(&object, &on(other), 1);
        assert_eq!(shown.code, 3, "{}", shown.told);
        assert!(shown.told.contains(&format!("for {generic}, which {other} does not run")), "{}", shown.told);
        let look = |of: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_check-kernel"));
            let output = command.arg(&object).arg("--static").args(of).output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        let (code, told) = look(&[]);
        assert!(code == Some(0) && told.contains(&format!("on {}: nothing found", members[0])), "{told}");
        let (code, told) = look(&["--target", members[members.len() - 1]]);
        assert!(code == Some(0) && !told.contains(&format!("on {}:", members[0])) || members.len() == 1, "{told}");
        assert_eq!(look(&["--target", other]).0, Some(3));
    }
}
