// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Fault injection, for tests of a program's error handling: the n-th call of a function returns a chosen status and
//! does nothing.
//!
//! `HSA_SIM_FAIL=<function>:<n>` chooses a call for the life of the process, [`hsa_sim_fail`] at any time. Every
//! exported function that returns a status can fail, under its exported name; `hsa_signal_create` counts as
//! `hsa_amd_signal_create`, which it calls. Functions without a status (loads, stores and waits of signals) cannot
//! fail.

use std::any::type_name;
use std::collections::BTreeMap;
use std::env::VarError;
use std::ffi::{CString, c_char, c_void};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use hsa_abi::HsaStatus;
use parking_lot::Mutex;

/// True if calls are counted. If false, a call costs one load.
static ACTIVE: LazyLock<AtomicBool> = LazyLock::new(|| {
    let counted = [VARIABLE, "HSA_SIM_STATS"].iter().any(|name| std::env::var_os(name).is_some());
    AtomicBool::new(counted)
});
static PLAN: LazyLock<Mutex<Plan>> = LazyLock::new(|| Mutex::new(Plan::from_env(std::env::var(VARIABLE))));

const VARIABLE: &str = "HSA_SIM_FAIL";

/// Guarded functions without a status.
const INFALLIBLE: [&str; 3] = ["hsa_amd_signal_wait_any", "hsa_amd_signal_wait_all", "hsa_sim_last_fault"];

/// Call that is to fail, and numbers of calls so far.
#[derive(Debug, Default)]
struct Plan {
    failure: Option<Failure>,
    calls: BTreeMap<&'static str, u64>,
}

#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// One call fails.
    Once { function: String, call: u64, status: HsaStatus },
    /// Every call fails: the environment variable is malformed.
    Always,
}

impl Plan {
    fn from_env(value: Result<String, VarError>) -> Self {
        let failure = match value {
            Err(VarError::NotPresent) => None,
            value => {
                let value = value.unwrap_or_default();
                Some(parse(&value).unwrap_or_else(|| {
                    eprintln!("hsa-sim: {VARIABLE}={value}: expected <function>:<n>, and n from 1 on");
                    Failure::Always
                }))
            }
        };
        Self { failure, calls: BTreeMap::new() }
    }

    /// Counts a call of `function`. Returns a status if the call is to fail.
    fn call(&mut self, function: &'static str) -> Option<HsaStatus> {
        let count = self.calls.entry(function).or_default();
        *count += 1;
        match &self.failure {
            Some(Failure::Once { function: chosen, call, status }) if chosen == function && call == count => {
                Some(*status)
            }
            Some(Failure::Always) => Some(HsaStatus::ERROR_INVALID_ARGUMENT),
            _ => None,
        }
    }
}

fn parse(value: &str) -> Option<Failure> {
    let (function, call) = value.split_once(':')?;
    let call = call.parse().ok().filter(|call| *call > 0)?;
    let status = HsaStatus::ERROR_OUT_OF_RESOURCES;
    (!function.is_empty()).then(|| Failure::Once { function: function.to_owned(), call, status })
}

/// Counts a call of the exported function whose body has the type `Body`. Returns a status if the call is to fail.
pub(crate) fn status_of<Body>() -> Option<HsaStatus> {
    if !ACTIVE.load(Ordering::Relaxed) {
        return None;
    }
    let name = function_of(type_name::<Body>());
    if INFALLIBLE.contains(&name) { None } else { PLAN.lock().call(name) }
}

/// Name of the function that a closure is written in: `f` of `crate::module::f::{{closure}}`.
fn function_of(closure: &'static str) -> &'static str {
    let function = closure.trim_end_matches("::{{closure}}");
    function.rsplit("::").next().unwrap_or(function)
}

/// Numbers of calls by function; empty if calls are not counted.
pub(crate) fn calls() -> BTreeMap<&'static str, u64> {
    PLAN.lock().calls.clone()
}

/// Prints a warning if the function in the environment variable was not called often enough to fail.
pub(crate) fn report_unused() {
    let plan = PLAN.lock();
    if let (Some(Failure::Once { function, call, .. }), true) = (&plan.failure, std::env::var_os(VARIABLE).is_some()) {
        let calls = plan.calls.get(function.as_str()).copied().unwrap_or_default();
        if calls < *call {
            eprintln!("hsa-sim: {VARIABLE}={function}:{call}: nothing failed, it was called {calls} times");
        }
    }
}

/// Not part of HSA. Makes call `call` of `function` return `status` and do nothing, counting from 1 at the next call.
/// Replaces any earlier choice, and resets the counts of all functions for [`hsa_sim_iterate_calls`]. With `call` 0 or
/// a null `function` no call fails.
///
/// It may be called before `hsa_init`.
///
/// # Safety
/// `function` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_sim_fail(function: *const c_char, call: u64, status: HsaStatus) {
    let failure = (!function.is_null() && call > 0).then(|| {
        // SAFETY: not null; the rest is the caller's contract.
        let function = unsafe { std::ffi::CStr::from_ptr(function) }.to_string_lossy().into_owned();
        Failure::Once { function, call, status }
    });
    *PLAN.lock() = Plan { failure, calls: BTreeMap::new() };
    ACTIVE.store(true, Ordering::Relaxed);
}

/// Not part of HSA. Calls `callback` with the name of each function that was called since [`hsa_sim_fail`] and its
/// number of calls, in alphabetical order. The name is valid during the callback.
///
/// # Safety
/// `callback` accepts `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_sim_iterate_calls(
    callback: unsafe extern "C" fn(function: *const c_char, calls: u64, data: *mut c_void),
    data: *mut c_void,
) {
    for (function, calls) in calls() {
        // Names of functions have no NUL.
        let name = CString::new(function).unwrap_or_default();
        // SAFETY: the caller passed this callback for this data.
        unsafe { callback(name.as_ptr(), calls, data) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_a_function_and_a_call() {
        let status = HsaStatus::ERROR_OUT_OF_RESOURCES;
        let function = "hsa_init".to_owned();
        assert_eq!(parse("hsa_init:3"), Some(Failure::Once { function, call: 3, status }));
        for value in ["", "hsa_init", "hsa_init:", ":1", "hsa_init:0", "hsa_init:-1", "hsa_init:1:2"] {
            assert_eq!(parse(value), None, "{value}");
            assert_eq!(Plan::from_env(Ok(value.to_owned())).failure, Some(Failure::Always), "{value}");
        }
        assert_eq!(Plan::from_env(Err(VarError::NotPresent)).failure, None);
    }

    #[test]
    fn only_the_chosen_call_fails() {
        let mut plan = Plan::from_env(Ok("f:2".to_owned()));
        let status = Some(HsaStatus::ERROR_OUT_OF_RESOURCES);
        assert_eq!(["f", "g", "g", "f", "f"].map(|function| plan.call(function)), [None, None, None, status, None]);
        assert_eq!(plan.calls, BTreeMap::from([("f", 3), ("g", 2)]));
    }

    #[test]
    fn a_closure_tells_its_function() {
        fn name_of<F: Fn()>(_: F) -> &'static str {
            function_of(type_name::<F>())
        }
        assert_eq!(name_of(|| ()), "a_closure_tells_its_function");
    }
}
