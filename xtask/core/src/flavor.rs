// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Builds of IREE with this driver: the default one, and special ones that are built only on demand. Each has a folder
//! of its own.

use std::path::Path;
use std::process::Command;

use clap::ValueEnum;

use crate::layout::LLVM_DIR;

/// A build of IREE with this driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavor {
    /// The default build.
    #[default]
    Plain,
    /// With IREE's own C driver beside this one.
    BesideC,
    /// IREE's C code, the driver and the sim with a sanitizer's checks.
    Sanitized(Sanitizer),
    /// For releases: linked against an old C library.
    Portable,
    /// With IREE's Python bindings.
    Python,
    /// With IREE's tracing by Tracy.
    Traced,
}

/// A sanitizer of LLVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sanitizer {
    /// Memory errors, and leaks of heap memory
    Address,
    /// Data races
    Thread,
}

/// Target of Rust code with special build flags. Naming it keeps the flags away from build scripts.
pub const TRIPLE: &str = "x86_64-unknown-linux-gnu";

impl Sanitizer {
    /// Name for clang's `-fsanitize=` and rustc's `-Zsanitizer=`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Thread => "thread",
        }
    }

    /// CMake option of IREE.
    pub fn iree_option(self) -> &'static str {
        match self {
            Self::Address => "IREE_ENABLE_ASAN",
            Self::Thread => "IREE_ENABLE_TSAN",
        }
    }

    /// Makes `cargo` instrument its products for [`TRIPLE`], and the C code that its build scripts compile. For
    /// ThreadSanitizer it also rebuilds Rust's standard library, whose synchronisation the sanitizer must see. rustc
    /// requires unstable features for all of it. Programs export the sanitizer's run-time library for the sim, which
    /// they load and which calls it.
    pub fn instrument(self, cargo: &mut Command) {
        cargo.env("RUSTC_BOOTSTRAP", "1").env(
            "RUSTFLAGS",
            format!(
                "-Zsanitizer={} -Cunsafe-allow-abi-mismatch=sanitizer -Cforce-frame-pointers=yes -Clink-arg=-rdynamic",
                self.name()
            ),
        );
        let c_flags = format!("-fsanitize={} -gline-tables-only -fno-omit-frame-pointer", self.name());
        cargo.env("CC", "clang-22").env("CXX", "clang++-22").env("CFLAGS", c_flags);
        cargo.args(["--target", TRIPLE]);
        if self == Self::Thread {
            cargo.arg("-Zbuild-std");
        }
    }

    /// Sets the environment variables of an instrumented program. Compiled code of kernels is not instrumented.
    pub fn apply(self, root: &Path, program: &mut Command) {
        program.env("HSA_SIM_JIT", "0");
        let symbolizer = Path::new(LLVM_DIR).join("bin/llvm-symbolizer");
        let symbolizer = symbolizer.display();
        match self {
            Self::Address => program.env("ASAN_OPTIONS", format!("external_symbolizer_path={symbolizer}")),
            Self::Thread => {
                let suppressions = root.join("cts/thread_sanitizer.supp");
                program.env(
                    "TSAN_OPTIONS",
                    format!("suppressions={}:external_symbolizer_path={symbolizer}", suppressions.display()),
                )
            }
        };
    }
}

impl Flavor {
    /// Suffix of the names of this build's folders.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::BesideC => "-amdgpu",
            Self::Sanitized(Sanitizer::Address) => "-address",
            Self::Sanitized(Sanitizer::Thread) => "-thread",
            Self::Portable => "-portable",
            Self::Python => "-python",
            Self::Traced => "-traced",
        }
    }

    /// The sanitizer of this build.
    pub fn sanitizer(self) -> Option<Sanitizer> {
        match self {
            Self::Sanitized(sanitizer) => Some(sanitizer),
            Self::Plain | Self::BesideC | Self::Portable | Self::Python | Self::Traced => None,
        }
    }
}
