// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Vectors that the operations of a queue leave to those to come, so that none allocates.

use parking_lot::Mutex;

use crate::core::queue::Queue;
use crate::core::queue::trace::SpareTraces;
use crate::ffi::Resource;

/// Vectors that nobody uses, for operations that need more room than they have in themselves.
#[derive(Debug)]
struct Spare<T>(Mutex<Vec<Vec<T>>>);

impl<T> Default for Spare<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Spare<T> {
    /// Most that are kept, and items that the largest has.
    const MOST: usize = 256;
    const LARGEST: usize = 1024;

    /// An empty vector with room for `count` items.
    #[inline(never)]
    fn take(&self, count: usize) -> Vec<T> {
        let mut vector = self.0.lock().pop().unwrap_or_default();
        vector.reserve_exact(count);
        vector
    }

    fn give(&self, mut vector: Vec<T>) {
        // Items may go to IREE: not under the lock.
        vector.clear();
        if vector.capacity() <= Self::LARGEST {
            let mut vectors = self.0.lock();
            if vectors.len() < Self::MOST {
                vectors.push(vector);
            }
        }
    }
}

/// A queue's.
#[derive(Debug, Default)]
pub(super) struct Spares {
    resources: Spare<Option<Resource>>,
    addresses: Spare<u64>,
    pub(super) traces: SpareTraces,
}

impl Queue {
    /// Room for `count` objects.
    pub(super) fn take_resources(&self, count: usize) -> Vec<Option<Resource>> {
        self.spares.resources.take(count)
    }

    /// Releases them and takes their memory back. Under no lock.
    pub(super) fn give_resources(&self, resources: Vec<Option<Resource>>) {
        self.spares.resources.give(resources);
    }

    /// `count` addresses of nothing.
    pub fn take_addresses(&self, count: usize) -> Vec<u64> {
        let mut addresses = self.spares.addresses.take(count);
        addresses.resize(count, 0);
        addresses
    }

    /// Takes their memory back.
    pub fn give_addresses(&self, addresses: Vec<u64>) {
        self.spares.addresses.give(addresses);
    }
}
