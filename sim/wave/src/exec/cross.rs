// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Ops between lanes or between registers: lane reads and writes, permutes, swaps, relative moves.

use super::control::nop;
use super::integer::msad_u8;
use super::lanes::{all_lanes, each_lane};
use super::valu::put_half;
use crate::fault::FaultKind;
use crate::hardware::slot;
use crate::micro_op::{Handler, MicroOp, Step, Stop};
use crate::operand::{Src, SrcKind};
use crate::wave::{Group, Row, Wave};
use sim_isa::Op;

/// The handler of an op of this module.
pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    Some(match op {
        Op::VReadfirstlaneB32 => readfirstlane,
        Op::VReadlaneB32 => readlane,
        Op::VWritelaneB32 => writelane,
        Op::VPermlane16B32 => permlane16::<0, L>,
        Op::VPermlanex16B32 => permlane16::<16, L>,
        Op::VPermlane64B32 => permlane64,
        Op::VPermlane16VarB32 => permlane16_var::<0, L>,
        Op::VPermlanex16VarB32 => permlane16_var::<16, L>,
        Op::VMbcntLoU32B32 => mbcnt::<0, L>,
        Op::VMbcntHiU32B32 => mbcnt::<32, L>,
        Op::VSwapB32 => swap,
        Op::VSwapB16 => swap16,
        Op::VMovrelsB32 => movrel::<true, false, L>,
        Op::VMovreldB32 => movrel::<false, true, L>,
        Op::VMovrelsdB32 => movrel::<true, true, L>,
        Op::VMovrelsd2B32 => |wave, _, op| {
            let (to, from) = both_relative(wave, op)?;
            let row = wave.v[from];
            wave.put(to, &row);
            Ok(())
        },
        Op::VSwaprelB32 => |wave, _, op| {
            let (a, b) = both_relative(wave, op)?;
            exchange(wave, a, b);
            Ok(())
        },
        // The bits are known when code is decoded. The index remains.
        Op::SSetGprIdxOn => |wave, _, op| {
            let set = wave.s32(&op.src[0]) & 0xff | (op.simm as u32 & 15) << 12;
            wave.s[slot::M0] = wave.s[slot::M0] & !0xf0ff | set;
            Ok(())
        },
        Op::SSetGprIdxIdx => |wave, _, op| {
            wave.s[slot::M0] = wave.s[slot::M0] & !0xff | wave.s32(&op.src[0]) & 0xff;
            Ok(())
        },
        Op::SSetGprIdxMode => |wave, _, op| {
            wave.s[slot::M0] = wave.s[slot::M0] & !0xf000 | (op.simm as u32 & 15) << 12;
            Ok(())
        },
        Op::SSetGprIdxOff => nop,
        Op::DsSwizzleB32 => swizzle,
        Op::DsPermuteB32 => permute,
        // Without a third source all of its bits are zero.
        Op::VBitop3B32 | Op::VBitop2B32 => bitop3,
        Op::VBitop3B16 => bitop3_16,
        Op::VPermlane16SwapB32 => permlane_swap::<16, L>,
        Op::VPermlane32SwapB32 => permlane_swap::<32, L>,
        Op::VPermPk16B4U4 => looked_up::<4, 1, 1, L>,
        Op::VPermPk16B6U4 => looked_up::<6, 1, 2, L>,
        Op::VPermPk16B8U4 => looked_up::<8, 2, 2, L>,
        Op::VPermlaneBcastB32 => |wave, _, op| permlane(wave, op, |_, n, width| Some(n % width)),
        Op::VPermlaneUpB32 => |wave, _, op| permlane(wave, op, |lane, n, _| lane.checked_sub(n)),
        Op::VPermlaneDownB32 => |wave, _, op| permlane(wave, op, |lane, n, _| lane.checked_add(n)),
        Op::VPermlaneIdxGenB32 => permlane_index,
        Op::VPermlaneXorB32 => |wave, _, op| permlane(wave, op, |lane, n, _| Some(lane ^ n)),
        Op::VMqsadU32U8 => mqsad,
        Op::DsBpermuteB32 => bpermute::<false, L>,
        Op::DsBpermuteFiB32 => bpermute::<true, L>,
        _ => return None,
    })
}

/// Bits chosen by a truth table: bit 4a + 2b + c of it for bits a, b and c of the sources.
fn bitop3<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let result = tabled(wave, op);
    wave.put(op.dst as usize, &result);
    Ok(())
}

/// Bits chosen by a truth table, for halves of registers.
fn bitop3_16<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let result = tabled(wave, op);
    put_half(wave, op.dst as usize, op.dst_high, &result);
    Ok(())
}

fn tabled<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>) -> Row<L> {
    Row(std::array::from_fn(|lane| {
        let [a, b, c] = [0, 1, 2].map(|i| wave.lane(&op.src[i], lane) >> op.src[i].shift);
        (0..8).filter(|n| op.simm >> n & 1 != 0).fold(0, |bits, n| {
            let pick = |x: u32, at: u32| if n >> at & 1 != 0 { x } else { !x };
            bits | pick(a, 2) & pick(b, 1) & pick(c, 0)
        })
    }))
}

/// `v_perm_pk16_*`: 16 elements of `BITS` bits, each of those in the table that is source 0 above source 1, by the four
/// bits of source 2. Sources 0 and 1 are `HIGH` and `LOW` dwords.
fn looked_up<const BITS: usize, const HIGH: usize, const LOW: usize, const L: usize>(
    wave: &mut Wave<L>,
    _: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let mut rows = [Row::<L>::ZERO; 4];
    for lane in 0..L {
        let read = |i: usize, dwords: usize| {
            let src = &op.src[i];
            let dword = |n: usize| match src.kind {
                SrcKind::Vgpr => wave.v[src.reg as usize + n].0[lane],
                _ => (wave.s64(src) >> (32 * n)) as u32,
            };
            (0..dwords).fold(0u128, |value, n| value | u128::from(dword(n)) << (32 * n))
        };
        let table = read(0, HIGH) << (32 * LOW) | read(1, LOW);
        let chosen = read(2, 2);
        let result = (0..16).fold(0u128, |result, n| {
            let element = table >> (BITS * (chosen >> (4 * n) & 15) as usize) & ((1 << BITS) - 1);
            result | element << (BITS * n)
        });
        for (n, row) in rows.iter_mut().enumerate() {
            row.0[lane] = (result >> (32 * n)) as u32;
        }
    }
    for (n, row) in rows[..BITS / 2].iter().enumerate() {
        wave.put(op.dst as usize + n, row);
    }
    Ok(())
}

/// `v_permlane_*`: within groups of as many lanes as source 2 says, a lane reads the one that `pick` makes of its place
/// and source 1, active or not; itself where that is none of the group's (CDNA5 ISA, V_PERMLANE_UP_B32 and its like). A
/// width that is no power of two, for which the result is undefined, is that of the wave.
fn permlane<const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    pick: fn(usize, usize, usize) -> Option<usize>,
) -> Step {
    let (n, width) = (wave.s32(&op.src[1]) as usize, wave.s32(&op.src[2]) as usize);
    let width = if width.is_power_of_two() { width.min(L) } else { L };
    let source = wave.v[op.src[0].reg as usize];
    let result = Row(std::array::from_fn(|lane| {
        let from = pick(lane % width, n, width).filter(|from| *from < width).unwrap_or(lane % width);
        source.0[lane / width * width + from]
    }));
    wave.put(op.dst as usize, &result);
    Ok(())
}

/// The address that `ds_bpermute_b32` takes for a lane of the group: of the one whose place source 0 has.
fn permlane_index<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let result = Row(std::array::from_fn(|lane| {
        let within = wave.lane(&op.src[1], lane).wrapping_sub(1);
        let place = wave.lane(&op.src[0], lane) & 0x3f & within;
        place.wrapping_add(lane as u32 & !within) << 2
    }));
    wave.put(op.dst as usize, &result);
    Ok(())
}

/// Exchanges the first row of 16 lanes of the source with the second of the destination (CDNA4 ISA,
/// V_PERMLANE16_SWAP_B32, which has no word on inactive lanes).
fn permlane_swap<const ROW: usize, const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    all_lanes(wave)?;
    let (dst, src) = (op.dst as usize, op.src[0].reg as usize);
    for lane in (0..L).filter(|lane| lane & ROW == 0) {
        let (low, high) = (wave.v[src].0[lane], wave.v[dst].0[(lane + ROW) % L]);
        wave.v[src].0[lane] = high;
        wave.v[dst].0[(lane + ROW) % L] = low;
    }
    Ok(())
}

fn readfirstlane<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    // Without an active lane, lane 0 is read.
    let lane = (wave.exec() & Wave::<L>::LANES).trailing_zeros() as usize % L;
    let value = wave.lane(&op.src[0], lane);
    wave.set_s(op.dst as usize, value);
    Ok(())
}

fn readlane<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let lane = wave.s32(&op.src[1]) as usize % L;
    let value = wave.lane(&op.src[0], lane);
    wave.set_s(op.dst as usize, value);
    Ok(())
}

fn writelane<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let lane = wave.s32(&op.src[1]) as usize % L;
    wave.v[op.dst as usize].0[lane] = wave.s32(&op.src[0]);
    Ok(())
}

/// Within each row of 16 lanes (or of the row beside it), lane `i` reads the lane in nibble `i` of the selectors.
/// `op_sel` bit 0: inactive lanes are fetched; bit 1: those that are not read as zero instead of leaving the
/// destination alone.
fn permlane16<const OTHER_ROW: usize, const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let selectors = u64::from(wave.s32(&op.src[1])) | u64::from(wave.s32(&op.src[2])) << 32;
    within_rows::<OTHER_ROW, L>(wave, op, |lane| (selectors >> (4 * (lane & 15))) as u32)
}

/// Permutation within rows of 16 lanes, with the low bits of each lane's source 1 as its selector.
fn permlane16_var<const OTHER_ROW: usize, const L: usize>(
    wave: &mut Wave<L>,
    _: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let selectors: [u32; L] = std::array::from_fn(|lane| wave.lane(&op.src[1], lane));
    within_rows::<OTHER_ROW, L>(wave, op, |lane| selectors[lane])
}

fn within_rows<const OTHER_ROW: usize, const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    selector: impl Fn(usize) -> u32,
) -> Step {
    let source = wave.v[op.src[0].reg as usize];
    let exec = wave.exec();
    for lane in each_lane(exec & Wave::<L>::LANES) {
        let from = (lane & !15 | selector(lane) as usize & 15) ^ OTHER_ROW;
        if op.op_sel & 1 != 0 || exec >> from & 1 != 0 {
            wave.v[op.dst as usize].0[lane] = source.0[from];
        } else if op.op_sel & 2 != 0 {
            wave.v[op.dst as usize].0[lane] = 0;
        }
    }
    Ok(())
}

/// Exchanges the halves of a wave64; nothing in wave32.
fn permlane64<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    if L == 64 {
        let source = wave.v[op.src[0].reg as usize];
        let crossed = Row(std::array::from_fn(|lane| source.0[lane ^ 32]));
        wave.put(op.dst as usize, &crossed);
    }
    Ok(())
}

/// Counts the bits of the mask (its lower or upper dword) below each lane.
fn mbcnt<const FIRST: u32, const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let counts = Row(std::array::from_fn(|lane| {
        let below = ((1u64 << lane) - 1) >> FIRST;
        let mask = wave.lane(&op.src[0], lane) & below as u32;
        mask.count_ones().wrapping_add(wave.lane(&op.src[1], lane))
    }));
    wave.put(op.dst as usize, &counts);
    Ok(())
}

fn swap<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    exchange(wave, op.dst as usize, op.src[0].reg as usize);
    Ok(())
}

fn exchange<const L: usize>(wave: &mut Wave<L>, a: usize, b: usize) {
    let (old_a, old_b) = (wave.v[a], wave.v[b]);
    wave.put(a, &old_b);
    wave.put(b, &old_a);
}

/// Masked sums of absolute differences of bytes at four offsets, each on top of a dword (RDNA3 ISA, V_MQSAD_U32_U8).
fn mqsad<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let [bytes, mask, start, _] = &op.src;
    let wide = |wave: &Wave<L>, src: &Src, part: usize, lane: usize| match src.kind {
        SrcKind::Vgpr => wave.v[src.reg as usize + part].0[lane],
        SrcKind::Scalar => wave.s[src.reg as usize + part],
        _ => (src.value >> (32 * (part % 2))) as u32,
    };
    let sums: [Row<L>; 4] = std::array::from_fn(|n| {
        Row(std::array::from_fn(|lane| {
            let window = u64::from(wide(wave, bytes, 0, lane)) | u64::from(wide(wave, bytes, 1, lane)) << 32;
            msad_u8((window >> (8 * n)) as u32, wave.lane(mask, lane)).wrapping_add(wide(wave, start, n, lane))
        }))
    });
    for (n, sums) in sums.iter().enumerate() {
        wave.put(op.dst as usize + n, sums);
    }
    Ok(())
}

fn swap16<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let (a, b) = (op.dst as usize, op.src[0].reg as usize);
    let half = |row: &Row<L>, high: bool| Row(row.0.map(|x| if high { x >> 16 } else { x & 0xffff }));
    let b_high = op.src[0].shift != 0;
    let (old_a, old_b) = (half(&wave.v[a], op.dst_high), half(&wave.v[b], b_high));
    put_half(wave, a, op.dst_high, &old_b);
    put_half(wave, b, b_high, &old_a);
    Ok(())
}

/// Moves with M0 added to the number of the source or destination register.
fn movrel<const SOURCE: bool, const DESTINATION: bool, const L: usize>(
    wave: &mut Wave<L>,
    _: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    move_by::<SOURCE, DESTINATION, L>(wave, op, wave.s[slot::M0])
}

/// Moves in GFX9's index mode, with M0's low byte added to the number of the source or destination register.
pub(crate) fn indexed_move<const SOURCE: bool, const DESTINATION: bool, const L: usize>(
    wave: &mut Wave<L>,
    _: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    move_by::<SOURCE, DESTINATION, L>(wave, op, wave.s[slot::M0] & 0xff)
}

/// The register that is `index` after another.
fn relative<const L: usize>(wave: &Wave<L>, register: u16, index: u32) -> Result<usize, Stop> {
    let register = u64::from(register) + u64::from(index);
    if register < wave.vgprs as u64 {
        return Ok(register as usize);
    }
    let what = format!("v{register} (relative to M0), the kernel has {}", wave.vgprs);
    Err(Stop::Fault(Box::new(FaultKind::RegisterOutOfRange(what))))
}

/// Destination and source, each with a field of M0 added (RDNA3 ISA, V_SWAPREL_B32).
fn both_relative<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>) -> Result<(usize, usize), Stop> {
    let m0 = wave.s[slot::M0];
    Ok((relative(wave, op.dst, m0 >> 16 & 0x3ff)?, relative(wave, op.src[0].reg, m0 & 0x3ff)?))
}

fn move_by<const SOURCE: bool, const DESTINATION: bool, const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    index: u32,
) -> Step {
    let row = match op.src[0].kind {
        SrcKind::Vgpr => wave.v[if SOURCE { relative(wave, op.src[0].reg, index)? } else { op.src[0].reg as usize }],
        _ => Row([wave.s32(&op.src[0]); L]),
    };
    let dst = if DESTINATION { relative(wave, op.dst, index)? } else { op.dst as usize };
    wave.put(dst, &row);
    Ok(())
}

/// `ds_swizzle_b32`: a fixed pattern in the offset field (RDNA3 ISA, DS_SWIZZLE_B32).
fn swizzle<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let pattern = op.mem.offset as usize;
    let source = wave.v[op.src[0].reg as usize];
    let exec = wave.exec();
    let mut result = Row::<L>::ZERO;
    for lane in 0..L {
        let within = lane & 31;
        let from = if pattern >= 0xe000 {
            let what = format!("ds_swizzle_b32 in FFT mode (offset {pattern:#x})");
            return Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what))));
        } else if pattern >= 0xc000 {
            // Rotation within 32 lanes, keeping the lanes in the mask.
            let (right, n, mask) = (pattern >> 10 & 1 != 0, pattern >> 5 & 31, pattern & 31);
            let rotated = if right { within + 32 - n } else { within + n } & 31;
            rotated & !mask | within & mask
        } else if pattern >= 0x8000 {
            within & !3 | pattern >> (2 * (within & 3)) & 3
        } else {
            let (and, or, xor) = (pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31);
            (within & and | or) ^ xor
        };
        let from = lane & 32 | from;
        result.0[lane] = if exec >> from & 1 != 0 { source.0[from] } else { 0 };
    }
    wave.put(op.dst as usize, &result);
    Ok(())
}

/// The lane that a byte address means to `lane`: of all on GFX9 and gfx12, elsewhere of the same half of a wave64.
fn addressed<const L: usize>(group: &Group<'_>, lane: usize, address: u32) -> usize {
    let at = address as usize / 4;
    if group.target.is_gfx9() || group.target.is_gfx12() { at % L } else { lane & 32 | (at % 32) }
}

/// Each lane sends its data to the lane in its address; the highest sender wins.
fn permute<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let mut result = Row::<L>::ZERO;
    for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
        let address = wave.v[op.src[0].reg as usize].0[lane].wrapping_add(op.mem.offset as u32);
        result.0[addressed::<L>(group, lane, address)] = wave.v[op.src[1].reg as usize].0[lane];
    }
    wave.put(op.dst as usize, &result);
    Ok(())
}

/// Each lane reads the data of the lane in its address, zero if that one is inactive.
/// With `INACTIVE`, inactive lanes are read as well.
fn bpermute<const INACTIVE: bool, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let exec = wave.exec();
    let addresses = wave.v[op.src[0].reg as usize];
    let data = wave.v[op.src[1].reg as usize];
    let result = Row(std::array::from_fn(|lane| {
        let from = addressed::<L>(group, lane, addresses.0[lane].wrapping_add(op.mem.offset as u32));
        if INACTIVE || exec >> from & 1 != 0 { data.0[from] } else { 0 }
    }));
    wave.put(op.dst as usize, &result);
    Ok(())
}
