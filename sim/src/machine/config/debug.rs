// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The debugger that `HSA_SIM_DEBUG` requests.

use std::io;
use std::path::PathBuf;

use sim_debug::{Debugger, console};

/// User of the debugger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DebugConfig {
    /// Commands from standard input.
    Console,
    /// Commands from a file.
    Script(PathBuf),
}

impl DebugConfig {
    /// Parses `console` or `script:FILE`. The error lists the accepted values.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "console" => Ok(Self::Console),
            Some(("script", path)) if !path.is_empty() => Ok(Self::Script(path.into())),
            _ => Err("expected console or script:FILE".into()),
        }
    }

    /// Opens the debugger.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn open(&self) -> io::Result<Debugger> {
        match self {
            Self::Console => Ok(console::on_terminal()),
            Self::Script(path) => console::by_script(path).map_err(|error| {
                io::Error::new(error.kind(), format!("HSA_SIM_DEBUG=script:{}: {error}", path.display()))
            }),
        }
    }
}
