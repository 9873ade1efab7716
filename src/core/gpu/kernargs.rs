// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Kernel arguments and PM4 commands that are written once. Arguments are in blocks of a GPU's memory; commands in
//! blocks of host memory, and their copies in blocks of the GPU's memory. Later recordings reuse the blocks of
//! recordings that are gone.
//!
//! Blocks of two sizes, which are options, are cut from slabs; larger ones have memory of their own. A block is reused
//! only when nothing uses it any more. In the GPU's memory its old contents may still be in the GPU's L2. The first
//! packet of each submission acquires from the system and therefore sees the new ones, as with the ring of kernel
//! arguments.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::Gpu;
use crate::options::Options;
use amdgpu_ffi::{Annotate, Fallible, Result, fallible};
use amdgpu_hsa::{Allocation, MemoryCopy};

/// The most bytes that are kept in unused blocks with memory of their own.
const MOST: usize = 4 << 20;

/// The contents of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Kernel arguments.
    Kernargs,
    /// PM4 commands.
    Commands,
    /// Copies of PM4 commands.
    CopiedCommands,
}

/// A part of an allocation. The allocation lives as long as its blocks.
#[derive(Debug)]
struct Block {
    memory: Arc<Allocation>,
    /// Bytes from the allocation's start.
    offset: usize,
}

/// Unused blocks of one size.
#[derive(Debug)]
struct Pool {
    /// Bytes of a block.
    size: usize,
    /// The number of blocks in a slab.
    count: usize,
    free: Mutex<Vec<Block>>,
}

impl Pool {
    fn new(size: u64, count: usize) -> Self {
        Self { size: size as usize, count: count.max(1), free: Mutex::default() }
    }

    /// Takes an unused block, or one of a new slab.
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

    /// Takes the blocks of slabs that are unused as a whole.
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

/// Unused blocks of a GPU.
#[derive(Debug)]
pub struct SpareBlocks {
    contents: Contents,
    /// The smaller size first.
    pools: [Pool; 2],
    /// Larger blocks, with their size in bytes, a power of two.
    large: Mutex<Vec<(usize, Block)>>,
}

impl SpareBlocks {
    /// Has no blocks at first. Slabs have as many blocks as `options` says.
    pub fn new(contents: Contents, options: &Options) -> Self {
        let small = Pool::new(options.device_block_pool_small_size, options.device_block_pool_small_capacity);
        let large = Pool::new(options.device_block_pool_large_size, options.device_block_pool_large_capacity);
        let pools = if small.size <= large.size { [small, large] } else { [large, small] };
        Self { contents, pools, large: Mutex::default() }
    }

    /// Makes a slab of each size, so that the first recordings need not wait for memory.
    ///
    /// # Errors
    /// The error of HSA, with the option's name.
    pub fn fill(&self, gpu: &Gpu) -> Result<()> {
        for pool in &self.pools {
            let mut blocks = pool.cut(gpu, self.contents)?;
            let mut free = pool.free.lock();
            free.make_room(blocks.len())?;
            free.append(&mut blocks);
        }
        Ok(())
    }

    /// Frees unused slabs and larger blocks.
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

/// Kernel arguments or PM4 commands in memory of a GPU, or in host memory for it.
#[derive(Debug)]
pub struct StoredKernargs {
    gpu: Arc<Gpu>,
    contents: Contents,
    /// The size that they need, a power of two.
    length: usize,
    /// None only during drop.
    block: Option<Block>,
}

impl StoredKernargs {
    /// Stores `bytes`, visible to later submissions: kernel arguments behind an acquire fence of the system.
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

    /// Unused memory of `length` bytes, a power of two.
    fn unwritten(gpu: &Arc<Gpu>, contents: Contents, length: usize) -> Result<Self> {
        let block = gpu.spare_blocks(contents).take(gpu, length)?;
        Ok(Self { gpu: gpu.clone(), contents, length, block: Some(block) })
    }

    /// Starts a copy of these commands to memory of the GPU. Until the copy is complete, its target must not be used,
    /// and neither source nor target be dropped.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED; the error of starting the copy.
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

    /// The address of the first byte.
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
    use crate::testing::{gpu, try_gpu};
    use amdgpu_hsa::pointer_info;

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

    /// Packet processors read commands before their packet's acquire fence.
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
        let refused = try_gpu(&options).expect_err("no such memory");
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
