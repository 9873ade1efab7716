// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The one error type of the commands and what it does to the exit code.

use std::io;
use std::process::ExitCode;

/// Result of a command's part.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a command stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for could not be run: something is missing or broken
    /// in the set-up, or the arguments do not fit. Exit code 3.
    #[error("{0}")]
    Setup(String),
    /// It ran, and found failures. Exit code 1.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// A set-up error from its text.
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

/// Says what was being done when an operation failed.
pub trait Context<T> {
    /// Prefixes the failure with `action`, e.g. "reading /some/file".
    ///
    /// # Errors
    /// A set-up error where `self` is one.
    fn context(self, action: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, action: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::Setup(format!("{}: {error}", action())))
    }
}
