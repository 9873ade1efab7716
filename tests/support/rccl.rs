// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A stand-in for RCCL and HIP, `testdata/rccl.c`, which clang 22 compiles. The driver finds it by its name.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use amdgpu_hsa::testing::{Directory, library_path};

/// The directory of a stand-in.
pub struct StandIn(Directory);

impl StandIn {
    /// Compiles it with more options.
    pub fn build(options: &[&str]) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let directory = Directory::new(&format!("rccl-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let mut command = Command::new("clang-22");
        command.args([
            "-std=c23",
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
            "-Werror",
            "-fvisibility=hidden",
            "-O1",
        ]);
        command.args(["-shared", "-fPIC", "-Wl,-soname,librccl.so.1", "-Wl,--no-as-needed"]).args(options);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testdata/rccl.c"));
        // Its functions are those of the library that the driver has loaded.
        command.arg(library_path()).arg("-o").arg(directory.join("librccl.so.1"));
        assert!(command.status().expect("clang-22, of the package of that name").success(), "{command:?}");
        Self(directory)
    }

    /// The variable by which a process finds it first.
    pub fn variable(&self) -> (&'static str, String) {
        let others = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        ("LD_LIBRARY_PATH", format!("{}:{others}", self.0.join("").display()))
    }
}
