// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The one map of code-object targets: what is built, embedded and chosen follows from it.

/// A target that the device library is compiled for.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    /// The compiler's name of the target (`-mcpu`), also the stem of the file in `prebuilt/`.
    pub name: &'static str,
    /// The processors that run code of this target (LLVM, "User Guide for AMDGPU Backend", tables of processors and of generic
    /// processors).
    pub processors: &'static [&'static str],
}

/// All targets, oldest first. A processor belongs to exactly one of them.
///
/// gfx908 and gfx90a stand alone: no generic target covers them. gfx1250 and gfx1251 need `gfx12-5-generic`, which clang 22 does not
/// know.
pub static TARGETS: [Target; 8] = [
    Target { name: "gfx9-generic", processors: &["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"] },
    Target { name: "gfx908", processors: &["gfx908"] },
    Target { name: "gfx90a", processors: &["gfx90a"] },
    Target { name: "gfx9-4-generic", processors: &["gfx940", "gfx941", "gfx942", "gfx950"] },
    Target { name: "gfx10-1-generic", processors: &["gfx1010", "gfx1011", "gfx1012", "gfx1013"] },
    Target {
        name: "gfx10-3-generic",
        processors: &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"],
    },
    Target {
        name: "gfx11-generic",
        processors: &[
            "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153", "gfx1170",
            "gfx1171", "gfx1172",
        ],
    },
    Target { name: "gfx12-generic", processors: &["gfx1200", "gfx1201"] },
];
