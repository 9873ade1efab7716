// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Configuration from environment variables.

pub mod checks;
pub mod debug;
pub mod profile;
pub mod trace;
mod variables;

use std::env;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use crate::machine::product::gpu::{self, Gpu};
use crate::machine::product::rocr::Release;
use sim_wave::Jit;

use checks::CheckConfig;
use debug::DebugConfig;
use profile::ProfileConfig;
use trace::TraceConfig;
use variables::misspelt;

/// Settings, read once at the first `hsa_init`.
#[derive(Debug)]
pub struct Config {
    /// The GPU agents.
    pub gpus: Vec<Gpu>,
    /// Release of ROCR to behave like.
    pub rocr: Release,
    /// `ROCR_VISIBLE_DEVICES`, if set.
    pub visible: Option<String>,
    /// True if a blocked wait sleeps until the runtime changes the signal (`HSA_ENABLE_INTERRUPT`).
    pub interrupts: bool,
    /// True if kernels run.
    pub execute: bool,
    /// Maximum number of threads for a dispatch.
    pub threads: usize,
    /// True if caches are modelled.
    pub strict: bool,
    /// Use of compiled code.
    pub jit: Jit,
    /// Seed of random scheduling, if set.
    pub seed: Option<u64>,
    /// Time limit of a kernel.
    pub timeout: Option<Duration>,
    /// File for the counters at shutdown.
    pub stats: Option<PathBuf>,
    /// True if leaks are reported at shutdown.
    pub leaks: bool,
    /// Checks of kernels.
    pub checks: CheckConfig,
    /// File for a profile of kernels.
    pub profile: Option<ProfileConfig>,
    /// Events of kernels to trace.
    pub trace: Option<TraceConfig>,
    /// True if GPUs' clocks count instructions.
    pub counts_instructions: bool,
    /// Debugger of kernels.
    pub debug: Option<DebugConfig>,
}

impl Config {
    /// Reads the environment. The first call warns on standard error about variables that look like the sim's but are
    /// not. The error names the wrong variable and its accepted values.
    pub fn from_env() -> Result<Self, String> {
        static WARN: Once = Once::new();
        WARN.call_once(|| {
            for name in env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
                if let Some(warning) = misspelt(&name) {
                    eprintln!("hsa-sim: {warning}");
                }
            }
        });
        let agents = variable("HSA_SIM_AGENTS")?.unwrap_or_else(|| "gfx1100".into());
        let gpus = gpu::parse(&agents).map_err(|error| format!("HSA_SIM_AGENTS={agents}: {error}"))?;
        let default_threads = std::thread::available_parallelism().map_or(1, usize::from);
        let debug = debug()?;
        // Kernels under the debugger wait for its user, and always run in the same way.
        let (is_debugged, timeout) = (debug.is_some(), number("HSA_SIM_TIMEOUT")?);
        let rocr = variable("HSA_SIM_ROCR")?.unwrap_or_else(|| "7.0".into());
        Ok(Self {
            gpus,
            rocr: Release::parse(&rocr)?,
            visible: env::var("ROCR_VISIBLE_DEVICES").ok(),
            // ROCR takes everything else for yes.
            interrupts: env::var_os("HSA_ENABLE_INTERRUPT").is_none_or(|value| value != "0"),
            execute: flag("HSA_SIM_EXECUTE", true)?,
            threads: match number("HSA_SIM_THREADS")? {
                _ if is_debugged => 1,
                count => count.map_or(default_threads, |n| (n as usize).max(1)),
            },
            strict: match variable("HSA_SIM_MEMORY")?.as_deref() {
                None | Some("coherent") => false,
                Some("strict") => true,
                Some(value) => return Err(format!("HSA_SIM_MEMORY={value}: expected coherent or strict")),
            },
            jit: match variable("HSA_SIM_JIT")?.as_deref() {
                None => Jit::of_host(),
                Some(value) => Jit::parse(value).ok_or_else(|| {
                    format!("HSA_SIM_JIT={value}: expected 0, 1, always or check, and \",avx2\" behind it or not")
                })?,
            },
            seed: number("HSA_SIM_SEED")?,
            timeout: timeout.filter(|&seconds| seconds > 0 && !is_debugged).map(Duration::from_secs),
            stats: env::var_os("HSA_SIM_STATS").map(PathBuf::from),
            leaks: flag("HSA_SIM_LEAKS", false)?,
            checks: checks()?,
            profile: profile()?,
            trace: trace()?,
            counts_instructions: match variable("HSA_SIM_CLOCK")?.as_deref() {
                None | Some("host") => false,
                Some("instructions") => true,
                Some(value) => return Err(format!("HSA_SIM_CLOCK={value}: expected host or instructions")),
            },
            debug,
        })
    }
}

/// Reads the checks; none without the variable.
fn checks() -> Result<CheckConfig, String> {
    let asked = variable("HSA_SIM_CHECK")?
        .map(|list| CheckConfig::parse(&list).map_err(|error| format!("HSA_SIM_CHECK={list}: {error}")));
    let output = env::var_os("HSA_SIM_CHECK_OUTPUT").map(PathBuf::from);
    let fatal = flag("HSA_SIM_CHECK_FATAL", false)?;
    if asked.is_none() && (fatal || output.is_some()) {
        return Err("HSA_SIM_CHECK_FATAL and HSA_SIM_CHECK_OUTPUT need HSA_SIM_CHECK=<checks>".into());
    }
    Ok(CheckConfig { fatal, output, ..asked.transpose()?.unwrap_or_default() })
}

/// Reads the profile's file.
fn profile() -> Result<Option<ProfileConfig>, String> {
    let Some(path) = env::var_os("HSA_SIM_PROFILE") else { return Ok(None) };
    let wanted = ProfileConfig::new(path.clone().into());
    wanted.map(Some).map_err(|error| format!("HSA_SIM_PROFILE={}: {error}", path.display()))
}

/// Reads the events to trace.
fn trace() -> Result<Option<TraceConfig>, String> {
    let Some(text) = variable("HSA_SIM_TRACE")? else { return Ok(None) };
    TraceConfig::parse(&text).map(Some).map_err(|error| format!("HSA_SIM_TRACE={text}: {error}"))
}

/// Reads the debugger's user. The debugger observes the running kernel beside checks, but not beside others; delayed
/// results of `HSA_SIM_SEED` would not come back when a workgroup goes back in time.
fn debug() -> Result<Option<DebugConfig>, String> {
    let Some(text) = variable("HSA_SIM_DEBUG")? else { return Ok(None) };
    let asked = DebugConfig::parse(&text).map_err(|error| format!("HSA_SIM_DEBUG={text}: {error}"))?;
    let others = ["HSA_SIM_PROFILE", "HSA_SIM_TRACE", "HSA_SIM_SEED"];
    match others.into_iter().find(|name| env::var_os(name).is_some()) {
        Some(other) => Err(format!("HSA_SIM_DEBUG={text} and {other} cannot both be set")),
        None => Ok(Some(asked)),
    }
}

fn variable(name: &str) -> Result<Option<String>, String> {
    match env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(value)) => Err(format!("{name}={}: not text in UTF-8", value.display())),
    }
}

fn flag(name: &str, default: bool) -> Result<bool, String> {
    match variable(name)?.as_deref() {
        None => Ok(default),
        Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(value) => Err(format!("{name}={value}: expected 0 or 1")),
    }
}

fn number(name: &str) -> Result<Option<u64>, String> {
    let parse = |value: String| {
        value.parse().map_err(|_| format!("{name}={value}: expected a whole number from 0 to {}", u64::MAX))
    };
    variable(name)?.map(parse).transpose()
}
