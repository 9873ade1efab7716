// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The choice of an HSA library and the environment that makes a driver load
//! it: `--hsa sim`, `--hsa rocr` or `--hsa /path`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::flavor::Flavor;
use crate::layout::{LIBHSA_VARIABLE, Layout};
use crate::target::Target;

/// AMD's HSA runtime, from Debian's libhsa-runtime64-1.
pub const DEBIAN_ROCR: &str = "/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1";

/// HSA library that the driver loads.
#[derive(Clone, Debug)]
pub enum Hsa {
    /// The software HSA runtime of this project.
    Sim,
    /// AMD's runtime from Debian's package, on the sim's machine; see `sim/kmt`.
    Rocr,
    /// A library file, or a folder that holds one; absolute.
    Path(PathBuf),
}

impl fmt::Display for Hsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sim => f.write_str("the sim"),
            Self::Rocr => f.write_str("ROCR"),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for Hsa {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "sim" => Ok(Self::Sim),
            "rocr" => Ok(Self::Rocr),
            // A named library is never replaced by another one, so it has to be there.
            path => match Path::new(path).canonicalize() {
                Ok(path) => Ok(Self::Path(path)),
                Err(error) => Err(format!("expected `sim`, `rocr` or the path of a library: {error}")),
            },
        }
    }
}

/// The sim's counts of one process, which it writes at exit.
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
    /// CPU time of the process, in nanoseconds.
    pub cpu_ns: u64,
    /// Calls of each HSA function that returns a status.
    pub calls: BTreeMap<String, u64>,
}

impl Hsa {
    /// True if the library runs on the sim's machine, which writes counts.
    pub fn is_on_sim(&self) -> bool {
        !matches!(self, Self::Path(_))
    }

    /// Sets `command`'s environment so that a driver in it finds this library
    /// and, on the sim's machine, the agents of `target`.
    pub fn apply(&self, layout: &Layout, target: &Target, command: &mut Command) {
        let library = match self {
            Self::Sim => &layout.sim_library(),
            Self::Rocr => {
                let thunk = layout.thunk_library();
                command.env("LD_LIBRARY_PATH", thunk.parent().unwrap_or(&thunk));
                Path::new(DEBIAN_ROCR)
            }
            Self::Path(path) => path,
        };
        if self.is_on_sim() {
            // IREE's C driver writes to GPUs' memory without flushing it.
            let agents = match layout.flavor {
                Flavor::BesideC => target.agents_with("hdp=trusted"),
                _ => target.agents().to_owned(),
            };
            command.env("HSA_SIM_AGENTS", agents);
        }
        limit_kernels(command, KERNEL_LIMIT);
        // IREE's C driver takes only folders, and falls back to the system's library.
        let folder = library.parent().filter(|_| library.ends_with("libhsa-runtime64.so.1") && library.is_file());
        command.env(LIBHSA_VARIABLE, folder.unwrap_or(library));
    }
}

/// Time limit of a kernel on the sim. It is shorter than the silence after which calls of IREE's tools are killed, so
/// that the sim can name the kernel first.
const KERNEL_LIMIT: Duration = Duration::from_secs(240);

/// Sets the time limit of kernels on the sim in `command`, unless the user has set one.
pub fn limit_kernels(command: &mut Command, limit: Duration) {
    const VARIABLE: &str = "HSA_SIM_TIMEOUT";
    if std::env::var_os(VARIABLE).is_none() {
        command.env(VARIABLE, limit.as_secs().to_string());
    }
}

impl SimStats {
    /// Reads the file that `HSA_SIM_STATS` named.
    ///
    /// # Errors
    /// When the sim did not write it: it was not loaded, or the process ended before it could.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::setup(format!("the sim's counts, {}: {error}", path.display())))?;
        serde_json::from_str(&text)
            .map_err(|error| Error::setup(format!("the sim's counts, {}: {error}", path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_library_has_to_exist() {
        assert!(matches!("sim".parse(), Ok(Hsa::Sim)));
        assert!(matches!("rocr".parse(), Ok(Hsa::Rocr)));
        assert!(matches!("/".parse(), Ok(Hsa::Path(path)) if path == Path::new("/")));
        assert!("/nonexistent/libhsa-runtime64.so.1".parse::<Hsa>().is_err());
        assert!("".parse::<Hsa>().is_err());
    }

    #[test]
    fn missing_and_broken_counts_are_errors() {
        let path = std::env::temp_dir().join(format!("xtask-stats-{}.json", std::process::id()));
        assert!(SimStats::read(&path).is_err());
        std::fs::write(&path, "{\"dispatches\":1").unwrap();
        assert!(SimStats::read(&path).is_err());
        let all = "{\"agents\":[\"gfx1100\"],\"dispatches\":1,\"packets\":2,\"wave_instructions\":3,\"execute_ns\":4,\
                   \"cpu_ns\":5,\"calls\":{\"hsa_init\":1}}";
        std::fs::write(&path, all).unwrap();
        assert_eq!(SimStats::read(&path).unwrap().wave_instructions, 3);
        std::fs::remove_file(path).unwrap();
    }
}
