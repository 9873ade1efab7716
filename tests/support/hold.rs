// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Work that holds back later work of its queue.

#![allow(dead_code, reason = "each test file uses what it needs")]

use super::support::{BufferRef, Points, Rig, wait};

/// Kernels for gfx1100; `../testdata/kernels.c` says how they were built.
pub const GFX1100: &[u8] = include_bytes!("../testdata/kernels.gfx1100.co");
/// Kernels for gfx942, from the same source.
pub const GFX942: &[u8] = include_bytes!("../testdata/kernels.gfx942.co");

/// A kernel that runs until this is dropped.
pub struct Hold<'a> {
    rig: &'a Rig,
    flag: BufferRef,
}

impl<'a> Hold<'a> {
    /// It is submitted to `queue` and signals `signals` when it has run; `kernels` are those of the GPU.
    pub fn new(rig: &'a Rig, kernels: &[u8], queue: u64, signals: Points<'_>) -> Self {
        let flag = rig.buffer(4);
        rig.write(&flag, 0, &[0; 4]);
        rig.dispatch(queue, &[], signals, (&rig.executable(kernels).unwrap(), "hold"), &[], &[&flag]).unwrap();
        Self { rig, flag }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.rig.write(&self.flag, 0, &[1; 4]);
    }
}

/// Work on `queue`, again and again: others that can go on do so meanwhile.
pub fn pass_time(rig: &Rig, queue: u64) {
    let (target, done) = (rig.buffer(64 << 10), rig.semaphore());
    for value in 1..=20 {
        rig.fill(queue, &[], &[(&done, value)], &target, (0, 64 << 10), &[1]).unwrap();
        wait(&done, value).unwrap();
    }
}
