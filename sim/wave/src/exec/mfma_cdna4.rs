// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Matrix ops of gfx950: those of gfx942 on floats of 8 bits, with the formats of the Open Compute Project, and those
//! of twice the inner dimension, whose dense ones have the layout of the others.

use super::fp8::ocp;
use super::level::of_lanes;
use super::mfma::{
    Elements, LANES, Sum, element, elements, multiply_rows, product, products, put, sparse_product, spread,
};
use crate::micro_op::{Handler, MicroOp, Step};
use crate::wave::{Group, Row, Wave};
use sim_isa::Op;

elements! {
    Fp8Fp8<f32, f32> [8] |x| ocp::fp8_to_f32(x as u8), |x| ocp::fp8_to_f32(x as u8);
    Fp8Bf8<f32, f32> [8] |x| ocp::fp8_to_f32(x as u8), |x| ocp::bf8_to_f32(x as u8);
    Bf8Fp8<f32, f32> [8] |x| ocp::bf8_to_f32(x as u8), |x| ocp::fp8_to_f32(x as u8);
    Bf8Bf8<f32, f32> [8] |x| ocp::bf8_to_f32(x as u8), |x| ocp::bf8_to_f32(x as u8);
}

products! {
    dense {
        VMfmaF3216x16x32Fp8Fp8 Fp8Fp8 16 32 1;
        VMfmaF3216x16x32Fp8Bf8 Fp8Bf8 16 32 1;
        VMfmaF3216x16x32Bf8Fp8 Bf8Fp8 16 32 1;
        VMfmaF3216x16x32Bf8Bf8 Bf8Bf8 16 32 1;
        VMfmaF3232x32x16Fp8Fp8 Fp8Fp8 32 16 1;
        VMfmaF3232x32x16Fp8Bf8 Fp8Bf8 32 16 1;
        VMfmaF3232x32x16Bf8Fp8 Bf8Fp8 32 16 1;
        VMfmaF3232x32x16Bf8Bf8 Bf8Bf8 32 16 1;
    }
    sparse {
        VSmfmacF3216x16x64Fp8Fp8 Fp8Fp8 16 64;
        VSmfmacF3216x16x64Fp8Bf8 Fp8Bf8 16 64;
        VSmfmacF3216x16x64Bf8Fp8 Bf8Fp8 16 64;
        VSmfmacF3216x16x64Bf8Bf8 Bf8Bf8 16 64;
        VSmfmacF3232x32x32Fp8Fp8 Fp8Fp8 32 32;
        VSmfmacF3232x32x32Fp8Bf8 Fp8Bf8 32 32;
        VSmfmacF3232x32x32Bf8Fp8 Bf8Fp8 32 32;
        VSmfmacF3232x32x32Bf8Bf8 Bf8Bf8 32 32;
    }
}

/// Ops that gfx942 lacks.
mod wide {
    use super::super::mfma::{Bf16, F16, I8};
    use super::wide_sparse_product as sparse_product;
    use super::*;

    products! {
        dense {
            VMfmaF3216x16x32F16 F16 16 32 1;
            VMfmaF3232x32x16F16 F16 32 16 1;
            VMfmaF3216x16x32Bf16 Bf16 16 32 1;
            VMfmaF3232x32x16Bf16 Bf16 32 16 1;
            VMfmaI3216x16x64I8 I8 16 64 1;
            VMfmaI3232x32x32I8 I8 32 32 1;
        }
        sparse {
            VSmfmacF3216x16x64F16 F16 16 64;
            VSmfmacF3232x32x32F16 F16 32 32;
            VSmfmacF3216x16x64Bf16 Bf16 16 64;
            VSmfmacF3232x32x32Bf16 Bf16 32 32;
            VSmfmacI3216x16x128I8 I8 16 128;
            VSmfmacI3232x32x64I8 I8 32 64;
            VSmfmacF3216x16x128Fp8Fp8 Fp8Fp8 16 128;
            VSmfmacF3216x16x128Fp8Bf8 Fp8Bf8 16 128;
            VSmfmacF3216x16x128Bf8Fp8 Bf8Fp8 16 128;
            VSmfmacF3216x16x128Bf8Bf8 Bf8Bf8 16 128;
            VSmfmacF3232x32x64Fp8Fp8 Fp8Fp8 32 64;
            VSmfmacF3232x32x64Fp8Bf8 Fp8Bf8 32 64;
            VSmfmacF3232x32x64Bf8Fp8 Bf8Fp8 32 64;
            VSmfmacF3232x32x64Bf8Bf8 Bf8Bf8 32 64;
        }
    }
}

/// The handler of an op that gfx942 lacks.
pub(super) fn wide_handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    wide::handler(op)
}

/// The lane of B, and the place in it, of the first of four elements from which pair `n` of A's lane `lane` chooses,
/// for column `j`. A lane has `pairs` pairs.
fn four<const M: usize>(pairs: usize, lane: usize, n: usize, j: usize) -> (usize, usize) {
    let (group, upper, rest) = (lane / M, n / (pairs / 2), n % (pairs / 2));
    // 32 columns leave two groups of lanes, 16 four.
    let (of_lane, of_run) = if M == 16 { (upper + 2 * (group % 2), group / 2) } else { (upper, group) };
    (j + M * of_lane, 8 * (rest / 2 + pairs / 4 * of_run) + 4 * (rest % 2))
}

/// A matrix op whose A is sparse, as [`sparse_product`], with twice its inner dimension. A lane of B has runs of eight
/// elements from all over the column, so that the four elements that a pair of A chooses from are in another lane than
/// the pair.
/// AMD's hip-fpsan measured which on an MI350 (`smfmac_software_16x16x64` and its like).
fn wide_sparse_product<E: Elements, const M: usize, const K: usize>(
    wave: &mut Wave<LANES>,
    _: &mut Group<'_>,
    op: &MicroOp<LANES>,
) -> Step {
    let pairs = K * M / LANES / 4;
    // Both factors with the four elements of pair *n* in places 4*n* to 4*n* + 3 of its lane.
    let (a, mut b) = (spread::<E, M, K, 8>(wave, op), [Row::ZERO; 8]);
    for lane in 0..LANES {
        for n in 0..pairs {
            let (from, first) = four::<M>(pairs, lane, n, lane % M);
            for p in 0..4 {
                put::<E>(&mut b, lane, 4 * n + p, element::<E>(&wave.v[op.src[1].reg as usize..], from, first + p));
            }
        }
    }
    let d = op.dst as usize;
    multiply_rows::<E, M, K>(&a, &b, &mut wave.v[d..d + M * M / LANES]);
    Ok(())
}
