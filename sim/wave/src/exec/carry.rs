// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Ops that read or write a lane mask beside their result: carries, selects, division steps.

use super::float::{div_fmas32, div_fmas64, div_scale32, div_scale64};
use super::level::{Exec, Level, select};
use super::valu::{Elem, Output, operands};
use crate::micro_op::{Handler, MicroOp, Step};
use crate::operand::SrcKind;
use crate::wave::{Group, Row, Wave, collect};
use sim_isa::Op;

/// Place of the mask that an op reads.
#[derive(PartialEq)]
enum MaskIn {
    None,
    /// Source 2.
    Source,
    /// VCC, implied.
    Vcc,
}

/// A lane-wise op with a mask bit in and a mask bit out.
trait MaskOp {
    type A: Elem;
    type B: Elem;
    type C: Elem;
    type R: Elem;
    const IN: MaskIn = MaskIn::None;
    const OUT: bool = true;
    fn eval(a: Self::A, b: Self::B, c: Self::C, bit: bool) -> (Self::R, bool);
}

struct Masked<O>(std::marker::PhantomData<O>);

impl<O: MaskOp, const L: usize> Exec<L> for Masked<O> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        run(wave, op, (O::IN, O::OUT), O::eval)
    }

    #[inline(always)]
    fn exec_by_lane(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        by_lane::<O::A, O::B, O::C, O::R, L>(wave, op, (O::IN, O::OUT), O::eval)
    }
}

/// An op lane by lane. All with the same types share it.
#[cold]
#[inline(never)]
fn by_lane<A: Elem, B: Elem, C: Elem, R: Elem, const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    masks: (MaskIn, bool),
    eval: fn(A, B, C, bool) -> (R, bool),
) -> Step {
    run(wave, op, masks, eval)
}

/// Runs an op with the place of the mask that it reads, and whether it writes one.
#[inline(always)]
fn run<A: Elem, B: Elem, C: Elem, R: Elem, const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    (reads, writes): (MaskIn, bool),
    eval: impl Fn(A, B, C, bool) -> (R, bool),
) -> Step {
    let bits = match reads {
        MaskIn::None => 0,
        // A short encoding leaves the mask implied.
        MaskIn::Source if op.src[2].kind != SrcKind::None => wave.lanes(&op.src[2]),
        MaskIn::Source | MaskIn::Vcc => wave.vcc(),
    };
    let [a, b, c] = operands::<A, B, C, L>(wave, op);
    let mut output = Output::new();
    let mut out = Row::<L>::ZERO;
    for i in 0..L {
        let (result, bit) = eval(a.get(i), b.get(i), c.get(i), bits >> i & 1 != 0);
        output.set(i, result);
        out.0[i] = u32::from(bit).wrapping_neg();
    }
    // SAFETY: all lanes are set.
    unsafe { output.put::<R>(wave, op) };
    if writes {
        let lanes = collect(&out) & wave.exec();
        wave.set_lanes(op.sdst as usize, lanes);
    }
    Ok(())
}

macro_rules! mask_ops {
    ($($name:ident [$in:ident, $out:literal] ($a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty, $bit:ident) -> $r:ty $body:block)*) => {
        /// The handler of an op of this module.
        pub(in crate::exec) fn handler<const L: usize>(op: Op, level: Level) -> Option<Handler<L>> {
            $(
                struct $name;
                impl MaskOp for $name {
                    type A = $ta;
                    type B = $tb;
                    type C = $tc;
                    type R = $r;
                    const IN: MaskIn = MaskIn::$in;
                    const OUT: bool = $out;
                    #[inline(always)]
                    fn eval($a: $ta, $b: $tb, $c: $tc, $bit: bool) -> ($r, bool) $body
                }
            )*
            Some(match op {
                $(Op::$name => select::<Masked<$name>, L>(level),)*
                _ => return None,
            })
        }
    };
}

/// a + b + carry.
#[inline(always)]
fn add(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

/// a + b + carry, at most 2^32 - 1.
#[inline(always)]
fn saturating_add(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let (sum, overflows) = add(a, b, carry);
    (if overflows { u32::MAX } else { sum }, overflows)
}

/// a - b - borrow, at least 0.
#[inline(always)]
fn saturating_sub(a: u32, b: u32, borrow: bool) -> (u32, bool) {
    let (difference, overflows) = sub(a, b, borrow);
    (if overflows { 0 } else { difference }, overflows)
}

/// a - b - borrow.
#[inline(always)]
fn sub(a: u32, b: u32, borrow: bool) -> (u32, bool) {
    let difference = u64::from(a).wrapping_sub(u64::from(b)).wrapping_sub(u64::from(borrow));
    (difference as u32, difference >> 32 != 0)
}

mask_ops! {
    VCndmaskB32 [Source, false] (a: u32, b: u32, _c: (), bit) -> u32 { (if bit { b } else { a }, false) }
    VCndmaskB16 [Source, false] (a: u16, b: u16, _c: (), bit) -> u16 { (if bit { b } else { a }, false) }
    VAddCoCiU32 [Source, true] (a: u32, b: u32, _c: (), bit) -> u32 { add(a, b, bit) }
    VSubCoCiU32 [Source, true] (a: u32, b: u32, _c: (), bit) -> u32 { sub(a, b, bit) }
    VSubrevCoCiU32 [Source, true] (a: u32, b: u32, _c: (), bit) -> u32 { sub(b, a, bit) }
    VAddCoU32 [None, true] (a: u32, b: u32, _c: (), _bit) -> u32 { add(a, b, false) }
    VSubCoU32 [None, true] (a: u32, b: u32, _c: (), _bit) -> u32 { sub(a, b, false) }
    VSubrevCoU32 [None, true] (a: u32, b: u32, _c: (), _bit) -> u32 { sub(b, a, false) }
    VMadU64U32 [None, true] (a: u32, b: u32, c: u64, _bit) -> u64 { (u64::from(a) * u64::from(b)).overflowing_add(c) }
    VMadI64I32 [None, true] (a: i32, b: i32, c: i64, _bit) -> i64 {
        // Bit 64 of the exact sum: its sign.
        let (sum, overflow) = (i64::from(a) * i64::from(b)).overflowing_add(c);
        (sum, (sum < 0) != overflow)
    }
    VDivScaleF32 [None, true] (a: f32, b: f32, c: f32, _bit) -> f32 { div_scale32(a, b, c) }
    VDivScaleF64 [None, true] (a: f64, b: f64, c: f64, _bit) -> f64 { div_scale64(a, b, c) }
    VDivFmasF32 [Vcc, false] (a: f32, b: f32, c: f32, bit) -> f32 { (div_fmas32(a, b, c, bit), false) }
    VDivFmasF64 [Vcc, false] (a: f64, b: f64, c: f64, bit) -> f64 { (div_fmas64(a, b, c, bit), false) }
}

/// Forms with `clamp`: the result saturates, and the carry is still returned.
mod clamped {
    use super::*;

    mask_ops! {
        VAddCoCiU32 [Source, true] (a: u32, b: u32, _c: (), bit) -> u32 { saturating_add(a, b, bit) }
        VSubCoCiU32 [Source, true] (a: u32, b: u32, _c: (), bit) -> u32 { saturating_sub(a, b, bit) }
        VSubrevCoCiU32 [Source, true] (a: u32, b: u32, _c: (), bit) -> u32 { saturating_sub(b, a, bit) }
        VAddCoU32 [None, true] (a: u32, b: u32, _c: (), _bit) -> u32 { saturating_add(a, b, false) }
        VSubCoU32 [None, true] (a: u32, b: u32, _c: (), _bit) -> u32 { saturating_sub(a, b, false) }
        VSubrevCoU32 [None, true] (a: u32, b: u32, _c: (), _bit) -> u32 { saturating_sub(b, a, false) }
    }
}

pub(super) use clamped::handler as saturating;
