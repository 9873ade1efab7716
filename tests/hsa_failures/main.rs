// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Every HSA call of a device's life fails once, at each of its uses: the scenario ends with an error that names the
//! call, and nothing is left. It runs on the software runtime, whose calls fail on demand.
//!
//! Runs are made in child processes, so that a crash or hang is an outcome like any other and is told of with the call
//! that was to fail.

#[path = "../support/mod.rs"]
mod support;

mod child;
mod heap;
mod scenario;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use child::{Attempt, Child};

/// Calls whose failure the program does not need to hear of, each with the reason.
const OPTIONAL: &[(&str, &str)] = &[(
    "hsa_amd_register_system_event_handler",
    "older runtimes take one handler only; without one the runtime itself reports memory faults",
)];

/// Calls at the end of something, each with what is left in the runtime when they fail. There is no one to return the
/// error to, so it goes to standard error.
const RELEASES: &[(&str, Option<&str>)] = &[
    ("hsa_amd_memory_pool_free", Some("1 allocations")),
    ("hsa_amd_memory_unlock", Some("1 locked ranges")),
    ("hsa_code_object_reader_destroy", Some("1 code object readers")),
    ("hsa_executable_destroy", Some("1 executables")),
    ("hsa_queue_destroy", Some("1 queues")),
    ("hsa_queue_inactivate", None),
    ("hsa_shut_down", None),
    ("hsa_signal_destroy", Some("1 signals")),
];

/// What is wrong with an attempt; nothing if it was clean.
fn verdict(function: &str, attempt: &Attempt) -> Option<String> {
    let release = RELEASES.iter().find(|(release, _)| *release == function).map(|(_, left)| *left);
    let ended = match &attempt.outcome {
        Err(how) => return Some(how.clone()),
        Ok(ended) => ended,
    };
    if ended.growth != 0 || ended.threads != 0 || ended.runtime_is_up {
        return Some(format!("it leaves things behind: {ended:?}"));
    }
    let unexpected = |line: &&String| {
        line.starts_with("hsa-sim:")
            && line.contains(" left")
            && !release.flatten().is_some_and(|left| line.contains(left))
    };
    if let Some(line) = attempt.said.iter().find(unexpected) {
        return Some(line.clone());
    }
    let told = attempt.said.iter().any(|line| line.contains(&format!("amdgpu_rs: {function} failed")));
    match &ended.error {
        None if release.is_some() && told => None,
        None if OPTIONAL.iter().any(|(optional, _)| *optional == function) => None,
        None => Some("the scenario went through, and no one was told".to_owned()),
        Some(text) if text.contains(function) => None,
        Some(text) => Some(format!("the error does not name the call: {text}")),
    }
}

#[test]
fn every_hsa_call_fails_cleanly_at_every_use() {
    let calls = Child::trace();
    let functions = Mutex::new(calls.iter());
    let (tried, failures) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some((function, uses)) = { functions.lock().unwrap().next() } {
            Child::fail_each(function, *uses, |number, attempt| {
                tried.fetch_add(1, Ordering::Relaxed);
                if let Some(wrong) = verdict(function, &attempt) {
                    failures.lock().unwrap().insert((function, number), wrong);
                }
            });
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    let (tried, failures) = (tried.into_inner(), failures.into_inner().unwrap());
    child::say(&format!(
        "hsa_failures: {tried} calls of {} functions failed, {} cleanly",
        calls.len(),
        tried - failures.len()
    ));
    let lines: Vec<_> =
        failures.iter().map(|((function, number), wrong)| format!("{function}:{number}: {wrong}")).collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
    assert_eq!(tried as u64, calls.values().sum::<u64>());
}

/// What child processes run; does nothing in a test run of its own.
#[test]
fn child_process() {
    child::main();
}
