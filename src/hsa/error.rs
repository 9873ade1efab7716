// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Errors of the HSA runtime and of its discovery, and the only place where they become IREE's.

use std::fmt;
use std::path::PathBuf;

use hsa_abi::HsaStatus;

use amdgpu_ffi::{Code, Status, messages};

/// The result of this module's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the HSA runtime or of its discovery.
#[derive(Clone, Debug)]
pub enum Error {
    /// A call failed, or a queue or the runtime reported an error by itself.
    Call {
        /// The function, or the source of the error.
        call: &'static str,
        /// The status.
        status: HsaStatus,
        /// The arguments of the call, or further information; may be empty.
        details: String,
    },
    /// No usable library in any of the places tried.
    NoLibrary {
        /// The places in the order tried, each with the reason why it was not used.
        attempts: Vec<Attempt>,
    },
    /// The loaded library lacks an optional function that is needed.
    MissingFunction {
        /// The function.
        function: &'static str,
        /// The purpose that it is needed for.
        purpose: &'static str,
        /// The library.
        library: PathBuf,
    },
    /// The driver cannot use this runtime.
    Incompatible {
        /// The library.
        library: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// A place where a library was looked for.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The step of the search order.
    pub origin: &'static str,
    /// The path or name that was opened; none if there was nothing to open.
    pub path: Option<PathBuf>,
    /// The reason why it was not used.
    pub reason: String,
    /// True if it is an HSA library that lacks functions.
    pub opened: bool,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { call, status, details } => {
                write!(f, "{call} failed: {status:?} ({})", meaning(*status))?;
                if details.is_empty() { Ok(()) } else { write!(f, ": {details}") }
            }
            Self::NoLibrary { attempts } => no_library(attempts, f),
            Self::MissingFunction { function, purpose, library } => {
                let library = library.display();
                write!(f, "{library} has no {function}, which is needed to {purpose}; a newer ROCm has it")
            }
            Self::Incompatible { library, reason } => {
                write!(f, "the HSA runtime {} cannot be used: {reason}", library.display())
            }
        }
    }
}

impl std::error::Error for Error {}

fn no_library(attempts: &[Attempt], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("no usable HSA runtime (libhsa-runtime64.so.1, part of ROCm). Tried, in this order:")?;
    for Attempt { origin, path, reason, .. } in attempts {
        match path {
            Some(path) => write!(f, "\n  [{origin}] {}: {reason}", path.display())?,
            None => write!(f, "\n  [{origin}] {reason}")?,
        }
    }
    let (flag, variable) = (super::discovery::SEARCH_PATH_FLAG, super::discovery::LIBRARY_PATH_VARIABLE);
    write!(f, "\nInstall ROCm's HSA runtime, or name its directory or file with {flag}=<path> or {variable}=<path>.")
}

impl Error {
    /// The HSA status; none if the error has none.
    pub fn status(&self) -> Option<HsaStatus> {
        match self {
            Self::Call { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The status code in IREE. For statuses of calls this is the mapping of IREE's C driver (`util/libhsa.c`),
    /// extended by AMD's own statuses.
    pub fn code(&self) -> Code {
        match self {
            Self::Call { status, .. } => code_of(*status),
            Self::NoLibrary { attempts } if attempts.iter().any(|attempt| attempt.opened) => Code::INCOMPATIBLE,
            Self::NoLibrary { .. } => Code::NOT_FOUND,
            Self::MissingFunction { .. } => Code::UNIMPLEMENTED,
            Self::Incompatible { .. } => Code::INCOMPATIBLE,
        }
    }
}

impl From<Error> for Status {
    #[cold]
    fn from(error: Error) -> Self {
        Status::with_message(error.code(), c"hsa", 0, &error.to_string())
    }
}

/// Turns the status of `call` into a result. Both successes of HSA (success, iteration stopped) are `Ok`.
pub(super) fn check(call: &'static str, status: HsaStatus) -> Result<()> {
    check_with(call, status, String::new)
}

/// As [`check`], with details that are only computed for an error.
pub(super) fn check_with(call: &'static str, status: HsaStatus, details: impl FnOnce() -> String) -> Result<()> {
    if status.is_ok() {
        return Ok(());
    }
    Err(Error::Call { call, status, details: details() })
}

/// Reports a failed call in a message, if no caller can get the error: at the end of a resource, which is leaked then,
/// and when a queue is stopped after an error.
pub(super) fn report(call: &'static str, status: HsaStatus) {
    if let Err(error) = check(call, status) {
        messages::emit(&error.to_string());
    }
}

/// The answer of a query that older runtimes refuse as an invalid argument; none then.
///
/// # Errors
/// All other errors.
pub(super) fn optional<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.status() == Some(HsaStatus::ERROR_INVALID_ARGUMENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn code_of(status: HsaStatus) -> Code {
    type S = HsaStatus;
    match status {
        S::SUCCESS => Code::OK,
        S::INFO_BREAK => Code::CANCELLED,
        S::ERROR_INVALID_ARGUMENT
        | S::ERROR_INVALID_QUEUE_CREATION
        | S::ERROR_INVALID_ALLOCATION
        | S::ERROR_INVALID_AGENT
        | S::ERROR_INVALID_REGION
        | S::ERROR_INVALID_SIGNAL
        | S::ERROR_INVALID_QUEUE
        | S::ERROR_INVALID_PACKET_FORMAT
        | S::ERROR_INVALID_ISA_NAME
        | S::ERROR_INVALID_CODE_OBJECT
        | S::ERROR_INVALID_EXECUTABLE
        | S::ERROR_INVALID_CODE_SYMBOL
        | S::ERROR_INVALID_EXECUTABLE_SYMBOL
        | S::ERROR_INVALID_FILE
        | S::ERROR_INVALID_CODE_OBJECT_READER
        | S::ERROR_INVALID_CACHE
        | S::ERROR_INVALID_WAVEFRONT
        | S::ERROR_INVALID_SIGNAL_GROUP
        | S::ERROR_INVALID_RUNTIME_STATE
        | S::ERROR_INVALID_MEMORY_POOL => Code::INVALID_ARGUMENT,
        S::ERROR_RESOURCE_FREE => Code::INTERNAL,
        S::ERROR_INCOMPATIBLE_ARGUMENTS | S::ERROR_INVALID_ISA => Code::INCOMPATIBLE,
        S::ERROR_OUT_OF_RESOURCES | S::ERROR_REFCOUNT_OVERFLOW | S::ERROR_OUT_OF_REGISTERS => Code::RESOURCE_EXHAUSTED,
        S::ERROR_NOT_INITIALIZED
        | S::ERROR_FROZEN_EXECUTABLE
        | S::ERROR_VARIABLE_ALREADY_DEFINED
        | S::ERROR_VARIABLE_UNDEFINED => Code::FAILED_PRECONDITION,
        S::ERROR_INVALID_INDEX => Code::OUT_OF_RANGE,
        S::ERROR_INVALID_SYMBOL_NAME => Code::NOT_FOUND,
        S::ERROR_RESOURCE_BUSY => Code::UNAVAILABLE,
        S::ERROR_EXCEPTION
        | S::ERROR_FATAL
        | S::ERROR_MEMORY_APERTURE_VIOLATION
        | S::ERROR_ILLEGAL_INSTRUCTION
        | S::ERROR_MEMORY_FAULT => Code::DATA_LOSS,
        _ => Code::UNKNOWN,
    }
}

/// The meaning of a status in words, if its name alone does not say it.
fn meaning(status: HsaStatus) -> &'static str {
    type S = HsaStatus;
    match status {
        S::ERROR => "an error that the runtime does not specify",
        S::ERROR_INVALID_ARGUMENT => "an argument does not meet a documented requirement",
        S::ERROR_INVALID_QUEUE_CREATION => "the agent cannot make such a queue",
        S::ERROR_INVALID_ALLOCATION => "the pool cannot make such an allocation",
        S::ERROR_OUT_OF_RESOURCES => "memory, threads or other resources of the runtime are used up",
        S::ERROR_INVALID_PACKET_FORMAT => "the packet processor met a malformed packet",
        S::ERROR_NOT_INITIALIZED => "hsa_init has not been called, or has been undone",
        S::ERROR_INCOMPATIBLE_ARGUMENTS => "arguments that do not go together",
        S::ERROR_INVALID_ISA => "the instruction set is not one the agent executes",
        S::ERROR_INVALID_CODE_OBJECT => "the code object is malformed or for another target",
        S::ERROR_INVALID_SYMBOL_NAME => "there is no symbol of this name",
        S::ERROR_EXCEPTION => "a kernel met a hardware exception",
        S::ERROR_FATAL => "the queue stopped with an error that may need the process to end",
        S::ERROR_MEMORY_APERTURE_VIOLATION => "a kernel accessed memory outside of every aperture",
        S::ERROR_ILLEGAL_INSTRUCTION => "a kernel met an illegal instruction",
        S::ERROR_MEMORY_FAULT => "a kernel accessed memory that is not mapped for the GPU",
        S::ERROR_OUT_OF_REGISTERS => "a kernel needs more registers than there are",
        S::ERROR_RESOURCE_BUSY => "the resource is in use",
        _ => "see hsa_status_t",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_names_itself_and_what_was_asked() {
        let status = HsaStatus::ERROR_OUT_OF_RESOURCES;
        let error = check_with("hsa_queue_create", status, || "65536 packets".to_owned()).expect_err("it failed");
        assert_eq!(error.code(), Code::RESOURCE_EXHAUSTED);
        assert_eq!(
            error.to_string(),
            "hsa_queue_create failed: ERROR_OUT_OF_RESOURCES (memory, threads or other resources of the runtime are \
             used up): 65536 packets"
        );
    }

    #[test]
    fn both_successes_are_ok_and_unknown_statuses_are_unknown() {
        assert!(check("f", HsaStatus::SUCCESS).is_ok());
        assert!(check("f", HsaStatus::INFO_BREAK).is_ok());
        let error = check("f", HsaStatus(0x7777)).expect_err("it failed");
        assert_eq!(error.code(), Code::UNKNOWN);
        assert!(error.to_string().contains("0x7777"));
    }

    #[test]
    fn amds_own_statuses_are_errors() {
        let error = check("f", HsaStatus::ERROR_MEMORY_FAULT).expect_err("it failed");
        assert_eq!(error.code(), Code::DATA_LOSS);
    }

    #[test]
    fn no_library_lists_each_place_and_the_way_out() {
        let attempt = |origin, path: Option<&str>, reason: &str, opened| Attempt {
            origin,
            path: path.map(PathBuf::from),
            reason: reason.to_owned(),
            opened,
        };
        let mut attempts = vec![
            attempt("ROCM_PATH", None, "no libhsa-runtime64.so.1 in: /r/lib", false),
            attempt("loader default", Some("libhsa-runtime64.so.1"), "cannot open", false),
        ];
        let error = Error::NoLibrary { attempts: attempts.clone() };
        assert_eq!(error.code(), Code::NOT_FOUND);
        let text = error.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "  [ROCM_PATH] no libhsa-runtime64.so.1 in: /r/lib");
        assert_eq!(lines[2], "  [loader default] libhsa-runtime64.so.1: cannot open");
        assert!(
            lines[3].contains("--amdgpu_rs_libhsa_search_path=") && lines[3].contains("IREE_HAL_AMDGPU_LIBHSA_PATH=")
        );
        attempts.push(attempt("pip", Some("/x"), "lacks hsa_init", true));
        assert_eq!(Error::NoLibrary { attempts }.code(), Code::INCOMPATIBLE);
    }
}
