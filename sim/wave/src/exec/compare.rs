// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Vector compares. `v_cmp_*` write a lane mask, zero in inactive lanes; `v_cmpx_*` write it to EXEC, on GFX9 in
//! addition to their destination, elsewhere as their destination.

use super::float::class_bit;
use super::level::{Exec, Level, select};
use super::valu::{Elem, F16, operands};
use crate::micro_op::{Handler, MicroOp, Step};
use crate::wave::{Group, Row, Wave, collect};
use sim_isa::Op;

/// A lane-wise predicate.
trait Predicate {
    type A: Elem;
    type B: Elem;
    fn holds(a: Self::A, b: Self::B) -> bool;
}

struct Compare<P>(std::marker::PhantomData<P>);

impl<P: Predicate, const L: usize> Exec<L> for Compare<P> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        let [a, b, _] = operands::<P::A, P::B, (), L>(wave, op);
        let mut result = Row::<L>::ZERO;
        for i in 0..L {
            result.0[i] = u32::from(P::holds(a.get(i), b.get(i))).wrapping_neg();
        }
        put(wave, op, collect(&result));
        Ok(())
    }

    #[inline(always)]
    fn exec_by_lane(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        by_lane::<P::A, P::B, L>(wave, op, P::holds);
        Ok(())
    }
}

/// A compare lane by lane. All with the same types share it.
#[cold]
#[inline(never)]
fn by_lane<A: Elem, B: Elem, const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>, holds: fn(A, B) -> bool) {
    let [a, b, _] = operands::<A, B, (), L>(wave, op);
    let lanes = (0..L).filter(|lane| holds(a.get(*lane), b.get(*lane))).fold(0, |lanes, lane| lanes | 1 << lane);
    put(wave, op, lanes);
}

/// Writes the lanes in which the predicate holds.
#[inline(always)]
fn put<const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>, lanes: u64) {
    let lanes = lanes & wave.exec();
    wave.set_lanes(op.dst as usize, lanes);
    if op.writes_exec {
        wave.set_exec(lanes);
    }
}

macro_rules! predicates {
    ($($cmp:ident $cmpx:ident ($a:ident: $ta:ty, $b:ident: $tb:ty) $body:block)*) => {
        /// The handler of a compare.
        pub(super) fn handler<const L: usize>(op: Op, level: Level) -> Option<Handler<L>> {
            $(
                struct $cmp;
                impl Predicate for $cmp {
                    type A = $ta;
                    type B = $tb;
                    // The negations are the ops' definition: true with a NaN.
                    #[allow(clippy::neg_cmp_op_on_partial_ord, clippy::double_comparisons)]
                    #[inline(always)]
                    fn holds($a: $ta, $b: $tb) -> bool $body
                }
            )*
            Some(match op {
                $(Op::$cmp | Op::$cmpx => select::<Compare<$cmp>, L>(level),)*
                _ => return None,
            })
        }
    };
}

#[inline(always)]
fn class16(a: u16) -> u32 {
    class_bit(a >> 15 != 0, u64::from(a >> 10 & 0x1f), 0x1f, u64::from(a & 0x3ff), 0x200)
}

#[inline(always)]
fn class32(a: u32) -> u32 {
    class_bit(a >> 31 != 0, u64::from(a >> 23 & 0xff), 0xff, u64::from(a & 0x7f_ffff), 1 << 22)
}

#[inline(always)]
fn class64(a: u64) -> u32 {
    class_bit(a >> 63 != 0, a >> 52 & 0x7ff, 0x7ff, a & ((1 << 52) - 1), 1 << 51)
}

predicates! {
    VCmpFF16 VCmpxFF16 (_a: F16, _b: F16) { false }
    VCmpLtF16 VCmpxLtF16 (a: F16, b: F16) { a.0 < b.0 }
    VCmpEqF16 VCmpxEqF16 (a: F16, b: F16) { a.0 == b.0 }
    VCmpLeF16 VCmpxLeF16 (a: F16, b: F16) { a.0 <= b.0 }
    VCmpGtF16 VCmpxGtF16 (a: F16, b: F16) { a.0 > b.0 }
    VCmpLgF16 VCmpxLgF16 (a: F16, b: F16) { a.0 < b.0 || a.0 > b.0 }
    VCmpGeF16 VCmpxGeF16 (a: F16, b: F16) { a.0 >= b.0 }
    VCmpOF16 VCmpxOF16 (a: F16, b: F16) { !a.0.is_nan() && !b.0.is_nan() }
    VCmpUF16 VCmpxUF16 (a: F16, b: F16) { a.0.is_nan() || b.0.is_nan() }
    VCmpNgeF16 VCmpxNgeF16 (a: F16, b: F16) { !(a.0 >= b.0) }
    VCmpNlgF16 VCmpxNlgF16 (a: F16, b: F16) { !(a.0 < b.0 || a.0 > b.0) }
    VCmpNgtF16 VCmpxNgtF16 (a: F16, b: F16) { !(a.0 > b.0) }
    VCmpNleF16 VCmpxNleF16 (a: F16, b: F16) { !(a.0 <= b.0) }
    VCmpNeqF16 VCmpxNeqF16 (a: F16, b: F16) { a.0 != b.0 }
    VCmpNltF16 VCmpxNltF16 (a: F16, b: F16) { !(a.0 < b.0) }
    VCmpTF16 VCmpxTF16 (_a: F16, _b: F16) { true }
    VCmpFF32 VCmpxFF32 (_a: f32, _b: f32) { false }
    VCmpLtF32 VCmpxLtF32 (a: f32, b: f32) { a < b }
    VCmpEqF32 VCmpxEqF32 (a: f32, b: f32) { a == b }
    VCmpLeF32 VCmpxLeF32 (a: f32, b: f32) { a <= b }
    VCmpGtF32 VCmpxGtF32 (a: f32, b: f32) { a > b }
    VCmpLgF32 VCmpxLgF32 (a: f32, b: f32) { a < b || a > b }
    VCmpGeF32 VCmpxGeF32 (a: f32, b: f32) { a >= b }
    VCmpOF32 VCmpxOF32 (a: f32, b: f32) { !a.is_nan() && !b.is_nan() }
    VCmpUF32 VCmpxUF32 (a: f32, b: f32) { a.is_nan() || b.is_nan() }
    VCmpNgeF32 VCmpxNgeF32 (a: f32, b: f32) { !(a >= b) }
    VCmpNlgF32 VCmpxNlgF32 (a: f32, b: f32) { !(a < b || a > b) }
    VCmpNgtF32 VCmpxNgtF32 (a: f32, b: f32) { !(a > b) }
    VCmpNleF32 VCmpxNleF32 (a: f32, b: f32) { !(a <= b) }
    VCmpNeqF32 VCmpxNeqF32 (a: f32, b: f32) { a != b }
    VCmpNltF32 VCmpxNltF32 (a: f32, b: f32) { !(a < b) }
    VCmpTF32 VCmpxTF32 (_a: f32, _b: f32) { true }
    VCmpFF64 VCmpxFF64 (_a: f64, _b: f64) { false }
    VCmpLtF64 VCmpxLtF64 (a: f64, b: f64) { a < b }
    VCmpEqF64 VCmpxEqF64 (a: f64, b: f64) { a == b }
    VCmpLeF64 VCmpxLeF64 (a: f64, b: f64) { a <= b }
    VCmpGtF64 VCmpxGtF64 (a: f64, b: f64) { a > b }
    VCmpLgF64 VCmpxLgF64 (a: f64, b: f64) { a < b || a > b }
    VCmpGeF64 VCmpxGeF64 (a: f64, b: f64) { a >= b }
    VCmpOF64 VCmpxOF64 (a: f64, b: f64) { !a.is_nan() && !b.is_nan() }
    VCmpUF64 VCmpxUF64 (a: f64, b: f64) { a.is_nan() || b.is_nan() }
    VCmpNgeF64 VCmpxNgeF64 (a: f64, b: f64) { !(a >= b) }
    VCmpNlgF64 VCmpxNlgF64 (a: f64, b: f64) { !(a < b || a > b) }
    VCmpNgtF64 VCmpxNgtF64 (a: f64, b: f64) { !(a > b) }
    VCmpNleF64 VCmpxNleF64 (a: f64, b: f64) { !(a <= b) }
    VCmpNeqF64 VCmpxNeqF64 (a: f64, b: f64) { a != b }
    VCmpNltF64 VCmpxNltF64 (a: f64, b: f64) { !(a < b) }
    VCmpTF64 VCmpxTF64 (_a: f64, _b: f64) { true }
    VCmpFI16 VCmpxFI16 (_a: i16, _b: i16) { false }
    VCmpTI16 VCmpxTI16 (_a: i16, _b: i16) { true }
    VCmpFU16 VCmpxFU16 (_a: u16, _b: u16) { false }
    VCmpTU16 VCmpxTU16 (_a: u16, _b: u16) { true }
    VCmpLtI16 VCmpxLtI16 (a: i16, b: i16) { a < b }
    VCmpEqI16 VCmpxEqI16 (a: i16, b: i16) { a == b }
    VCmpLeI16 VCmpxLeI16 (a: i16, b: i16) { a <= b }
    VCmpGtI16 VCmpxGtI16 (a: i16, b: i16) { a > b }
    VCmpNeI16 VCmpxNeI16 (a: i16, b: i16) { a != b }
    VCmpGeI16 VCmpxGeI16 (a: i16, b: i16) { a >= b }
    VCmpLtU16 VCmpxLtU16 (a: u16, b: u16) { a < b }
    VCmpEqU16 VCmpxEqU16 (a: u16, b: u16) { a == b }
    VCmpLeU16 VCmpxLeU16 (a: u16, b: u16) { a <= b }
    VCmpGtU16 VCmpxGtU16 (a: u16, b: u16) { a > b }
    VCmpNeU16 VCmpxNeU16 (a: u16, b: u16) { a != b }
    VCmpGeU16 VCmpxGeU16 (a: u16, b: u16) { a >= b }
    VCmpFI32 VCmpxFI32 (_a: i32, _b: i32) { false }
    VCmpLtI32 VCmpxLtI32 (a: i32, b: i32) { a < b }
    VCmpEqI32 VCmpxEqI32 (a: i32, b: i32) { a == b }
    VCmpLeI32 VCmpxLeI32 (a: i32, b: i32) { a <= b }
    VCmpGtI32 VCmpxGtI32 (a: i32, b: i32) { a > b }
    VCmpNeI32 VCmpxNeI32 (a: i32, b: i32) { a != b }
    VCmpGeI32 VCmpxGeI32 (a: i32, b: i32) { a >= b }
    VCmpTI32 VCmpxTI32 (_a: i32, _b: i32) { true }
    VCmpFU32 VCmpxFU32 (_a: u32, _b: u32) { false }
    VCmpLtU32 VCmpxLtU32 (a: u32, b: u32) { a < b }
    VCmpEqU32 VCmpxEqU32 (a: u32, b: u32) { a == b }
    VCmpLeU32 VCmpxLeU32 (a: u32, b: u32) { a <= b }
    VCmpGtU32 VCmpxGtU32 (a: u32, b: u32) { a > b }
    VCmpNeU32 VCmpxNeU32 (a: u32, b: u32) { a != b }
    VCmpGeU32 VCmpxGeU32 (a: u32, b: u32) { a >= b }
    VCmpTU32 VCmpxTU32 (_a: u32, _b: u32) { true }
    VCmpFI64 VCmpxFI64 (_a: i64, _b: i64) { false }
    VCmpLtI64 VCmpxLtI64 (a: i64, b: i64) { a < b }
    VCmpEqI64 VCmpxEqI64 (a: i64, b: i64) { a == b }
    VCmpLeI64 VCmpxLeI64 (a: i64, b: i64) { a <= b }
    VCmpGtI64 VCmpxGtI64 (a: i64, b: i64) { a > b }
    VCmpNeI64 VCmpxNeI64 (a: i64, b: i64) { a != b }
    VCmpGeI64 VCmpxGeI64 (a: i64, b: i64) { a >= b }
    VCmpTI64 VCmpxTI64 (_a: i64, _b: i64) { true }
    VCmpFU64 VCmpxFU64 (_a: u64, _b: u64) { false }
    VCmpLtU64 VCmpxLtU64 (a: u64, b: u64) { a < b }
    VCmpEqU64 VCmpxEqU64 (a: u64, b: u64) { a == b }
    VCmpLeU64 VCmpxLeU64 (a: u64, b: u64) { a <= b }
    VCmpGtU64 VCmpxGtU64 (a: u64, b: u64) { a > b }
    VCmpNeU64 VCmpxNeU64 (a: u64, b: u64) { a != b }
    VCmpGeU64 VCmpxGeU64 (a: u64, b: u64) { a >= b }
    VCmpTU64 VCmpxTU64 (_a: u64, _b: u64) { true }
    VCmpClassF16 VCmpxClassF16 (a: u16, b: u16) { class16(a) & u32::from(b) != 0 }
    VCmpClassF32 VCmpxClassF32 (a: u32, b: u32) { class32(a) & b != 0 }
    VCmpClassF64 VCmpxClassF64 (a: u64, b: u32) { class64(a) & b != 0 }
}
