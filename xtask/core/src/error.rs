// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The error type of all commands, and its exit codes.

use std::io;
use std::process::ExitCode;

/// Result of a command or a part of it.
pub type Result<T> = std::result::Result<T, Error>;

/// Reason why a command stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command could not run: something is missing or broken in the set-up, or the arguments do not fit. Exit code
    /// 3.
    #[error("{0}")]
    Setup(String),
    /// The command ran, and found failures. Exit code 1.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// Creates a set-up error with this text.
    pub fn setup(text: impl Into<String>) -> Self {
        Self::Setup(text.into())
    }

    /// The process's exit code for this error.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Setup(_) => ExitCode::from(3),
            Self::Failed(_) => ExitCode::from(1),
        }
    }
}

/// Adds the failed action to an error.
pub trait Context<T> {
    /// Prefixes the failure with `action`, e.g. "reading /some/file".
    ///
    /// # Errors
    /// A set-up error if `self` is an error.
    fn context(self, action: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, action: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::Setup(format!("{}: {error}", action())))
    }
}
