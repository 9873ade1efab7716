// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The choice of an HSA library and the environment that makes a driver load
//! it: `--hsa sim` or `--hsa /path`.

use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::layout::{LIBHSA_VARIABLE, Layout};
use crate::target::Target;

/// Which HSA library the driver is to load.
#[derive(Clone, Debug)]
pub enum Hsa {
    /// The software one of this project.
    Sim,
    /// A library file, or a folder that holds one.
    Path(PathBuf),
}

impl FromStr for Hsa {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "sim" => Ok(Self::Sim),
            "" => Err("expected `sim` or a path".to_owned()),
            path => Ok(Self::Path(path.into())),
        }
    }
}

/// What the sim counted in one process (it writes this at its end).
#[derive(Deserialize)]
pub struct SimStats {
    /// Kernel dispatches run.
    pub dispatches: u64,
    /// Packets consumed, of all kinds.
    pub packets: u64,
    /// Instructions executed, counted once for each wavefront.
    pub wave_instructions: u64,
    /// Time spent in running kernels, in nanoseconds.
    pub execute_ns: u64,
}

impl Hsa {
    /// Sets `command`'s environment so that a driver in it finds this library
    /// and, on the sim, one agent of `target`.
    ///
    /// # Errors
    /// When the path does not exist: a named library is never replaced by
    /// another one.
    pub fn apply(&self, layout: &Layout, target: &Target, command: &mut Command) -> Result<()> {
        let path = match self {
            Self::Sim => {
                command.env("HSA_SIM_AGENTS", target.as_ref());
                layout.sim()
            }
            Self::Path(path) => path.clone(),
        };
        let path = path.canonicalize().map_err(|error| Error::setup(format!("--hsa {}: {error}", path.display())))?;
        command.env(LIBHSA_VARIABLE, path);
        Ok(())
    }
}

impl SimStats {
    /// Reads the file that `HSA_SIM_STATS` named.
    ///
    /// # Errors
    /// When the sim did not write it: it was not loaded, or the process ended
    /// before it could.
    pub fn read(path: &std::path::Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::setup(format!("the sim's counts, {}: {error}", path.display())))?;
        serde_json::from_str(&text)
            .map_err(|error| Error::setup(format!("the sim's counts, {}: {error}", path.display())))
    }
}
