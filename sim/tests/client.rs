// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! A C program that is written against HSA's own headers, linked with the sim and run on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Creates a folder with the sim under the names that the linker and the loader look for.
fn library_folder() -> PathBuf {
    let built = std::env::current_exe().unwrap().with_file_name("libhsa_runtime64.so");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hsa");
    fs::create_dir_all(&folder).unwrap();
    for name in ["libhsa-runtime64.so", "libhsa-runtime64.so.1"] {
        let link = folder.join(name);
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&built, link).unwrap();
    }
    folder
}

fn text(output: &Output) -> String {
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_c_program_runs_as_on_any_hsa_runtime() {
    let headers = Path::new("/usr/include/hsa/hsa_ext_amd.h");
    assert!(headers.exists(), "{} is missing; Debian has it in the package libhsa-runtime-dev", headers.display());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client");
    let folder = library_folder();
    let program = folder.join("client");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(source.join("client.c"))
        .arg("-L")
        .arg(&folder)
        .arg("-lhsa-runtime64")
        .output()
        .expect("cc");
    assert!(compiled.status.success(), "cc: {}", text(&compiled));

    let run = |agents: &str| {
        Command::new(&program)
            .arg(source.join("vector_add.gfx1100.co"))
            .env("LD_LIBRARY_PATH", &folder)
            .env("HSA_SIM_AGENTS", agents)
            .env("HSA_SIM_LEAKS", "1")
            .output()
            .expect("the program starts")
    };
    let output = run("gfx942,gfx1100");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1000 sums are right\n");
    assert!(output.stderr.is_empty(), "{}", text(&output));
    let output = run("gfx942");
    assert!(text(&output).contains("not so: agents.gpu.handle != 0"), "{}", text(&output));
}
