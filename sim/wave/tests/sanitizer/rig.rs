// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Rig that runs kernels for tests of the checks.

#[path = "../rig/launch.rs"]
mod launch;

pub use launch::launch;
use sim_wave::{Finding, Memory, Page, Region, Sink, Unwritten};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

/// All of the process's memory: the kernels of these tests stay within their buffers.
pub struct Everything;

impl Memory for Everything {
    fn region(&self, _: u64) -> Option<Region> {
        Some(Region { base: 0, size: u64::MAX, host: 0, readable: true, writable: true })
    }

    fn generation(&self) -> &AtomicU64 {
        static NEVER: AtomicU64 = AtomicU64::new(0);
        &NEVER
    }
}

/// All of it is written.
impl Unwritten for Everything {
    fn page(&self, _: u64, _: bool) -> Option<Arc<Page>> {
        None
    }

    fn forget(&self) {}
}

/// Keeps findings, with how often each was found.
#[derive(Default)]
pub struct Found(Mutex<Vec<(Finding, u64)>>);

impl Found {
    pub fn into_all(self) -> Vec<(Finding, u64)> {
        self.0.into_inner().unwrap()
    }
}

impl Sink for Found {
    fn found(&self, finding: &Finding) {
        self.0.lock().unwrap().push((finding.clone(), 1));
    }

    fn repeated(&self, finding: &Finding, times: u64) {
        let mut found = self.0.lock().unwrap();
        found.iter_mut().find(|(known, _)| known == finding).unwrap().1 += times;
    }
}
