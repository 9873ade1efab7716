// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask rocm`: programs of ROCm on the sim, and the tests that AMD has compiled for its libraries. The programs
//! are Debian's, in a root of their own, in which the sim takes the place of ROCR.

mod program;
mod root;
mod suites;
mod thrust;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::hsa::limit_kernels;
use crate::layout::Layout;
use crate::process;
use crate::setup;
use crate::steps::Steps;
use crate::target::Target;

pub use root::Hip;
use root::Set;
pub use suites::{Suite, run_sample, test};

/// Mounts the machine's folders in the root, and starts a program there.
const ENTER: &str = include_str!("enter.sh");
/// GPUs that both HIP 5.7 and IREE's compiler know.
pub const TARGETS: [&str; 4] = ["gfx908", "gfx90a", "gfx942", "gfx1100"];
/// Time limit of a kernel, unless the user sets one.
const KERNEL_LIMIT: Duration = Duration::from_secs(3600);

/// Replaces this process by the program `words[0]` in the root, with the other words as its arguments, in the caller's
/// current folder. `check` is the list of the sim's checks. Does not return on success.
///
/// # Errors
/// When the root cannot be made, or the program not started.
pub fn run(
    layout: &Layout,
    steps: &Steps,
    hip: Hip,
    target: &Target,
    check: Option<&str>,
    words: &[String],
) -> Result<ExitCode> {
    setup::sim(layout, steps)?;
    root::ensure(layout, steps, hip, Set::Compiler)?;
    let folder = std::env::current_dir().map_err(|error| Error::setup(format!("the current folder: {error}")))?;
    let mut command = enter(layout, hip, target, &folder);
    command.args(words);
    if words.first().is_some_and(|program| program.ends_with("hipcc")) {
        // The linker would look for HSA there, too, and wants ROCR's versions of symbols, which the sim's lack.
        command.env_remove("LD_LIBRARY_PATH");
    }
    if let Some(check) = check {
        command.env("HSA_SIM_CHECK", check);
    }
    limit_kernels(&mut command, KERNEL_LIMIT);
    let error = command.exec();
    Err(Error::setup(format!("running `{}`: {error}", process::display(&command))))
}

/// Fills the root of HIP 5.7 with its runtime.
///
/// # Errors
/// When the packages cannot be had.
pub fn runtime(layout: &Layout, steps: &Steps) -> Result<()> {
    root::ensure(layout, steps, Hip::V5_7, Set::Runtime)
}

/// Fills the root of HIP 5.7 with RCCL.
///
/// # Errors
/// When the packages cannot be had.
pub fn rccl(layout: &Layout, steps: &Steps) -> Result<()> {
    root::ensure(layout, steps, Hip::V5_7, Set::Tests(Suite::Rccl))
}

/// The beginning of a command that runs in the root on the sim; the program and its arguments follow.
pub fn enter(layout: &Layout, hip: Hip, target: &Target, folder: &Path) -> Command {
    let mut command = Command::new("unshare");
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "--propagation", "private", "sh", "-c", ENTER, "enter.sh"]);
    command.arg(root::folder(layout, hip)).arg(folder);
    command.env("HSA_SIM_AGENTS", target.agents());
    if std::env::var_os("HSA_SIM_ROCR").is_none() {
        command.env("HSA_SIM_ROCR", rocr(hip));
    }
    let library = layout.sim_library();
    command.env("LD_LIBRARY_PATH", library.parent().unwrap_or(&library));
    // The root has no other locales.
    command.env("LC_ALL", "C");
    command
}

/// The release of ROCR that the sim plays for a HIP. HIP 5.7 does not take generic targets, which 6.2 has not.
fn rocr(hip: Hip) -> &'static str {
    match hip {
        Hip::V5_7 => "6.2",
        Hip::V6_4 => "7.0",
    }
}
