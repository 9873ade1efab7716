// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Kernel arguments and PM4 commands that are written once: blocks of a GPU's memory for the former and of the host's
//! for the latter, or of the GPU's for copies of these, which recordings that are over leave to those to come.
//!
//! Blocks of two sizes, for which there are knobs, are cut from slabs; what is larger than both has memory of its own.
//! A block is written again only when nothing uses it any more, and what it held may still be in the GPU's L2, where
//! it is in the GPU's memory. The first packet of each submission acquires from the system, so that it sees what was
//! written before; as it does of the ring of kernel arguments.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::core::gpu::Gpu;
use crate::core::gpu::options::Options;
use crate::ffi::{Annotate, Fallible, Result, fallible};
use crate::hsa::{Allocation, MemoryCopy};

/// Most bytes that are kept in blocks with memory of their own that nobody uses.
const MOST: usize = 4 << 20;

/// What a block is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Kernel arguments.
    Kernargs,
    /// PM4 commands.
    Commands,
    /// Copies of PM4 commands.
    CopiedCommands,
}

/// A part of an allocation, which lives as long as its blocks.
#[derive(Debug)]
struct Block {
    memory: Arc<Allocation>,
    /// Bytes from the allocation's start.
    offset: usize,
}

/// Blocks of one size that nobody uses.
#[derive(Debug)]
struct Pool {
    /// Bytes of a block.
    size: usize,
    /// Blocks of a slab.
    count: usize,
    free: Mutex<Vec<Block>>,
}

impl Pool {
    fn new(size: u64, count: usize) -> Self {
        Self { size: size as usize, count: count.max(1), free: Mutex::default() }
    }

    /// A block; one of a new slab if there is none.
    fn take(&self, gpu: &Gpu, contents: Contents) -> Result<Block> {
        if let Some(block) = self.free.lock().pop() {
            return Ok(block);
        }
        let mut blocks = self.cut(gpu, contents)?;
        // There is at least one.
        let block = blocks.swap_remove(0);
        let mut free = self.free.lock();
        // Without memory for that they are not kept.
        if free.make_room(blocks.len()).is_ok() {
            free.append(&mut blocks);
        }
        Ok(block)
    }

    /// The blocks of slabs of which none is in use.
    fn take_whole_slabs(&self) -> Vec<Block> {
        let (mut whole, mut free) = (Vec::new(), self.free.lock());
        // Without memory for that they stay.
        if whole.make_room(free.len()).is_err() {
            return whole;
        }
        free.sort_unstable_by_key(|block| Arc::as_ptr(&block.memory).addr());
        let mut end = free.len();
        while let Some(last) = free[..end].last().map(|block| Arc::as_ptr(&block.memory)) {
            let start = free[..end].partition_point(|block| Arc::as_ptr(&block.memory).addr() < last.addr());
            if end - start == self.count {
                whole.extend(free.drain(start..end));
            }
            end = start;
        }
        whole
    }

    /// The blocks of a new slab.
    fn cut(&self, gpu: &Gpu, contents: Contents) -> Result<Vec<Block>> {
        let (size, count) = (self.size, self.count);
        let memory = gpu
            .allocate_stored(contents, size.saturating_mul(count))
            .annotate(|| format!("{count} blocks of {size} bytes for {contents:?} (device_block_pool_*)"))?;
        let memory = Arc::new(memory);
        fallible::collect((0..count).map(|index| Block { memory: memory.clone(), offset: index * size }))
    }
}

/// Blocks of a GPU that nobody uses.
#[derive(Debug)]
pub struct SpareBlocks {
    contents: Contents,
    /// The smaller size first.
    pools: [Pool; 2],
    /// Larger ones, with their bytes, a power of two.
    large: Mutex<Vec<(usize, Block)>>,
}

impl SpareBlocks {
    /// None yet; slabs are of as many blocks as `options` has at first.
    pub fn new(contents: Contents, options: &Options) -> Self {
        let small = Pool::new(options.device_block_pool_small_size, options.device_block_pool_small_capacity);
        let large = Pool::new(options.device_block_pool_large_size, options.device_block_pool_large_capacity);
        let pools = if small.size <= large.size { [small, large] } else { [large, small] };
        Self { contents, pools, large: Mutex::default() }
    }

    /// A slab of each size, so that the first recordings need not wait for memory.
    ///
    /// # Errors
    /// What HSA says of the size, with the knobs' name.
    pub fn fill(&self, gpu: &Gpu) -> Result<()> {
        for pool in &self.pools {
            let mut blocks = pool.cut(gpu, self.contents)?;
            let mut free = pool.free.lock();
            free.make_room(blocks.len())?;
            free.append(&mut blocks);
        }
        Ok(())
    }

    /// Frees slabs of which nothing is in use, and larger blocks.
    pub fn trim(&self) {
        for pool in &self.pools {
            let blocks = pool.take_whole_slabs();
            // Not under the lock.
            drop(blocks);
        }
        let blocks = std::mem::take(&mut *self.large.lock());
        drop(blocks);
    }

    fn pool(&self, length: usize) -> Option<&Pool> {
        self.pools.iter().find(|pool| length <= pool.size)
    }

    fn take(&self, gpu: &Gpu, length: usize) -> Result<Block> {
        if let Some(pool) = self.pool(length) {
            return pool.take(gpu, self.contents);
        }
        let mut blocks = self.large.lock();
        if let Some(index) = blocks.iter().rposition(|(other, _)| *other == length) {
            return Ok(blocks.swap_remove(index).1);
        }
        drop(blocks);
        Ok(Block { memory: Arc::new(gpu.allocate_stored(self.contents, length)?), offset: 0 })
    }

    fn give(&self, length: usize, block: Block) {
        if let Some(pool) = self.pool(length) {
            let mut free = pool.free.lock();
            if free.make_room(1).is_ok() {
                return free.push(block);
            }
            drop(free);
            return drop(block);
        }
        let mut blocks = self.large.lock();
        let is_small = blocks.iter().map(|(length, _)| length).sum::<usize>() + length <= MOST;
        if is_small && blocks.make_room(1).is_ok() {
            blocks.push((length, block));
        } else {
            drop(blocks);
            drop(block);
        }
    }
}

/// Kernel arguments, or PM4 commands, in memory of a GPU, or of the host's for it.
#[derive(Debug)]
pub struct StoredKernargs {
    gpu: Arc<Gpu>,
    contents: Contents,
    /// What they need, a power of two.
    length: usize,
    /// None in the drop alone.
    block: Option<Block>,
}

impl StoredKernargs {
    /// Memory that holds `bytes`, visible to what is submitted from now on, kernel arguments behind an acquire fence of
    /// the system.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn new(gpu: &Arc<Gpu>, contents: Contents, bytes: &[u8]) -> Result<Self> {
        let stored = Self::unwritten(gpu, contents, bytes.len().next_power_of_two())?;
        // SAFETY: the block has `length` bytes, the host has access, and nothing uses it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), stored.address() as *mut u8, bytes.len()) };
        if contents == Contents::Kernargs {
            gpu.publish_kernargs();
        }
        Ok(stored)
    }

    /// Memory of `length` bytes, a power of two, that nothing uses.
    fn unwritten(gpu: &Arc<Gpu>, contents: Contents, length: usize) -> Result<Self> {
        let block = gpu.spare_blocks(contents).take(gpu, length)?;
        Ok(Self { gpu: gpu.clone(), contents, length, block: Some(block) })
    }

    /// Memory of the GPU's own to which these commands are being copied. Until the copy is over nothing may use it, and
    /// neither of the two be dropped.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED; that the copy did not begin.
    pub fn begin_copy(&self) -> Result<(Self, MemoryCopy)> {
        let gpu = &self.gpu;
        let target = Self::unwritten(gpu, Contents::CopiedCommands, self.length)?;
        let place = |stored: &Self| {
            let block = stored.block.as_ref()?;
            Some((block.memory.clone(), block.offset))
        };
        let (to, from) = place(&target).zip(place(self)).expect("memory that is not dropped");
        let (to, from) = ((&to.0, to.1), (&from.0, from.1));
        // SAFETY: both blocks have `length` bytes. The GPU may access both, the CPU its own. The source was written
        // when it was made and is not written again; nothing uses the target, which was just taken, and the caller sees
        // to it that no block is anybody else's before the copy is over.
        let copy = unsafe { MemoryCopy::begin((gpu.agent(), to), (&gpu.cpu().agent, from), self.length) }?;
        Ok((target, copy))
    }

    /// Where they begin.
    pub fn address(&self) -> u64 {
        self.block.as_ref().map_or(0, |block| block.memory.as_ptr() as u64 + block.offset as u64)
    }
}

impl Drop for StoredKernargs {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.gpu.spare_blocks(self.contents).give(self.length, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::gpu::topology::Topology;
    use crate::hsa::pointer_info;
    use crate::hsa::testing::library;

    fn gpu(options: &Options) -> Arc<Gpu> {
        let selection = Topology::new(&library()).and_then(|topology| topology.select("")).expect("a GPU");
        let info = &selection.gpus[0];
        Gpu::new(0, info, &selection.cpus[info.cpu], options).expect("a GPU")
    }

    fn stored(gpu: &Arc<Gpu>, length: usize) -> StoredKernargs {
        StoredKernargs::new(gpu, Contents::Kernargs, &vec![1; length]).expect("memory")
    }

    #[test]
    fn blocks_that_nobody_uses_are_taken_over() {
        let gpu = gpu(&Options::default());
        for length in [100, 100 << 10, 1 << 20] {
            let (first, second) = (stored(&gpu, length), stored(&gpu, length));
            let address = first.address();
            assert_ne!(second.address(), address, "both are in use");
            drop(first);
            assert_eq!(stored(&gpu, length).address(), address);
        }
        drop((0..8).map(|_| stored(&gpu, MOST / 4)).collect::<Vec<_>>());
        let kept: usize = gpu.spare_blocks(Contents::Kernargs).large.lock().iter().map(|(length, _)| length).sum();
        assert!(kept > MOST / 2 && kept <= MOST, "{kept}");
    }

    /// The packet processor reads them in front of its packet's fence.
    #[test]
    fn commands_are_in_the_hosts_memory_unless_they_are_copied() {
        let gpu = gpu(&Options::default());
        let owner_of = |contents| {
            let stored = StoredKernargs::new(&gpu, contents, &[0; 64]).expect("memory");
            pointer_info(gpu.agent().library(), stored.address() as *const u8).expect("an allocation").owner
        };
        assert_eq!(owner_of(Contents::Kernargs), gpu.agent().handle());
        assert_eq!(owner_of(Contents::Commands), gpu.cpu().agent.handle());
        let (copied, copy) = StoredKernargs::new(&gpu, Contents::Commands, &[0; 64])
            .and_then(|source| {
                let (target, copy) = source.begin_copy()?;
                copy.wait()?;
                Ok((target, copy))
            })
            .expect("a copy");
        let owner = pointer_info(gpu.agent().library(), copied.address() as *const u8).expect("an allocation").owner;
        assert_eq!(owner, gpu.agent().handle());
        drop((copy, copied));
    }

    #[test]
    fn more_than_there_is_names_the_knobs() {
        let options = Options { device_block_pool_small_capacity: usize::MAX, ..Options::default() };
        let selection = Topology::new(&library()).and_then(|topology| topology.select("")).expect("a GPU");
        let info = &selection.gpus[0];
        let refused = Gpu::new(0, info, &selection.cpus[info.cpu], &options).expect_err("no such memory");
        assert!(refused.to_string().contains("(device_block_pool_*)"), "{refused}");
    }

    #[test]
    fn knobs_say_how_large_and_how_many_blocks_are() {
        let options = Options {
            device_block_pool_small_size: 1 << 10,
            device_block_pool_small_capacity: 4,
            device_block_pool_large_size: 64 << 10,
            device_block_pool_large_capacity: 0,
            ..Options::default()
        };
        let counts =
            |gpu: &Gpu| gpu.spare_blocks(Contents::Kernargs).pools.each_ref().map(|pool| pool.free.lock().len());
        let filled = gpu(&options);
        assert_eq!(counts(&filled), [4, 1], "filled when the device is made");
        let gpu = gpu(&Options { preallocate_pools: false, ..options });
        assert_eq!(counts(&gpu), [0, 0]);
        let blocks: Vec<_> = (0..4).map(|_| stored(&gpu, 1 << 10)).collect();
        let mut addresses: Vec<_> = blocks.iter().map(StoredKernargs::address).collect();
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] == 1 << 10), "one slab: {addresses:x?}");
        assert_eq!(counts(&gpu), [0, 0]);
        let fifth = stored(&gpu, 1);
        let large = stored(&gpu, (1 << 10) + 1);
        assert_eq!(counts(&gpu), [3, 0]);
        drop((large, blocks));
        assert_eq!(counts(&gpu), [7, 1]);
        gpu.spare_blocks(Contents::Kernargs).trim();
        assert_eq!(counts(&gpu), [3, 0], "one block of a slab is in use");
        drop(fifth);
        gpu.spare_blocks(Contents::Kernargs).trim();
        assert_eq!(counts(&gpu), [0, 0]);
    }
}
