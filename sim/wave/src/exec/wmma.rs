// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Matrix ops of RDNA3 and RDNA4 in wave32: D = A·B + C on 16×16 tiles (RDNA3 and RDNA4 ISA 7.9).
//!
//! RDNA3, [`Doubled`]: A: lane *m* (and *m* + 16, a copy) holds row *m*; B: lane *n* (and its copy) holds column *n*; packed along the inner dimension from the
//! lowest bits of the first register. C and D in 32 bits: register *r* of lane *l* is row 2*r* + *l*/16, column *l* mod 16; in 16 bits the
//! same in one half of the register, which `op_sel` bit 2 chooses. EXEC does not count.
//!
//! RDNA4, [`Split`]: A: lane *m* holds the first half of row *m* and lane *m* + 16 the second, B's columns likewise. C and D: lane *l* holds
//! rows 8·(*l*/16) to 8·(*l*/16) + 7 of column *l* mod 16, one a register, or in 16 bits two a register.

use super::float::{bf16_to_f32, f32_to_bf16, f32_to_half, half_to_f32};
use super::packed::dot_fields;
use crate::fault::FaultKind;
use crate::operand::SrcKind;
use crate::program::MicroOp;
use crate::wave::{Group, Handler, Row, Step, Stop, Wave};
use sim_isa::Op;

/// The handler of a matrix op.
pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    if L != 32 {
        return None;
    }
    Some(match op {
        Op::VWmmaF3216x16x16F16 => |wave, _, op| float32::<Doubled, L>(wave, op, half_to_f32),
        Op::VWmmaF3216x16x16Bf16 => |wave, _, op| float32::<Doubled, L>(wave, op, bf16_to_f32),
        Op::VWmmaF1616x16x16F16 => |wave, _, op| float16(wave, op, half_to_f32, f32_to_half),
        Op::VWmmaBf1616x16x16Bf16 => |wave, _, op| float16(wave, op, bf16_to_f32, f32_to_bf16),
        Op::VWmmaI3216x16x16Iu8 => integer::<Doubled, 8, L>,
        Op::VWmmaI3216x16x16Iu4 => integer::<Doubled, 4, L>,
        Op::VWmmaF3216x16x16F16Gfx12 => |wave, _, op| float32::<Split, L>(wave, op, half_to_f32),
        Op::VWmmaF3216x16x16Bf16Gfx12 => |wave, _, op| float32::<Split, L>(wave, op, bf16_to_f32),
        Op::VWmmaF1616x16x16F16Gfx12 => |wave, _, op| packed16(wave, op, half_to_f32, f32_to_half),
        Op::VWmmaBf1616x16x16Bf16Gfx12 => |wave, _, op| packed16(wave, op, bf16_to_f32, f32_to_bf16),
        Op::VWmmaI3216x16x16Iu8Gfx12 => integer::<Split, 8, L>,
        Op::VWmmaI3216x16x16Iu4Gfx12 => integer::<Split, 4, L>,
        _ => return None,
    })
}

/// Where the elements of the tiles are.
trait Layout {
    /// The dword of a row of A or column of B with its dword `part` of `parts`, and the lane's offset from the row's number.
    fn factor(part: usize, parts: usize) -> (usize, usize);
    /// The row of C or D in register `r` of `lane`.
    fn row(r: usize, lane: usize) -> usize;
}

struct Doubled;

impl Layout for Doubled {
    fn factor(part: usize, _: usize) -> (usize, usize) {
        (part, 0)
    }

    fn row(r: usize, lane: usize) -> usize {
        2 * r + lane / 16
    }
}

struct Split;

impl Layout for Split {
    fn factor(part: usize, parts: usize) -> (usize, usize) {
        (part % (parts / 2), if part < parts / 2 { 0 } else { 16 })
    }

    fn row(r: usize, lane: usize) -> usize {
        r + 8 * (lane / 16)
    }
}

/// Dword `part` of source `i` in `lane`.
fn source<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>, i: usize, part: usize, lane: usize) -> u32 {
    let src = &op.src[i];
    if src.kind == SrcKind::Vgpr { wave.v[src.reg as usize + part].0[lane] } else { wave.s32(src) }
}

/// The 16 floats of a lane's row or column, signs changed.
fn line<T: Layout, const L: usize>(
    wave: &Wave<L>,
    op: &MicroOp<L>,
    i: usize,
    lane: usize,
    convert: fn(u16) -> f32,
) -> [f32; 16] {
    std::array::from_fn(|k| {
        let (part, offset) = T::factor(k / 2, 8);
        let bits = source(wave, op, i, part, lane + offset) >> (16 * (k % 2));
        let neg = if k % 2 == 0 { op.neg } else { op.neg_hi };
        let value = convert(bits as u16);
        if neg >> i & 1 != 0 { -value } else { value }
    })
}

/// All products of rows and columns, on top of `c`, in f64 (the hardware's order and intermediate precision are not documented).
fn products<T: Layout, const L: usize>(
    wave: &Wave<L>,
    op: &MicroOp<L>,
    convert: fn(u16) -> f32,
    c: impl Fn(usize, usize) -> f32,
) -> [[f32; L]; 8] {
    let rows: [[f32; 16]; 16] = std::array::from_fn(|m| line::<T, L>(wave, op, 0, m, convert));
    let columns: [[f32; 16]; 16] = std::array::from_fn(|n| line::<T, L>(wave, op, 1, n, convert));
    std::array::from_fn(|r| {
        std::array::from_fn(|lane| {
            let (row, column) = (&rows[T::row(r, lane)], &columns[lane % 16]);
            let start = f64::from(c(r, lane));
            row.iter().zip(column).fold(start, |sum, (a, b)| sum + f64::from(*a) * f64::from(*b)) as f32
        })
    })
}

/// C's modifiers: negation and absolute value (in `neg_hi`).
fn c_modified<const L: usize>(op: &MicroOp<L>, value: f32) -> f32 {
    let value = if op.neg_hi & 4 != 0 { value.abs() } else { value };
    if op.neg & 4 != 0 { -value } else { value }
}

fn float32<T: Layout, const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>, convert: fn(u16) -> f32) -> Step {
    let d = products::<T, L>(wave, op, convert, |r, lane| c_modified(op, f32::from_bits(source(wave, op, 2, r, lane))));
    for (r, row) in d.into_iter().enumerate() {
        wave.v[op.dst as usize + r] = Row(row.map(f32::to_bits));
    }
    Ok(())
}

fn float16<const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    convert: fn(u16) -> f32,
    round: fn(f32) -> u16,
) -> Step {
    let shift = if op.op_sel & 4 != 0 { 16 } else { 0 };
    let d = products::<Doubled, L>(wave, op, convert, |r, lane| {
        c_modified(op, convert((source(wave, op, 2, r, lane) >> shift) as u16))
    });
    for (r, row) in d.into_iter().enumerate() {
        let target = &mut wave.v[op.dst as usize + r];
        for (old, value) in target.0.iter_mut().zip(row) {
            *old = *old & !(0xffff << shift) | u32::from(round(value)) << shift;
        }
    }
    Ok(())
}

/// D in 16 bits, two rows in each register.
fn packed16<const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    convert: fn(u16) -> f32,
    round: fn(f32) -> u16,
) -> Step {
    let d = products::<Split, L>(wave, op, convert, |r, lane| {
        c_modified(op, convert((source(wave, op, 2, r / 2, lane) >> (16 * (r % 2))) as u16))
    });
    for (n, rows) in d.as_chunks::<2>().0.iter().enumerate() {
        let pair = |lane: usize| u32::from(round(rows[0][lane])) | u32::from(round(rows[1][lane])) << 16;
        wave.v[op.dst as usize + n] = Row(std::array::from_fn(pair));
    }
    Ok(())
}

fn integer<T: Layout, const BITS: u32, const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    if op.neg & 4 != 0 {
        let what = "negated C of an integer matrix op".to_owned();
        return Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what))));
    }
    let (a_signed, b_signed) = (op.neg & 1 != 0, op.neg & 2 != 0);
    let dwords = BITS as usize / 2;
    let d: [Row<L>; 8] = std::array::from_fn(|r| {
        Row(std::array::from_fn(|lane| {
            let dot: i64 = (0..dwords)
                .map(|k| {
                    let (part, offset) = T::factor(k, dwords);
                    let a = source(wave, op, 0, part, T::row(r, lane) + offset);
                    let b = source(wave, op, 1, part, lane % 16 + offset);
                    dot_fields::<BITS>(a, b, a_signed, b_signed)
                })
                .sum();
            let sum = dot + i64::from(source(wave, op, 2, r, lane) as i32);
            if op.clamp { sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32 } else { sum as u32 }
        }))
    });
    for (r, row) in d.into_iter().enumerate() {
        wave.v[op.dst as usize + r] = row;
    }
    Ok(())
}
