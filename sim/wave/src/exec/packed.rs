// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! VOP3P: two halves in a register, dot products, mixed-precision multiply-adds (RDNA3 ISA 16.10).

use super::float::{bf16_to_f32, f32_to_bf16, f32_to_half, half_to_f32, maximum32, minimum32};
use super::fp8::ocp;
use super::half::{fma_bf16, fma16};
use super::level::{self, Exec, Level, Part, select};
use super::min_max::Number;
use super::valu::{Bf16, Elem, F16, Finish, View, put_half, saturated_half, scalar, view};
use crate::hardware::mode;
use crate::micro_op::{Handler, MicroOp, Step};
use crate::operand::SrcKind;
use crate::wave::{Group, NewRow, Row, Wave};
use sim_isa::Op;
use std::marker::PhantomData;

/// A lane-wise op on each half.
trait PackedOp {
    type T: Elem;
    /// Halves are those at home, whatever the fields say (a short encoding has none).
    const FIXED: bool = false;
    fn eval(a: Self::T, b: Self::T, c: Self::T, how: How) -> Self::T;
}

/// Modifiers and modes of a packed op.
#[derive(Clone, Copy)]
struct How {
    clamp: bool,
    /// A signalling NaN wins over numbers.
    ieee: bool,
}

struct Packed<O>(std::marker::PhantomData<O>);

impl<O: PackedOp, const L: usize> Exec<L> for Packed<O> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        run::<O::T, L>(wave, group, op, O::FIXED, O::eval)
    }

    #[inline(always)]
    fn exec_by_lane(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        by_lane::<O::T, L>(wave, group, op, O::FIXED, O::eval)
    }
}

/// An op on halves lane by lane. All with the same type share it.
#[cold]
#[inline(never)]
fn by_lane<T: Elem, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    fixed: bool,
    eval: fn(T, T, T, How) -> T,
) -> Step {
    run(wave, group, op, fixed, eval)
}

/// Runs an op on halves; `fixed` is its [`PackedOp::FIXED`].
#[inline(always)]
fn run<T: Elem, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    fixed: bool,
    eval: impl Fn(T, T, T, How) -> T,
) -> Step {
    let how = How { clamp: op.clamp, ieee: group.ieee(wave) };
    let scalars: [u64; 3] = std::array::from_fn(|i| scalar::<u32, L>(wave, &op.src[i]));
    let [ta, tb, tc] = &mut wave.temp;
    let a = view::<u32, L>(&wave.v, &op.src[0], scalars[0], ta).low;
    let b = view::<u32, L>(&wave.v, &op.src[1], scalars[1], tb).low;
    let c = view::<u32, L>(&wave.v, &op.src[2], scalars[2], tc).low;
    let (low, high) = if fixed { (0, 7) } else { (op.op_sel, op.op_sel_hi) };
    let finish =
        Finish { needed: true, omod: 0, clamp: op.clamp, dx10: wave.mode & mode::DX10_CLAMP != 0, flush: wave.flush64 };
    let flush = wave.flush64;
    let shift = |select: u8, i: u8| if select >> i & 1 != 0 { 16 } else { 0 };
    let mut result = Row::<L>::ZERO;
    for i in 0..L {
        let half = |select: u8, neg: u8| {
            let x = T::from_bits(a.0[i] >> shift(select, 0), 0).modify(neg & 1 != 0, false, flush);
            let y = T::from_bits(b.0[i] >> shift(select, 1), 0).modify(neg & 2 != 0, false, flush);
            let z = T::from_bits(c.0[i] >> shift(select, 2), 0).modify(neg & 4 != 0, false, flush);
            eval(x, y, z, how).finish(finish).to_bits().0 & 0xffff
        };
        result.0[i] = half(low, op.neg) | half(high, op.neg_hi) << 16;
    }
    if T::SATURATES && wave.saturates {
        saturate(&mut result, [a, b, c], low, high);
    }
    wave.put(op.dst as usize, &result);
    Ok(())
}

/// Applies FP16_OVFL to pairs of f16.
#[cold]
#[inline(never)]
fn saturate<const L: usize>(result: &mut Row<L>, sources: [&Row<L>; 3], low: u8, high: u8) {
    for (lane, pair) in result.0.iter_mut().enumerate() {
        let half = |bits: u32, select: u8| {
            let source = |i: usize| sources[i].0[lane] >> if select >> i & 1 != 0 { 16 } else { 0 };
            saturated_half(bits & 0xffff, (0..3).all(|i| source(i) & 0x7c00 != 0x7c00))
        };
        *pair = half(*pair, low) | half(*pair >> 16, high) << 16;
    }
}

/// An op on whole dwords with the sources' modifiers and the clamp bit.
trait DotOp {
    /// `op_sel` and `op_sel_hi` choose the halves of sources 0 and 1 in the first and in the second product.
    const SELECTS: bool = false;
    fn eval(sources: [u32; 3], op: Modifiers) -> u32;
}

/// Modifiers of a dot product.
#[derive(Clone, Copy)]
struct Modifiers {
    neg: u8,
    neg_hi: u8,
    clamp: bool,
}

struct Dot<O, const HALF: bool>(std::marker::PhantomData<O>);

impl<O: DotOp, const HALF: bool, const L: usize> Exec<L> for Dot<O, HALF> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        dot(wave, op, (O::SELECTS, HALF), O::eval)
    }

    #[inline(always)]
    fn exec_by_lane(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        dot_by_lane(wave, op, (O::SELECTS, HALF), O::eval)
    }
}

/// A dot product lane by lane. All share it.
#[cold]
#[inline(never)]
fn dot_by_lane<const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    how: (bool, bool),
    eval: fn([u32; 3], Modifiers) -> u32,
) -> Step {
    dot(wave, op, how, eval)
}

/// Runs a dot product, which selects halves as [`DotOp::SELECTS`] says, and whose result is a dword or half of one.
#[inline(always)]
fn dot<const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    (selects, is_half): (bool, bool),
    eval: impl Fn([u32; 3], Modifiers) -> u32,
) -> Step {
    let modifiers = Modifiers { neg: op.neg, neg_hi: op.neg_hi, clamp: op.clamp };
    let mut result = Row::<L>::ZERO;
    for lane in 0..L {
        let sources = std::array::from_fn(|i| {
            let word = wave.lane(&op.src[i], lane) >> op.src[i].shift;
            if selects && i < 2 { selected(word, op.op_sel >> i & 1 != 0, op.op_sel_hi >> i & 1 != 0) } else { word }
        });
        result.0[lane] = eval(sources, modifiers);
    }
    if is_half {
        put_half(wave, op.dst as usize, op.dst_high, &result);
    } else {
        wave.put(op.dst as usize, &result);
    }
    Ok(())
}

/// Two halves of a word, each the low or the high one.
#[inline(always)]
fn selected(word: u32, first_high: bool, second_high: bool) -> u32 {
    let half = |high: bool| if high { word >> 16 } else { word & 0xffff };
    half(first_high) | half(second_high) << 16
}

/// Both halves of a pair as f32, with their signs changed.
#[inline(always)]
fn pair(bits: u32, convert: fn(u16) -> f32, neg: bool, neg_hi: bool) -> [f32; 2] {
    let sign = |x: f32, neg: bool| if neg { -x } else { x };
    [sign(convert(bits as u16), neg), sign(convert((bits >> 16) as u16), neg_hi)]
}

#[inline(always)]
fn dot2(s: [u32; 3], m: Modifiers, convert: fn(u16) -> f32, c: f32) -> f32 {
    let a = pair(s[0], convert, m.neg & 1 != 0, m.neg_hi & 1 != 0);
    let b = pair(s[1], convert, m.neg & 2 != 0, m.neg_hi & 2 != 0);
    let c = if m.neg & 4 != 0 { -c } else { c };
    let sum = a[1].mul_add(b[1], a[0].mul_add(b[0], c));
    if m.clamp { sum.clamp(0.0, 1.0) } else { sum }
}

/// Four products of 8-bit floats on top of source 2, which alone has modifiers (`neg_hi` is its `abs`).
#[inline(always)]
fn dot4(s: [u32; 3], m: Modifiers, a: fn(u8) -> f32, b: fn(u8) -> f32) -> u32 {
    let c = f32::from_bits(s[2]);
    let c = if m.neg_hi & 4 != 0 { c.abs() } else { c };
    let c = if m.neg & 4 != 0 { -c } else { c };
    let pairs = s[0].to_le_bytes().into_iter().zip(s[1].to_le_bytes());
    let sum = pairs.fold(c, |sum, (x, y)| a(x).mul_add(b(y), sum));
    (if m.clamp { sum.clamp(0.0, 1.0) } else { sum }).to_bits()
}

/// Field `i` of `BITS` bits.
#[inline(always)]
fn field<const BITS: u32>(x: u32, i: u32, signed: bool) -> i64 {
    let value = i64::from(x >> (BITS * i) & ((1 << BITS) - 1));
    if signed && value >> (BITS - 1) != 0 { value - (1 << BITS) } else { value }
}

#[inline(always)]
pub(super) fn dot_fields<const BITS: u32>(a: u32, b: u32, a_signed: bool, b_signed: bool) -> i64 {
    (0..32 / BITS).map(|i| field::<BITS>(a, i, a_signed) * field::<BITS>(b, i, b_signed)).sum()
}

#[inline(always)]
fn dot_signed<const BITS: u32>(s: [u32; 3], m: Modifiers) -> u32 {
    let sum = i64::from(s[2] as i32) + dot_fields::<BITS>(s[0], s[1], m.neg & 1 != 0, m.neg & 2 != 0);
    if m.clamp { sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32 } else { sum as u32 }
}

#[inline(always)]
fn dot_unsigned<const BITS: u32>(s: [u32; 3], m: Modifiers) -> u32 {
    let sum = i64::from(s[2]) + dot_fields::<BITS>(s[0], s[1], false, false);
    if m.clamp { sum.min(i64::from(u32::MAX)) as u32 } else { sum as u32 }
}

/// `v_fma_mix*`: each source is an f32 or either half of a register, of type `H`; the result an f32 or one half.
struct Mix<H, const RESULT: u8>(std::marker::PhantomData<H>);

/// A 16-bit float, from and to f32.
trait Narrow {
    fn widen(bits: u16) -> f32;
    fn round(value: f32) -> u16;
}

impl Narrow for F16 {
    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        half_to_f32(bits)
    }
    #[inline(always)]
    fn round(value: f32) -> u16 {
        f32_to_half(value)
    }
}

impl Narrow for Bf16 {
    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        bf16_to_f32(bits)
    }
    #[inline(always)]
    fn round(value: f32) -> u16 {
        f32_to_bf16(value)
    }
}

const MIX_F32: u8 = 0;
const MIX_LOW: u8 = 1;
const MIX_HIGH: u8 = 2;

impl<H: Narrow, const RESULT: u8, const L: usize> Exec<L> for Mix<H, RESULT> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        let scalars: [u64; 3] = std::array::from_fn(|i| scalar::<u32, L>(wave, &op.src[i]));
        let [ta, tb, tc] = &mut wave.temp;
        let rows = [
            view::<u32, L>(&wave.v, &op.src[0], scalars[0], ta).low,
            view::<u32, L>(&wave.v, &op.src[1], scalars[1], tb).low,
            view::<u32, L>(&wave.v, &op.src[2], scalars[2], tc).low,
        ];
        let finish = Finish {
            needed: true,
            omod: 0,
            clamp: op.clamp,
            dx10: wave.mode & mode::DX10_CLAMP != 0,
            flush: wave.flush32,
        };
        // The encoding has no abs field: neg_hi serves.
        let (neg, abs) = (op.neg, op.abs | op.neg_hi);
        let mut result = Row::<L>::ZERO;
        for lane in 0..L {
            let source = |i: usize| {
                let bits = rows[i].0[lane];
                let value = if op.op_sel_hi >> i & 1 != 0 {
                    H::widen((bits >> if op.op_sel >> i & 1 != 0 { 16 } else { 0 }) as u16)
                } else {
                    f32::from_bits(bits)
                };
                value.modify(neg >> i & 1 != 0, abs >> i & 1 != 0, wave.flush32)
            };
            let value = source(0).mul_add(source(1), source(2)).finish(finish);
            result.0[lane] = if RESULT == MIX_F32 { value.to_bits() } else { H::round(value).into() };
        }
        match RESULT {
            MIX_F32 => wave.put(op.dst as usize, &result),
            _ => put_half(wave, op.dst as usize, RESULT == MIX_HIGH, &result),
        }
        Ok(())
    }
}

/// An op on each of two f32, or dwords.
trait PairOp {
    /// The low result is taken from source 0 alone and the high one from source 1, as `op_sel` says: a move.
    const MOVES: bool = false;
    fn eval(a: f32, b: f32, c: f32) -> f32;
}

struct Pair<O>(std::marker::PhantomData<O>);

impl<O: PairOp, const L: usize> Exec<L> for Pair<O> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        let scalars: [u64; 3] = std::array::from_fn(|i| scalar::<u64, L>(wave, &op.src[i]));
        let finish = Finish::new::<f32, L>(wave, group, op);
        let flush = wave.flush32;
        let [ta, tb, tc] = &mut wave.temp;
        let sources = [
            view::<u64, L>(&wave.v, &op.src[0], scalars[0], ta),
            view::<u64, L>(&wave.v, &op.src[1], scalars[1], tb),
            if op.src[2].kind == SrcKind::None {
                view::<(), L>(&wave.v, &op.src[2], 0, tc)
            } else {
                view::<u64, L>(&wave.v, &op.src[2], scalars[2], tc)
            },
        ];
        let (low, high) = if O::MOVES {
            (*chosen(&sources, op.op_sel, 0), *chosen(&sources, op.op_sel, 1))
        } else if op.neg | op.neg_hi == 0 && !flush && !finish.needed {
            (plain_half::<O, L>(&sources, op.op_sel), plain_half::<O, L>(&sources, op.op_sel_hi))
        } else {
            let half = |select, neg| Half::<O, L> { sources, select, neg, flush, finish, op: PhantomData };
            (level::run(half(op.op_sel, op.neg)), level::run(half(op.op_sel_hi, op.neg_hi)))
        };
        wave.put(op.dst as usize, &low);
        wave.put(op.dst as usize + 1, &high);
        Ok(())
    }
}

/// The dword of source `i` that a bit of `select` chooses.
#[inline(always)]
fn chosen<'a, const L: usize>(sources: &[View<'a, L>; 3], select: u8, i: usize) -> &'a Row<L> {
    if select >> i & 1 != 0 { sources[i].high } else { sources[i].low }
}

/// One of a pair's results, without modifiers.
#[inline(always)]
fn plain_half<O: PairOp, const L: usize>(sources: &[View<'_, L>; 3], select: u8) -> Row<L> {
    let (a, b, c) = (chosen(sources, select, 0), chosen(sources, select, 1), chosen(sources, select, 2));
    let mut result = NewRow::new();
    for lane in 0..L {
        let [a, b, c] = [a.0[lane], b.0[lane], c.0[lane]].map(f32::from_bits);
        result.set(lane, O::eval(a, b, c).to_bits());
    }
    // SAFETY: all lanes are set.
    unsafe { result.done() }
}

/// One of a pair's results.
struct Half<'a, O, const L: usize> {
    sources: [View<'a, L>; 3],
    select: u8,
    neg: u8,
    flush: bool,
    finish: Finish,
    op: PhantomData<O>,
}

impl<O: PairOp, const L: usize> Part for Half<'_, O, L> {
    type Result = Row<L>;
    #[inline(always)]
    fn run(self) -> Row<L> {
        let Half { sources, select, neg, flush, finish, .. } = self;
        let (a, b, c) = (chosen(&sources, select, 0), chosen(&sources, select, 1), chosen(&sources, select, 2));
        let mut result = NewRow::new();
        for lane in 0..L {
            let x = f32::from_bits(a.0[lane]).modify(neg & 1 != 0, false, flush);
            let y = f32::from_bits(b.0[lane]).modify(neg & 2 != 0, false, flush);
            let z = f32::from_bits(c.0[lane]).modify(neg & 4 != 0, false, flush);
            let value = O::eval(x, y, z);
            result.set(lane, if finish.needed { value.finish(finish) } else { value }.to_bits());
        }
        // SAFETY: all lanes are set.
        unsafe { result.done() }
    }
}

macro_rules! packed_ops {
    (
        pairs { $($pair:ident ($pa:ident, $pb:ident, $pc:ident) $(moves $moves:literal)? $pbody:block)* }
        halves { $($name:ident ($a:ident, $b:ident, $c:ident: $t:ty, $how:ident) $(fixed $fixed:literal)? $body:block)* }
        dots { $($dot:ident [$half:literal] ($s:ident, $m:ident) $(selects $selects:literal)? $dbody:block)* }
    ) => {
        /// The handler of a VOP3P op (but for matrix ops).
        pub(super) fn handler<const L: usize>(op: Op, level: Level) -> Option<Handler<L>> {
            $(
                struct $name;
                impl PackedOp for $name {
                    type T = $t;
                    $(const FIXED: bool = $fixed;)?
                    #[inline(always)]
                    fn eval($a: $t, $b: $t, $c: $t, $how: How) -> $t $body
                }
            )*
            $(
                struct $dot;
                impl DotOp for $dot {
                    $(const SELECTS: bool = $selects;)?
                    #[inline(always)]
                    fn eval($s: [u32; 3], $m: Modifiers) -> u32 $dbody
                }
            )*
            $(
                struct $pair;
                impl PairOp for $pair {
                    $(const MOVES: bool = $moves;)?
                    #[inline(always)]
                    fn eval($pa: f32, $pb: f32, $pc: f32) -> f32 $pbody
                }
            )*
            Some(match op {
                $(Op::$pair => select::<Pair<$pair>, L>(level),)*
                $(Op::$name => select::<Packed<$name>, L>(level),)*
                $(Op::$dot => select::<Dot<$dot, $half>, L>(level),)*
                Op::VFmaMixF32 => select::<Mix<F16, MIX_F32>, L>(level),
                Op::VFmaMixloF16 => select::<Mix<F16, MIX_LOW>, L>(level),
                Op::VFmaMixhiF16 => select::<Mix<F16, MIX_HIGH>, L>(level),
                Op::VFmaMixF32Bf16 => select::<Mix<Bf16, MIX_F32>, L>(level),
                Op::VFmaMixloBf16 => select::<Mix<Bf16, MIX_LOW>, L>(level),
                Op::VFmaMixhiBf16 => select::<Mix<Bf16, MIX_HIGH>, L>(level),
                _ => return None,
            })
        }
    };
}

packed_ops! {
    pairs {
        VPkFmaF32(a, b, c) { a.mul_add(b, c) }
        VPkMulF32(a, b, _c) { a * b }
        VPkAddF32(a, b, _c) { a + b }
        VPkMovB32(a, _b, _c) moves true { a }
    }
    halves {
        VPkMadI16(a, b, c: i16, how) {
            let exact = i32::from(a) * i32::from(b) + i32::from(c);
            if how.clamp { exact.clamp(-0x8000, 0x7fff) as i16 } else { exact as i16 }
        }
        VPkMadU16(a, b, c: u16, how) {
            let exact = u32::from(a) * u32::from(b) + u32::from(c);
            if how.clamp { exact.min(0xffff) as u16 } else { exact as u16 }
        }
        VPkMulLoU16(a, b, _c: u16, _how) { a.wrapping_mul(b) }
        VPkAddI16(a, b, _c: i16, how) { if how.clamp { a.saturating_add(b) } else { a.wrapping_add(b) } }
        VPkSubI16(a, b, _c: i16, how) { if how.clamp { a.saturating_sub(b) } else { a.wrapping_sub(b) } }
        VPkAddU16(a, b, _c: u16, how) { if how.clamp { a.saturating_add(b) } else { a.wrapping_add(b) } }
        VPkSubU16(a, b, _c: u16, how) { if how.clamp { a.saturating_sub(b) } else { a.wrapping_sub(b) } }
        VPkLshlrevB16(n, a, _c: u16, _how) { a << (n & 15) }
        VPkLshrrevB16(n, a, _c: u16, _how) { a >> (n & 15) }
        VPkAshrrevI16(n, a, _c: i16, _how) { a >> (n & 15) }
        VPkMaxI16(a, b, _c: i16, _how) { a.max(b) }
        VPkMinI16(a, b, _c: i16, _how) { a.min(b) }
        VPkMaxU16(a, b, _c: u16, _how) { a.max(b) }
        VPkMinU16(a, b, _c: u16, _how) { a.min(b) }
        VPkFmaF16(a, b, c: F16, _how) { fma16(a, b, c) }
        VPkFmacF16(a, b, c: F16, _how) fixed true { fma16(a, b, c) }
        VPkAddF16(a, b, _c: F16, _how) { F16(a.0 + b.0) }
        VPkMulF16(a, b, _c: F16, _how) { F16(a.0 * b.0) }
        VPkMinF16(a, b, _c: F16, how) { F16::least(a, b, how.ieee) }
        VPkMaxF16(a, b, _c: F16, how) { F16::most(a, b, how.ieee) }
        VPkMin3F16(a, b, c: F16, how) { F16::least(F16::least(a, b, how.ieee), c, how.ieee) }
        VPkMax3F16(a, b, c: F16, how) { F16::most(F16::most(a, b, how.ieee), c, how.ieee) }
        VPkMinimum3F16(a, b, c: F16, _how) { F16(minimum32(minimum32(a.0, b.0), c.0)) }
        VPkMaximum3F16(a, b, c: F16, _how) { F16(maximum32(maximum32(a.0, b.0), c.0)) }
        VPkFmaBf16(a, b, c: Bf16, _how) { fma_bf16(a, b, c) }
        VPkAddBf16(a, b, _c: Bf16, _how) { Bf16(a.0 + b.0) }
        VPkMulBf16(a, b, _c: Bf16, _how) { Bf16(a.0 * b.0) }
        VPkMinBf16(a, b, _c: Bf16, how) { Bf16::least(a, b, how.ieee) }
        VPkMaxBf16(a, b, _c: Bf16, how) { Bf16::most(a, b, how.ieee) }
        VPkAddMaxI16(a, b, c: i16, how) { a.saturating_add(b).max(c).max(if how.clamp { 0 } else { i16::MIN }) }
        VPkAddMinI16(a, b, c: i16, how) { a.saturating_add(b).min(c).max(if how.clamp { 0 } else { i16::MIN }) }
        VPkAddMaxU16(a, b, c: u16, _how) { a.saturating_add(b).max(c) }
        VPkAddMinU16(a, b, c: u16, _how) { a.saturating_add(b).min(c) }
        VPkMax3I16(a, b, c: i16, _how) { a.max(b).max(c) }
        VPkMin3I16(a, b, c: i16, _how) { a.min(b).min(c) }
        VPkMax3U16(a, b, c: u16, _how) { a.max(b).max(c) }
        VPkMin3U16(a, b, c: u16, _how) { a.min(b).min(c) }
        VPkMinimumF16(a, b, _c: F16, _how) { F16(minimum32(a.0, b.0)) }
        VPkMaximumF16(a, b, _c: F16, _how) { F16(maximum32(a.0, b.0)) }
    }
    dots {
        VDot2F32F16[false] (s, m) selects true { dot2(s, m, half_to_f32, f32::from_bits(s[2])).to_bits() }
        VDot2accF32F16[false] (s, m) { dot2(s, m, half_to_f32, f32::from_bits(s[2])).to_bits() }
        VDot2accF32Bf16[false] (s, m) { dot2(s, m, bf16_to_f32, f32::from_bits(s[2])).to_bits() }
        VDot2F32Bf16[false] (s, m) selects true { dot2(s, m, bf16_to_f32, f32::from_bits(s[2])).to_bits() }
        VDot2F16F16[true] (s, m) { F16(dot2(s, m, half_to_f32, half_to_f32(s[2] as u16))).to_bits().0 }
        VDot2Bf16Bf16[true] (s, m) { u32::from(f32_to_bf16(dot2(s, m, bf16_to_f32, bf16_to_f32(s[2] as u16)))) }
        VDot4F32Fp8Bf8[false] (s, m) { dot4(s, m, ocp::fp8_to_f32, ocp::bf8_to_f32) }
        VDot4F32Bf8Fp8[false] (s, m) { dot4(s, m, ocp::bf8_to_f32, ocp::fp8_to_f32) }
        VDot4F32Fp8Fp8[false] (s, m) { dot4(s, m, ocp::fp8_to_f32, ocp::fp8_to_f32) }
        VDot4F32Bf8Bf8[false] (s, m) { dot4(s, m, ocp::bf8_to_f32, ocp::bf8_to_f32) }
        VDot4I32Iu8[false] (s, m) { dot_signed::<8>(s, m) }
        VDot4U32U8[false] (s, m) { dot_unsigned::<8>(s, m) }
        VDot8I32Iu4[false] (s, m) { dot_signed::<4>(s, m) }
        VDot8U32U4[false] (s, m) { dot_unsigned::<4>(s, m) }
        VDot2I32I16[false] (s, m) selects true { dot_signed::<16>(s, Modifiers { neg: 3, ..m }) }
        VDot2U32U16[false] (s, m) selects true { dot_unsigned::<16>(s, m) }
        VDot4I32I8[false] (s, m) { dot_signed::<8>(s, Modifiers { neg: 3, ..m }) }
        VDot8I32I4[false] (s, m) { dot_signed::<4>(s, Modifiers { neg: 3, ..m }) }
        VDot2cI32I16[false] (s, m) { dot_signed::<16>(s, Modifiers { neg: 3, ..m }) }
        VDot4cI32I8[false] (s, m) { dot_signed::<8>(s, Modifiers { neg: 3, ..m }) }
        VDot8cI32I4[false] (s, m) { dot_signed::<4>(s, Modifiers { neg: 3, ..m }) }
    }
}
