// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Chains of allocations on several queues in flight.
//!
//! A link of a chain allocates, works on the memory, copies a part of it to memory of the chain's own, and gives it
//! back. A chain is on one queue and waits for nothing but itself, so that the pool is asked for memory on one queue
//! while memory that another queue gave back is in use there.

use super::{Generator, Group};
use crate::kernels::gpu_count;
use crate::memory_work::{self, Area};
use crate::program::{Buffer, Fate, Heap, Kind, Span, Work};

/// The most bytes of an allocation, as small as those that networks make many of.
const MOST: usize = 1 << 13;

struct Chain {
    group: usize,
    affinity: u64,
    /// The area into which each link copies a part of its memory.
    result: Area,
}

impl Generator {
    /// Makes some chains on a device that goes on, their links in turns.
    pub(super) fn make_chains(&mut self, spread: u64) {
        let Some(device) = self.open_device() else { return };
        let chains: Vec<_> = (0..2 + self.below(4)).map(|_| self.chain(device)).collect();
        for _ in 0..2 + self.below(8) {
            for chain in &chains {
                self.link(device, chain, spread);
            }
        }
    }

    fn chain(&mut self, device: usize) -> Chain {
        let timelines = self.make_timelines(1);
        let group = self.groups.len();
        self.groups.push(Group { fate: Fate::Certain, timelines, device: Some(device), is_chain: true });
        let (buffer, size) = (self.program.buffers.len(), 64 + self.size(MOST));
        let heap = self.pick(&[Heap::Host, Heap::Device]);
        self.program.buffers.push(Buffer { device, heap, size, is_ephemeral: false });
        let affinity = 1 << self.below(self.queues() * gpu_count());
        Chain { group, affinity, result: Area::of_buffer(buffer, size) }
    }

    fn link(&mut self, device: usize, chain: &Chain, spread: u64) {
        let (buffer, size) = (self.program.buffers.len(), 16 + self.size(MOST));
        self.program.buffers.push(Buffer { device, heap: Heap::Queue, size, is_ephemeral: true });
        let mut kinds = vec![Kind::Alloca { buffer }];
        let whole = Span { buffer, offset: 0, length: size };
        kinds.push(Kind::Work(Work::Fill { target: whole, pattern: vec![self.below(256) as u8] }));
        let area = Area::of_buffer(buffer, size);
        for _ in 0..self.below(4) {
            let work = memory_work::work(&mut self.random, &[area]);
            kinds.extend(work.map(|work| Kind::Work(work.map(|place| place.resolve(&[])))));
        }
        let target = memory_work::part(&mut self.random, chain.result, 1, size).resolve(&[]);
        let offset = self.below(size - target.length + 1);
        let source = Span { buffer, offset, length: target.length };
        kinds.push(Kind::Work(Work::Copy { source, target }));
        kinds.push(Kind::Dealloca { buffer });
        for kind in kinds {
            self.place(device, chain.group, kind, Vec::new(), spread).expect("a chain conflicts with nothing else");
            self.program.ops.last_mut().expect("it was placed").affinity = chain.affinity;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::program::Kind;

    /// Otherwise no two queues would be in flight with memory of one pool.
    #[test]
    fn chains_wait_for_nothing_but_themselves() {
        let mut chained = 0;
        for seed in 0..40 {
            let program = crate::generate::program(seed);
            let predecessors = program.predecessors();
            let allocas = program.ops.iter().filter(|op| matches!(op.kind, Kind::Alloca { .. }));
            let alone: BTreeSet<_> = allocas
                .filter(|op| {
                    let of_others = |id: &usize| program.ops[program.index(*id)].timelines != op.timelines;
                    let before = &predecessors[program.index(op.id)];
                    !before.is_empty() && !before.iter().any(of_others)
                })
                .map(|op| (op.affinity, op.timelines.clone()))
                .collect();
            chained += usize::from(alone.len() > 1);
        }
        assert!(chained > 10, "{chained} of 40 programs have chains");
    }
}
