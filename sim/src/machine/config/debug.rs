// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The debugger that `HSA_SIM_DEBUG` requests.

use std::io;
use std::path::PathBuf;

use sim_debug::{Debugger, console, dap};

/// User of the debugger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DebugConfig {
    /// Commands from standard input.
    Console,
    /// Commands from a file.
    Script(PathBuf),
    /// An editor that connects to this port of the machine and speaks the Debug Adapter Protocol.
    Dap(u16),
}

impl DebugConfig {
    /// Parses `console`, `script:FILE` or `dap:PORT`. The error lists the accepted values.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "console" => Ok(Self::Console),
            Some(("script", path)) if !path.is_empty() => Ok(Self::Script(path.into())),
            Some(("dap", port)) if port.parse::<u16>().is_ok() => Ok(Self::Dap(port.parse().unwrap_or_default())),
            _ => Err("expected console, script:FILE or dap:PORT".into()),
        }
    }

    /// Opens the debugger.
    ///
    /// # Errors
    /// When the file cannot be read, or the port cannot be had.
    pub fn open(&self) -> io::Result<Debugger> {
        match self {
            Self::Console => Ok(console::on_terminal()),
            Self::Dap(port) => dap::listen(*port)
                .map_err(|error| io::Error::new(error.kind(), format!("HSA_SIM_DEBUG=dap:{port}: {error}"))),
            Self::Script(path) => console::by_script(path).map_err(|error| {
                io::Error::new(error.kind(), format!("HSA_SIM_DEBUG=script:{}: {error}", path.display()))
            }),
        }
    }
}
