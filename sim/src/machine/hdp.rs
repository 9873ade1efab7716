// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Whether host writes to a GPU's memory could still be under way.
//!
//! What the host writes through the PCI aperture goes through the GPU's host data path (HDP), which may hold it back until the
//! program writes to a register (`HSA_AMD_AGENT_INFO_HDP_FLUSH`). Here all memory is coherent, so that a missing flush would go
//! unnoticed. This keeps what a GPU may rely on: the bytes as of the last flush, or as kernels left them. Where the memory is not so,
//! the host has written since, and a kernel that gets there fails.
//!
//! The register is looked at before each packet and now and then, so that what the host writes between a flush and the look counts
//! as flushed; and so does what it writes to memory that a running kernel uses.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Machine;
use super::agent::{AgentIndex, CPU};
use super::memory::{AllocationInfo, Mapping, PAGE};

/// A GPU's registers: `HDP_MEM_FLUSH_CNTL` and `HDP_REG_FLUSH_CNTL`, two words at the start of a page.
#[derive(Debug)]
pub struct Registers(Mapping);

impl Registers {
    /// Maps them.
    pub fn new() -> io::Result<Self> {
        Mapping::new(PAGE).map(Self)
    }

    /// Address of the first.
    pub fn address(&self) -> usize {
        self.0.base()
    }

    /// Whether a flush was asked for since the last call.
    fn take_flush(&self) -> bool {
        let register: *mut u32 = std::ptr::with_exposed_provenance_mut(self.address());
        // SAFETY: a word of the mapping, aligned; the host program writes it by bare stores, as it would a register.
        unsafe { AtomicU32::from_ptr(register) }.swap(0, Ordering::AcqRel) != 0
    }
}

/// An allocation of a GPU's memory that the host was given access to.
#[derive(Debug)]
struct View {
    owner: AgentIndex,
    /// What GPUs may rely on.
    settled: Vec<u8>,
    /// Packets under way that access it.
    packets: usize,
    /// From the first to the last byte that the host had written without a flush when the first of them began.
    unflushed: Option<Range<u64>>,
}

/// All of them, by address.
#[derive(Debug, Default)]
pub struct HostWrites {
    views: Mutex<BTreeMap<u64, View>>,
    count: AtomicUsize,
}

impl HostWrites {
    /// Follows an allocation that the host may access from now on.
    fn follow(&self, range: &AllocationInfo) {
        let mut views = self.views.lock();
        views.entry(range.base).or_insert_with(|| {
            let settled = vec![0; range.size as usize];
            let mut view = View { owner: range.owner, settled, packets: 0, unflushed: None };
            view.settle(range.base);
            view
        });
        self.count.store(views.len(), Ordering::Release);
    }

    /// Ends that.
    pub fn forget(&self, base: u64) {
        let mut views = self.views.lock();
        views.remove(&base);
        self.count.store(views.len(), Ordering::Release);
    }

    /// What the machine itself wrote needs no flush.
    pub fn written(&self, address: u64) {
        if self.count.load(Ordering::Acquire) != 0
            && let Some((&base, view)) = self.views.lock().range_mut(..=address).next_back()
        {
            view.settle(base);
        }
    }

    /// Takes what the host has written to memory of `owner` for flushed, if `was_flushed` says so: under the lock, so that
    /// whoever finds a flush taken finds its effect, too.
    fn look(&self, owner: AgentIndex, was_flushed: impl FnOnce() -> bool) {
        let mut views = self.views.lock();
        if !was_flushed() {
            return;
        }
        for (&base, view) in views.iter_mut().filter(|(_, view)| view.owner == owner) {
            view.unflushed = None;
            view.settle(base);
        }
    }

    /// Notes that a packet is about to access the allocation at `base`, and returns what the host has written there without a flush.
    fn begin(&self, base: u64) -> Option<Range<u64>> {
        let mut views = self.views.lock();
        let view = views.get_mut(&base)?;
        if view.packets == 0 {
            view.unflushed = view.unsettled(base);
        }
        view.packets += 1;
        view.unflushed.clone()
    }

    fn end(&self, base: u64) {
        // It may have been freed meanwhile.
        if let Some(view) = self.views.lock().get_mut(&base) {
            view.packets -= 1;
            if view.packets == 0 {
                view.settle(base);
            }
        }
    }
}

impl View {
    /// Calls `differs` with the offset of each block of bytes of the memory that is not as it was, and its bytes now.
    fn differences(settled: &[u8], base: u64, mut differs: impl FnMut(usize, &[u8])) {
        const BLOCK: usize = 1024;
        let memory: *const u8 = std::ptr::with_exposed_provenance(base as usize);
        for (index, block) in settled.chunks(BLOCK).enumerate() {
            let start = index * BLOCK;
            // SAFETY: in a page of the allocation, which is mapped while there is a view of it. The host and kernels may write it
            // at the same time, of which the C library's functions see any mixture.
            let memory = unsafe { memory.add(start) };
            // SAFETY: as above.
            if unsafe { libc::memcmp(memory.cast(), block.as_ptr().cast(), block.len()) } == 0 {
                continue;
            }
            let mut now = [0; BLOCK];
            let now = &mut now[..block.len()];
            // SAFETY: as above.
            unsafe { libc::memcpy(now.as_mut_ptr().cast(), memory.cast(), now.len()) };
            differs(start, now);
        }
    }

    /// Takes the memory as it is, but for what is not flushed.
    fn settle(&mut self, base: u64) {
        let mut changes = Vec::new();
        Self::differences(&self.settled, base, |start, now| changes.push((start, now.to_vec())));
        for (start, now) in changes {
            for (offset, byte) in (start..).zip(now) {
                let address = base + offset as u64;
                if self.unflushed.as_ref().is_none_or(|unflushed| !unflushed.contains(&address)) {
                    self.settled[offset] = byte;
                }
            }
        }
    }

    fn unsettled(&self, base: u64) -> Option<Range<u64>> {
        let mut range: Option<Range<u64>> = None;
        Self::differences(&self.settled, base, |start, now| {
            let differs = |&offset: &usize| now[offset] != self.settled[start + offset];
            // The bytes may be the old ones again.
            let (Some(first), Some(last)) = ((0..now.len()).find(differs), (0..now.len()).rfind(differs)) else {
                return;
            };
            let address = base + start as u64;
            let from = range.as_ref().map_or(address + first as u64, |range| range.start);
            range = Some(from..address + last as u64 + 1);
        });
        range
    }
}

/// The memory that a packet accesses, from its beginning to its end.
pub struct Accesses<'a> {
    writes: &'a HostWrites,
    /// By address of the allocation: what the host has written there without a flush.
    begun: Mutex<BTreeMap<u64, Option<Range<u64>>>>,
}

impl<'a> Accesses<'a> {
    /// None yet.
    pub fn new(writes: &'a HostWrites) -> Self {
        Self { writes, begun: Mutex::default() }
    }

    /// The bytes of an allocation, which the packet is to access, that the host has written without a flush.
    pub fn unflushed(&self, range: &AllocationInfo) -> Option<Range<u64>> {
        if range.owner == CPU || self.writes.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.begun.lock().entry(range.base).or_insert_with(|| self.writes.begin(range.base)).clone()
    }
}

impl Drop for Accesses<'_> {
    fn drop(&mut self) {
        for base in self.begun.get_mut().keys() {
            self.writes.end(*base);
        }
    }
}

/// What is said of an access to bytes that the host has written without a flush.
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

impl Machine {
    /// Looks at the registers of all GPUs.
    pub fn see_flushes(&self) {
        if self.host_writes.count.load(Ordering::Acquire) == 0 {
            return;
        }
        for agent in &self.agents {
            if let Some(registers) = &agent.hdp {
                self.host_writes.look(agent.index, || registers.take_flush());
            }
        }
    }

    /// Follows what the host writes to the allocation at `base`, if it may and that has to be flushed.
    pub fn follow_host_writes(&self, base: u64) {
        let Some(range) = self.memory.find(base) else { return };
        let is_checked = self.agents[range.owner.0].gpu.as_ref().is_some_and(|gpu| gpu.hdp_checked && gpu.has_hdp());
        if is_checked && range.access.has(CPU) {
            self.see_flushes();
            self.host_writes.follow(&range);
        } else {
            self.host_writes.forget(base);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::super::agent::AgentMask;
    use super::super::memory::Allocation;
    use super::*;

    #[test]
    fn bytes_that_the_host_wrote_are_unflushed_until_a_flush_or_a_kernel() {
        let mapping = Mapping::new(200).unwrap();
        let base = mapping.base() as u64;
        let write = |offset: usize, value: u8| {
            // SAFETY: within the mapping, which only this test uses.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(base as usize + offset).write_volatile(value) }
        };
        let gpu = AgentIndex(1);
        let range = Allocation::new(base, 200, gpu, AgentMask::ALL).info();
        let writes = HostWrites::default();
        let unflushed = || Accesses::new(&writes).unflushed(&range);
        write(7, 1);
        writes.follow(&range);
        assert_eq!(unflushed(), None, "what was there before the host could write");
        write(100, 1);
        write(199, 2);
        assert_eq!(unflushed(), Some(base + 100..base + 200));
        assert_eq!(unflushed(), Some(base + 100..base + 200), "a packet does not flush");
        writes.look(gpu, || true);
        write(0, 3);
        writes.look(AgentIndex(2), || true);
        let running = Accesses::new(&writes);
        assert_eq!(running.unflushed(&range), Some(base..base + 1), "another GPU's flush");
        write(64, 4);
        assert_eq!(unflushed(), Some(base..base + 1), "what a kernel may be writing does not count");
        drop(running);
        write(64, 5);
        assert_eq!(unflushed(), Some(base..base + 65));
        writes.look(gpu, || true);
        assert_eq!(unflushed(), None, "all of it is flushed");
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
            assert_eq!(unflushed(), None, "a flush that was taken counts");
        });
        write(65, 6);
        writes.written(base + 65);
        assert_eq!(unflushed(), None);
        write(65, 7);
        writes.forget(base);
        assert_eq!(unflushed(), None);
    }
}
