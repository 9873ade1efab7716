// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Addresses of vector memory instructions.

use super::lanes::each_lane;
use crate::fault::FaultKind;
use crate::hardware::{FLAT_SCRATCH_BASE, PRIVATE_APERTURE, PRIVATE_BUFFER_BASE, SHARED_APERTURE};
use crate::micro_op::{MicroOp, Stop};
use crate::operand::SrcKind;
use crate::wave::{Group, Row, Wave};
use sim_isa::Target;

/// Active lanes by the target of their addresses.
pub(super) struct Lanes {
    /// Host memory, all bytes of the access.
    pub host: u64,
    /// Host memory up to [`Wave::room`] bytes only: bytes beyond read as zero and are not written.
    pub beyond: u64,
    /// LDS or scratch, through an aperture.
    pub local: u64,
    /// Lowest and highest address of the host lanes, if there are any.
    pub span: (u64, u64),
}

impl Lanes {
    /// Only host lanes, anywhere.
    pub(super) fn host<const L: usize>(wave: &Wave<L>, lanes: u64) -> Self {
        let (mut first, mut last) = (u64::MAX, 0);
        for lane in each_lane(lanes) {
            first = first.min(wave.addresses[lane]);
            last = last.max(wave.addresses[lane]);
        }
        Lanes { host: lanes, beyond: 0, local: 0, span: (first, last) }
    }
}

/// Adds a base to 32-bit sums of offsets. Returns the lowest and highest sum of the lanes in `mask`.
#[inline(always)]
fn add_offsets<const L: usize>(
    addresses: &mut [u64; L],
    base: u64,
    (offsets, immediate): (&Row<L>, u32),
    mask: &Row<L>,
) -> (u32, u32) {
    for (address, &offset) in addresses.iter_mut().zip(&offsets.0) {
        *address = base.wrapping_add(u64::from(offset.wrapping_add(immediate)));
    }
    let (mut first, mut last) = (u32::MAX, 0);
    for (&offset, &mask) in offsets.0.iter().zip(&mask.0) {
        let offset = offset.wrapping_add(immediate);
        first = first.min(offset | !mask);
        last = last.max(offset & mask);
    }
    (first, last)
}

/// Addresses as the sum of a base and 32-bit offsets, which are a register's lanes plus an immediate, wrapping around.
pub(super) struct Offsets {
    pub base: u64,
    pub register: usize,
    pub immediate: u32,
    /// Bytes from the base on that can be accessed.
    pub limit: u64,
    /// The access counts in [`Wave::global_accesses`].
    pub is_global: bool,
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

    /// The access' addresses as a base and offsets, if they are of this kind. Does not change the wave.
    #[inline(always)]
    fn offsets<const L: usize>(_: &Wave<L>, _: &Group<'_>, _: &MicroOp<L>) -> Option<Offsets> {
        None
    }
}

/// [`Space::addresses`] for accesses that are not worth a copy of it.
#[inline(never)]
pub(super) fn addresses<S: Space, const L: usize>(
    wave: &mut Wave<L>,
    group: &Group<'_>,
    op: &MicroOp<L>,
    size: u32,
) -> Result<Lanes, Stop> {
    S::addresses(wave, group, op, size)
}

/// `global_*`: a 64-bit address, or an SGPR base and a 32-bit offset.
pub(super) struct Global;

impl Space for Global {
    #[inline(always)]
    fn addresses<const L: usize>(
        wave: &mut Wave<L>,
        group: &Group<'_>,
        op: &MicroOp<L>,
        size: u32,
    ) -> Result<Lanes, Stop> {
        let span = compute(wave, group, op, size);
        let lanes = wave.exec() & Wave::<L>::LANES;
        Ok(match span {
            Some(span) => Lanes { host: lanes, beyond: 0, local: 0, span },
            None => Lanes::host(wave, lanes),
        })
    }

    #[inline(always)]
    fn offsets<const L: usize>(wave: &Wave<L>, group: &Group<'_>, op: &MicroOp<L>) -> Option<Offsets> {
        let [vector, _, scalar, _] = &op.src;
        let register = vector.reg as usize;
        if vector.kind != SrcKind::Vgpr {
            return None;
        }
        let base = if scalar.kind == SrcKind::None {
            // Addresses with the upper half in common.
            let high = &wave.v[register + 1];
            let upper = high.0[(wave.exec().trailing_zeros() as usize).min(L - 1)];
            let mut differ = 0;
            for (&high, &mask) in high.0.iter().zip(&wave.mask.0) {
                differ |= (high ^ upper) & mask;
            }
            if differ != 0 {
                return None;
            }
            u64::from(upper) << 32
        } else if group.target == Target::Gfx1250 {
            // Its offsets have a sign.
            return None;
        } else {
            wave.s64(scalar)
        };
        let base = base.wrapping_add_signed(op.mem.offset.into());
        Some(Offsets { base, register, immediate: 0, limit: u64::MAX, is_global: true })
    }
}

/// Vector address, scalar address and offset of a global or flat access. Returns the span of the active lanes where
/// that is cheap.
#[inline(always)]
fn compute<const L: usize>(wave: &mut Wave<L>, group: &Group<'_>, op: &MicroOp<L>, size: u32) -> Option<(u64, u64)> {
    wave.global_accesses += 1;
    let offset = i64::from(op.mem.offset) as u64;
    let [vector, _, scalar, _] = &op.src;
    if scalar.kind == SrcKind::None {
        let (low, high) = (&wave.v[vector.reg as usize], &wave.v[vector.reg as usize + 1]);
        for i in 0..L {
            wave.addresses[i] = (u64::from(low.0[i]) | u64::from(high.0[i]) << 32).wrapping_add(offset);
        }
        return None;
    }
    let base = wave.s64(scalar).wrapping_add(offset);
    if vector.kind == SrcKind::None {
        wave.addresses = [base; L];
        return Some((base, base));
    }
    let offsets = &wave.v[vector.reg as usize];
    if group.target == Target::Gfx1250 {
        // Its offsets have a sign.
        let scale = scale(op, size);
        for (address, &offset) in wave.addresses.iter_mut().zip(&offsets.0) {
            *address = base.wrapping_add_signed(i64::from(offset as i32) * scale);
        }
        return None;
    }
    let (first, last) = add_offsets(&mut wave.addresses, base, (offsets, 0), &wave.mask);
    // An address may wrap around; then the lanes are looked at one by one.
    let last = base.checked_add(u64::from(last))?;
    Some((base.wrapping_add(u64::from(first)), last))
}

/// Unit of an offset in a register, in bytes.
fn scale<const L: usize>(op: &MicroOp<L>, size: u32) -> i64 {
    if op.mem.scale_offset { size.into() } else { 1 }
}

/// `global_*_addtid_*`: an SGPR base and four bytes for each lane (RDNA3 ISA, GLOBAL_LOAD_ADDTID_B32).
pub(super) struct ByLane;

impl Space for ByLane {
    #[inline(always)]
    fn addresses<const L: usize>(wave: &mut Wave<L>, _: &Group<'_>, op: &MicroOp<L>, _: u32) -> Result<Lanes, Stop> {
        wave.global_accesses += 1;
        let base = if op.src[2].kind == SrcKind::None { 0 } else { wave.s64(&op.src[2]) };
        let base = base.wrapping_add_signed(op.mem.offset.into());
        wave.addresses = std::array::from_fn(|lane| base.wrapping_add(4 * lane as u64));
        let lanes = wave.exec() & Wave::<L>::LANES;
        Ok(Lanes::host(wave, lanes))
    }
}

/// `flat_*`: the apertures of LDS and scratch lie in the address space.
pub(super) struct Flat;

impl Space for Flat {
    #[inline(always)]
    fn addresses<const L: usize>(
        wave: &mut Wave<L>,
        group: &Group<'_>,
        op: &MicroOp<L>,
        size: u32,
    ) -> Result<Lanes, Stop> {
        compute(wave, group, op, size);
        if group.target == Target::Gfx1250 {
            own_scratch(wave)?;
        }
        let mut local = 0;
        for i in 0..L {
            let high = (wave.addresses[i] >> 32) as u32;
            local |= u64::from(high == SHARED_APERTURE || high == PRIVATE_APERTURE) << i;
        }
        let exec = wave.exec() & Wave::<L>::LANES;
        Ok(Lanes { local: exec & local, ..Lanes::host(wave, exec & !local) })
    }
}

/// gfx1250: translates flat addresses of the lanes' own scratch to aperture addresses.
fn own_scratch<const L: usize>(wave: &mut Wave<L>) -> Result<(), Stop> {
    let exec = wave.exec();
    for (lane, address) in wave.addresses.iter_mut().enumerate() {
        let high = (*address >> 32) as u32;
        if high >> 26 != FLAT_SCRATCH_BASE >> 26 || exec >> lane & 1 == 0 {
            continue;
        }
        if high != FLAT_SCRATCH_BASE | (lane as u32) << 20 {
            return Err(unknown("flat access to another lane's scratch"));
        }
        *address = u64::from(PRIVATE_APERTURE) << 32 | u64::from(*address as u32);
    }
    Ok(())
}

/// `scratch_*`: an offset in the lane's private segment, the sum of a VGPR, an SGPR and an immediate. The registers are
/// signed from gfx12 on, unsigned before (LLVM, `GCNSubtarget::hasSignedScratchOffsets`).
pub(super) struct Scratch;

impl Space for Scratch {
    #[inline(always)]
    fn addresses<const L: usize>(
        wave: &mut Wave<L>,
        group: &Group<'_>,
        op: &MicroOp<L>,
        size: u32,
    ) -> Result<Lanes, Stop> {
        let [vector, _, scalar, _] = &op.src;
        let scale = scale(op, size);
        let is_signed = group.target.is_gfx12();
        let extend = |register: u32| if is_signed { i64::from(register as i32) } else { i64::from(register) };
        let base = if scalar.kind == SrcKind::None { 0 } else { extend(wave.s32(scalar)) };
        let base = (base + i64::from(op.mem.offset)).wrapping_add((u64::from(PRIVATE_APERTURE) << 32) as i64);
        for i in 0..L {
            let offset = if vector.kind == SrcKind::None { 0 } else { wave.v[vector.reg as usize].0[i] };
            wave.addresses[i] = (base + extend(offset) * scale) as u64;
        }
        Ok(Lanes { host: 0, beyond: 0, local: wave.exec() & Wave::<L>::LANES, span: (0, 0) })
    }
}

/// `buffer_*`: a resource descriptor in four SGPRs (RDNA3 and CDNA3 ISA, table "Buffer resource descriptor").
///
/// The offset that bounds are compared with is the 32-bit sum, wrapping around, of the VGPR and the immediate; the SGPR
/// is added to the address alone (LLVM's `IntrinsicsAMDGPU.td`: included in and excluded from bounds checking).
pub(super) struct Buffer;

/// Bounds check of a buffer access against the records: `OOB_SELECT` of a descriptor. GFX9 selects by the presence of
/// an index.
mod bounds {
    /// Index against the records, offset against the stride.
    pub const STRUCTURED: u32 = 0;
    /// Index against the records.
    pub const INDEX: u32 = 1;
    /// Only a buffer without records is out of bounds.
    pub const EMPTY: u32 = 2;
    /// Bytes against the records.
    pub const BYTES: u32 = 3;
}

impl Space for Buffer {
    #[inline(always)]
    fn addresses<const L: usize>(
        wave: &mut Wave<L>,
        group: &Group<'_>,
        op: &MicroOp<L>,
        size: u32,
    ) -> Result<Lanes, Stop> {
        let [vector, _, resource, scalar] = &op.src;
        let slot = resource.reg as usize;
        if group.target == Target::Gfx1250 {
            return wide(wave, op, size);
        }
        let word1 = wave.s[slot + 1];
        let records = wave.s[slot + 2];
        let word3 = wave.s[slot + 3];
        let (gfx9, before_gfx11) = (group.target.is_gfx9(), group.target.is_before_gfx11());
        // Before gfx11 there is only one bit for it; the other one concerns caches.
        let swizzled = word1 >> if before_gfx11 { 31 } else { 30 } != 0;
        let thread_id_enabled = word3 >> 23 & 1 != 0;
        if swizzled && thread_id_enabled && before_gfx11 && !op.mem.idxen && !op.mem.tfe && !op.mem.lds {
            return private(wave, op);
        }
        if swizzled || thread_id_enabled || op.mem.tfe {
            return Err(unknown("buffer access with swizzle, thread id or texture-fail enable"));
        }
        let stride = word1 >> 16 & 0x3fff;
        let base = wave.slot64(slot) & 0xffff_ffff_ffff;
        let base = base + u64::from(wave.s32(scalar));
        let immediate = op.mem.offset as u32;
        let exec = wave.exec() & Wave::<L>::LANES;
        let select = match (gfx9, op.mem.idxen && stride != 0) {
            (false, _) => word3 >> 28 & 3,
            (true, true) => bounds::INDEX,
            (true, false) => bounds::BYTES,
        };
        if (gfx9 || stride == 0) && select == bounds::BYTES && op.mem.offen && !op.mem.idxen {
            // Raw buffers, the only kind compilers make.
            let offsets = &wave.v[vector.reg as usize];
            let (first, last) = add_offsets(&mut wave.addresses, base, (offsets, immediate), &wave.mask);
            if u64::from(last) + u64::from(size) <= u64::from(records) {
                let span = (base + u64::from(first), base + u64::from(last));
                return Ok(Lanes { host: exec, beyond: 0, local: 0, span });
            }
            for (room, offset) in wave.room.0.iter_mut().zip(&offsets.0) {
                *room = records.saturating_sub(offset.wrapping_add(immediate));
            }
            return Ok(bounded(wave, size));
        }
        general(wave, op, base, stride, (select, records), size)
    }

    #[inline(always)]
    fn offsets<const L: usize>(wave: &Wave<L>, group: &Group<'_>, op: &MicroOp<L>) -> Option<Offsets> {
        let [vector, _, resource, scalar] = &op.src;
        let slot = resource.reg as usize;
        let [word1, records, word3] = [wave.s[slot + 1], wave.s[slot + 2], wave.s[slot + 3]];
        let (gfx9, before_gfx11) = (group.target.is_gfx9(), group.target.is_before_gfx11());
        let swizzled = word1 >> if before_gfx11 { 31 } else { 30 } != 0;
        let is_raw = if gfx9 { true } else { word1 >> 16 & 0x3fff == 0 && word3 >> 28 & 3 == bounds::BYTES };
        let thread_id_enabled = word3 >> 23 & 1 != 0;
        let is_plain = op.mem.offen && !op.mem.idxen && !op.mem.tfe && !swizzled && !thread_id_enabled;
        if !is_raw || !is_plain || group.target == Target::Gfx1250 {
            return None;
        }
        let base = (wave.slot64(slot) & 0xffff_ffff_ffff) + u64::from(wave.s32(scalar));
        let (register, immediate) = (vector.reg as usize, op.mem.offset as u32);
        Some(Offsets { base, register, immediate, limit: records.into(), is_global: false })
    }
}

#[cold]
pub(super) fn unknown(what: &str) -> Stop {
    Stop::Fault(Box::new(FaultKind::NotImplemented(what.to_owned())))
}

/// A buffer resource of gfx1250 (LLVM's `lowerPointerAsRsrcIntrin`).
pub(super) struct Wide {
    /// 57 bits.
    pub base: u64,
    /// 45 bits.
    pub records: u64,
    /// 14 bits; 2 more scale it.
    pub stride: u64,
}

impl Wide {
    /// The resource in the scalar slots from `slot` on.
    pub fn read<const L: usize>(wave: &Wave<L>, slot: usize) -> Result<Self, Stop> {
        let (low, high) = (wave.slot64(slot), wave.slot64(slot + 2));
        // The meaning of the four highest bits is not published.
        if high >> 60 != 0 || high >> 58 & 3 != 0 {
            return Err(unknown("gfx1250's buffer resources with flags or a scaled stride"));
        }
        let records = low >> 57 | (high & 0x3f_ffff_ffff) << 7;
        Ok(Wide { base: low & 0x1ff_ffff_ffff_ffff, records, stride: high >> 44 & 0x3fff })
    }
}

/// Offsets do not wrap around here (LLVM's `splitBufferOffsets`).
#[inline(never)]
fn wide<const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>, size: u32) -> Result<Lanes, Stop> {
    let [vector, _, resource, scalar] = &op.src;
    let Wide { base, records, stride } = Wide::read(wave, resource.reg as usize)?;
    if op.mem.tfe {
        return Err(unknown("buffer access with texture-fail enable"));
    }
    let base = base + u64::from(wave.s32(scalar));
    let register = vector.reg as usize;
    for i in 0..L {
        let index = if op.mem.idxen { u64::from(wave.v[register].0[i]) } else { 0 };
        let offset = if op.mem.offen { wave.v[register + usize::from(op.mem.idxen)].0[i] } else { 0 };
        let offset = u64::from(offset) + op.mem.offset as u64;
        wave.addresses[i] = base + index * stride + offset;
        let room = match stride {
            0 => records.saturating_sub(offset),
            _ if index < records => stride.saturating_sub(offset),
            _ => 0,
        };
        wave.room.0[i] = room.min(u64::from(u32::MAX)) as u32;
    }
    Ok(bounded(wave, size))
}

/// The resource that kernels before gfx11 have their scratch in: elements of four bytes are swizzled by lane, so that
/// 256 bytes (in wave32 128) of the scalar offset, or of an addend of the base, are four of each lane's own. The
/// sum of a lane's offsets wraps around at 32 bits (LLVM, `AMDGPUDAGToDAGISel::SelectMUBUFScratchOffen`, folds
/// immediates into negative ones where a target does not compare them with the records, as from GFX9 on).
#[inline(never)]
fn private<const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>) -> Result<Lanes, Stop> {
    let [vector, _, resource, scalar] = &op.src;
    let base = wave.slot64(resource.reg as usize) & 0xffff_ffff_ffff;
    let start = base.wrapping_sub(PRIVATE_BUFFER_BASE).wrapping_add(u64::from(wave.s32(scalar)));
    if !start.is_multiple_of(4 * L as u64) || start > u64::from(u32::MAX) {
        let what = format!("swizzled buffer access at {base:#x} plus {:#x}, which is not scratch", wave.s32(scalar));
        return Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what))));
    }
    let base = ((start / L as u64) as u32).wrapping_add(op.mem.offset as u32);
    for i in 0..L {
        let offset = if op.mem.offen { wave.v[vector.reg as usize].0[i] } else { 0 };
        wave.addresses[i] = u64::from(PRIVATE_APERTURE) << 32 | u64::from(base.wrapping_add(offset));
    }
    Ok(Lanes { host: 0, beyond: 0, local: wave.exec() & Wave::<L>::LANES, span: (0, 0) })
}

/// Buffers with a stride, an index, or without a vector offset.
#[inline(never)]
fn general<const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    base: u64,
    stride: u32,
    (select, records): (u32, u32),
    size: u32,
) -> Result<Lanes, Stop> {
    let register = op.src[0].reg as usize;
    for i in 0..L {
        let index = if op.mem.idxen { wave.v[register].0[i] } else { 0 };
        let offset_register = register + usize::from(op.mem.idxen);
        let offset = if op.mem.offen { wave.v[offset_register].0[i] } else { 0 };
        let offset = u64::from(offset.wrapping_add(op.mem.offset as u32));
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
    }
    Ok(bounded(wave, size))
}

/// Sorts the active lanes by whether [`Wave::room`] is enough for them.
#[inline(never)]
fn bounded<const L: usize>(wave: &Wave<L>, size: u32) -> Lanes {
    let exec = wave.exec() & Wave::<L>::LANES;
    let inside = (0..L).fold(0, |lanes, i| lanes | u64::from(wave.room.0[i] >= size) << i);
    Lanes { beyond: exec & !inside, ..Lanes::host(wave, exec & inside) }
}
