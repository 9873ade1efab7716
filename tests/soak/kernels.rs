// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The code objects of `testdata/soak.c`, which says how they were built, and the GPUs that they are for.

macro_rules! built {
    ($($target:literal),*) => {
        &[$(($target, include_bytes!(concat!("../testdata/soak.", $target, ".co")))),*]
    };
}

const BUILT: &[(&str, &[u8])] = built![
    "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1010", "gfx1030", "gfx1100", "gfx1151", "gfx1201", "gfx1250"
];

/// GPUs of the sim in this process, in the format of `HSA_SIM_AGENTS`.
pub fn agents() -> String {
    std::env::var("HSA_SIM_AGENTS").unwrap_or_else(|_| "gfx1100".to_owned())
}

/// Number of GPUs in the list: entries with a name; an entry that is a setting alone does not count.
pub fn gpu_count() -> usize {
    agents().split(',').filter(|item| item.contains(':') || !item.contains('=')).count()
}

/// The kernels for the first of them.
pub fn of_first_agent() -> &'static [u8] {
    let agents = agents();
    let target = agents.split([',', ':']).next().unwrap_or_default();
    let found = BUILT.iter().find(|(name, _)| *name == target);
    found.unwrap_or_else(|| panic!("no kernels for '{target}' in tests/testdata/soak.c")).1
}
