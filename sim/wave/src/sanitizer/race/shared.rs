// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! State of the race check that all threads of a dispatch share.

use super::super::clock::Clock;
use super::super::counters::CLASSES;
use super::super::finding::{Sink, Touched};
use super::super::plan::Plan;
use super::super::shadow::{Deed, Global, Run, Stamp};
use crate::caching::DEVICE;
use hsa_abi::KernelDispatchPacket;
use sim_isa::Target;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Maximum number of polls for another thread's write.
const PATIENCE: u32 = 1000;

/// No write.
pub(super) const NOTHING: u64 = u64::MAX;

/// A write as [`Shared::under_way`] has it.
pub(super) fn write_of(stamp: &Stamp) -> u64 {
    u64::from(stamp.wave) << 32 | u64::from(stamp.n)
}

/// State that all threads of a dispatch share.
pub(crate) struct Shared {
    pub(super) memory: Global,
    /// Clocks that readers of a dword acquire, by its address, for dwords that atomics have accessed.
    pub(super) released: Mutex<HashMap<u64, Arc<Clock>>>,
    /// Clocks that waves have released by stores, by number of the wave, each from a store on.
    pub(super) stores: Mutex<HashMap<u32, Vec<Release>>>,
    /// Write of each thread that it has recorded and may not have performed yet.
    pub(super) under_way: Mutex<Vec<Arc<AtomicU64>>>,
    /// Workgroups in each dimension.
    groups: [u32; 3],
    /// Numbers of waves that each workgroup has.
    pub(super) width: u32,
    /// Waves of a workgroup are on several compute units.
    pub(super) is_split: bool,
    pub(super) target: Target,
}

pub(super) struct Release {
    pub issued: [u32; CLASSES],
    pub clock: Arc<Clock>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    /// For a dispatch of waves of `lanes`.
    pub fn new(packet: &KernelDispatchPacket, lanes: u32, is_split: bool, target: Target) -> Self {
        let size = packet.workgroup_size.map(u32::from);
        Shared {
            memory: Global::new(),
            released: Mutex::default(),
            stores: Mutex::default(),
            under_way: Mutex::default(),
            groups: [0, 1, 2].map(|i| packet.grid_size[i].div_ceil(size[i])),
            width: size.iter().product::<u32>().div_ceil(lanes),
            is_split,
            target,
        }
    }

    /// Waits until another thread has made the write that it has recorded. Returns false if it gives up, as two threads
    /// that wait for each other must.
    #[cold]
    pub(super) fn is_made(&self, stamp: &Stamp) -> bool {
        let threads = lock(&self.under_way).clone();
        // Acquire: the write is visible once the thread has reported it.
        let is_under_way = || threads.iter().any(|thread| thread.load(Ordering::Acquire) == write_of(stamp));
        (0..PATIENCE).any(|_| {
            let is_made = !is_under_way();
            if !is_made {
                std::thread::yield_now();
            }
            is_made
        })
    }

    /// Reports the accessed memory. Reads of a byte before its last write are no longer known.
    pub fn tell(&self, plan: &Plan, sink: &dyn Sink) {
        let mut touched = Vec::new();
        self.memory.each_page(|runs| {
            touched.clear();
            for Run { address, blocks, bytes, cell } in runs {
                for stamp in [&cell.write, &cell.reads[0], &cell.reads[1]].into_iter().filter(|stamp| stamp.is_some()) {
                    let step = plan.at(stamp.step);
                    // Of a dword each byte has its bit.
                    let mask = (0..4).fold(0, |mask, dword| mask | u16::from(stamp.mask & 15) << (4 * dword));
                    touched.push(Touched {
                        address: *address,
                        blocks: *blocks,
                        bytes: bytes & mask,
                        is_write: !matches!(stamp.deed, Deed::Load | Deed::ExpectedLoad | Deed::ScopedLoad),
                        is_atomic: matches!(stamp.deed, Deed::Atomic | Deed::ScopedLoad),
                        is_narrow: step.touch.and_then(|touch| touch.scope).is_some_and(|scope| scope < DEVICE),
                        offset: step.offset,
                    });
                }
            }
            sink.touched(&touched);
        });
    }

    /// The number of a workgroup's first wave.
    pub(super) fn first(&self, [x, y, z]: [u32; 3]) -> u32 {
        let [nx, ny, _] = self.groups;
        z.wrapping_mul(ny).wrapping_add(y).wrapping_mul(nx).wrapping_add(x).wrapping_mul(self.width)
    }

    /// Workgroup of a wave, and the wave's index in it.
    pub fn place(&self, wave: u32) -> ([u32; 3], u32) {
        let ([nx, ny, _], group) = (self.groups, wave / self.width);
        ([group % nx, group / nx % ny, group / nx / ny], wave % self.width)
    }
}
