// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! How workgroups spread over threads, counted rather than timed: as if each thread had a core of its own.

use crate::rig::launch;
use crate::{Map, load};
use sim_llvm::assemble;
use sim_wave::{Launch, Memory, Region, run};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

const THREADS: usize = 16;
const WORKGROUPS: usize = 20 * THREADS;

/// A map in which each workgroup looks its arguments up, and waits then until no thread has begun fewer workgroups than
/// its own.
struct InStep {
    map: Map,
    arguments: u64,
    /// Workgroups begun by each thread.
    begun: Mutex<HashMap<ThreadId, usize>>,
    changed: Condvar,
}

impl InStep {
    fn begin(&self) {
        let mut begun = self.begun.lock().unwrap();
        let own = begun.entry(thread::current().id()).or_default();
        *own += 1;
        let own = *own;
        self.changed.notify_all();
        // The first one begins alone, and calls the others when it has run for a while.
        if begun.len() == 1 && own == 1 {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(1) {}
            return;
        }
        let must_wait = |begun: &mut HashMap<ThreadId, usize>| {
            let is_last = begun.values().sum::<usize>() == WORKGROUPS;
            !is_last && (begun.len() < THREADS || begun.values().any(|&count| count < own))
        };
        drop(self.changed.wait_while(begun, must_wait).unwrap());
    }
}

impl Memory for InStep {
    fn region(&self, address: u64) -> Option<Region> {
        if address == self.arguments {
            self.begin();
            // The next workgroup looks again.
            self.map.unmap(u64::MAX);
        }
        self.map.region(address)
    }

    fn generation(&self) -> &AtomicU64 {
        self.map.generation()
    }
}

#[test]
fn sixteen_threads_take_a_thirteenth_of_the_time_of_one() {
    let lines = ["s_load_b64 s[6:7], s[0:1], 0x0", "s_waitcnt lgkmcnt(0)", "s_endpgm"];
    let code: Vec<u32> = assemble("gfx1100", &lines.map(str::to_owned)).into_iter().flat_map(Option::unwrap).collect();
    let (map, arguments) = (Map::default(), [0_u64]);
    let arguments_at = map.of(&arguments, false);
    let memory = InStep { map, arguments: arguments_at, begun: Mutex::default(), changed: Condvar::new() };
    let grid = [32 * WORKGROUPS as u32, 1, 1];
    let launch = Launch { threads: THREADS, resident: 256, ..launch(grid, [32, 1, 1], &arguments) };
    let counters = run(&load(&code), &launch, &memory).unwrap();
    assert_eq!(counters.workgroups, WORKGROUPS as u64);
    let begun = memory.begun.into_inner().unwrap();
    let most = begun.values().max().copied().unwrap();
    assert_eq!(begun.values().sum::<usize>(), WORKGROUPS);
    assert!(13 * most <= WORKGROUPS, "a thread ran {most} of {WORKGROUPS} workgroups: {begun:?}");
}
