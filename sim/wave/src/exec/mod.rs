// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Execution of ops: one module for each kind of op, and the choice of the code for an op.
//!
//! Modules name only those before them: `float`, `level`, `control`, `lanes`, `transpose`; `address`, `access`,
//! `span`, `atomic`, `memory`, `scalar_memory` and `reach`; `valu`, on which most others are built; this one.

mod access;
mod address;
mod atomic;
mod barrier;
mod carry;
mod compare;
mod control;
mod convert;
mod cross;
pub(crate) mod dpp;
pub(crate) mod float;
#[cfg(test)]
#[path = "float_test.rs"]
mod float_tests;
mod fp8;
mod gws;
mod half;
mod integer;
mod lanes;
mod lds;
mod level;
mod memory;
mod mfma;
mod mfma_cdna4;
mod mfma_scaled;
mod min_max;
pub(crate) mod outer;
mod packed;
mod reach;
mod salu;
mod salu_float;
mod scalar_memory;
mod scaled;
mod scaled_cdna4;
pub(crate) mod sdwa;
mod single;
mod span;
mod tensor;
mod transpose;
mod typed;
mod valu;
mod wmma;
mod wmma_layout;
mod wmma_small;

pub(crate) use barrier::named_number;
pub(crate) use control::{copy_row, give_way, jump, nop, refused};
pub(crate) use cross::indexed_move;
pub(crate) use level::Level;
pub(crate) use memory::lds_handler;
pub(crate) use mfma_scaled::load_scales as load_scales9;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) use reach::origin;
pub(crate) use reach::{Reach, Way, lanes as lanes_of, peek, reach, scalar_reach};
pub(crate) use wmma_small::load_scales;

use crate::micro_op::Handler;
use sim_isa::{Flags, Op};

/// The handler of an op.
pub(crate) struct Chosen<const L: usize> {
    pub run: Handler<L>,
    /// The handler reads vector sources lane by lane: a constant may as well be a register.
    pub lane_wise: bool,
}

/// Finds the handler of an op.
///
/// # Errors
/// The missing feature, if the op is not implemented.
pub(crate) fn handler<const L: usize>(op: Op, clamp: bool, level: Level) -> Result<Chosen<L>, String> {
    if clamp && let Some(run) = integer::saturating(op, level).or_else(|| carry::saturating(op, level)) {
        return Ok(Chosen { run, lane_wise: true });
    }
    if clamp && !op.has(Flags::CLAMPS) {
        return Err(format!("clamp of {}", op.name()));
    }
    let lane_wise = single::handler(op, level)
        .or_else(|| integer::handler(op, level))
        .or_else(|| half::handler(op, level))
        .or_else(|| convert::handler(op, level))
        .or_else(|| min_max::handler(op, level))
        .or_else(|| compare::handler(op, level))
        .or_else(|| carry::handler(op, level))
        .or_else(|| packed::handler(op, level));
    if let Some(run) = lane_wise {
        return Ok(Chosen { run, lane_wise: true });
    }
    let run = salu::handler(op)
        .or_else(|| barrier::handler(op))
        .or_else(|| gws::handler(op))
        .or_else(|| salu_float::handler(op))
        .or_else(|| salu_float::transcendental_handler(op))
        .or_else(|| scalar_memory::handler(op))
        .or_else(|| cross::handler(op))
        .or_else(|| memory::handler(op, level))
        .or_else(|| typed::handler(op))
        .or_else(|| lds::handler(op, level))
        .or_else(|| fp8::handler(op))
        .or_else(|| scaled::handler(op))
        .or_else(|| scaled_cdna4::handler(op))
        .or_else(|| wmma::handler(op))
        .or_else(|| wmma_small::handler(op))
        .or_else(|| tensor::handler(op))
        .or_else(|| mfma::handler(op))
        .or_else(|| mfma_cdna4::wide_handler(op))
        .or_else(|| mfma_scaled::handler(op))
        .ok_or_else(|| op.name().to_owned())?;
    Ok(Chosen { run, lane_wise: false })
}

/// gfx1250: the handler of a conversion whose clamp bit says that its floats of 8 bits are e5m3, not e4m3 (LLVM,
/// `FeatureFP8E5M3Insts`).
pub(crate) fn e5m3_handler<const L: usize>(op: Op, level: Level) -> Option<Chosen<L>> {
    let lane_wise = convert::e5m3_handler(op, level).map(|run| Chosen { run, lane_wise: true });
    lane_wise.or_else(|| fp8::e5m3_handler(op).map(|run| Chosen { run, lane_wise: false }))
}

/// gfx950: the handler of an op that gfx942 has with other floats of 8 bits.
pub(crate) fn cdna4_handler<const L: usize>(op: Op, level: Level) -> Option<Chosen<L>> {
    let lane_wise = convert::cdna4_handler(op, level).map(|run| Chosen { run, lane_wise: true });
    let other = || fp8::cdna4_handler(op).or_else(|| mfma_cdna4::handler(op));
    lane_wise.or_else(|| other().map(|run| Chosen { run, lane_wise: false }))
}

/// True if the op is executed (or skipped as a no-op). Tests use this list.
pub fn is_implemented(op: Op) -> bool {
    // Of messages some are no-ops.
    op.has(Flags::NOP)
        || op == Op::SSendmsg
        || handler::<32>(op, false, Level::Base).is_ok()
        || handler::<64>(op, false, Level::Base).is_ok()
}
