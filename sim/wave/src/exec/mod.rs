// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What each op does, one module for each kind of op, and the choice of the code that does it.

mod address;
mod atomic;
mod barrier;
mod carry;
mod compare;
mod convert;
mod cross;
pub(crate) mod dpp;
mod extremum;
pub(crate) mod float;
#[cfg(test)]
mod float_tests;
mod half;
mod integer;
mod lds;
mod memory;
mod mfma;
mod packed;
mod salu;
mod salu_float;
mod scalar_memory;
mod scaled;
pub(crate) mod sdwa;
mod single;
mod small_float;
mod tensor;
mod transpose;
mod typed;
mod valu;
mod wmma;
mod wmma_small;

use crate::program::MicroOp;
use crate::wave::{Group, Handler, Step, Stop, Wave};
use sim_isa::Op;

/// Which instructions of the host the vector code may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// What the crate is compiled for.
    Base,
    /// x86-64-v3: AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    V3,
}

impl Level {
    /// The best one this CPU has.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
        {
            return Level::V3;
        }
        Level::Base
    }
}

/// The semantics of an op. `exec` must be `#[inline(always)]`, so that it is compiled with the features of its level.
pub(crate) trait Exec<const L: usize> {
    fn exec(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step;
}

/// The handler of an op for a level.
pub(crate) fn select<E: Exec<L>, const L: usize>(level: Level) -> Handler<L> {
    match level {
        Level::Base => base::<E, L>,
        #[cfg(target_arch = "x86_64")]
        Level::V3 => v3::<E, L>,
    }
}

fn base<E: Exec<L>, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    E::exec(wave, group, op)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn v3<E: Exec<L>, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    E::exec(wave, group, op)
}

/// The handler of an op.
pub(crate) struct Chosen<const L: usize> {
    pub run: Handler<L>,
    /// Its vector sources are read lane by lane: a constant may as well be a register.
    pub lane_wise: bool,
}

/// Finds the handler of an op.
///
/// # Errors
/// What is missing, if the op is not implemented.
pub(crate) fn handler<const L: usize>(op: Op, clamp: bool, level: Level) -> Result<Chosen<L>, String> {
    if clamp && let Some(run) = integer::saturating(op, level) {
        return Ok(Chosen { run, lane_wise: true });
    }
    if clamp && !valu::clamps(op) {
        return Err(format!("clamp of {}", op.name()));
    }
    let lane_wise = single::handler(op, level)
        .or_else(|| integer::handler(op, level))
        .or_else(|| half::handler(op, level))
        .or_else(|| convert::handler(op, level))
        .or_else(|| extremum::handler(op, level))
        .or_else(|| compare::handler(op, level))
        .or_else(|| carry::handler(op, level))
        .or_else(|| packed::handler(op, level));
    if let Some(run) = lane_wise {
        return Ok(Chosen { run, lane_wise: true });
    }
    let run = salu::handler(op)
        .or_else(|| barrier::handler(op))
        .or_else(|| salu_float::handler(op))
        .or_else(|| salu_float::transcendental_handler(op))
        .or_else(|| scalar_memory::handler(op))
        .or_else(|| cross::handler(op))
        .or_else(|| memory::handler(op, level))
        .or_else(|| typed::handler(op))
        .or_else(|| lds::handler(op, level))
        .or_else(|| small_float::handler(op))
        .or_else(|| scaled::handler(op))
        .or_else(|| wmma::handler(op))
        .or_else(|| wmma_small::handler(op))
        .or_else(|| tensor::handler(op))
        .or_else(|| mfma::handler(op, level))
        .ok_or_else(|| op.name().to_owned())?;
    Ok(Chosen { run, lane_wise: false })
}

/// Whether the op accumulates: its old destination is one source more, after those of its row.
pub(crate) fn reads_destination(op: Op) -> bool {
    let sparse = op.name().starts_with("v_swmmac_");
    sparse
        || matches!(
            op,
            Op::VFmacF32
                | Op::VFmacF16
                | Op::VFmacDx9ZeroF32
                | Op::VDot2accF32F16
                | Op::VDot2accF32Bf16
                | Op::VPkFmacF16
                | Op::VFmacF64
                | Op::VMacF32
                | Op::VMacLegacyF32
                | Op::VMacF16
                | Op::VDot2cI32I16
                | Op::VDot4cI32I8
                | Op::VDot8cI32I4
                | Op::VCvtPkaccumU8F32
                | Op::SFmacF32
                | Op::SFmacF16
                | Op::VCvtSrFp8F32
                | Op::VCvtSrBf8F32
                | Op::VCvtSrFp8F32Gfx12
                | Op::VCvtSrBf8F32Gfx12
                | Op::VCvtSrFp8F16
                | Op::VCvtSrBf8F16
        )
}

/// No-ops that are jumped to.
pub(crate) fn nop<const L: usize>(_: &mut Wave<L>, _: &mut Group<'_>, _: &MicroOp<L>) -> Step {
    Ok(())
}

pub(crate) use barrier::Named;
pub(crate) use cross::indexed_move;
pub(crate) use memory::lds_handler;
pub(crate) use wmma_small::{Scaling, load_scales};

/// Goes on elsewhere, without being an instruction.
pub(crate) fn jump<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let backward = op.target < wave.next;
    wave.next = op.target;
    if backward {
        wave.patience -= 1;
        if wave.patience == 0 {
            return Err(Stop::Yield);
        }
    }
    Ok(())
}

/// Copies all lanes of a register that already has what inactive lanes must keep.
pub(crate) fn copy_row<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let row = wave.v[op.src[0].reg as usize];
    wave.put(op.dst as usize, &row);
    Ok(())
}
