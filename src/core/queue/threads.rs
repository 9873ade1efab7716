// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The two threads of a queue: one completes submissions, the other resumes those that waited.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::{Queue, complete, resume};
use amdgpu_ffi::{Result, thread, thunk};
use amdgpu_hsa as hsa;

/// Starts the completion thread and the submission thread of `queue`. Both hold `listener` until they end. Returns the
/// handle of the submission thread, which ends last.
///
/// # Errors
/// RESOURCE_EXHAUSTED; no thread is left behind.
pub fn start(queue: &Arc<Queue>, listener: Arc<hsa::FaultListener>) -> Result<JoinHandle<()>> {
    start_both(queue, listener).map_err(|error| {
        amdgpu_ffi::status!(RESOURCE_EXHAUSTED, "starting the threads of queue {}: {error}", queue.ordinal())
    })
}

/// Starts the completion thread, and the submission thread, which outlives it.
fn start_both(queue: &Arc<Queue>, listener: Arc<hsa::FaultListener>) -> std::io::Result<JoinHandle<()>> {
    let completion = start_one(queue, "q", |queue| complete::run(queue), || ())?;
    let (joined, ended) = (queue.clone(), queue.clone());
    let end = move || {
        joined.end_completion();
        // One that panicked has nothing more to tell.
        let _ = completion.join();
        // The last one waits for calls under way, so that no thread of the runtime's has the last part of the GPU
        // behind this.
        drop(listener);
    };
    start_one(queue, "s", resume::run, end).inspect_err(|_| ended.end_completion())
}

/// Starts a thread of `queue`, with `prefix` in its name, that runs `body` and then `end`.
fn start_one(
    queue: &Arc<Queue>,
    prefix: &str,
    body: fn(&Arc<Queue>),
    end: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let name = format!("amdgpu_rs-{prefix}{}", queue.ordinal);
    let queue = queue.clone();
    thread::spawn(name, move || {
        // The submission in work at a panic was failed by its drop; the others fail with the device.
        while let Err(panic) = thunk::catch(|| body(&queue)) {
            queue.shared.mark_lost(panic);
        }
        end();
    })
}
