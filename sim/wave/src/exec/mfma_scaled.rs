// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Matrix ops of gfx950 on floats of 8, 6 and 4 bits whose formats the instruction chooses, and whose blocks of 32
//! elements along K may have scales: `v_mfma_f32_*_f8f6f4`, `v_mfma_scale_*` (CDNA4 ISA, "VOP3PX2"). EXEC does not
//! count.
//!
//! Each lane has 32 elements of a row of A or column of B. Those of 6 and 4 bits follow each other in the row; of 8
//! bits the lanes of a row have runs of 16 by turns (AMD's "Matrix Core Programming on CDNA3 and CDNA4", 5.4 and 5.5,
//! whose kernels load them so). A lane's scale is that of the block whose number is its place among the row's lanes.

use super::mfma::LANES;
use super::wmma_small::{Decode, format};
use crate::fault::FaultKind;
use crate::micro_op::{Handler, MicroOp, Scaling, Step, Stop};
use crate::operand::SrcKind;
use crate::wave::{Group, Row, Wave};
use sim_isa::Op;

/// The handler of a matrix op.
pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    match op {
        Op::VMfmaF3216x16x128F8f6f4 if L == LANES => Some(multiply::<16, 128, L>),
        Op::VMfmaF3232x32x64F8f6f4 if L == LANES => Some(multiply::<32, 64, L>),
        // With the op that they are for, they are executed by `load_scales`.
        Op::VMfmaLdScaleB32 => Some(|_, _, _| unimplemented("scales without a matrix op after them".to_owned())),
        _ => None,
    }
}

/// Elements that a lane has, and of a block with a scale.
const BLOCK: usize = 32;

/// Puts the scales of A and B where the matrix op that follows finds them, in the spare rows: the byte of each lane's
/// dword that bit 0 or 1 of `op_sel`, and as the upper bit of `op_sel_hi`, choose.
pub(crate) fn load_scales<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let spare = op.dst as usize;
    for i in 0..2 {
        if op.src[i].kind != SrcKind::Vgpr {
            return unimplemented("matrix scales that are not in vector registers".to_owned());
        }
        let byte = op.op_sel >> i & 1 | (op.op_sel_hi >> i & 1) << 1;
        let row = wave.v[usize::from(op.src[i].reg)];
        wave.v[spare + i] = Row(row.0.map(|scales| scales >> (8 * byte) & 0xff));
    }
    Ok(())
}

/// The elements of row or column `m` of factor `i`, times their scales.
fn line<const M: usize, const K: usize, const L: usize>(
    wave: &Wave<L>,
    op: &MicroOp<L>,
    (i, m): (usize, usize),
    (bits, decode): (usize, Decode),
) -> [f64; K] {
    let first = usize::from(op.src[i].reg);
    let run = if bits == 8 { 16 } else { BLOCK };
    std::array::from_fn(|k| {
        let (lane, place) = (m + M * (k / run % (K / BLOCK)), k / run / (K / BLOCK) * run + k % run);
        let (dword, shift) = (place * bits / 32, place * bits % 32);
        let word = |n: usize| u64::from(wave.v[first + n].0[lane]);
        let beyond = if shift + bits > 32 { word(dword + 1) << 32 } else { 0 };
        let value = f64::from(decode(((word(dword) | beyond) >> shift) as u32));
        if Scaling::from_simm(op.simm).is_none() {
            return value;
        }
        match wave.v[wave.vgprs + i].0[m + M * (k / BLOCK)] {
            0xff => f64::NAN,
            scale => value * 2f64.powi(scale as i32 - 127),
        }
    })
}

/// All products are added in f64, on top of C, and rounded once.
fn multiply<const M: usize, const K: usize, const L: usize>(
    wave: &mut Wave<L>,
    _: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let formats = [op.matrix.cbsz, op.matrix.blgp];
    let [Some(a), Some(b)] = formats.map(format) else {
        return unimplemented(format!("matrix formats {formats:?}"));
    };
    let rows: [[f64; K]; M] = std::array::from_fn(|m| line::<M, K, L>(wave, op, (0, m), a));
    let columns: [[f64; K]; M] = std::array::from_fn(|n| line::<M, K, L>(wave, op, (1, n), b));
    let c = &op.src[2];
    let mut result = [Row::<L>::ZERO; 16];
    let registers = M * M / LANES;
    for (r, result) in result[..registers].iter_mut().enumerate() {
        for (lane, result) in result.0.iter_mut().enumerate() {
            let start = if c.kind == SrcKind::Vgpr { wave.v[usize::from(c.reg) + r].0[lane] } else { wave.s32(c) };
            // Strips of four rows go to the lanes one after the other, then to further registers.
            let row = r / 4 * (4 * LANES / M) + lane / M * 4 + r % 4;
            let products = rows[row].iter().zip(&columns[lane % M]);
            let sum = products.fold(f64::from(f32::from_bits(start)), |sum, (a, b)| sum + a * b);
            *result = (sum as f32).to_bits();
        }
    }
    let dst = usize::from(op.dst);
    wave.v[dst..dst + registers].copy_from_slice(&result[..registers]);
    Ok(())
}

fn unimplemented(what: String) -> Step {
    Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what))))
}
