// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Kernel arguments that are written once: blocks of a GPU's memory for them, which recordings that are over leave to
//! those to come.
//!
//! A block is written again only when nothing uses it any more, and what it held may still be in the GPU's L2. The
//! first packet of each submission acquires from the system, so that it sees what was written before; as it does of the
//! ring of kernel arguments.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::core::gpu::Gpu;
use crate::ffi::Result;
use crate::hsa::Allocation;

/// Bytes of the smallest block. All have a power of two.
const SMALLEST: usize = 4 << 10;

/// Most bytes that are kept in blocks that nobody uses.
const MOST: usize = 4 << 20;

/// Blocks that nobody uses, with their bytes.
#[derive(Debug, Default)]
pub struct SpareBlocks(Mutex<Vec<(usize, Allocation)>>);

impl SpareBlocks {
    fn take(&self, length: usize) -> Option<Allocation> {
        let mut blocks = self.0.lock();
        let index = blocks.iter().rposition(|(other, _)| *other == length)?;
        Some(blocks.swap_remove(index).1)
    }

    fn give(&self, length: usize, block: Allocation) {
        let mut blocks = self.0.lock();
        if blocks.iter().map(|(length, _)| length).sum::<usize>() + length <= MOST {
            blocks.push((length, block));
        } else {
            drop(blocks);
            drop(block);
        }
    }
}

/// Kernel arguments in memory of a GPU, or of the host's for it.
#[derive(Debug)]
pub struct StoredKernargs {
    gpu: Arc<Gpu>,
    length: usize,
    /// None in the drop alone.
    block: Option<Allocation>,
}

impl StoredKernargs {
    /// Memory that holds `bytes`, visible to what is submitted from now on, behind an acquire fence of the system.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn new(gpu: &Arc<Gpu>, bytes: &[u8]) -> Result<Self> {
        let length = bytes.len().next_power_of_two().max(SMALLEST);
        let block = match gpu.spare_blocks().take(length) {
            Some(block) => block,
            None => gpu.allocate_kernargs(length)?,
        };
        // SAFETY: the block is this long, the host has access, and nothing uses it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), block.as_ptr(), bytes.len()) };
        gpu.publish_kernargs();
        Ok(Self { gpu: gpu.clone(), length, block: Some(block) })
    }

    /// Where they begin.
    pub fn address(&self) -> u64 {
        self.block.as_ref().map_or(0, |block| block.as_ptr() as u64)
    }
}

impl Drop for StoredKernargs {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.gpu.spare_blocks().give(self.length, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::gpu::options::Options;
    use crate::core::gpu::topology::Topology;
    use crate::hsa::testing::library;

    #[test]
    fn blocks_that_nobody_uses_are_taken_over() {
        let selection = Topology::new(&library()).and_then(|topology| topology.select("")).expect("a GPU");
        let info = &selection.gpus[0];
        let gpu = Gpu::new(0, info, &selection.cpus[info.cpu], &Options::default()).expect("a GPU");
        let stored = |length| StoredKernargs::new(&gpu, &vec![1; length]).expect("memory");
        let (first, second) = (stored(100), stored(100));
        let address = first.address();
        assert_ne!(second.address(), address, "both are in use");
        drop(first);
        let large = stored(SMALLEST + 1);
        assert_ne!(large.address(), address, "it is too short");
        assert_eq!(stored(100).address(), address);
        drop((0..8).map(|_| stored(MOST / 4)).collect::<Vec<_>>());
        let kept: usize = gpu.spare_blocks().0.lock().iter().map(|(length, _)| length).sum();
        assert!(kept > MOST / 2 && kept <= MOST, "{kept}");
    }
}
