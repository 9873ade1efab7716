// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Detection of host writes to a GPU's memory that may still be in flight.
//!
//! Host writes through the PCI aperture go through the GPU's host data path (HDP), which may delay them until the
//! program writes to a register (`HSA_AMD_AGENT_INFO_HDP_FLUSH`). In the sim all memory is coherent, so that a missing
//! flush would have no effect. This module keeps a copy of the bytes that a GPU may rely on: as of the last flush, or
//! as kernels left them. Where memory differs from the copy, the host has written since, and a kernel that accesses it
//! fails.
//!
//! Registers are polled before each packet and at intervals, so that host writes between a flush and the poll count as
//! flushed. Host writes to an allocation, or to a block of a large one, also count as flushed while the machine
//! accesses it, because the writer is unknown. Copies by DMA engines are not checked: ROCR's begin with a flush of
//! their GPU's HDP (`BlitSdma::SubmitCommand`; except on gfx101x and on GPUs that XGMI connects to the host).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use hsa_abi::HsaPointerType;
use parking_lot::Mutex;

use crate::machine::agent_id::AgentIndex;
use crate::machine::memory::allocation::{AllocationInfo, Mapping, PAGE};

/// A GPU's registers: `HDP_MEM_FLUSH_CNTL` and `HDP_REG_FLUSH_CNTL`, two words at the start of a page.
#[derive(Debug)]
pub struct Registers(Mapping);

impl Registers {
    /// Maps the page of the registers.
    pub fn new() -> io::Result<Self> {
        Mapping::new(PAGE).map(Self)
    }

    /// Address of the first register.
    pub fn address(&self) -> usize {
        self.0.base()
    }

    /// True if a flush was requested since the last call.
    pub fn take_flush(&self) -> bool {
        let register: *mut u32 = std::ptr::with_exposed_provenance_mut(self.address());
        // SAFETY: a word of the mapping, aligned; the host program writes it by bare stores, as it would a register.
        unsafe { AtomicU32::from_ptr(register) }.swap(0, Ordering::AcqRel) != 0
    }
}

/// Maximum size of an allocation that is compared as a whole at each flush. Larger ones, such as rings, of which a
/// packet accesses only a few lines, are divided into blocks of this size.
const BLOCK: u64 = 64 << 10;

/// Sorted ranges of bytes that the host has written without a flush.
type Unflushed = Arc<[Range<u64>]>;

/// An allocation of a GPU's memory that the host has access to.
#[derive(Debug)]
struct View {
    owner: AgentIndex,
    /// Copy of the bytes that GPUs may rely on.
    settled: Vec<u8>,
    /// Size of a block in bytes.
    block: u64,
    blocks: Vec<Block>,
    /// Number of flushes seen.
    flushes: u64,
}

/// A block of an allocation.
#[derive(Clone, Debug, Default)]
struct Block {
    /// Number of packets, copies and caches that access it now.
    accesses: usize,
    /// Bytes that the host had written without a flush when the first of these accesses began.
    unflushed: Unflushed,
    /// Number of flushes that were applied. With several blocks, a flush is applied at the next access.
    flushes: u64,
}

/// All followed allocations, by address.
#[derive(Debug, Default)]
pub struct HostWrites {
    views: Mutex<BTreeMap<u64, View>>,
    count: AtomicUsize,
}

impl HostWrites {
    /// True if no allocation is followed.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Starts to follow an allocation that the host may access from now on.
    pub fn follow(&self, range: &AllocationInfo) {
        let mut views = self.views.lock();
        views.entry(range.base).or_insert_with(|| {
            let block = range.size.clamp(1, BLOCK);
            let blocks = vec![Block::default(); range.size.div_ceil(block) as usize];
            let settled = vec![0; range.size as usize];
            let mut view = View { owner: range.owner, settled, block, blocks, flushes: 0 };
            let untouched = Untouched::of(range);
            for index in 0..view.blocks.len() {
                if !untouched.contains(&view.offsets(index)) {
                    view.settle(range.base, index);
                }
            }
            view
        });
        self.count.store(views.len(), Ordering::Release);
    }

    /// Stops following an allocation.
    pub fn forget(&self, base: u64) {
        let mut views = self.views.lock();
        views.remove(&base);
        self.count.store(views.len(), Ordering::Release);
    }

    /// Marks all host writes to memory of `owner` as flushed if `was_flushed` returns true. It is called under the
    /// lock, so that a thread which finds a flush already taken also finds its effect.
    pub fn look(&self, owner: AgentIndex, was_flushed: impl FnOnce() -> bool) {
        let mut views = self.views.lock();
        if !was_flushed() {
            return;
        }
        for (&base, view) in views.iter_mut().filter(|(_, view)| view.owner == owner) {
            view.flushes += 1;
            let is_whole = view.blocks.len() == 1;
            for index in 0..view.blocks.len() {
                if is_whole || view.blocks[index].accesses > 0 {
                    view.flush(base, index);
                }
            }
        }
    }

    /// Begins an access to `bytes` of the allocation at `base`, in blocks that are not in `begun`. Returns the
    /// unflushed host writes to the blocks that contain these bytes, and the range of the blocks. `None` if the
    /// allocation is not followed.
    fn begin(&self, base: u64, bytes: &Range<u64>, begun: &mut Begun) -> Option<(Unflushed, Range<u64>)> {
        let mut views = self.views.lock();
        let view = views.get_mut(&base)?;
        let last = (bytes.end.max(bytes.start + 1) - 1 - base) / view.block;
        let indices = ((bytes.start - base) / view.block) as usize..view.blocks.len().min(last as usize + 1);
        for index in indices.clone() {
            begun.entry((base, index)).or_insert_with(|| view.begin(base, index));
        }
        let start = base + indices.start as u64 * view.block;
        let end = base + (indices.end as u64 * view.block).min(view.settled.len() as u64);
        if indices.len() == 1 {
            return Some((Arc::clone(&begun[&(base, indices.start)]), start..end));
        }
        let unflushed = indices.flat_map(|index| begun[&(base, index)].iter().cloned()).collect();
        Some((unflushed, start..end))
    }

    fn end(&self, base: u64, index: usize) {
        // It may have been freed meanwhile.
        if let Some(view) = self.views.lock().get_mut(&base) {
            // And another one made there.
            let Some(block) = view.blocks.get_mut(index).filter(|block| block.accesses > 0) else { return };
            block.accesses -= 1;
            if block.accesses == 0 {
                view.settle(base, index);
            }
        }
    }
}

impl View {
    /// Offsets of a block's bytes.
    fn offsets(&self, index: usize) -> Range<usize> {
        let start = index * self.block as usize;
        start..self.settled.len().min(start + self.block as usize)
    }

    /// Begins an access to a block. Returns the bytes that the host has written without a flush.
    fn begin(&mut self, base: u64, index: usize) -> Unflushed {
        if self.blocks[index].accesses == 0 {
            if self.blocks[index].flushes == self.flushes {
                self.blocks[index].unflushed = self.unsettled(base, index).into();
            } else {
                self.flush(base, index);
            }
        }
        let block = &mut self.blocks[index];
        block.accesses += 1;
        Arc::clone(&block.unflushed)
    }

    /// Marks all of a block as flushed.
    fn flush(&mut self, base: u64, index: usize) {
        let block = &mut self.blocks[index];
        (block.unflushed, block.flushes) = (Arc::default(), self.flushes);
        self.settle(base, index);
    }

    /// Calls `differs` with the offset and the current bytes of each piece of a block that differs from the copy.
    fn differences(&self, base: u64, index: usize, mut differs: impl FnMut(usize, &[u8])) {
        const PIECE: usize = 1024;
        let memory: *const u8 = std::ptr::with_exposed_provenance(base as usize);
        let offsets = self.offsets(index);
        for start in offsets.clone().step_by(PIECE) {
            let settled = &self.settled[start..offsets.end.min(start + PIECE)];
            // SAFETY: in a page of the allocation, which is mapped while there is a view of it.
            let memory = unsafe { memory.add(start) };
            // SAFETY: both have `settled.len()` bytes, the memory in a mapped page. The host and kernels may write it
            // meanwhile, of which the C library's functions see any mixture.
            if unsafe { libc::memcmp(memory.cast(), settled.as_ptr().cast(), settled.len()) } == 0 {
                continue;
            }
            let mut now = [0; PIECE];
            let now = &mut now[..settled.len()];
            // SAFETY: both have `now.len()` bytes, the memory in a mapped page that others may write meanwhile.
            unsafe { libc::memcpy(now.as_mut_ptr().cast(), memory.cast(), now.len()) };
            differs(start, now);
        }
    }

    /// Updates the copy of a block, except for unflushed bytes.
    fn settle(&mut self, base: u64, index: usize) {
        let mut changes = Vec::new();
        self.differences(base, index, |start, now| changes.push((start, now.to_vec())));
        for (start, now) in changes {
            for (offset, byte) in (start..).zip(now) {
                let address = base + offset as u64;
                if behind(&self.blocks[index].unflushed, address).is_none_or(|unflushed| address < unflushed.start) {
                    self.settled[offset] = byte;
                }
            }
        }
    }

    /// Sorted ranges of the block's bytes that differ from the copy.
    fn unsettled(&self, base: u64, index: usize) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        self.differences(base, index, |start, now| {
            for offset in (0..now.len()).filter(|&offset| now[offset] != self.settled[start + offset]) {
                let address = base + (start + offset) as u64;
                match ranges.last_mut() {
                    Some(last) if last.end == address => last.end += 1,
                    _ => ranges.push(address..address + 1),
                }
            }
        });
        ranges
    }
}

/// Page-map entries of an allocation, which tell pages that were never accessed and so are still zero.
struct Untouched(Vec<u64>);

impl Untouched {
    /// Reads the entries. An accessed page is in memory (bit 63) or swapped out (bit 62) (Linux,
    /// admin-guide/mm/pagemap). That holds for anonymous memory, as in pools. For other memory there are no entries.
    fn of(range: &AllocationInfo) -> Self {
        const ENTRY: usize = size_of::<u64>();
        let pages = (range.size as usize).div_ceil(PAGE);
        let mut entries = vec![0; pages * ENTRY];
        let is_read = range.pointer_type == HsaPointerType::HSA
            && File::open("/proc/self/pagemap")
                .and_then(|map| map.read_exact_at(&mut entries, (range.base as usize / PAGE * ENTRY) as u64))
                .is_ok();
        let entries =
            entries.chunks_exact(ENTRY).map(|entry| u64::from_le_bytes(entry.try_into().expect("eight bytes")));
        Self(if is_read { entries.collect() } else { Vec::new() })
    }

    /// True if all pages of these bytes are untouched.
    fn contains(&self, offsets: &Range<usize>) -> bool {
        let pages = offsets.start / PAGE..offsets.end.div_ceil(PAGE);
        self.0.get(pages).is_some_and(|entries| entries.iter().all(|entry| entry >> 62 == 0))
    }
}

/// First of the sorted `ranges` that ends behind an address.
fn behind(ranges: &[Range<u64>], address: u64) -> Option<&Range<u64>> {
    ranges.get(ranges.partition_point(|range| range.end <= address))
}

/// Blocks under access, by address of the allocation and index, with the unflushed host writes to them.
type Begun = BTreeMap<(u64, usize), Unflushed>;

/// Memory that a packet, a copy or a cache accesses, until dropped. Host writes to it need no flush meanwhile.
pub struct Accesses<'a> {
    writes: &'a HostWrites,
    begun: Mutex<Begun>,
}

impl<'a> Accesses<'a> {
    /// Creates an empty set of accesses.
    pub fn new(writes: &'a HostWrites) -> Self {
        Self { writes, begun: Mutex::default() }
    }

    /// Begins an access to `bytes` of the allocation at `base`.
    pub fn begin(&self, base: u64, bytes: Range<u64>) {
        self.around(base, &bytes);
    }

    /// Begins an access to `bytes` of the allocation at `base`. Returns the unflushed host writes to the blocks around
    /// these bytes, and the range of the blocks; `None` if the allocation is not followed.
    fn around(&self, base: u64, bytes: &Range<u64>) -> Option<(Unflushed, Range<u64>)> {
        if self.writes.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.writes.begin(base, bytes, &mut self.begun.lock())
    }

    /// Begins an access to `bytes` of an allocation. Returns the first of them that the host has written without a
    /// flush.
    pub fn unflushed(&self, range: &AllocationInfo, bytes: Range<u64>) -> Option<Range<u64>> {
        let (unflushed, _) = self.around(range.base, &bytes)?;
        behind(&unflushed, bytes.start).filter(|first| first.start < bytes.end).cloned()
    }

    /// Begins an access to an address of an allocation. Returns a range around it without unflushed host writes: up to
    /// the next ones, or a block and more. `None` if this byte is unflushed.
    pub fn flushed(&self, range: &AllocationInfo, address: u64) -> Option<Range<u64>> {
        let all = range.base..range.base + range.size;
        let Some((unflushed, around)) = self.around(range.base, &(address..all.end.min(address + BLOCK))) else {
            return Some(all);
        };
        let next = unflushed.partition_point(|unflushed| unflushed.end <= address);
        let start = next.checked_sub(1).map_or(around.start, |last| unflushed[last].end);
        let end = unflushed.get(next).map_or(around.end, |next| next.start);
        (address < end).then_some(start..end)
    }
}

impl Drop for Accesses<'_> {
    fn drop(&mut self) {
        for (base, index) in self.begun.get_mut().keys() {
            self.writes.end(*base, *index);
        }
    }
}

/// Text about an access to bytes that the host has written without a flush.
pub fn complaint(unflushed: &Range<u64>, range: &AllocationInfo) -> String {
    format!(
        "the host wrote bytes {} to {} of this allocation of {} bytes of agent {} through the PCI aperture and did not flush its HDP, \
         so that the GPU may see what was there before",
        unflushed.start - range.base,
        unflushed.end - 1 - range.base,
        range.size,
        range.owner.0
    )
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;
    use std::sync::Barrier;
    use std::thread;

    use super::*;
    use crate::machine::agent_id::AgentMask;

    #[test]
    fn pages_that_nobody_has_accessed_are_known() {
        let mapping = Mapping::new(8 * PAGE).unwrap();
        let page = |page: usize| std::ptr::with_exposed_provenance_mut::<u8>(mapping.base() + page * PAGE);
        let range = AllocationInfo::new(mapping.base() as u64, 8 * PAGE as u64 - 5, AgentIndex(1), AgentMask::ALL);
        let contains = |offsets: Range<usize>| Untouched::of(&range).contains(&offsets);
        let untouched = || [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|page| contains(page * PAGE..(page + 1) * PAGE));
        assert_eq!(untouched(), [true, true, true, true, true, true, true, true, false], "the last is beyond the end");
        // SAFETY: within the mapping, which only this test uses.
        unsafe {
            page(1).write_volatile(0);
            page(4).add(PAGE - 1).write_volatile(1);
            page(6).read_volatile();
        }
        assert_eq!(untouched(), [true, false, true, true, false, true, false, true, false]);
        assert!(contains(2 * PAGE..4 * PAGE) && contains(2 * PAGE + 1..4 * PAGE - 1));
        assert!(!contains(2 * PAGE..4 * PAGE + 1) && !contains(2 * PAGE - 1..4 * PAGE) && !contains(0..8 * PAGE));
        let locked = AllocationInfo { pointer_type: HsaPointerType::LOCKED, ..range };
        assert!(!Untouched::of(&locked).contains(&(0..1)), "memory that may be a file's");
    }

    #[test]
    fn what_nobody_has_accessed_is_not_when_it_is_followed() {
        let size = 3 * BLOCK as usize;
        let mapping = Mapping::new(size).unwrap();
        let in_second = mapping.base() + BLOCK as usize + 10;
        let range = AllocationInfo::new(mapping.base() as u64, size as u64, AgentIndex(1), AgentMask::ALL);
        let write = |value: u8| {
            // SAFETY: within the mapping, which only this test uses.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(in_second).write_volatile(value) }
        };
        write(7);
        let writes = HostWrites::default();
        writes.follow(&range);
        let untouched = Untouched::of(&range);
        let blocks = [0, 1, 2].map(|block| untouched.contains(&(block * BLOCK as usize..(block + 1) * BLOCK as usize)));
        assert_eq!(blocks, [true, false, true]);
        let unflushed = || Accesses::new(&writes).unflushed(&range, range.base..range.base + size as u64);
        assert_eq!(unflushed(), None, "what was there before");
        write(8);
        assert_eq!(unflushed(), Some(in_second as u64..in_second as u64 + 1));
    }

    #[test]
    fn bytes_that_the_host_wrote_are_unflushed_until_a_flush_or_a_kernel() {
        let mapping = Mapping::new(200).unwrap();
        let base = mapping.base() as u64;
        let write = |offset: usize, value: u8| {
            // SAFETY: within the mapping, which only this test uses.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(base as usize + offset).write_volatile(value) }
        };
        let gpu = AgentIndex(1);
        let range = AllocationInfo::new(base, 200, gpu, AgentMask::ALL);
        let writes = HostWrites::default();
        let bytes = base..base + 200;
        let begin = |accesses: &Accesses<'_>| {
            accesses.around(base, &bytes).map_or_else(Vec::new, |(unflushed, _)| unflushed.to_vec())
        };
        let unflushed = || begin(&Accesses::new(&writes));
        write(7, 1);
        writes.follow(&range);
        assert_eq!(unflushed(), [], "what was there before the host could write");
        write(100, 1);
        write(198, 1);
        write(199, 2);
        let written = [base + 100..base + 101, base + 198..base + 200];
        assert_eq!(unflushed(), written);
        assert_eq!(unflushed(), written, "a packet does not flush");
        let packet = Accesses::new(&writes);
        assert_eq!(packet.flushed(&range, base), Some(base..base + 100));
        assert_eq!(packet.flushed(&range, base + 100), None);
        assert_eq!(packet.flushed(&range, base + 101), Some(base + 101..base + 198), "between two writes");
        assert_eq!(packet.flushed(&range, base + 199), None);
        assert_eq!(packet.unflushed(&range, base + 101..base + 198), None);
        assert_eq!(packet.unflushed(&range, base + 97..base + 101), Some(written[0].clone()));
        assert_eq!(packet.unflushed(&range, base + 199..base + 200), Some(written[1].clone()));
        drop(packet);
        writes.look(gpu, || true);
        write(0, 3);
        writes.look(AgentIndex(2), || true);
        let running = Accesses::new(&writes);
        let first = base..base + 1;
        assert_eq!(begin(&running), from_ref(&first), "another GPU's flush");
        assert_eq!(running.flushed(&range, base + 1), Some(base + 1..base + 200));
        write(64, 4);
        assert_eq!(unflushed(), from_ref(&first), "what a kernel may be writing does not count");
        drop(running);
        write(64, 5);
        assert_eq!(unflushed(), [first, base + 64..base + 65]);
        writes.look(gpu, || true);
        assert_eq!(unflushed(), [], "all of it is flushed");
        write(66, 6);
        let taken = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                writes.look(gpu, || {
                    taken.wait();
                    true
                })
            });
            taken.wait();
            assert_eq!(unflushed(), [], "a flush that was taken counts");
        });
        let copy = Accesses::new(&writes);
        copy.begin(base, bytes.clone());
        write(65, 6);
        assert_eq!(unflushed(), [], "what the machine is writing");
        drop(copy);
        assert_eq!(unflushed(), [], "what the machine wrote");
        write(65, 7);
        writes.forget(base);
        assert_eq!(unflushed(), []);
    }
}
