// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Every HSA call of a device's life fails once, at each of its uses, and so does every allocation from IREE's host
//! allocator, and each of the driver's own whose size callers decide: the scenario ends with an error that names the
//! call, and nothing is left. It runs on the software
//! runtime, whose calls fail on demand; those without a status (loads, stores and waits of signals) cannot fail.
//!
//! Runs are made in child processes, so that a crash or hang is an outcome like any other and is told of with the call
//! that was to fail.

#[path = "../support/mod.rs"]
mod support;

mod child;
mod heap;
mod host_memory;
mod large;
mod rust_memory;
mod scenario;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use child::Attempt;

/// Calls whose failure the program does not need to hear of, each with the reason.
const OPTIONAL: &[(&str, &str)] = &[(
    "hsa_amd_register_system_event_handler",
    "older runtimes take one handler only; without one the runtime itself reports memory faults",
)];

/// Calls at the end of something, each with the objects left in the runtime when they fail. There is no one to return
/// the error to, so it goes to standard error.
const RELEASES: &[(&str, Option<&str>)] = &[
    ("hsa_amd_memory_pool_free", Some("hsa_shut_down: 1 allocations")),
    ("hsa_amd_memory_unlock", Some("hsa_shut_down: 1 locked ranges")),
    ("hsa_code_object_reader_destroy", Some("hsa_shut_down: 1 code object readers")),
    ("hsa_executable_destroy", Some("hsa_shut_down: 1 executables")),
    ("hsa_queue_destroy", Some("hsa_shut_down: 1 queues")),
    ("hsa_queue_inactivate", None),
    ("hsa_shut_down", None),
    ("hsa_signal_destroy", Some("hsa_shut_down: 1 signals")),
];

/// Describes the failure of an attempt; `None` if it was clean.
fn verdict(function: &str, attempt: &Attempt) -> Option<String> {
    let release = RELEASES.iter().find(|(release, _)| *release == function).map(|(_, left)| *left);
    let ended = match &attempt.outcome {
        Err(how) => return Some(how.clone()),
        Ok(ended) => ended,
    };
    if ended.leaves_something() {
        return Some(format!("it leaves things behind: {ended:?}"));
    }
    let lines = |words: &str| attempt.said.iter().filter(|line| line.contains(words)).count();
    let expected = release.flatten();
    if lines("hsa_shut_down: ") != usize::from(expected.is_some()) || expected.is_some_and(|left| lines(left) != 1) {
        return Some(format!("the runtime finds other things left than {expected:?}: {:?}", attempt.said));
    }
    let told = lines(&format!("amdgpu_rs: {function} failed")) == 1;
    match &ended.error {
        None if release.is_some() && told => None,
        None if OPTIONAL.iter().any(|(optional, _)| *optional == function) => None,
        // Caches for reuse go without the memory.
        None if function == rust_memory::NAME => None,
        Some(text) if function == rust_memory::NAME && text.contains("RESOURCE_EXHAUSTED") => None,
        None => Some("the scenario went through, and no one was told".to_owned()),
        Some(text) if text.contains(function) => None,
        Some(text) => Some(format!("the error does not name the call: {text}")),
    }
}

/// Makes each use of the functions in `calls` fail, in a run of its own. Prints one line with the results.
///
/// # Panics
/// With the runs that were not clean.
fn fail_each(calls: &BTreeMap<String, u64>, what: &str) {
    let functions = Mutex::new(calls.iter());
    let (tried, unclean) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((function, uses)) = { functions.lock().unwrap().next() } {
            child::fail_each(function, *uses, |number, attempt| {
                tried.fetch_add(1, Ordering::Relaxed);
                if let Some(wrong) = verdict(function, &attempt) {
                    unclean.lock().unwrap().push(format!("{function}:{number}: {wrong}"));
                }
            });
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    let (tried, unclean) = (tried.into_inner(), unclean.into_inner().unwrap());
    child::say(&format!("{tried} {what} failed, {} of them cleanly", tried - unclean.len()));
    assert!(unclean.is_empty(), "{}", unclean.join("\n"));
    assert_eq!(tried as u64, calls.values().sum::<u64>());
}

#[test]
fn every_hsa_call_fails_cleanly_at_every_use() {
    let mut calls = child::trace();
    calls.retain(|name, _| name != host_memory::NAME && name != rust_memory::NAME);
    assert!(calls.contains_key("hsa_queue_create") && calls.len() >= 30, "{calls:?}");
    fail_each(&calls, &format!("calls of {} HSA functions", calls.len()));
}

#[test]
fn every_host_allocation_fails_cleanly() {
    let mut calls = child::trace();
    calls.retain(|name, _| name == host_memory::NAME);
    fail_each(&calls, "allocations of host memory");
}

#[test]
fn every_allocation_of_a_size_that_callers_decide_fails_cleanly() {
    let mut calls = child::trace();
    calls.retain(|name, _| name == rust_memory::NAME);
    assert!(calls[rust_memory::NAME] >= 50, "{calls:?}");
    fail_each(&calls, "allocations by Rust's allocator");
}

/// Body of the child processes. Does nothing in a test run of its own.
#[test]
fn child_process() {
    child::main();
}
