// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Matrix ops of gfx1250 on floats of 8, 6 and 4 bits whose formats the instruction chooses, and whose blocks along K
//! may have scales: D = A·B + C on tiles of 16×16 or 32×16 with K = 128 (CDNA5 ISA 7.12.6). EXEC does not count.

use super::scaled::{Bf6, Bf8, Fp4, Fp6, Fp8, Small};
use crate::fault::FaultKind;
use crate::micro_op::{Handler, MicroOp, Scaling, Step, Stop};
use crate::operand::{Src, SrcKind};
use crate::wave::{Group, Row, Wave};
use sim_isa::Op;

const K: usize = 128;

/// The handler of a matrix op. All waves of gfx1250 have 32 lanes.
pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    match op {
        Op::VWmmaF3216x16x128F8f6f4 if L == 32 => Some(multiply::<16, L>),
        Op::VWmmaF3232x16x128F4 if L == 32 => Some(multiply::<32, L>),
        // With the op that they are for, they are executed by `load_scales`.
        Op::VWmmaLdScalePairedB32 | Op::VWmmaLdScale16PairedB64 => {
            Some(|_, _, _| unimplemented("scales without a matrix op after them".to_owned()))
        }
        _ => None,
    }
}

/// The value of a code.
pub(super) type Decode = fn(u32) -> f32;

/// Bits of a format's elements, and the decoder of their codes.
pub(super) fn format(number: u8) -> Option<(usize, Decode)> {
    Some(match number {
        0 => (8, Fp8::decode),
        1 => (8, Bf8::decode),
        2 => (6, Fp6::decode),
        3 => (6, Bf6::decode),
        4 => (4, Fp4::decode),
        _ => return None,
    })
}

/// The factor that a scale is. Of the unsigned E4M3 seven bits count.
fn factor(code: u8, format: u8) -> f64 {
    let (code, bias) = match format {
        0 if code == 0xff => return f64::NAN,
        0 => return 2f64.powi(i32::from(code) - 127),
        1 => (code, 15),
        _ => (code & 0x7f, 7),
    };
    if code == if format == 1 { 0xff } else { 0x7f } {
        return f64::NAN;
    }
    let (exponent, mantissa) = (i32::from(code >> 3), f64::from(code & 7));
    let (significand, exponent) = if exponent == 0 { (mantissa, 1) } else { (mantissa + 8.0, exponent) };
    significand * 2f64.powi(exponent - bias - 3)
}

/// Puts the scales of A and B where the matrix op that follows finds them, in the spare rows: two dwords each, lane *m*
/// those of row or column *m*. `op_sel` and `op_sel_hi` choose the upper 16 lanes instead. A scalar's low byte is every
/// scale, and of constants there is zero, which stands for 1 (CDNA5 ISA 7.12.6.2).
pub(crate) fn load_scales<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    const ONE: u32 = 0x7f7f_7f7f;
    let spare = op.dst as usize;
    for (i, upper) in [op.op_sel, op.op_sel_hi].into_iter().enumerate() {
        let Src { kind, reg, value, .. } = op.src[i];
        for part in 0..2 {
            wave.v[spare + 2 * i + part] = match kind {
                SrcKind::Vgpr => {
                    let row = wave.v[usize::from(reg) + part];
                    let start = if upper & 1 != 0 { 16 } else { 0 };
                    Row(std::array::from_fn(|lane| row.0[(lane + start) % L]))
                }
                SrcKind::Scalar => Row([(wave.s[usize::from(reg)] & 0xff) * 0x0101_0101; L]),
                _ if value == 0 => Row([ONE; L]),
                _ => return unimplemented(format!("the constant {value:#x} as a scale")),
            };
        }
    }
    Ok(())
}

/// The elements of row or column `m`, whose parts of 16 elements of 8 bits, or 32 of less, are by turns in lane *m* and
/// *m* + 16; times their scales.
fn line<const L: usize>(
    wave: &Wave<L>,
    op: &MicroOp<L>,
    i: usize,
    m: usize,
    (bits, decode): (usize, fn(u32) -> f32),
) -> [f64; K] {
    let part = if bits == 8 { 16 } else { 32 };
    // The second half of A's rows is in the next eight registers.
    let first = usize::from(op.src[i].reg) + m / 16 * 8;
    let scaling = Scaling::from_simm(op.simm);
    std::array::from_fn(|k| {
        let (lane, place) = (m % 16 + k / part % 2 * 16, k / (2 * part) * part + k % part);
        let (dword, shift) = (place * bits / 32, place * bits % 32);
        let word = |n: usize| u64::from(wave.v[first + n].0[lane]);
        let beyond = if shift + bits > 32 { word(dword + 1) << 32 } else { 0 };
        let value = f64::from(decode(((word(dword) | beyond) >> shift) as u32));
        let Some(scaling) = scaling else { return value };
        let block = k / if scaling.sixteen { 16 } else { 32 };
        let row = &wave.v[wave.vgprs + 2 * i + block / 4];
        value * factor((row.0[m] >> (8 * (block % 4))) as u8, scaling.formats[i])
    })
}

/// All products are added in f64, on top of C, and rounded once.
fn multiply<const M: usize, const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    // Of the op with 32 rows all factors are fp4.
    let formats = if M == 32 { [4, 4] } else { [op.op_sel, op.op_sel_hi] };
    let [Some(a), Some(b)] = formats.map(format) else {
        return unimplemented(format!("matrix formats {formats:?}"));
    };
    let rows: [[f64; K]; M] = std::array::from_fn(|m| line(wave, op, 0, m, a));
    let columns: [[f64; K]; 16] = std::array::from_fn(|n| line(wave, op, 1, n, b));
    let c = &op.src[2];
    let mut result = [Row::<L>::ZERO; 16];
    for (r, result) in result[..M / 2].iter_mut().enumerate() {
        for (lane, result) in result.0.iter_mut().enumerate() {
            let start = if c.kind == SrcKind::Vgpr { wave.v[usize::from(c.reg) + r].0[lane] } else { wave.s32(c) };
            let start = f32::from_bits(start);
            let start = if op.neg_hi & 4 != 0 { start.abs() } else { start };
            let start = if op.neg & 4 != 0 { -start } else { start };
            let (row, column) = (&rows[r / 8 * 16 + r % 8 + lane / 16 * 8], &columns[lane % 16]);
            let sum = row.iter().zip(column).fold(f64::from(start), |sum, (a, b)| sum + a * b);
            *result = (sum as f32).to_bits();
        }
    }
    for (r, row) in result[..M / 2].iter().enumerate() {
        wave.v[usize::from(op.dst) + r] = *row;
    }
    Ok(())
}

fn unimplemented(what: String) -> Step {
    Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what))))
}
