// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! What the environment asks for.

use std::path::PathBuf;

use super::target::{self, TargetInfo};

/// The settings, read once at the first `hsa_init`.
#[derive(Debug)]
pub struct Config {
    /// One GPU agent for each.
    pub targets: Vec<&'static TargetInfo>,
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
        let targets = agents
            .split(',')
            .map(|name| {
                target::find(name.trim()).ok_or_else(|| {
                    format!("HSA_SIM_AGENTS={agents}: unknown target '{name}'; known targets: {}", target::names())
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        if targets.len() > MAX_GPUS {
            return Err(format!("HSA_SIM_AGENTS names {} agents; at most {MAX_GPUS} are possible", targets.len()));
        }
        let default_threads = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            targets,
            execute: flag("HSA_SIM_EXECUTE", true)?,
            threads: number("HSA_SIM_THREADS")?.map_or(default_threads, |n| (n as usize).max(1)),
            seed: number("HSA_SIM_SEED")?,
            stats: std::env::var_os("HSA_SIM_STATS").map(PathBuf::from),
            leaks: flag("HSA_SIM_LEAKS", false)?,
        })
    }
}

/// Agents are bits of a 64-bit access mask, and one is the CPU.
const MAX_GPUS: usize = 63;

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
