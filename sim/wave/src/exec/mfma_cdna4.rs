// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Matrix ops of gfx950: those of gfx942 on floats of 8 bits, with the formats of the Open Compute Project.

use super::level::{Level, select};
use super::mfma::{Elements, LANES, Product, Sparse, Sum, elements, products};
use super::small_float::ocp;
use crate::micro_op::Handler;
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
