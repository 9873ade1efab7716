// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! LDS: loads, stores and atomics within the workgroup's group segment (RDNA3 ISA 16.13).

use super::access::{extend, place};
use super::atomic::{self, Operation, Rmw, Word, operand};
use super::lanes::{all_lanes, each_lane};
use super::level::{Exec, Level, select};
use super::span::{Place, Small, Span, move_small};
use super::transpose;
use crate::fault::{Access, FaultKind};
use crate::hardware::slot;
use crate::micro_op::{Handler, MicroOp, Step, Stop};
use crate::wave::{Group, Row, Wave};
use sim_isa::Op;

/// The handler of an LDS op.
pub(super) fn handler<const L: usize>(op: Op, level: Level) -> Option<Handler<L>> {
    use atomic::*;
    Some(match op {
        Op::DsLoadB32 => select::<Load<1>, L>(level),
        Op::DsLoadB64 => select::<Load<2>, L>(level),
        Op::DsLoadB96 => select::<Load<3>, L>(level),
        Op::DsLoadB128 => select::<Load<4>, L>(level),
        Op::DsStoreB32 => select::<Store<1>, L>(level),
        Op::DsStoreB64 => select::<Store<2>, L>(level),
        Op::DsStoreB96 => select::<Store<3>, L>(level),
        Op::DsStoreB128 => select::<Store<4>, L>(level),
        Op::DsLoad2addrB32 => select::<Load2<1, 1>, L>(level),
        Op::DsLoad2addrStride64B32 => select::<Load2<1, 64>, L>(level),
        Op::DsLoad2addrB64 => select::<Load2<2, 1>, L>(level),
        Op::DsLoad2addrStride64B64 => select::<Load2<2, 64>, L>(level),
        Op::DsStore2addrB32 => select::<Store2<1, 1>, L>(level),
        Op::DsStore2addrStride64B32 => select::<Store2<1, 64>, L>(level),
        Op::DsStore2addrB64 => select::<Store2<2, 1>, L>(level),
        Op::DsStore2addrStride64B64 => select::<Store2<2, 64>, L>(level),
        Op::DsLoadTr16B128 => transposed_tile::<16, 4, L>,
        Op::DsLoadTr16B64 => transposed_tile::<16, 2, L>,
        Op::DsLoadTr8B64 => transposed_tile::<8, 2, L>,
        Op::DsLoadTr6B96 => transposed_tile::<6, 3, L>,
        Op::DsLoadTr4B64 => transposed_tile::<4, 2, L>,
        Op::DsLoadU8 => load_small::<1, false, 0, L>,
        Op::DsLoadI8 => load_small::<1, true, 0, L>,
        Op::DsLoadU16 => load_small::<2, false, 0, L>,
        Op::DsLoadI16 => load_small::<2, true, 0, L>,
        Op::DsLoadU8D16 => load_small::<1, false, 1, L>,
        Op::DsLoadI8D16 => load_small::<1, true, 1, L>,
        Op::DsLoadU16D16 => load_small::<2, false, 1, L>,
        Op::DsLoadU8D16Hi => load_small::<1, false, 2, L>,
        Op::DsLoadI8D16Hi => load_small::<1, true, 2, L>,
        Op::DsLoadU16D16Hi => load_small::<2, false, 2, L>,
        Op::DsStoreB8 => store_small::<1, 0, L>,
        Op::DsStoreB16 => store_small::<2, 0, L>,
        Op::DsStoreB8D16Hi => store_small::<1, 16, L>,
        Op::DsStoreB16D16Hi => store_small::<2, 16, L>,
        Op::DsAddU32 | Op::DsAddRtnU32 => rmw::<Add32, L>,
        Op::DsSubU32 | Op::DsSubRtnU32 => rmw::<Sub32, L>,
        Op::DsRsubU32 | Op::DsRsubRtnU32 => rmw::<Rsub32, L>,
        Op::DsSubClampU32 | Op::DsSubClampRtnU32 => rmw::<Csub32, L>,
        Op::DsCondSubU32 | Op::DsCondSubRtnU32 => rmw::<CondSub32, L>,
        Op::DsIncU32 | Op::DsIncRtnU32 => rmw::<Inc32, L>,
        Op::DsDecU32 | Op::DsDecRtnU32 => rmw::<Dec32, L>,
        Op::DsMinI32 | Op::DsMinRtnI32 => rmw::<MinI32, L>,
        Op::DsMaxI32 | Op::DsMaxRtnI32 => rmw::<MaxI32, L>,
        Op::DsMinU32 | Op::DsMinRtnU32 => rmw::<MinU32, L>,
        Op::DsMaxU32 | Op::DsMaxRtnU32 => rmw::<MaxU32, L>,
        Op::DsAndB32 | Op::DsAndRtnB32 => rmw::<And32, L>,
        Op::DsOrB32 | Op::DsOrRtnB32 => rmw::<Or32, L>,
        Op::DsXorB32 | Op::DsXorRtnB32 => rmw::<Xor32, L>,
        Op::DsMskorB32 | Op::DsMskorRtnB32 => rmw::<Mskor32, L>,
        Op::DsCmpstoreB32 | Op::DsCmpstoreRtnB32 => rmw::<Cmpswap32, L>,
        Op::DsCmpstoreF32 | Op::DsCmpstoreRtnF32 => rmw::<CmpswapF32, L>,
        Op::DsMinF32 | Op::DsMinRtnF32 => rmw::<MinF32, L>,
        Op::DsMaxF32 | Op::DsMaxRtnF32 => rmw::<MaxF32, L>,
        Op::DsAddF32 | Op::DsAddRtnF32 => rmw::<AddF32, L>,
        Op::DsPkAddF16 | Op::DsPkAddRtnF16 => rmw::<PkAddF16, L>,
        Op::DsPkAddBf16 | Op::DsPkAddRtnBf16 => rmw::<PkAddBf16, L>,
        Op::DsAddF64 | Op::DsAddRtnF64 => rmw::<AddF64, L>,
        // GFX9 has the value to compare first.
        Op::DsCmpstB32 | Op::DsCmpstRtnB32 => rmw::<Swapped<Cmpswap32>, L>,
        Op::DsCmpstF32 | Op::DsCmpstRtnF32 => rmw::<Swapped<CmpswapF32>, L>,
        Op::DsCmpstB64 | Op::DsCmpstRtnB64 => rmw::<Swapped<Cmpswap64>, L>,
        Op::DsCmpstF64 | Op::DsCmpstRtnF64 => rmw::<Swapped<CmpswapF64>, L>,
        Op::DsStorexchgRtnB32 => rmw::<Swap32, L>,
        Op::DsWrapRtnB32 => rmw::<Wrap32, L>,
        Op::DsAddU64 | Op::DsAddRtnU64 => rmw::<Add64, L>,
        Op::DsSubU64 | Op::DsSubRtnU64 => rmw::<Sub64, L>,
        Op::DsRsubU64 | Op::DsRsubRtnU64 => rmw::<Rsub64, L>,
        Op::DsIncU64 | Op::DsIncRtnU64 => rmw::<Inc64, L>,
        Op::DsDecU64 | Op::DsDecRtnU64 => rmw::<Dec64, L>,
        Op::DsMinI64 | Op::DsMinRtnI64 => rmw::<MinI64, L>,
        Op::DsMaxI64 | Op::DsMaxRtnI64 => rmw::<MaxI64, L>,
        Op::DsMinU64 | Op::DsMinRtnU64 => rmw::<MinU64, L>,
        Op::DsMaxU64 | Op::DsMaxRtnU64 => rmw::<MaxU64, L>,
        Op::DsAndB64 | Op::DsAndRtnB64 => rmw::<And64, L>,
        Op::DsOrB64 | Op::DsOrRtnB64 => rmw::<Or64, L>,
        Op::DsXorB64 | Op::DsXorRtnB64 => rmw::<Xor64, L>,
        Op::DsMskorB64 | Op::DsMskorRtnB64 => rmw::<Mskor64, L>,
        Op::DsCmpstoreB64 | Op::DsCmpstoreRtnB64 => rmw::<Cmpswap64, L>,
        Op::DsCmpstoreF64 | Op::DsCmpstoreRtnF64 => rmw::<CmpswapF64, L>,
        Op::DsMinF64 | Op::DsMinRtnF64 => rmw::<MinF64, L>,
        Op::DsMaxF64 | Op::DsMaxRtnF64 => rmw::<MaxF64, L>,
        Op::DsStorexchgRtnB64 => rmw::<Swap64, L>,
        Op::DsStorexchg2addrRtnB32 => exchange2::<1, 1, L>,
        Op::DsStorexchg2addrStride64RtnB32 => exchange2::<1, 64, L>,
        Op::DsStorexchg2addrRtnB64 => exchange2::<2, 1, L>,
        Op::DsStorexchg2addrStride64RtnB64 => exchange2::<2, 64, L>,
        Op::DsCondxchg32RtnB64 => conditional_exchange,
        Op::DsAppend => count::<true, L>,
        Op::DsConsume => count::<false, L>,
        Op::DsAtomicAsyncBarrierArriveB64 | Op::DsAtomicBarrierArriveRtnB64 => arrive,
        Op::DsLoadAddtidB32 => load_by_lane,
        Op::DsStoreAddtidB32 => store_by_lane,
        _ => return by_itself(op),
    })
}

/// The handler of an atomic whose operand is in LDS as well.
fn by_itself<const L: usize>(op: Op) -> Option<Handler<L>> {
    use atomic::*;
    Some(match op {
        Op::DsAddSrc2U32 => rmw_by_itself::<Add32, L>,
        Op::DsSubSrc2U32 => rmw_by_itself::<Sub32, L>,
        Op::DsRsubSrc2U32 => rmw_by_itself::<Rsub32, L>,
        Op::DsIncSrc2U32 => rmw_by_itself::<Inc32, L>,
        Op::DsDecSrc2U32 => rmw_by_itself::<Dec32, L>,
        Op::DsMinSrc2I32 => rmw_by_itself::<MinI32, L>,
        Op::DsMaxSrc2I32 => rmw_by_itself::<MaxI32, L>,
        Op::DsMinSrc2U32 => rmw_by_itself::<MinU32, L>,
        Op::DsMaxSrc2U32 => rmw_by_itself::<MaxU32, L>,
        Op::DsAndSrc2B32 => rmw_by_itself::<And32, L>,
        Op::DsOrSrc2B32 => rmw_by_itself::<Or32, L>,
        Op::DsXorSrc2B32 => rmw_by_itself::<Xor32, L>,
        Op::DsStoreSrc2B32 => rmw_by_itself::<Swap32, L>,
        Op::DsMinSrc2F32 => rmw_by_itself::<MinF32, L>,
        Op::DsMaxSrc2F32 => rmw_by_itself::<MaxF32, L>,
        Op::DsAddSrc2F32 => rmw_by_itself::<AddF32, L>,
        Op::DsAddSrc2U64 => rmw_by_itself::<Add64, L>,
        Op::DsSubSrc2U64 => rmw_by_itself::<Sub64, L>,
        Op::DsRsubSrc2U64 => rmw_by_itself::<Rsub64, L>,
        Op::DsIncSrc2U64 => rmw_by_itself::<Inc64, L>,
        Op::DsDecSrc2U64 => rmw_by_itself::<Dec64, L>,
        Op::DsMinSrc2I64 => rmw_by_itself::<MinI64, L>,
        Op::DsMaxSrc2I64 => rmw_by_itself::<MaxI64, L>,
        Op::DsMinSrc2U64 => rmw_by_itself::<MinU64, L>,
        Op::DsMaxSrc2U64 => rmw_by_itself::<MaxU64, L>,
        Op::DsAndSrc2B64 => rmw_by_itself::<And64, L>,
        Op::DsOrSrc2B64 => rmw_by_itself::<Or64, L>,
        Op::DsXorSrc2B64 => rmw_by_itself::<Xor64, L>,
        Op::DsStoreSrc2B64 => rmw_by_itself::<Swap64, L>,
        Op::DsMinSrc2F64 => rmw_by_itself::<MinF64, L>,
        Op::DsMaxSrc2F64 => rmw_by_itself::<MaxF64, L>,
        _ => return None,
    })
}

/// An operation with its two operands exchanged.
struct Swapped<R>(std::marker::PhantomData<R>);

impl<R: Rmw> Rmw for Swapped<R> {
    type T = R::T;
    const COMPARES: bool = true;
    fn apply(old: R::T, compare: R::T, data: R::T, gfx12: bool) -> R::T {
        R::apply(old, data, compare, gfx12)
    }
}

/// Byte offset of a lane's access: the address register plus `immediate`, in 32 bits that wrap around. Compilers add
/// an immediate offset to negative addresses (LLVM, `AMDGPUDAGToDAGISel::isDSOffsetLegal`: from Sea Islands on).
#[inline(always)]
fn address<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>, lane: usize, immediate: u32) -> usize {
    wave.v[op.src[0].reg as usize].0[lane].wrapping_add(immediate) as usize
}

/// [`address`] of an instruction with one offset.
#[inline(always)]
fn offset<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>, lane: usize) -> usize {
    address(wave, op, lane, op.mem.offset as u32)
}

/// Bytes of one lane's access. Bytes beyond the group segment read as zero, and writes to them are lost (Vega ISA, "LDS
/// instructions", and the documents after it: "Out-of-range").
#[inline(always)]
fn bytes<'a>(group: &'a mut Group<'_>, is_gds: bool, offset: usize, size: usize) -> Result<&'a mut [u8], Stop> {
    if is_gds || offset + size > group.lds.len() {
        return outside(group, is_gds, size);
    }
    Ok(&mut group.lds[offset..offset + size])
}

#[cold]
fn outside<'a>(group: &'a mut Group<'_>, is_gds: bool, size: usize) -> Result<&'a mut [u8], Stop> {
    if is_gds {
        let what = "the global data share".to_owned();
        return Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what))));
    }
    group.beyond_lds = [0; 16];
    Ok(&mut group.beyond_lds[..size])
}

fn dword(bytes: &[u8], i: usize) -> u32 {
    u32::from_le_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]])
}

struct Load<const DWORDS: usize>;

impl<const DWORDS: usize, const L: usize> Exec<L> for Load<DWORDS> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        let dst = op.dst as usize;
        if let Some(span) = Span::of_lds(wave, group, op, op.mem.offset as u32, 4 * DWORDS) {
            // SAFETY: the span is in the group segment.
            unsafe { span.load::<DWORDS>(wave, dst) };
            return Ok(());
        }
        load_lanes::<DWORDS, L>(wave, group, op)
    }

    #[inline(always)]
    fn exec_by_lane(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        load_lanes::<DWORDS, L>(wave, group, op)
    }
}

/// A load lane by lane.
#[inline(never)]
fn load_lanes<const DWORDS: usize, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let dst = op.dst as usize;
    for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
        let bytes = bytes(group, op.mem.gds, offset(wave, op, lane), 4 * DWORDS)?;
        // The destination may be the address register: each lane's address is read before it is overwritten.
        for (i, row) in wave.v[dst..dst + DWORDS].iter_mut().enumerate() {
            row.0[lane] = dword(bytes, i);
        }
    }
    Ok(())
}

/// Loads a transposed tile, as from global memory.
fn transposed_tile<const BITS: usize, const DWORDS: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    all_lanes(wave)?;
    let mut loaded = [[0; DWORDS]; L];
    for (lane, dwords) in loaded.iter_mut().enumerate() {
        let bytes = bytes(group, op.mem.gds, offset(wave, op, lane), 4 * DWORDS)?;
        *dwords = std::array::from_fn(|n| dword(bytes, n));
    }
    transpose::put::<BITS, DWORDS, L>(wave, op.dst as usize, &loaded);
    Ok(())
}

struct Store<const DWORDS: usize>;

impl<const DWORDS: usize, const L: usize> Exec<L> for Store<DWORDS> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        let data = op.src[1].reg as usize;
        if let Some(span) = Span::of_lds(wave, group, op, op.mem.offset as u32, 4 * DWORDS) {
            // SAFETY: the span is in the group segment.
            unsafe { span.store::<DWORDS>(wave, data) };
            return Ok(());
        }
        store_lanes::<DWORDS, L>(wave, group, op)
    }

    #[inline(always)]
    fn exec_by_lane(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        store_lanes::<DWORDS, L>(wave, group, op)
    }
}

/// A store lane by lane.
#[inline(never)]
fn store_lanes<const DWORDS: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let data = op.src[1].reg as usize;
    for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
        let bytes = bytes(group, op.mem.gds, offset(wave, op, lane), 4 * DWORDS)?;
        for (i, row) in wave.v[data..data + DWORDS].iter().enumerate() {
            bytes[4 * i..4 * i + 4].copy_from_slice(&row.0[lane].to_le_bytes());
        }
    }
    Ok(())
}

/// Byte offsets of the two accesses of a `2addr` instruction.
fn offsets<const DWORDS: usize, const STRIDE: usize, const L: usize>(op: &MicroOp<L>) -> [u32; 2] {
    let scale = (4 * DWORDS * STRIDE) as u32;
    [(op.mem.offset as u32 & 0xff) * scale, (op.mem.offset as u32 >> 8 & 0xff) * scale]
}

struct Load2<const DWORDS: usize, const STRIDE: usize>;

impl<const DWORDS: usize, const STRIDE: usize, const L: usize> Exec<L> for Load2<DWORDS, STRIDE> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        let dst = op.dst as usize;
        // The destination may be the address register, so that both spans are found before the first load.
        let [first, second] = offsets::<DWORDS, STRIDE, L>(op);
        let first = Span::of_lds(wave, group, op, first, 4 * DWORDS);
        let second = Span::of_lds(wave, group, op, second, 4 * DWORDS);
        if let (Some(first), Some(second)) = (&first, &second) {
            // SAFETY: the spans are in the group segment.
            unsafe {
                first.load::<DWORDS>(wave, dst);
                second.load::<DWORDS>(wave, dst + DWORDS);
            }
            return Ok(());
        }
        load2_lanes::<DWORDS, L>(wave, group, op, offsets::<DWORDS, STRIDE, L>(op))
    }

    #[inline(always)]
    fn exec_by_lane(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        load2_lanes::<DWORDS, L>(wave, group, op, offsets::<DWORDS, STRIDE, L>(op))
    }
}

/// Two loads lane by lane.
#[inline(never)]
fn load2_lanes<const DWORDS: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    offsets: [u32; 2],
) -> Step {
    let dst = op.dst as usize;
    for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
        let places = offsets.map(|offset| address(wave, op, lane, offset));
        for (n, place) in places.into_iter().enumerate() {
            let bytes = bytes(group, op.mem.gds, place, 4 * DWORDS)?;
            for i in 0..DWORDS {
                wave.v[dst + n * DWORDS + i].0[lane] = dword(bytes, i);
            }
        }
    }
    Ok(())
}

struct Store2<const DWORDS: usize, const STRIDE: usize>;

impl<const DWORDS: usize, const STRIDE: usize, const L: usize> Exec<L> for Store2<DWORDS, STRIDE> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        let data = [op.src[1].reg as usize, op.src[2].reg as usize];
        let [first, second] = offsets::<DWORDS, STRIDE, L>(op);
        let first = Span::of_lds(wave, group, op, first, 4 * DWORDS);
        let second = Span::of_lds(wave, group, op, second, 4 * DWORDS);
        if let (Some(first), Some(second)) = (&first, &second) {
            // SAFETY: the spans are in the group segment.
            unsafe { first.store_pairs::<DWORDS>(second, wave, data) };
            return Ok(());
        }
        store2_lanes::<DWORDS, L>(wave, group, op, offsets::<DWORDS, STRIDE, L>(op))
    }

    #[inline(always)]
    fn exec_by_lane(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        store2_lanes::<DWORDS, L>(wave, group, op, offsets::<DWORDS, STRIDE, L>(op))
    }
}

/// Two stores lane by lane.
#[inline(never)]
fn store2_lanes<const DWORDS: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    offsets: [u32; 2],
) -> Step {
    let data = [op.src[1].reg as usize, op.src[2].reg as usize];
    for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
        for (n, offset) in offsets.into_iter().enumerate() {
            let place = address(wave, op, lane, offset);
            let bytes = bytes(group, op.mem.gds, place, 4 * DWORDS)?;
            for i in 0..DWORDS {
                let value = wave.v[data[n] + i].0[lane];
                bytes[4 * i..4 * i + 4].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
    Ok(())
}

/// LDS, for accesses of a byte or word.
struct Lds;

impl Place for Lds {
    #[inline(always)]
    fn span<const L: usize>(
        wave: &mut Wave<L>,
        group: &mut Group<'_>,
        op: &MicroOp<L>,
        size: u32,
        _: Access,
    ) -> Option<Span<L>> {
        Span::of_lds(wave, group, op, op.mem.offset as u32, size as usize)
    }
}

fn load_small<const BYTES: usize, const SIGNED: bool, const PLACE: u8, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    if move_small::<Lds, BYTES, L>(wave, group, op, Small::Load(SIGNED, PLACE)) {
        return Ok(());
    }
    for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
        let bytes = bytes(group, op.mem.gds, offset(wave, op, lane), BYTES)?;
        let register = &mut wave.v[op.dst as usize].0[lane];
        *register = place(*register, extend(bytes, SIGNED), PLACE);
    }
    Ok(())
}

fn store_small<const BYTES: usize, const SHIFT: u32, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    if move_small::<Lds, BYTES, L>(wave, group, op, Small::Store(SHIFT)) {
        return Ok(());
    }
    for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
        let value = wave.v[op.src[1].reg as usize].0[lane] >> SHIFT;
        let bytes = bytes(group, op.mem.gds, offset(wave, op, lane), BYTES)?;
        bytes.copy_from_slice(&value.to_le_bytes()[..BYTES]);
    }
    Ok(())
}

/// Atomics; those without a result have no destination.
fn rmw<R: Rmw, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    rmw_lanes::<R::T, L>(wave, group, op, Operation::of::<R>())
}

#[inline(never)]
fn rmw_lanes<T: Word, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    operation: Operation<T>,
) -> Step {
    let size = 4 * T::DWORDS;
    let gfx12 = group.target.is_gfx12();
    for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
        let data: T = operand(wave, op.src[1].reg as usize, lane);
        let compare = if operation.compares { operand(wave, op.src[2].reg as usize, lane) } else { data };
        let bytes = bytes(group, op.mem.gds, offset(wave, op, lane), size)?;
        let old = T::from_bytes(bytes);
        let new = (operation.apply)(old, data, compare, gfx12);
        for (i, chunk) in bytes.chunks_exact_mut(4).enumerate() {
            chunk.copy_from_slice(&new.dword(i).to_le_bytes());
        }
        if op.has_dst {
            for i in 0..T::DWORDS {
                wave.v[op.dst as usize + i].0[lane] = old.dword(i);
            }
        }
    }
    Ok(())
}

/// An atomic with a dword or two of LDS in place of a register. How far they are away is in the offset field, in
/// dwords: 15 bits and a sign bit that repeats the one before, or with bit 15 set the upper half of the address itself
/// (Vega ISA, DS_ADD_SRC2_U32).
fn rmw_by_itself<R: Rmw, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    rmw_lanes_by_themselves::<R::T, L>(wave, group, op, Operation::of::<R>())
}

#[inline(never)]
fn rmw_lanes_by_themselves<T: Word, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    operation: Operation<T>,
) -> Step {
    let size = 4 * T::DWORDS;
    for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
        let address = wave.v[op.src[0].reg as usize].0[lane];
        let field = op.mem.offset as u32;
        let (address, distance) = match field >> 15 {
            0 => (address, (field << 17) as i32 >> 17),
            _ => (address & 0x1_ffff, address as i32 >> 17),
        };
        let other = address.wrapping_add_signed(distance.wrapping_mul(4));
        let data = T::from_bytes(bytes(group, op.mem.gds, other as usize, size)?);
        let bytes = bytes(group, op.mem.gds, address as usize, size)?;
        let new = (operation.apply)(T::from_bytes(bytes), data, data, false);
        for (i, chunk) in bytes.chunks_exact_mut(4).enumerate() {
            chunk.copy_from_slice(&new.dword(i).to_le_bytes());
        }
    }
    Ok(())
}

/// Reads two places, then writes them.
fn exchange2<const DWORDS: usize, const STRIDE: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
        let places = offsets::<DWORDS, STRIDE, L>(op).map(|offset| address(wave, op, lane, offset));
        let mut old = [[0; DWORDS]; 2];
        for (old, place) in old.iter_mut().zip(places) {
            let bytes = bytes(group, op.mem.gds, place, 4 * DWORDS)?;
            *old = std::array::from_fn(|i| dword(bytes, i));
        }
        for (n, place) in places.into_iter().enumerate() {
            let bytes = bytes(group, op.mem.gds, place, 4 * DWORDS)?;
            for (i, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&wave.v[op.src[1 + n].reg as usize + i].0[lane].to_le_bytes());
            }
        }
        for (i, value) in old.as_flattened().iter().enumerate() {
            wave.v[op.dst as usize + i].0[lane] = *value;
        }
    }
    Ok(())
}

/// Writes each dword of two whose data has bit 31 set, without that bit.
fn conditional_exchange<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
        let data = [0, 1].map(|i| wave.v[op.src[1].reg as usize + i].0[lane]);
        let bytes = bytes(group, op.mem.gds, offset(wave, op, lane) & 0xfff8, 8)?;
        for (i, data) in data.into_iter().enumerate() {
            wave.v[op.dst as usize + i].0[lane] = dword(bytes, i);
            if data >> 31 != 0 {
                bytes[4 * i..4 * i + 4].copy_from_slice(&(data & 0x7fff_ffff).to_le_bytes());
            }
        }
    }
    Ok(())
}

/// The state of a barrier in LDS after `count` arrivals: bits 0 to 28 are the number of pending arrivals less one, bits
/// 29 to 31 the phase, which goes down by one at the last arrival, and bits 32 to 60 the initial value of the pending
/// count (MLIR, `!amdgpu.ds_barrier_state`; Triton's waits read bit 29).
pub(super) fn arrived(state: u64, count: u64) -> u64 {
    const COUNT: u64 = (1 << 29) - 1;
    let (pending, phase, all) = (state & COUNT, state >> 29 & 7, state >> 32 & COUNT);
    let Some(more) = count.checked_sub(pending + 1) else { return state - count };
    let (rounds, left) = (1 + more / (all + 1), all - more % (all + 1));
    state >> 32 << 32 | (phase.wrapping_sub(rounds) & 7) << 29 | left
}

/// Arrives for the wave as a whole, at the barrier that the first active lane names. All lanes get the old state.
fn arrive<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let Some(lane) = each_lane(wave.exec() & Wave::<L>::LANES).next() else { return Ok(()) };
    let count = if op.has_dst { operand(wave, op.src[1].reg as usize, lane) } else { 1 };
    let bytes = bytes(group, op.mem.gds, offset(wave, op, lane), 8)?;
    let state = u64::from_bytes(bytes);
    bytes.copy_from_slice(&arrived(state, count).to_le_bytes());
    if op.has_dst {
        wave.put(op.dst as usize, &Row([state as u32; L]));
        wave.put(op.dst as usize + 1, &Row([(state >> 32) as u32; L]));
    }
    Ok(())
}

/// Byte offset in LDS: the low 16 bits of M0 plus the immediate offset.
fn named_by_m0<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>) -> usize {
    (wave.s[slot::M0] & 0xffff) as usize + op.mem.offset as usize
}

/// Adds the number of active lanes to a counter, or subtracts it. All lanes get the old value. M0 has the address, as
/// LLVM emits it (RDNA3 ISA, DS_APPEND, calls that its base).
fn count<const APPEND: bool, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let lanes = wave.exec() & Wave::<L>::LANES;
    if lanes == 0 {
        return Ok(());
    }
    let bytes = bytes(group, op.mem.gds, named_by_m0(wave, op), 4)?;
    let old = dword(bytes, 0);
    let new = if APPEND { old.wrapping_add(lanes.count_ones()) } else { old.wrapping_sub(lanes.count_ones()) };
    bytes.copy_from_slice(&new.to_le_bytes());
    wave.put(op.dst as usize, &Row([old; L]));
    Ok(())
}

fn load_by_lane<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
        let bytes = bytes(group, op.mem.gds, named_by_m0(wave, op) + 4 * lane, 4)?;
        wave.v[op.dst as usize].0[lane] = dword(bytes, 0);
    }
    Ok(())
}

fn store_by_lane<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
        let bytes = bytes(group, op.mem.gds, named_by_m0(wave, op) + 4 * lane, 4)?;
        bytes.copy_from_slice(&wave.v[op.src[1].reg as usize].0[lane].to_le_bytes());
    }
    Ok(())
}
