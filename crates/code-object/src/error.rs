// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The one error type of the parsers.

use crate::target::TargetError;

/// A parser's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Why bytes are not a usable executable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A read runs past the end of the data.
    #[error(
        "{what} needs {size} bytes at offset {offset} but the data ends after {available} bytes; \
         it is truncated or corrupted"
    )]
    Truncated {
        /// The structure that was being read.
        what: &'static str,
        /// Offset of the part in bytes from the start of the container (ELF file, flatbuffer or note).
        offset: u64,
        /// Size of the part in bytes.
        size: u64,
        /// Size of the container in bytes.
        available: u64,
    },
    /// The data is whole but contradicts its format.
    #[error("{what}: {problem}; the data is corrupted or its producer is incompatible")]
    Malformed {
        /// The structure that was being read.
        what: String,
        /// The contradiction.
        problem: String,
    },
    /// The data is well formed but uses something that is not supported.
    #[error("{what}: {problem}")]
    Unsupported {
        /// The structure that was being read.
        what: String,
        /// The unsupported feature, and the remedy.
        problem: String,
    },
    /// No container's magic number is present.
    #[error(
        "not an AMDGPU executable: the data begins with bytes {found:02x?}; expected `AMD1` or `HIP1` (flatbuffer) \
         or 7f 45 4c 46 (ELF code object)"
    )]
    UnknownFormat {
        /// The first bytes of the data, at most four.
        found: Vec<u8>,
    },
    /// The host has no memory for a copy.
    #[error("the host has no memory for {bytes} bytes")]
    NoMemory {
        /// How many.
        bytes: usize,
    },
    /// The code object's target is not usable.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl Error {
    pub(crate) fn malformed(what: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Malformed { what: what.into(), problem: problem.into() }
    }

    pub(crate) fn unsupported(what: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Unsupported { what: what.into(), problem: problem.into() }
    }
}
