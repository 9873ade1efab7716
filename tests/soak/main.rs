// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Random programs for the HAL, run on the driver and compared with a model of memory: threads, devices, queues,
//! semaphores that are waited for before they are signaled, command buffers, allocations, transfers, dispatches, host
//! calls, files; kernels that fault, cancellation, devices that are released amid it all. `cargo xtask soak` runs it
//! for long.
//!
//! A program is made from a seed (`generate`), ordered by semaphores so that its result is one only, whatever overlaps
//! (`program`), run by threads (`execute`) in a process of its own (`child`), and compared with the results of a host
//! (`model`). One that fails is made smaller (`shrink`).

#[path = "../support/mod.rs"]
mod support;

mod child;
mod describe;
mod edits;
mod execute;
mod generate;
mod hal;
mod heap;
mod kernels;
mod memory_work;
mod model;
mod program;
mod report;
mod run;
mod shrink;

use std::time::Duration;

use child::Task;

#[test]
fn child_process() {
    child::main();
}

/// Test that `cargo xtask soak` runs, with the number and the first seed of programs. Without these it runs a few.
#[test]
fn soak() {
    let failed = run::run(&run::Options::from_environment());
    assert_eq!(failed, 0, "programs failed");
}

/// A wrong result is found, and the program that is shown is a small one.
#[test]
fn a_wrong_model_is_found_and_the_program_made_small() {
    let mut task = Task { is_wrong: true, ..Task::new(0, 40, 1) };
    let ended = child::run(&task, None, || ());
    let (seed, what) = ended.failure.expect("fills are modelled wrong");
    assert!(what.contains("bytes differ"), "{what}");
    task.seed = seed;
    let smallest = shrink::shrink(&task, Duration::from_secs(600));
    let text = smallest.program.to_string();
    assert!(smallest.what.is_some_and(|what| what.contains("bytes differ")), "{text}");
    // A fill, in a command buffer maybe, and the operation that reads it.
    assert!(smallest.program.ops.len() <= 2 && text.contains("fill"), "{text}");
}
