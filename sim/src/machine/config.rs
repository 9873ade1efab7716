// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! What the environment asks for.

use std::path::PathBuf;

use super::gpu::{self, Gpu};
use super::rocr::Release;

/// The settings, read once at the first `hsa_init`.
#[derive(Debug)]
pub struct Config {
    /// The GPU agents.
    pub gpus: Vec<Gpu>,
    /// Which ROCR to behave like.
    pub rocr: Release,
    /// `ROCR_VISIBLE_DEVICES`, if set.
    pub visible: Option<String>,
    /// Whether a blocked wait sleeps until the signal is changed through the runtime (`HSA_ENABLE_INTERRUPT`).
    pub interrupts: bool,
    /// Whether kernels run.
    pub execute: bool,
    /// Threads a dispatch may use.
    pub threads: usize,
    /// Perturbs scheduling when set.
    pub seed: Option<u64>,
    /// Where counters go at shutdown.
    pub stats: Option<PathBuf>,
    /// Whether leaks are reported at shutdown.
    pub leaks: bool,
}

impl Config {
    /// Reads the environment. The error says which variable is wrong and what it may hold.
    pub fn from_env() -> Result<Self, String> {
        let agents = std::env::var("HSA_SIM_AGENTS").unwrap_or_else(|_| "gfx1100".into());
        let gpus = gpu::parse(&agents).map_err(|error| format!("HSA_SIM_AGENTS={agents}: {error}"))?;
        let default_threads = std::thread::available_parallelism().map_or(1, usize::from);
        let rocr = std::env::var("HSA_SIM_ROCR").unwrap_or_else(|_| "7.0".into());
        Ok(Self {
            gpus,
            rocr: Release::parse(&rocr)?,
            visible: std::env::var("ROCR_VISIBLE_DEVICES").ok(),
            // ROCR takes everything else for yes.
            interrupts: std::env::var_os("HSA_ENABLE_INTERRUPT").is_none_or(|value| value != "0"),
            execute: flag("HSA_SIM_EXECUTE", true)?,
            threads: number("HSA_SIM_THREADS")?.map_or(default_threads, |n| (n as usize).max(1)),
            seed: number("HSA_SIM_SEED")?,
            stats: std::env::var_os("HSA_SIM_STATS").map(PathBuf::from),
            leaks: flag("HSA_SIM_LEAKS", false)?,
        })
    }
}

fn flag(name: &str, default: bool) -> Result<bool, String> {
    match std::env::var(name).as_deref() {
        Err(_) => Ok(default),
        Ok("0") => Ok(false),
        Ok("1") => Ok(true),
        Ok(value) => Err(format!("{name}={value}: expected 0 or 1")),
    }
}

fn number(name: &str) -> Result<Option<u64>, String> {
    match std::env::var(name) {
        Err(_) => Ok(None),
        Ok(value) => value.parse().map(Some).map_err(|_| format!("{name}={value}: expected a non-negative number")),
    }
}
