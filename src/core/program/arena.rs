// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Memory of recordings that are over, for those to come: a program that is recorded anew for each invocation finds it as large as it will
//! need it, and touched.

use parking_lot::Mutex;

use crate::core::program::recorder::StaticKernargs;
use crate::core::program::{Patch, Step};

/// Most that is kept of each kind: for recordings of several threads.
const MOST: usize = 4;

/// Bytes of the largest that is kept.
const LARGEST: usize = 4 << 20;

/// What the program of a long recording is made of.
#[derive(Debug, Default)]
pub struct Storage {
    /// Its steps.
    pub steps: Vec<Step>,
    /// Kernargs of dynamic dispatches and bytes of updates.
    pub templates: Vec<u8>,
    /// Addresses in them.
    pub patches: Vec<Patch>,
}

/// What is needed only until a recording ends.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Kernargs of static commands, each aligned to [`crate::ring::KERNARG_ALIGNMENT`].
    pub bytes: Vec<u8>,
    /// Whose they are.
    pub statics: Vec<StaticKernargs>,
}

/// Storages and scratches that nobody uses, of a logical device.
#[derive(Debug, Default)]
pub struct Arena {
    storages: Mutex<Vec<Storage>>,
    scratches: Mutex<Vec<Scratch>>,
}

impl Arena {
    /// An empty storage.
    pub fn storage(&self) -> Storage {
        self.storages.lock().pop().unwrap_or_default()
    }

    /// An empty scratch.
    pub fn scratch(&self) -> Scratch {
        self.scratches.lock().pop().unwrap_or_default()
    }

    /// Takes a storage back.
    pub fn give_storage(&self, mut storage: Storage) {
        storage.steps.clear();
        storage.templates.clear();
        storage.patches.clear();
        let bytes = bytes_of(&storage.steps) + bytes_of(&storage.templates) + bytes_of(&storage.patches);
        keep(&self.storages, storage, bytes);
    }

    /// Takes a scratch back.
    pub fn give_scratch(&self, mut scratch: Scratch) {
        scratch.bytes.clear();
        scratch.statics.clear();
        let bytes = bytes_of(&scratch.bytes) + bytes_of(&scratch.statics);
        keep(&self.scratches, scratch, bytes);
    }
}

fn bytes_of<T>(vector: &Vec<T>) -> usize {
    vector.capacity() * size_of::<T>()
}

/// Adds `item`, of so many bytes, unless that is too much.
fn keep<T>(items: &Mutex<Vec<T>>, item: T, bytes: usize) {
    let mut items = items.lock();
    if bytes <= LARGEST && items.len() < MOST {
        items.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_comes_empty_and_as_large() {
        let arena = Arena::default();
        arena.give_scratch(Scratch { bytes: vec![1; 100], statics: Vec::new() });
        let scratch = arena.scratch();
        assert!(scratch.bytes.is_empty() && scratch.bytes.capacity() >= 100);
        assert_eq!(arena.scratch().bytes.capacity(), 0, "given once");
    }

    #[test]
    fn little_is_kept() {
        let arena = Arena::default();
        arena.give_storage(Storage { templates: Vec::with_capacity(LARGEST + 1), ..Storage::default() });
        assert_eq!(arena.storages.lock().len(), 0);
        for _ in 0..2 * MOST {
            arena.give_storage(Storage::default());
        }
        assert_eq!(arena.storages.lock().len(), MOST);
    }
}
