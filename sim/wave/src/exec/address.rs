// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Addresses of vector memory instructions.

use crate::fault::FaultKind;
use crate::program::{MicroOp, SrcKind};
use crate::wave::{Group, PRIVATE_APERTURE, SHARED_APERTURE, Stop, Wave, collect};

/// Active lanes by what their addresses lead to.
pub(super) struct Lanes {
    /// Host memory, all bytes of the access.
    pub host: u64,
    /// Host memory up to [`Wave::room`] bytes only: what is beyond reads zero and is not written.
    pub beyond: u64,
    /// LDS or scratch, through an aperture.
    pub local: u64,
}

/// A kind of vector memory instruction.
pub(super) trait Space {
    /// Computes [`Wave::addresses`] of an access of `size` bytes.
    fn addresses<const L: usize>(
        wave: &mut Wave<L>,
        group: &Group<'_>,
        op: &MicroOp<L>,
        size: u32,
    ) -> Result<Lanes, Stop>;
}

/// `global_*`: a 64-bit address, or an SGPR base and a 32-bit offset.
pub(super) struct Global;

impl Space for Global {
    #[inline(always)]
    fn addresses<const L: usize>(wave: &mut Wave<L>, _: &Group<'_>, op: &MicroOp<L>, _: u32) -> Result<Lanes, Stop> {
        compute(wave, op);
        Ok(Lanes { host: wave.exec() & Wave::<L>::LANES, beyond: 0, local: 0 })
    }
}

/// Vector address, scalar address and offset of a global or flat access.
#[inline(always)]
fn compute<const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>) {
    let offset = i64::from(op.mem.offset) as u64;
    let [vector, _, scalar, _] = &op.src;
    if scalar.kind == SrcKind::None {
        let (low, high) = (&wave.v[vector.reg as usize], &wave.v[vector.reg as usize + 1]);
        for i in 0..L {
            wave.addresses[i] = (u64::from(low.0[i]) | u64::from(high.0[i]) << 32).wrapping_add(offset);
        }
        return;
    }
    let base = wave.s64(scalar).wrapping_add(offset);
    if vector.kind == SrcKind::None {
        wave.addresses = [base; L];
        return;
    }
    let offsets = &wave.v[vector.reg as usize];
    for i in 0..L {
        wave.addresses[i] = base.wrapping_add(u64::from(offsets.0[i]));
    }
}

/// `flat_*`: the apertures of LDS and scratch lie in the address space.
pub(super) struct Flat;

impl Space for Flat {
    #[inline(always)]
    fn addresses<const L: usize>(wave: &mut Wave<L>, _: &Group<'_>, op: &MicroOp<L>, _: u32) -> Result<Lanes, Stop> {
        compute(wave, op);
        let mut local = 0;
        for i in 0..L {
            let high = (wave.addresses[i] >> 32) as u32;
            local |= u64::from(high == SHARED_APERTURE || high == PRIVATE_APERTURE) << i;
        }
        let exec = wave.exec() & Wave::<L>::LANES;
        Ok(Lanes { host: exec & !local, beyond: 0, local: exec & local })
    }
}

/// `scratch_*`: an offset in the lane's private segment, the sum of a VGPR, an SGPR and an immediate.
pub(super) struct Scratch;

impl Space for Scratch {
    #[inline(always)]
    fn addresses<const L: usize>(wave: &mut Wave<L>, _: &Group<'_>, op: &MicroOp<L>, _: u32) -> Result<Lanes, Stop> {
        let [vector, _, scalar, _] = &op.src;
        let base = if scalar.kind == SrcKind::None { 0 } else { i64::from(wave.s32(scalar)) };
        let base = (base + i64::from(op.mem.offset)).wrapping_add((u64::from(PRIVATE_APERTURE) << 32) as i64);
        for i in 0..L {
            let offset = if vector.kind == SrcKind::None { 0 } else { wave.v[vector.reg as usize].0[i] };
            wave.addresses[i] = (base + i64::from(offset)) as u64;
        }
        Ok(Lanes { host: 0, beyond: 0, local: wave.exec() & Wave::<L>::LANES })
    }
}

/// `buffer_*`: a resource descriptor in four SGPRs (RDNA3 ISA, table "Buffer resource descriptor").
pub(super) struct Buffer;

/// What `OOB_SELECT` of a descriptor compares.
mod bounds {
    /// Index against the records, offset against the stride.
    pub const STRUCTURED: u32 = 0;
    /// Index against the records.
    pub const INDEX: u32 = 1;
    /// Only a buffer without records is out of bounds.
    pub const EMPTY: u32 = 2;
}

impl Space for Buffer {
    #[inline(always)]
    fn addresses<const L: usize>(wave: &mut Wave<L>, _: &Group<'_>, op: &MicroOp<L>, size: u32) -> Result<Lanes, Stop> {
        let [vector, _, resource, scalar] = &op.src;
        let slot = resource.reg as usize;
        let word1 = wave.s[slot + 1];
        let records = wave.s[slot + 2];
        let word3 = wave.s[slot + 3];
        let swizzled = word1 >> 30 != 0;
        let thread_id_enabled = word3 >> 23 & 1 != 0;
        if swizzled || thread_id_enabled || op.mem.tfe {
            let what = "buffer access with swizzle, thread id or texture-fail enable";
            return Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what.to_owned()))));
        }
        let stride = word1 >> 16 & 0x3fff;
        let base = wave.slot64(slot) & 0xffff_ffff_ffff;
        let base = base + u64::from(wave.s32(scalar));
        let immediate = op.mem.offset as u32;
        let exec = wave.exec() & Wave::<L>::LANES;
        if stride == 0 && word3 >> 28 & 3 == 3 && op.mem.offen && !op.mem.idxen {
            // Raw buffers, the only kind compilers make.
            let offsets = &wave.v[vector.reg as usize];
            let limit = i64::from(records) - i64::from(size) - i64::from(immediate);
            let base = base + u64::from(immediate);
            let mut inside = crate::wave::Row::<L>::ZERO;
            for i in 0..L {
                wave.addresses[i] = base + u64::from(offsets.0[i]);
                inside.0[i] = u32::from(i64::from(offsets.0[i]) <= limit).wrapping_neg();
            }
            let inside = collect(&inside) & exec;
            if inside != exec {
                for i in 0..L {
                    wave.room.0[i] = records.saturating_sub(offsets.0[i]).saturating_sub(immediate);
                }
            }
            return Ok(Lanes { host: inside, beyond: exec & !inside, local: 0 });
        }
        general(wave, op, base, stride, records, size)
    }
}

/// Buffers with a stride, an index, or without a vector offset.
#[inline(never)]
fn general<const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    base: u64,
    stride: u32,
    records: u32,
    size: u32,
) -> Result<Lanes, Stop> {
    let register = op.src[0].reg as usize;
    let select = wave.s[op.src[2].reg as usize + 3] >> 28 & 3;
    let exec = wave.exec() & Wave::<L>::LANES;
    let mut inside = 0;
    for i in 0..L {
        let index = if op.mem.idxen { wave.v[register].0[i] } else { 0 };
        let offset_register = register + usize::from(op.mem.idxen);
        let offset =
            if op.mem.offen { u64::from(wave.v[offset_register].0[i]) } else { 0 } + u64::from(op.mem.offset as u32);
        let total = u64::from(index) * u64::from(stride) + offset;
        wave.addresses[i] = base + total;
        let room = match select {
            bounds::STRUCTURED if index >= records => 0,
            bounds::STRUCTURED if stride != 0 => u64::from(stride).saturating_sub(offset),
            bounds::INDEX if index >= records => 0,
            bounds::EMPTY if records == 0 => 0,
            bounds::STRUCTURED | bounds::INDEX | bounds::EMPTY => u64::from(u32::MAX),
            _ => u64::from(records).saturating_sub(total),
        };
        wave.room.0[i] = room.min(u64::from(u32::MAX)) as u32;
        inside |= u64::from(wave.room.0[i] >= size) << i;
    }
    Ok(Lanes { host: exec & inside, beyond: exec & !inside, local: 0 })
}
