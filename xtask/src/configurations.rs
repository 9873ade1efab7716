// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The conformance tests and the models on the sim with all kinds of GPUs and platforms, which differ in host access to
//! GPU memory, memory pools, and links between GPUs.

use xtask_core::conditions::Conditions;
use xtask_core::cts::{self, CommandBufferMode};
use xtask_core::error::{Error, Result};
use xtask_core::hsa::Hsa;
use xtask_core::layout::Layout;
use xtask_core::setup::{self, Build};
use xtask_core::steps::Steps;
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// GPUs of all tests.
pub const TARGETS: [&str; 4] = ["gfx1100", "gfx1201", "gfx90a", "gfx942"];

/// Configurations: GPUs for `HSA_SIM_AGENTS`, preceded by other variables as in a shell, and a short description.
const CONFIGURATIONS: [(&str, &str); 19] = [
    ("HSA_ENABLE_INTERRUPT=0 gfx1100", "no interrupts: waits poll"),
    ("HSA_SIM_ROCR=6.2 gfx1100", "as ROCm 6.2, which knows no generic targets"),
    ("gfx1100:bar=small", "no resizable BAR: the host does not see its memory"),
    ("gfx1100:bar=none", "a virtual function: no HDP registers either"),
    ("gfx1100:pools=coarse", "one pool, as ROCR gives gfx12"),
    ("gfx1100:pools=coarse+extended+fine", "HSA_FORCE_FINE_GRAIN_PCIE=1"),
    ("gfx1100:memory=shared,cus=12", "an APU"),
    ("gfx1100:svm=no", "no shared virtual memory: GPUs have locked memory elsewhere"),
    ("gfx1100:read_index=late", "packets complete long before the read index passes them"),
    ("gfx1100,gfx1100", "two GPUs in one device"),
    ("gfx1100:peers=no,gfx1100:peers=no", "two that do not reach each other's memory"),
    ("gfx1100:bar=small,gfx1100", "two, and the host sees the memory of one"),
    ("gfx1201:bar=small", "no resizable BAR"),
    ("HSA_SIM_ROCR=6.2 gfx90a", "as ROCm 6.2"),
    ("gfx90a,gfx90a", "both dies of an MI250X, linked by XGMI"),
    ("gfx942:partitions=8", "CPX: eight agents on one device"),
    ("gfx942:memory=shared,cus=228", "MI300A"),
    ("gfx942:bar=none", "a virtual function"),
    ("HSA_SIM_ROCR=6.2 gfx942", "as ROCm 6.2, which knows no generic targets"),
];

/// Runs the configurations that use the kernels of `target`, which set-up must have compiled. Prints a row for each.
///
/// # Errors
/// When a program is missing or cannot be started.
pub fn run(layout: &Layout, steps: &Steps, target: &Target) -> Result<Tally> {
    let strict = format!("HSA_SIM_MEMORY=strict {target}");
    let variables = [("HSA_SIM_MEMORY", "strict")];
    let options = cts::Options {
        target,
        hsa: &Hsa::Sim,
        variables: &variables,
        conditions: Conditions::DEFAULT,
        command_buffer_mode: None,
        repeat: 1,
        filter: None,
    };
    // The models take minutes so.
    let (mut total, seconds) = cts::run_as_step(layout, steps, &format!("CTS on {strict}"), &options)?;
    print_row(&strict, "CTS", total, seconds, "caches, so that fences matter");
    // Barriers of streams are of one die, so that a GPU of several has none.
    let agents =
        if target.as_ref() == "gfx942" { "gfx942:partitions=8".parse().map_err(Error::setup)? } else { target.clone() };
    let options = cts::Options { target: &agents, command_buffer_mode: Some(CommandBufferMode::Pm4), ..options };
    let (tests, seconds) = cts::run_as_step(layout, steps, &format!("CTS on {strict}, as PM4 streams"), &options)?;
    print_row(&strict, "CTS", tests, seconds, "the same, and command buffers are PM4 streams");
    total += tests;
    let race = Conditions::race(None);
    let options = cts::Options { variables: &[], conditions: &race, ..options };
    let (tests, seconds) =
        cts::run_as_step(layout, steps, &format!("CTS on {target}, as PM4 streams{race}"), &options)?;
    let checked = format!("HSA_SIM_CHECK=race {target}");
    print_row(&checked, "CTS", tests, seconds, "PM4 streams, whose kernels race if a wait is missing");
    total += tests;
    let race = Conditions::race(Some(4));
    let options = cts::Options { target, command_buffer_mode: None, conditions: &race, ..options };
    let (tests, seconds) = cts::run_as_step(layout, steps, &format!("CTS on {target}{race}"), &options)?;
    print_row(&checked, "CTS", tests, seconds, "four queues, which race if they get memory that others use");
    total += tests;
    for (configuration, what) in CONFIGURATIONS {
        let (variable, agents) = match configuration.split_once(' ') {
            Some((variable, agents)) => (variable.split_once('='), agents),
            None => (None, configuration),
        };
        let variables: Vec<_> = variable.into_iter().collect();
        let configured: Target = agents.parse().map_err(Error::setup)?;
        if configured.to_string() != target.to_string() {
            continue;
        }
        let options = cts::Options {
            target: &configured,
            hsa: &Hsa::Sim,
            variables: &variables,
            conditions: Conditions::DEFAULT,
            command_buffer_mode: None,
            repeat: 1,
            filter: None,
        };
        let (tests, seconds) = cts::run_as_step(layout, steps, &format!("CTS on {configuration}"), &options)?;
        print_row(configuration, "CTS", tests, seconds, what);
        let (models, seconds) = models::run_configured(layout, steps, configuration, &configured, &variables)?;
        print_row("", "models", models, seconds, "");
        total += tests;
        total += models;
    }
    Ok(total)
}

/// Runs all configurations, after the set-up of each kind of GPU.
///
/// # Errors
/// When set-up fails, or a program is missing or cannot be started.
pub fn run_all(layout: &Layout, steps: &Steps) -> Result<Tally> {
    let mut total = Tally::default();
    println!("{:36} {:6} {:>7} {:>7} {:>7} {:>8}", "GPUs", "", "passed", "failed", "skipped", "seconds");
    for name in TARGETS {
        let target: Target = name.parse().map_err(Error::setup)?;
        setup::everything(layout, steps, Build::ToolsAndCts(&target))?;
        let options = cts::Options {
            target: &target,
            hsa: &Hsa::Sim,
            variables: &[],
            conditions: Conditions::DEFAULT,
            command_buffer_mode: None,
            repeat: 1,
            filter: None,
        };
        let (tally, seconds) = cts::run_as_step(layout, steps, &format!("CTS on {name}"), &options)?;
        print_row(name, "CTS", tally, seconds, "as its product is");
        total += tally;
        total += run(layout, steps, &target)?;
    }
    Ok(total)
}

fn print_row(agents: &str, tests: &str, tally: Tally, seconds: f64, what: &str) {
    println!(
        "{agents:36} {tests:6} {:>7} {:>7} {:>7} {seconds:>8.1}  {what}",
        tally.passed, tally.failed, tally.skipped
    );
}
