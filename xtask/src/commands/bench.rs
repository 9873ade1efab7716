// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask bench`: arguments and set-up.

use super::conclude;
use crate::onnx::networks;
use xtask_core::error::Result;
use xtask_core::hsa::Hsa;
use xtask_core::layout::Layout;
use xtask_core::setup::Build;
use xtask_core::steps::Steps;
use xtask_core::target::Target;
use xtask_core::{cts, rocm, setup};

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    /// Drivers to measure
    #[arg(long, value_enum, default_value = "both")]
    driver: bench::Drivers,
    /// GPU that the sim models
    #[arg(long, default_value = bench::DEFAULT_TARGET, value_name = "GFX")]
    target: Target,
    /// Number of measurements of each case; the drivers take turns
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Counts the submitting thread's instructions, locked ones, allocations and system calls instead of time
    #[arg(long, conflicts_with = "repeat")]
    counts: bool,
    /// Counts the GPU's work for each operation (packets, fences, interrupts and so on) instead of measuring time
    #[arg(long, conflicts_with_all = ["repeat", "counts"])]
    gpu_cost: bool,
    /// Fails if the counts of some operations of this driver exceed the checked-in counts in benches/counts.toml
    #[arg(long, conflicts_with_all = ["driver", "target", "repeat", "counts", "gpu_cost", "filter"])]
    guard: bool,
    /// Replaces the checked-in counts
    #[arg(long, conflicts_with_all = ["driver", "target", "repeat", "counts", "gpu_cost", "filter", "guard"])]
    update: bool,
    /// Measures the figures of docs/status/benchmarks.md, with --sim those of sim-speed.md, and writes them to
    /// benches/results and the pages
    #[arg(long, conflicts_with_all = ["driver", "target", "counts", "gpu_cost", "guard", "update", "filter"])]
    write: bool,
    /// Measures the CPU time of models' kernels on the sim, beside IREE's CPU backend; with --guard, fails if
    /// times and their multiples of the backend's exceed bounds
    #[arg(long, conflicts_with_all = ["driver", "target", "counts", "gpu_cost", "filter", "update", "hip"])]
    sim: bool,
    /// Measures the CPU time of calls by IREE's HIP driver with Debian's HIP, beside this driver's
    #[arg(long, conflicts_with_all = ["driver", "repeat", "counts", "gpu_cost", "guard", "update", "write", "filter"])]
    hip: bool,
    /// With --sim: measures whole networks in place of kernels
    #[arg(long, requires = "sim", conflicts_with_all = ["guard", "write"])]
    networks: bool,
    /// With --sim: compiles kernels for AVX2 where the processor has AVX-512
    #[arg(long, requires = "sim", conflicts_with_all = ["guard", "write"])]
    avx2: bool,
    /// Runs only the cases that match, e.g. 'dispatch*'
    #[arg(long, value_name = "GLOB", default_value = "*")]
    filter: String,
    /// How command buffers are recorded (default: the drivers' own way)
    #[arg(long, value_enum, value_name = "MODE", conflicts_with_all = ["guard", "update", "write"])]
    command_buffer_mode: Option<cts::CommandBufferMode>,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        if self.sim {
            setup::everything(layout, steps, Build::Tools)?;
            return match (self.guard, self.networks) {
                (true, _) => conclude(bench::sim::guard(layout, steps)?),
                (false, false) => bench::sim::run(layout, steps, self.repeat, self.avx2, self.write),
                (false, true) => {
                    let imported = networks::measured(layout, steps)?;
                    bench::sim_networks::run(layout, steps, imported, self.repeat, self.avx2)
                }
            };
        }
        if self.hip {
            self.target.check_compiled(&Hsa::Sim)?;
            setup::everything(layout, steps, Build::Tools)?;
            rocm::runtime(layout, steps)?;
            return bench::hip::run(layout, steps, &self.target);
        }
        if self.guard || self.update {
            setup::everything(layout, steps, Build::Bench)?;
            return match self.guard {
                true => conclude(bench::guard::run(layout, steps)?),
                false => bench::guard::update(layout, steps),
            };
        }
        self.target.check_compiled(&Hsa::Sim)?;
        let layout = &layout.with(self.driver.flavor());
        setup::everything(layout, steps, Build::Bench)?;
        let options = bench::Options {
            drivers: self.driver,
            target: &self.target,
            repeat: self.repeat,
            filter: &self.filter,
            command_buffer_mode: self.command_buffer_mode,
        };
        if self.write {
            return bench::record::run(layout, steps, self.repeat);
        }
        match (self.counts, self.gpu_cost) {
            (true, _) => bench::counts::run(layout, steps, &options),
            (_, true) => bench::cost::run(layout, steps, &options),
            (false, false) => bench::run(layout, steps, &options),
        }
    }
}
