// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The two tiers of `cargo xtask test`. The quick tier ends within ten minutes on two cores after set-up: the driver's
//! own tests, one GPU's models and conformance tests, and samples. `--all` holds every test; `docs/` has a page with
//! what each tier holds and why.

use std::time::Duration;

use crate::libtest::{self, Packages};
use crate::{
    bad_input, bazel, collectives, configurations, examples, hsa_failures, onnx, probes, profile, replay, soak, triton,
    tutorials,
};
use sim_verify::{isa, kernels};
use xtask_core::conditions::Conditions;
use xtask_core::error::Result;
use xtask_core::hsa::Hsa;
use xtask_core::layout::Layout;
use xtask_core::setup::{self, Build};
use xtask_core::steps::{Steps, timed};
use xtask_core::tally::Tally;
use xtask_core::target::{Target, targets_or};
use xtask_core::{cts, rocm};

/// The GPU of the quick tier.
const QUICK_TARGET: &str = "gfx1100";

/// GPUs of the quick tier's random kernels: one of each length of wave.
const QUICK_KERNELS: [&str; 2] = ["gfx942", "gfx1201"];

/// The quick tier's share of [`kernels::SAMPLE`].
const QUICK_KERNELS_SAMPLE: kernels::Options =
    kernels::Options { amount: kernels::Amount::Kernels(20), ..kernels::SAMPLE };

/// The only target of [`configurations::TARGETS`] that Debian's ROCR knows.
const ROCR_TARGET: &str = "gfx90a";

/// GPUs beyond [`configurations::TARGETS`] that run the models. IREE's compiler refuses some of the models there.
pub const MODELS_TARGETS: [&str; 6] = ["gfx906", "gfx908", "gfx1010", "gfx1030", "gfx1151", "gfx1250"];

/// Length of a soak on one target.
const SOAK_TIME: Duration = Duration::from_secs(75);

/// Length of a soak under the check for races.
const RACE_SOAK_TIME: Duration = Duration::from_secs(30);

/// Networks with state and many small allocations, whose memory goes from queue to queue.
const RACING_NETWORKS: &str = "silero-*";

/// Runs the quick tier on `target`, or on [`QUICK_TARGET`].
///
/// # Errors
/// When something cannot be built or started. A group of tests that fails does not stop the next one.
pub fn quick(layout: &Layout, steps: &Steps, target: Option<Target>) -> Result<Tally> {
    target.iter().try_for_each(|target| target.check_compiled(&Hsa::Sim))?;
    let target = &targets_or(target, &[QUICK_TARGET])?[0];
    setup::everything(layout, steps, Build::ToolsAndCts(target))?;
    let mut total = libtest::run(layout, steps, Packages::WithoutSim)?;
    total += bad_input::run(layout, steps, target)?;
    total += kernels::run(layout, steps, &targets_or(None, &QUICK_KERNELS)?, QUICK_KERNELS_SAMPLE)?;
    total += examples::run(layout, steps, target)?;
    // A finding of the check is a failure, so the models need no run without it.
    total += races(layout, steps, target, 2)?;
    total += onnx_sample(layout, steps, target)?;
    total += conformance(layout, steps, target, &Hsa::Sim)?;
    Ok(total)
}

/// Runs every test, on `target` or on all that are tested.
///
/// # Errors
/// As [`quick`].
pub fn all(layout: &Layout, steps: &Steps, target: Option<Target>) -> Result<Tally> {
    target.iter().try_for_each(|target| target.check_compiled(&Hsa::Sim))?;
    let of_kernels = targets_or(target.clone(), &isa::TARGETS)?;
    let of_models = if target.is_none() { targets_or(None, &MODELS_TARGETS)? } else { Vec::new() };
    let targets = targets_or(target, &configurations::TARGETS)?;
    let first = &targets[0];
    setup::everything(layout, steps, Build::ToolsAndCts(first))?;
    // Installations come first, so that a missing right fails early.
    setup::bazel(layout, steps)?;
    let mut total = libtest::run(layout, steps, Packages::All)?;
    total += bad_input::run(layout, steps, first)?;
    total += hsa_failures::run(layout, steps)?;
    total += kernels::run(layout, steps, &of_kernels, kernels::SAMPLE)?;
    total += triton::run_sample(layout, steps)?;
    total += rocm::run_sample(layout, steps)?;
    total += kernels::run_old_sample(layout, steps, &of_kernels)?;
    setup::everything(layout, steps, Build::Bench)?;
    total += bench::smoke(layout, steps)?;
    total += bench::guard::run(layout, steps)?;
    total += bench::sim::guard(layout, steps)?;
    setup::everything(layout, steps, Build::Replay)?;
    total += replay::run(layout, steps, first)?;
    total += probes::run_all(layout, steps)?;
    // A tutorial compares the drivers by a probe, whose build then exists.
    total += tutorials::run(layout, steps)?;
    total += profile::run(layout, steps, first)?;
    total += bazel::run(layout, steps)?;
    for queues in [2, 4] {
        total += races(layout, steps, first, queues)?;
    }
    total += collectives::run_sample(layout, steps)?;
    for target in &targets {
        total += examples::run(layout, steps, target)?;
        total += soak::run(layout, steps, target, soak_options(SOAK_TIME), Conditions::DEFAULT)?;
        total += models::run(layout, steps, target, &Hsa::Sim, Conditions::DEFAULT)?;
        total += onnx_sample(layout, steps, target)?;
        // The kernels of the conformance tests are compiled for one target at a time.
        setup::everything(layout, steps, Build::ToolsAndCts(target))?;
        total += conformance(layout, steps, target, &Hsa::Sim)?;
        total += configurations::run(layout, steps, target)?;
        if target.as_ref() == ROCR_TARGET {
            setup::ensure_thunk(layout, steps)?;
            total += bad_input::run_on_rocr(layout, steps, target)?;
            total += models::run(layout, steps, target, &Hsa::Rocr, Conditions::DEFAULT)?;
            total += conformance(layout, steps, target, &Hsa::Rocr)?;
        }
    }
    for target in &of_models {
        total += models::run(layout, steps, target, &Hsa::Sim, Conditions::DEFAULT)?;
    }
    Ok(total)
}

/// Models, networks and a soak, which allocate on several queues, under the check for races.
fn races(layout: &Layout, steps: &Steps, target: &Target, queues: u8) -> Result<Tally> {
    let race = Conditions::race(Some(queues));
    let mut total = models::run(layout, steps, target, &Hsa::Sim, &race)?;
    total += onnx::networks::run(layout, steps, std::slice::from_ref(target), &race, RACING_NETWORKS)?;
    total += soak::run(layout, steps, target, soak_options(RACE_SOAK_TIME), &race)?;
    Ok(total)
}

/// The sample of ONNX's node tests, under the check for races.
fn onnx_sample(layout: &Layout, steps: &Steps, target: &Target) -> Result<Tally> {
    let race = Conditions::race(None);
    let (sample, time) = timed(|| onnx::run_sample(layout, steps, target, &race));
    let sample = sample?;
    steps.record(&format!("ONNX on {target}"), "the sample", sample.verdict(), Some(time));
    Ok(sample)
}

/// IREE's conformance tests, with the kernels that set-up compiled last.
fn conformance(layout: &Layout, steps: &Steps, target: &Target, hsa: &Hsa) -> Result<Tally> {
    let options = cts::Options {
        target,
        hsa,
        variables: &[],
        conditions: Conditions::DEFAULT,
        command_buffer_mode: None,
        repeat: 1,
        filter: None,
    };
    cts::run(layout, steps, &options)
}

/// As many programs of a fixed seed as `time` allows.
fn soak_options(time: Duration) -> soak::Options {
    soak::Options { seed: 1, time, programs: u64::MAX }
}
