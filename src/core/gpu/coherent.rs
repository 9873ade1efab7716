// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Coherent memory of GPUs that the host writes through a PCI aperture.
//!
//! Such writes go through the GPU's host data path, which may hold them back until it is flushed. The host does not
//! flush its writes to HOST_COHERENT memory, and a dispatch of any GPU of the process may read them. While there is
//! such memory, each submission therefore flushes the host data paths of the GPUs that have it, before its first
//! header.
//!
//! Each allocation and slab of such memory owns a [`CoherentUse`]. The list is behind a lock that is taken under a
//! queue's submission lock; no lock is taken under it. Without such memory a submission reads one counter.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use amdgpu_hsa::HdpFlush;

/// The number of allocations of coherent memory in the process.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The GPUs that have such allocations, and how many.
static IN_USE: Mutex<Vec<(HdpFlush, usize)>> = Mutex::new(Vec::new());

/// An allocation of coherent memory. While it exists, submissions flush the host's writes to it.
#[derive(Debug)]
pub struct CoherentUse(HdpFlush);

impl CoherentUse {
    /// Registers an allocation in memory of the GPU of `flush`, before the host writes there.
    pub fn begin(flush: HdpFlush) -> Self {
        let mut gpus = IN_USE.lock();
        match gpus.iter_mut().find(|(other, _)| other.address() == flush.address()) {
            Some((_, uses)) => *uses += 1,
            None => gpus.push((flush, 1)),
        }
        COUNT.fetch_add(1, Ordering::Relaxed);
        Self(flush)
    }
}

impl Drop for CoherentUse {
    fn drop(&mut self) {
        let mut gpus = IN_USE.lock();
        COUNT.fetch_sub(1, Ordering::Relaxed);
        if let Some(index) = gpus.iter().position(|(flush, _)| flush.address() == self.0.address()) {
            gpus[index].1 -= 1;
            if gpus[index].1 == 0 {
                // Its register is mapped only as long as the runtime is up, which the allocation kept so.
                gpus.swap_remove(index);
            }
        }
    }
}

/// Makes the host's writes to coherent memory visible to later submissions. A submission is ordered after the writes
/// that it reads, and so after the allocation was counted.
#[inline(always)]
pub fn publish() {
    if COUNT.load(Ordering::Relaxed) != 0 {
        publish_all();
    }
}

#[cold]
fn publish_all() {
    for (flush, _) in &*IN_USE.lock() {
        flush.flush();
    }
}
