// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The code objects of `testdata/soak.c`, which says how they were built.

macro_rules! built {
    ($($target:literal),*) => {
        &[$(($target, include_bytes!(concat!("../testdata/soak.", $target, ".co")))),*]
    };
}

const BUILT: &[(&str, &[u8])] =
    built!["gfx906", "gfx908", "gfx90a", "gfx942", "gfx1010", "gfx1030", "gfx1100", "gfx1201", "gfx1250"];

/// The kernels for the first GPU that the sim plays in this process.
pub fn of_first_agent() -> &'static [u8] {
    let agents = std::env::var("HSA_SIM_AGENTS").unwrap_or_else(|_| "gfx1100".to_owned());
    let target = agents.split([',', ':']).next().unwrap_or_default();
    let found = BUILT.iter().find(|(name, _)| *name == target);
    found.unwrap_or_else(|| panic!("no kernels for '{target}' in tests/testdata/soak.c")).1
}
