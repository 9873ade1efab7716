// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The arguments and environment that the plug into IREE's CMake build gives cargo. A program in cargo's place keeps
//! them.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A project in place of IREE's, with no more of it than `build_support/cargo.cmake` uses.
const PROJECT: &str = "cmake_minimum_required(VERSION 3.26)
project(test LANGUAGES NONE)
set(IREE_SOURCE_DIR /nowhere)
function(amdgpu_rs_write_iree_config _TREE _FILE)
  file(WRITE \"${_FILE}\" \"\")
endfunction()
set(CMAKE_CURRENT_SOURCE_DIR \"${DRIVER}\")
include(\"${DRIVER}/build_support/cargo.cmake\")
";

/// Writes its arguments to files beside itself, and makes the requested output.
const CARGO: &str = "#!/bin/sh
folder=${0%/*}
if [ \"$1\" = --version ]; then echo cargo 99.0.0; exit; fi
printf '%s\\n' \"$@\" > \"$folder/arguments\"
env > \"$folder/environment\"
mkdir -p \"$CARGO_TARGET_DIR/$TRIPLE/release\"
touch \"$CARGO_TARGET_DIR/$TRIPLE/release/libamdgpu_rs.a\" \"$CARGO_TARGET_DIR/$TRIPLE/release/libamdgpu_rs.d\"
";

/// Says of every platform that its standard library is here.
const RUSTC: &str = "#!/bin/sh
echo \"${0%/*}\"
";

/// The arguments and environment of a call of cargo.
struct Told {
    arguments: Vec<String>,
    environment: HashMap<String, String>,
}

fn cmake(folder: &Path) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let venv = root.join("build/venv/bin");
    let mut command = Command::new(if venv.join("cmake").is_file() { venv.join("cmake") } else { "cmake".into() });
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", venv.display())).current_dir(folder);
    command
}

/// A folder with the project and the programs.
fn project(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cmake-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("CMakeLists.txt"), PROJECT).unwrap();
    for (name, text) in [("cargo", CARGO), ("rustc", RUSTC)] {
        let program = folder.join(name);
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

fn configure(folder: &Path, definitions: &[&str]) -> Output {
    let mut command = cmake(folder);
    command.args(["-G", "Ninja", "-S", ".", "-B", "build"]);
    command.arg(format!("-DDRIVER={}", env!("CARGO_MANIFEST_DIR")));
    command.arg(format!("-DAMDGPU_RS_CARGO={}", folder.join("cargo").display()));
    command.args(["-DCMAKE_C_COMPILER=/usr/bin/some-cc", "-DCMAKE_AR=/usr/bin/some-ar"]);
    command.args(definitions.iter().map(|definition| format!("-D{definition}")));
    command.output().expect("CMake is installed (cargo xtask setup)")
}

/// Builds the driver for `triple`, in the folder of its name where there is one.
fn build(name: &str, definitions: &[&str], triple: &str) -> Told {
    let folder = project(name);
    let output = configure(&folder, definitions);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let build = cmake(&folder).args(["--build", "build", "-t", "amdgpu_rs_cargo"]).env("TRIPLE", triple).output();
    let build = build.expect("CMake builds");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stdout));
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let environment = read("environment");
    let pairs = environment.lines().filter_map(|line| line.split_once('='));
    Told {
        arguments: read("arguments").lines().map(str::to_owned).collect(),
        environment: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
    }
}

impl Told {
    fn target(&self) -> Option<&str> {
        let at = self.arguments.iter().position(|argument| argument == "--target")?;
        self.arguments.get(at + 1).map(String::as_str)
    }

    fn variable(&self, name: &str) -> &str {
        self.environment.get(name).map_or("", String::as_str)
    }
}

#[test]
fn the_lock_file_stays_as_it_is() {
    let told = build("native", &[], "");
    assert!(told.arguments.iter().any(|argument| argument == "--locked"), "{:?}", told.arguments);
    assert_eq!(told.target(), None);
    assert_eq!(told.variable("CC"), "/usr/bin/some-cc");
}

#[test]
fn a_named_platform_goes_to_cargo() {
    let triple = "x86_64-unknown-linux-gnu";
    let told = build("named", &["AMDGPU_RS_RUST_TARGET=x86_64-unknown-linux-gnu"], triple);
    assert_eq!(told.target(), Some(triple));
    assert_eq!(told.variable("CC_x86_64_unknown_linux_gnu"), "/usr/bin/some-cc");
}

/// Build scripts run on the host: its compilers stay unchanged.
#[test]
fn a_toolchain_for_another_platform_is_cargos_too() {
    let definitions = [
        "CMAKE_SYSTEM_NAME=Linux",
        "CMAKE_SYSTEM_PROCESSOR=aarch64",
        "CMAKE_C_COMPILER_TARGET=aarch64-linux-gnu",
        "CMAKE_SYSROOT=/opt/sysroot",
    ];
    let told = build("cross", &definitions, "aarch64-unknown-linux-gnu");
    assert_eq!(told.target(), Some("aarch64-unknown-linux-gnu"));
    assert_eq!(told.variable("CC_aarch64_unknown_linux_gnu"), "/usr/bin/some-cc");
    assert_eq!(told.variable("AR_aarch64_unknown_linux_gnu"), "/usr/bin/some-ar");
    let flags = "--target=aarch64-linux-gnu --sysroot=/opt/sysroot";
    assert_eq!(told.variable("CFLAGS_aarch64_unknown_linux_gnu"), flags);
    assert_eq!(told.variable("BINDGEN_EXTRA_CLANG_ARGS_aarch64_unknown_linux_gnu"), "--sysroot=/opt/sysroot");
    assert_ne!(told.variable("CC"), "/usr/bin/some-cc");
}

#[test]
fn a_platform_without_a_name_of_rusts_is_refused() {
    let folder = project("unknown");
    let output = configure(&folder, &["CMAKE_SYSTEM_NAME=Linux", "CMAKE_SYSTEM_PROCESSOR=vax"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("AMDGPU_RS_RUST_TARGET"), "{said}");
}
