// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The algorithms: the messages of each rank in each step.
//!
//! Short messages go along binomial trees, in log2 N steps; long ones around a ring, in N − 1 steps of 1/N of the
//! bytes. The choice depends on sizes that are equal on all ranks, and every element is combined in one order on one
//! rank, so that all ranks get the same bits.

use std::ops::Range;

use super::communicator::Communicator;
use super::operation::{Element, Kind, Plan, Reduction};
use super::reduce::{combine, finish};
use super::world::{Key, Lane};
use amdgpu_ffi::{Result, status};

/// Bytes of a rank's share from which an operation goes around the ring.
const RING_SHARE: usize = 16 << 10;

/// Added to the steps of a broadcast that follows a reduction in the same operation.
const BROADCAST_STEP: u32 = 1 << 31;

/// One operation of a communicator.
pub(super) struct Round<'a> {
    pub communicator: &'a Communicator,
    pub lane: Lane,
    pub sequence: u64,
}

/// The function and the type of a reduction.
#[derive(Clone, Copy)]
struct Combine {
    element: Element,
    reduction: Reduction,
}

impl Combine {
    fn apply(self, target: &mut [u8], other: &[u8]) {
        combine(self.element, self.reduction, target, other);
    }
}

impl Round<'_> {
    fn rank(&self) -> usize {
        self.communicator.rank() as usize
    }

    fn count(&self) -> usize {
        self.communicator.count() as usize
    }

    /// Rank `distance` above or, negative, below this one, around the ring.
    fn neighbour(&self, distance: isize) -> usize {
        (self.rank() as isize + distance).rem_euclid(self.count() as isize) as usize
    }

    fn key(&self, source: u32, step: u32) -> Key {
        let (_, context, _) = self.communicator.route();
        Key { lane: self.lane, source, context, sequence: self.sequence, step, part: 0 }
    }

    fn send(&self, target: usize, step: u32, bytes: &[u8]) -> Result<()> {
        let (world, _, members) = self.communicator.route();
        world.send(members[target], self.key(world.rank, step), bytes)
    }

    fn receive(&self, source: usize, step: u32, length: usize) -> Result<Vec<u8>> {
        let (world, _, members) = self.communicator.route();
        world.receive(self.key(members[source], step), length, members)
    }

    /// Performs the operation of `plan`, from the bytes `send`.
    pub fn perform(&self, plan: &Plan, send: Vec<u8>) -> Result<Vec<u8>> {
        let operation = plan.operation;
        let combine = || -> Result<Combine> {
            let reduction =
                operation.reduction.ok_or_else(|| status!(INVALID_ARGUMENT, "a reduction without a function"))?;
            Ok(Combine { element: operation.element, reduction })
        };
        match operation.kind {
            Kind::AllGather => self.all_gather_blocks(send),
            Kind::AllReduce => self.all_reduce(combine()?, send),
            Kind::AllToAll => self.all_to_all(&send),
            Kind::Broadcast { root } => {
                let is_root = root as usize == self.rank();
                let length = if is_root { plan.send } else { plan.receive };
                let data = self.broadcast(root as usize, send, length, 0)?;
                Ok(if is_root { Vec::new() } else { data })
            }
            Kind::Reduce { root } => {
                let combine = combine()?;
                let mut data = self.reduce(root as usize, combine, send)?.unwrap_or_default();
                finish(combine.element, combine.reduction, &mut data, self.communicator.count());
                Ok(data)
            }
            Kind::ReduceScatter => {
                let combine = combine()?;
                let mut data = send;
                let blocks = Blocks::of_length(plan.receive);
                self.ring_reduce(combine, &mut data, &blocks)?;
                let mut own = data[blocks.range(self.rank())].to_vec();
                finish(combine.element, combine.reduction, &mut own, self.communicator.count());
                Ok(own)
            }
            Kind::Send { target } => {
                self.send_message(target, &send)?;
                Ok(Vec::new())
            }
            Kind::Receive { source } => self.receive_message(source, plan.receive),
            Kind::SendReceive { target, source } => {
                if let Some(target) = target {
                    self.send_message(target, &send)?;
                }
                source.map_or_else(|| Ok(vec![0; plan.receive]), |source| self.receive_message(source, plan.receive))
            }
        }
    }

    /// Sends a message to one rank. Messages between two ranks have numbers of their own, because the other ranks know
    /// nothing of them.
    fn send_message(&self, target: u32, bytes: &[u8]) -> Result<()> {
        let sequence = self.communicator.next_message(target, true);
        Round { sequence, ..*self }.send(target as usize, 0, bytes)
    }

    fn receive_message(&self, source: u32, length: usize) -> Result<Vec<u8>> {
        let sequence = self.communicator.next_message(source, false);
        Round { sequence, ..*self }.receive(source as usize, 0, length)
    }

    /// The `length` bytes of `root`, which `data` has there, along a binomial tree.
    pub fn broadcast(&self, root: usize, data: Vec<u8>, length: usize, first_step: u32) -> Result<Vec<u8>> {
        let count = self.count();
        let place = (self.rank() + count - root) % count;
        let rank_at = |place: usize| (place + root) % count;
        // The distance to the parent; the root has none above it.
        let own = if place == 0 { count.next_power_of_two() } else { place & place.wrapping_neg() };
        let data = if place == 0 { data } else { self.receive(rank_at(place - own), first_step + own as u32, length)? };
        let mut distance = own >> 1;
        while distance > 0 {
            if place + distance < count {
                self.send(rank_at(place + distance), first_step + distance as u32, &data)?;
            }
            distance >>= 1;
        }
        Ok(data)
    }

    /// Reduces to `root` along a binomial tree; the result there, nothing elsewhere.
    fn reduce(&self, root: usize, combine: Combine, mut data: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let count = self.count();
        let place = (self.rank() + count - root) % count;
        let rank_at = |place: usize| (place + root) % count;
        let mut distance = 1;
        while distance < count {
            if place & distance != 0 {
                self.send(rank_at(place - distance), distance as u32, &data)?;
                return Ok(None);
            }
            if place + distance < count {
                let other = self.receive(rank_at(place + distance), distance as u32, data.len())?;
                combine.apply(&mut data, &other);
            }
            distance <<= 1;
        }
        Ok(Some(data))
    }

    fn all_reduce(&self, combine: Combine, mut data: Vec<u8>) -> Result<Vec<u8>> {
        let (length, count) = (data.len(), self.count());
        let finish = |data: &mut [u8]| finish(combine.element, combine.reduction, data, count as u32);
        if length / count < RING_SHARE {
            let mut reduced = self.reduce(0, combine, data)?.unwrap_or_default();
            finish(&mut reduced);
            return self.broadcast(0, reduced, length, BROADCAST_STEP);
        }
        let blocks = Blocks::of_elements(length, combine.element.size(), count);
        self.ring_reduce(combine, &mut data, &blocks)?;
        finish(&mut data[blocks.range(self.rank())]);
        self.ring_gather(&mut data, &blocks, count as u32)?;
        Ok(data)
    }

    /// Reduces block `rank` of `data` over all ranks, around the ring. The other blocks are left half reduced.
    fn ring_reduce(&self, combine: Combine, data: &mut [u8], blocks: &Blocks) -> Result<()> {
        for step in 0..self.count() - 1 {
            let (out, into) = (self.neighbour(-1 - step as isize), self.neighbour(-2 - step as isize));
            self.send(self.neighbour(1), step as u32, &data[blocks.range(out)])?;
            let target = &mut data[blocks.range(into)];
            let other = self.receive(self.neighbour(-1), step as u32, target.len())?;
            combine.apply(target, &other);
        }
        Ok(())
    }

    /// Fills all blocks of `data` from the ranks that have them, around the ring.
    fn ring_gather(&self, data: &mut [u8], blocks: &Blocks, first_step: u32) -> Result<()> {
        for step in 0..self.count() - 1 {
            let (out, into) = (self.neighbour(-(step as isize)), self.neighbour(-1 - step as isize));
            self.send(self.neighbour(1), first_step + step as u32, &data[blocks.range(out)])?;
            let target = &mut data[blocks.range(into)];
            let other = self.receive(self.neighbour(-1), first_step + step as u32, target.len())?;
            target.copy_from_slice(&other);
        }
        Ok(())
    }

    /// The blocks of all ranks, of the same length, by rank.
    pub fn all_gather_blocks(&self, own: Vec<u8>) -> Result<Vec<u8>> {
        let (length, count, rank) = (own.len(), self.count(), self.rank());
        if length >= RING_SHARE {
            let blocks = Blocks::of_length(length);
            let mut data = vec![0; length * count];
            data[blocks.range(rank)].copy_from_slice(&own);
            self.ring_gather(&mut data, &blocks, 0)?;
            return Ok(data);
        }
        // Each step doubles the blocks that a rank has, from its own on (Bruck).
        let (mut data, mut blocks) = (own, 1);
        while blocks < count {
            let more = blocks.min(count - blocks);
            let distance = blocks as isize;
            self.send(self.neighbour(-distance), blocks as u32, &data[..more * length])?;
            data.extend(self.receive(self.neighbour(distance), blocks as u32, more * length)?);
            blocks += more;
        }
        data.rotate_right(rank * length);
        Ok(data)
    }

    fn all_to_all(&self, send: &[u8]) -> Result<Vec<u8>> {
        let (count, rank) = (self.count(), self.rank());
        let blocks = Blocks::of_length(send.len() / count);
        let mut data = vec![0; send.len()];
        data[blocks.range(rank)].copy_from_slice(&send[blocks.range(rank)]);
        for step in 1..count {
            let (target, source) = (self.neighbour(step as isize), self.neighbour(-(step as isize)));
            self.send(target, step as u32, &send[blocks.range(target)])?;
            let block = self.receive(source, step as u32, send.len() / count)?;
            data[blocks.range(source)].copy_from_slice(&block);
        }
        Ok(data)
    }
}

/// The division of bytes into a block for each rank.
struct Blocks {
    /// Bytes of a unit that is not divided.
    unit: usize,
    /// Units of every block.
    units: usize,
    /// The number of blocks, the first ones, with a unit more.
    longer: usize,
}

impl Blocks {
    /// Blocks of `length` bytes.
    fn of_length(length: usize) -> Self {
        Self { unit: 1, units: length, longer: 0 }
    }

    /// `count` blocks of nearly the same number of elements of `size` bytes, `length` bytes in all.
    fn of_elements(length: usize, size: usize, count: usize) -> Self {
        let elements = length / size;
        Self { unit: size, units: elements / count, longer: elements % count }
    }

    fn range(&self, block: usize) -> Range<usize> {
        let start = |block: usize| self.unit * (self.units * block + self.longer.min(block));
        start(block)..start(block + 1)
    }
}

#[cfg(test)]
#[path = "algorithms_test.rs"]
mod tests;

#[cfg(test)]
#[path = "scale_test.rs"]
mod scale;
