// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! gfx1250's tensor data mover: tiles of tensors between memory and LDS, as a descriptor in scalar registers says
//! (CDNA5 ISA 10.11). EXEC does not count. Transfers complete at once.

use super::lds::arrived;
use crate::fault::{Access, FaultKind};
use crate::hardware::slot;
use crate::micro_op::{Handler, MicroOp, Step, Stop};
use crate::operand::{Src, SrcKind};
use crate::wave::{Group, Wave};
use sim_isa::Op;

/// The handler of a tensor op.
pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    match op {
        Op::TensorLoadToLds => Some(|wave, group, op| transfer(wave, group, op, false)),
        Op::TensorStoreFromLds => Some(|wave, group, op| transfer(wave, group, op, true)),
        _ => None,
    }
}

/// The dimensions of a tensor and of the tile in it, the nearest in memory first.
const DIMENSIONS: usize = 5;

/// A descriptor. Sizes and strides are in elements.
struct Descriptor {
    lds: u32,
    memory: u64,
    /// Bytes of an element.
    element: u64,
    tile: [u64; DIMENSIONS],
    tensor: [u64; DIMENSIONS],
    /// Strides: distance from one line to the next of each dimension.
    stride: [u64; DIMENSIONS],
    /// Bytes in LDS between which, and of which, padding is.
    padding: Option<(u64, u32)>,
    /// Number of times the tile is moved, and the increment of both addresses after each time.
    repeats: u64,
    lds_step: u32,
    memory_step: u64,
    /// The lines of dimension 1 that are moved, in place of one after the other.
    rows: Option<Vec<u64>>,
}

/// The barrier in LDS at which a transfer arrives when it is complete, if it does: its address is in units of eight
/// bytes (Triton, `fillTDMDescriptor`).
fn barrier<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>) -> Option<usize> {
    let [head]: [u64; 1] = group_of(wave, &op.src[0]);
    let near: [u64; 2] = group_of(wave, &op.src[1]);
    (head & 3 != 0 && near[0] >> 18 & 1 != 0).then_some((near[1] as usize & 0xffff) * 8)
}

/// Consecutive scalar registers. A missing part reads as zeros.
fn group_of<const N: usize, const L: usize>(wave: &Wave<L>, src: &Src) -> [u64; N] {
    std::array::from_fn(|i| match src.kind {
        SrcKind::Scalar if usize::from(src.reg) != slot::NULL => wave.s[usize::from(src.reg) + i].into(),
        _ => 0,
    })
}

impl Descriptor {
    /// Reads a descriptor; `None` if there is nothing to do.
    fn read<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>) -> Result<Option<Self>, Stop> {
        let head: [u64; 4] = group_of(wave, &op.src[0]);
        let near: [u64; 8] = group_of(wave, &op.src[1]);
        let [far, farthest]: [[u64; 4]; 2] = [group_of(wave, &op.src[2]), group_of(wave, &op.src[3])];
        // The mask of the cluster's workgroups that get the tile, in the lowest bits of `near`, counts for none here.
        let gathers = head[0] >> 31 != 0;
        let (iterates, pads) = (near[0] >> 19 & 1 != 0 && !gathers, near[0] >> 20 & 1 != 0);
        let refused = [
            (head[0] & 3 > 1 || head[0] & 0xc != 0, "a descriptor of a context switch"),
            (head[3] >> 30 != 2, "a descriptor of another type than 2"),
        ];
        if let Some((_, what)) = refused.iter().find(|(is, _)| *is && head[0] & 3 != 0) {
            return Err(unimplemented(format!("tensor transfers with {what}")));
        }
        let tile_0 = near[3] >> 16;
        if head[0] & 3 == 0 || tile_0 == 0 {
            return Ok(None);
        }
        // 32 bits from bit 16 of one register on.
        let across = |low: u64, high: u64| low >> 16 | (high & 0xffff) << 16;
        let mut descriptor = Descriptor {
            lds: head[1] as u32,
            memory: head[2] | (head[3] & 0x1ff_ffff) << 32,
            element: 1 << (near[0] >> 16 & 3),
            tile: [tile_0, near[4] & 0xffff, near[4] >> 16, far[3] >> 16, farthest[2] >> 16],
            tensor: [
                across(near[1], near[2]),
                across(near[2], near[3]),
                far[0],
                far[1],
                across(farthest[1], farthest[2]),
            ],
            stride: [
                1,
                near[5] | (near[6] & 0xffff) << 32,
                near[6] >> 16 | near[7] << 16,
                far[2] | (far[3] & 0xffff) << 32,
                farthest[0] | (farthest[1] & 0xffff) << 32,
            ],
            padding: pads.then_some((8 << (near[0] >> 22 & 7), 4 * ((near[0] >> 25) as u32 + 1))),
            repeats: 1,
            lds_step: 0,
            memory_step: 0,
            rows: None,
        };
        if gathers {
            let list: Vec<u64> = far.into_iter().chain(farthest).collect();
            let rows: Vec<u64> = match head[0] >> 30 & 1 {
                1 => list,
                _ => list.iter().flat_map(|pair| [pair & 0xffff, pair >> 16]).collect(),
            };
            let count = descriptor.tile[1] as usize;
            let Some(rows) = rows.get(..count) else {
                return Err(unimplemented(format!("tensor transfers of {count} rows by their numbers")));
            };
            descriptor.rows = Some(rows.to_vec());
            descriptor.tile[2..].fill(0);
        } else if iterates {
            descriptor.repeats = (far[3] >> 16) + 1;
            descriptor.lds_step = (far[1] * descriptor.element) as u32;
            descriptor.memory_step = (far[2] | (far[3] & 0xffff) << 32) * descriptor.element;
            descriptor.tile[3..].fill(0);
        }
        Ok(Some(descriptor))
    }

    /// Where in memory, in elements from the tile's start, the line at `at` is; `None` if it is outside the tensor.
    /// Dimensions that the tile does not have count for nothing.
    fn line(&self, at: [u64; DIMENSIONS]) -> Option<u64> {
        let mut place = 0u64;
        for d in 1..DIMENSIONS {
            let index = match (&self.rows, d) {
                (Some(rows), 1) => rows[at[1] as usize],
                _ => at[d],
            };
            if self.tile[d] != 0 && index >= self.tensor[d] {
                return None;
            }
            place = place.wrapping_add(index.wrapping_mul(self.stride[d]));
        }
        Some(place)
    }
}

fn transfer<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>, stores: bool) -> Step {
    copy(wave, group, op, stores)?;
    if let Some(state) =
        barrier(wave, op).and_then(|at| group.lds.get_mut(at..at + 8)).and_then(|s| s.first_chunk_mut())
    {
        *state = arrived(u64::from_le_bytes(*state), 1).to_le_bytes();
    }
    Ok(())
}

/// Moves the tile.
fn copy<const L: usize>(wave: &Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>, stores: bool) -> Step {
    let Some(descriptor) = Descriptor::read(wave, op)? else { return Ok(()) };
    let element = descriptor.element as usize;
    let padding = descriptor.padding.filter(|_| !stores);
    let [_, n1, n2, n3, n4] = descriptor.tile.map(|size| size.max(1));
    for repeat in 0..descriptor.repeats {
        let mut lds = descriptor.lds.wrapping_add((repeat as u32).wrapping_mul(descriptor.lds_step));
        let memory = descriptor.memory.wrapping_add(repeat.wrapping_mul(descriptor.memory_step));
        let mut since_padding = 0;
        for line in 0..n1 * n2 * n3 * n4 {
            let at = [0, line % n1, line / n1 % n2, line / (n1 * n2) % n3, line / (n1 * n2 * n3)];
            let start = descriptor.line(at);
            for x in 0..descriptor.tile[0] {
                let address = start
                    .filter(|_| x < descriptor.tensor[0])
                    .map(|start| memory.wrapping_add(start.wrapping_add(x).wrapping_mul(descriptor.element)));
                // Elements outside of the tensor are not stored, so they need no LDS: Triton leaves out the padding of
                // the last line of a tile.
                if address.is_some() || !stores {
                    move_element(group, address, (lds, element), stores)?;
                }
                lds = lds.wrapping_add(element as u32);
                since_padding += descriptor.element;
                if let Some((interval, amount)) = padding
                    && since_padding >= interval
                {
                    since_padding = 0;
                    lds = lds.wrapping_add(amount);
                }
            }
        }
    }
    Ok(())
}

/// Moves an element between `address`, which a load may lack, and LDS.
fn move_element(group: &mut Group<'_>, address: Option<u64>, (lds, element): (u32, usize), stores: bool) -> Step {
    let (limit, size) = (group.lds.len() as u32, element as u32);
    let access = if stores { Access::Read } else { Access::Write };
    let Some(local) = group.lds.get_mut(lds as usize..lds as usize + element) else {
        return Err(Stop::Fault(Box::new(FaultKind::LdsOutOfBounds {
            offset: lds.into(),
            size,
            limit,
            access,
            lane: 0,
        })));
    };
    match (address, stores) {
        (Some(address), true) => {
            let host = group.memory.check(address, size, Access::Write, 0)?;
            // SAFETY: `check` found the element's bytes writable; LDS is the simulator's own memory.
            unsafe { std::ptr::copy_nonoverlapping(local.as_ptr(), host as *mut u8, element) };
        }
        (Some(address), false) => {
            let host = group.memory.check(address, size, Access::Read, 0)?;
            // SAFETY: `check` found the element's bytes readable; LDS is the simulator's own memory.
            unsafe { std::ptr::copy_nonoverlapping(host as *const u8, local.as_mut_ptr(), element) };
        }
        (None, true) => {}
        (None, false) => local.fill(0),
    }
    Ok(())
}

fn unimplemented(what: String) -> Stop {
    Stop::Fault(Box::new(FaultKind::NotImplemented(what)))
}
