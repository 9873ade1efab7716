// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Vectors that the operations of a queue reuse, so that they do not allocate.

use parking_lot::Mutex;

use amdgpu_ffi::{Fallible, Resource, Result};

/// Unused vectors, for operations that need more room than they have in themselves.
#[derive(Debug)]
struct VecPool<T> {
    vectors: Mutex<Vec<Vec<T>>>,
    /// Items of the largest vector that is kept.
    largest: usize,
}

impl<T> VecPool<T> {
    /// The most vectors that are kept.
    const MOST: usize = 256;

    /// Keeps vectors of at most `bytes`.
    fn new(bytes: usize) -> Self {
        Self { vectors: Mutex::default(), largest: bytes / size_of::<T>() }
    }

    /// An empty vector with capacity for `count` items.
    #[inline(never)]
    fn take(&self, count: usize) -> Result<Vec<T>> {
        let mut vector = self.vectors.lock().pop().unwrap_or_default();
        vector.make_room(count)?;
        Ok(vector)
    }

    fn recycle(&self, mut vector: Vec<T>) {
        // Items may go to IREE: not under the lock.
        vector.clear();
        if vector.capacity() <= self.largest {
            let mut vectors = self.vectors.lock();
            // Without memory for that it is not kept.
            if vectors.len() < Self::MOST && vectors.make_room(1).is_ok() {
                vectors.push(vector);
            }
        }
    }
}

/// The vectors that a queue keeps for reuse.
#[derive(Debug)]
pub struct VecPools {
    resources: VecPool<Option<Resource>>,
    addresses: VecPool<u64>,
}

impl VecPools {
    /// Keeps vectors of at most `bytes` each.
    pub(super) fn new(bytes: usize) -> Self {
        Self { resources: VecPool::new(bytes), addresses: VecPool::new(bytes) }
    }

    /// A vector with capacity for `count` objects.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub(super) fn take_resources(&self, count: usize) -> Result<Vec<Option<Resource>>> {
        self.resources.take(count)
    }

    /// Releases the objects and keeps the vector for reuse. Under no lock.
    pub(super) fn recycle_resources(&self, resources: Vec<Option<Resource>>) {
        self.resources.recycle(resources);
    }

    /// A vector of `count` zero addresses.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn take_addresses(&self, count: usize) -> Result<Vec<u64>> {
        let mut addresses = self.addresses.take(count)?;
        addresses.resize(count, 0);
        Ok(addresses)
    }

    /// Keeps the vector for reuse.
    pub fn recycle_addresses(&self, addresses: Vec<u64>) {
        self.addresses.recycle(addresses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_gpu::options::Options;

    #[test]
    fn vectors_are_kept_up_to_the_size_that_the_knob_says() {
        let least = Options::default().host_block_pool_small_size;
        for bytes in [least, 4 * least, usize::MAX] {
            let VecPools { resources, addresses } = VecPools::new(bytes);
            let items = (bytes / 8).min(1 << 20);
            addresses.recycle(Vec::with_capacity(items));
            resources.recycle(Vec::with_capacity(items));
            assert!(
                addresses.take(0).unwrap().capacity() >= items && resources.take(0).unwrap().capacity() >= items,
                "{bytes}"
            );
            if bytes != usize::MAX {
                addresses.recycle(Vec::with_capacity(items + 1));
                resources.recycle(Vec::with_capacity(items + 1));
            }
            assert_eq!(
                (addresses.take(0).unwrap().capacity(), resources.take(0).unwrap().capacity()),
                (0, 0),
                "{bytes}"
            );
        }
    }
}
