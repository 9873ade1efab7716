// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Frame of lane-wise vector ops: reads operands, applies modifiers, runs one function per lane, and writes the result
//! under EXEC.

use super::float::{bf16_to_f32, f32_to_bf16, f32_to_half, half_to_f32};
use super::level::{self, Exec, Level, Part, select};
use crate::hardware::mode;
use crate::micro_op::{Handler, MicroOp, Step};
use crate::operand::{Src, SrcKind};
use crate::wave::{Group, NewRow, Row, Wave, row};

/// Final steps of a float result.
#[derive(Clone, Copy)]
pub(crate) struct Finish {
    /// There is something to do.
    pub needed: bool,
    /// Ignored where denormals are kept, or in IEEE mode (RDNA3 ISA 7.2.2, "Output modifiers").
    pub omod: u8,
    pub clamp: bool,
    /// Clamping turns NaN into 0.
    pub dx10: bool,
    pub flush: bool,
}

impl Finish {
    /// Creates the rounding of results of type `E`, from an op's modifiers and MODE.
    #[inline(always)]
    pub fn new<E: Elem, const L: usize>(wave: &Wave<L>, group: &Group<'_>, op: &MicroOp<L>) -> Self {
        let flush = flushes::<E, L>(wave);
        Finish {
            needed: flush || !op.plain,
            omod: if flush && !group.ieee(wave) { op.omod } else { 0 },
            clamp: op.clamp,
            dx10: wave.mode & mode::DX10_CLAMP != 0,
            flush,
        }
    }
}

/// True if denormals of type `E` are flushed.
#[inline(always)]
pub(crate) fn flushes<E: Elem, const L: usize>(wave: &Wave<L>) -> bool {
    E::FLUSH == 32 && wave.flush32 || E::FLUSH == 64 && wave.flush64
}

/// Finishes a result, and writes it.
struct Finishing<'a, E, const L: usize> {
    wave: &'a mut Wave<L>,
    op: &'a MicroOp<L>,
    how: Finish,
    elements: std::marker::PhantomData<E>,
}

impl<E: Elem, const L: usize> Part for Finishing<'_, E, L> {
    type Result = ();
    #[inline(always)]
    fn run(self) {
        let Finishing { wave, op, how, .. } = self;
        let [low, high] = &wave.temp[0];
        let mut result = Output::<L>::new();
        for i in 0..L {
            result.set::<E>(i, E::from_bits(low.0[i], if E::WIDE { high.0[i] } else { 0 }).finish(how));
        }
        // SAFETY: all lanes are set.
        unsafe { result.put::<E>(wave, op) };
    }
}

/// A result under way, in one or two registers.
pub(crate) struct Output<const L: usize> {
    low: NewRow<L>,
    high: NewRow<L>,
}

impl<const L: usize> Output<L> {
    #[inline(always)]
    pub fn new() -> Self {
        Output { low: NewRow::new(), high: NewRow::new() }
    }

    #[inline(always)]
    pub fn set<E: Elem>(&mut self, lane: usize, value: E) {
        let (low, high) = value.to_bits();
        self.low.set(lane, low);
        if E::WIDE {
            self.high.set(lane, high);
        }
    }

    /// Writes the result.
    ///
    /// # Safety
    /// Each lane is set, with values of type `E`.
    #[inline(always)]
    pub unsafe fn put<E: Elem>(self, wave: &mut Wave<L>, op: &MicroOp<L>) {
        // SAFETY: by this function's contract.
        let low = unsafe { self.low.done() };
        if E::WIDE {
            // SAFETY: by this function's contract.
            let high = unsafe { self.high.done() };
            put_elem::<E, L>(wave, op, &low, &high);
        } else {
            put_elem::<E, L>(wave, op, &low, &low);
        }
    }

    /// Finishes the result and writes it.
    ///
    /// # Safety
    /// As of [`Self::put`].
    #[inline(always)]
    pub unsafe fn finish<E: Elem>(self, wave: &mut Wave<L>, op: &MicroOp<L>, how: Finish) {
        if !how.needed {
            // SAFETY: by this function's contract.
            return unsafe { self.put::<E>(wave, op) };
        }
        // Through memory that is not on this function's stack: a result whose address is known to others would be
        // written to the stack by those that are not finished, too.
        // SAFETY: by this function's contract.
        wave.temp[0][0] = unsafe { self.low.done() };
        if E::WIDE {
            // SAFETY: by this function's contract.
            wave.temp[0][1] = unsafe { self.high.done() };
        }
        level::run(Finishing::<E, L> { wave, op, how, elements: std::marker::PhantomData });
    }
}

/// A type that ops compute with, in one or two dwords of a lane.
pub(crate) trait Elem: Copy {
    /// Two dwords.
    const WIDE: bool = false;
    /// 16 bits, in either half of a register.
    const HALF: bool = false;
    /// The slot exists.
    const USED: bool = true;
    /// Denormals are subject to MODE: 32 for f32, 64 for f16 and f64, 0 for other types.
    const FLUSH: u8 = 0;
    /// A result that overflows is subject to MODE's FP16_OVFL: see [`Elem::saturate`].
    const SATURATES: bool = false;

    fn from_bits(low: u32, high: u32) -> Self;
    fn to_bits(self) -> (u32, u32);

    /// The value with source modifiers.
    #[inline(always)]
    fn modify(self, _neg: bool, _abs: bool, _flush: bool) -> Self {
        self
    }

    /// Applies the modifiers to the bits of a value.
    #[inline(always)]
    fn modify_bits((low, high): (u32, u32), neg: bool, abs: bool, flush: bool) -> (u32, u32) {
        Self::from_bits(low, high).modify(neg, abs, flush).to_bits()
    }

    /// The value with output modifiers.
    #[inline(always)]
    fn finish(self, _how: Finish) -> Self {
        self
    }

    /// A float, or two in a dword. Other values are never infinite: zero stands for them.
    fn floats(self) -> [f32; 2] {
        [0.0; 2]
    }

    /// Bits of a result under FP16_OVFL: overflows become the greatest finite value. `values` are the converted values,
    /// and `is_finite` is true if all sources are finite.
    fn saturate(bits: u32, _values: [f32; 2], _is_finite: bool) -> u32 {
        bits
    }
}

/// An f16 under FP16_OVFL, if all its sources are finite.
pub(crate) fn saturated_half(bits: u32, is_finite: bool) -> u32 {
    if is_finite && bits & 0x7fff == 0x7c00 { bits - 1 } else { bits }
}

/// An f16, held as the f32 of the same value. Results are rounded when they are written.
#[derive(Clone, Copy)]
pub(crate) struct F16(pub f32);

/// A bfloat16, held as an f32. Its denormals are kept whatever MODE says.
#[derive(Clone, Copy)]
pub(crate) struct Bf16(pub f32);

impl Elem for () {
    const USED: bool = false;
    #[inline(always)]
    fn from_bits(_: u32, _: u32) -> Self {}
    #[inline(always)]
    fn to_bits(self) -> (u32, u32) {
        (0, 0)
    }
}

/// One of a register's bytes, as a source.
#[derive(Clone, Copy)]
pub(crate) struct Byte(pub u8);

impl Elem for Byte {
    const HALF: bool = true;
    #[inline(always)]
    fn from_bits(low: u32, _: u32) -> Self {
        Byte(low as u8)
    }
    #[inline(always)]
    fn to_bits(self) -> (u32, u32) {
        (self.0.into(), 0)
    }
}

/// Two f16 in a dword.
#[derive(Clone, Copy)]
pub(crate) struct Halves(pub u32);

impl Elem for Halves {
    const FLUSH: u8 = 64;
    #[inline(always)]
    fn from_bits(low: u32, _: u32) -> Self {
        Halves(low)
    }
    #[inline(always)]
    fn to_bits(self) -> (u32, u32) {
        (self.0, 0)
    }
    #[inline(always)]
    fn finish(self, how: Finish) -> Self {
        let half = |bits: u32| F16::from_bits(bits, 0).finish(how).to_bits().0;
        Halves(half(self.0) | half(self.0 >> 16) << 16)
    }
    const SATURATES: bool = true;
    fn floats(self) -> [f32; 2] {
        [half_to_f32(self.0 as u16), half_to_f32((self.0 >> 16) as u16)]
    }
    fn saturate(bits: u32, [low, high]: [f32; 2], _: bool) -> u32 {
        saturated_half(bits & 0xffff, low.is_finite()) | saturated_half(bits >> 16, high.is_finite()) << 16
    }
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl Elem for $ty {
            const WIDE: bool = size_of::<$ty>() == 8;
            const HALF: bool = size_of::<$ty>() == 2;
            #[inline(always)]
            fn from_bits(low: u32, high: u32) -> Self {
                (u64::from(low) | u64::from(high) << 32) as $ty
            }
            #[inline(always)]
            fn to_bits(self) -> (u32, u32) {
                (self as u32, (self as u64 >> 32) as u32)
            }
            /// Untyped operands take float modifiers on their sign bit.
            #[inline(always)]
            fn modify(self, neg: bool, abs: bool, _: bool) -> Self {
                let sign: $ty = 1 << (<$ty>::BITS - 1);
                let magnitude = if abs { self & !sign } else { self };
                if neg { magnitude ^ sign } else { magnitude }
            }
        }
    )*};
}

integers!(u32, i32, u16, i16, u64, i64);

macro_rules! floats {
    ($($ty:ty, $flush:literal, $wide:literal, $half:literal, $min:expr, |$self:ident| $get:expr, |$new:ident| $wrap:expr,
       |$low:ident, $high:ident| $from:expr, $to:expr $(, $more:item)*);* $(;)?) => {$(
        impl Elem for $ty {
            const WIDE: bool = $wide;
            const HALF: bool = $half;
            const FLUSH: u8 = $flush;
            #[inline(always)]
            fn from_bits($low: u32, $high: u32) -> Self {
                $from
            }
            #[inline(always)]
            fn to_bits($self) -> (u32, u32) {
                $to
            }
            #[inline(always)]
            fn modify($self, neg: bool, abs: bool, flush: bool) -> Self {
                let x = $get;
                let x = if flush && x.abs() < $min { x * 0.0 } else { x };
                let x = if abs { x.abs() } else { x };
                let $new = if neg { -x } else { x };
                $wrap
            }
            #[inline(always)]
            fn finish($self, how: Finish) -> Self {
                let x = $get;
                let x = match how.omod {
                    0 => x,
                    1 => x * 2.0,
                    2 => x * 4.0,
                    _ => x * 0.5,
                };
                // omod also makes -0 and denormals +0.
                let x = if how.omod != 0 && x.abs() < $min { 0.0 } else { x };
                let x = if how.clamp {
                    if x.is_nan() { if how.dx10 { 0.0 } else { x } } else { x.clamp(0.0, 1.0) + 0.0 }
                } else {
                    x
                };
                let $new = if how.flush && x.abs() < $min { x * 0.0 } else { x };
                $wrap
            }
            $($more)*
        }
    )*};
}

floats! {
    f32, 32, false, false, f32::MIN_POSITIVE, |self| self, |x| x,
        |low, _high| f32::from_bits(low), (f32::to_bits(self), 0),
        fn floats(self) -> [f32; 2] {
            [self; 2]
        };
    f64, 64, true, false, f64::MIN_POSITIVE, |self| self, |x| x,
        |low, high| f64::from_bits(u64::from(low) | u64::from(high) << 32),
        (f64::to_bits(self) as u32, (f64::to_bits(self) >> 32) as u32);
    F16, 64, false, true, 6.103_515_6e-5, |self| self.0, |x| F16(x),
        |low, _high| F16(half_to_f32(low as u16)), (u32::from(f32_to_half(self.0)), 0),
        // A conversion would make a signalling NaN quiet.
        #[inline(always)]
        fn modify_bits((bits, _): (u32, u32), neg: bool, abs: bool, flush: bool) -> (u32, u32) {
            let bits = if flush && bits & 0x7c00 == 0 { bits & 0x8000 } else { bits };
            let bits = if abs { bits & 0x7fff } else { bits };
            (if neg { bits ^ 0x8000 } else { bits }, 0)
        },
        const SATURATES: bool = true;,
        fn floats(self) -> [f32; 2] {
            [self.0; 2]
        },
        fn saturate(bits: u32, _: [f32; 2], is_finite: bool) -> u32 {
            saturated_half(bits, is_finite)
        };
    Bf16, 0, false, true, 0.0, |self| self.0, |x| Bf16(x),
        |low, _high| Bf16(bf16_to_f32(low as u16)), (u32::from(f32_to_bf16(self.0)), 0);
}

/// A lane-wise op of up to three sources.
pub(crate) trait VOp {
    type A: Elem;
    type B: Elem;
    type C: Elem;
    type R: Elem;
    fn eval(a: Self::A, b: Self::B, c: Self::C) -> Self::R;
}

/// Defines ops and `handler`, which finds them.
macro_rules! vops {
    ($($name:ident ($a:ident: $ta:ty $(, $b:ident: $tb:ty $(, $c:ident: $tc:ty)?)?) -> $r:ty $body:block)*) => {
        /// The handler of an op of this module.
        pub(crate) fn handler<const L: usize>(
            op: sim_isa::Op,
            level: $crate::exec::level::Level,
        ) -> Option<$crate::micro_op::Handler<L>> {
            use $crate::exec::valu::{VOp, valu};
            $(
                struct $name;
                impl VOp for $name {
                    type A = $ta;
                    type B = vops!(@ty $($tb)?);
                    type C = vops!(@ty $($($tc)?)?);
                    type R = $r;
                    #[inline(always)]
                    fn eval($a: $ta, vops!(@arg $($b)?): Self::B, vops!(@arg $($($c)?)?): Self::C) -> $r $body
                }
            )*
            Some(match op {
                $(sim_isa::Op::$name => valu::<$name, L>(level),)*
                _ => return None,
            })
        }
    };
    (@ty) => { () };
    (@ty $ty:ty) => { $ty };
    (@arg) => { _ };
    (@arg $arg:ident) => { $arg };
}
pub(crate) use vops;

/// The handler of a lane-wise op.
pub(crate) fn valu<O: VOp, const L: usize>(level: Level) -> Handler<L> {
    select::<Valu<O>, L>(level)
}

struct Valu<O>(std::marker::PhantomData<O>);

/// One source's dwords in all lanes.
#[derive(Clone, Copy)]
pub(crate) struct View<'a, const L: usize> {
    pub low: &'a Row<L>,
    pub high: &'a Row<L>,
    pub shift: u8,
}

impl<const L: usize> View<'_, L> {
    #[inline(always)]
    pub fn get<E: Elem>(&self, lane: usize) -> E {
        let (low, high) = self.bits::<E>(lane);
        E::from_bits(low, high)
    }

    #[inline(always)]
    fn bits<E: Elem>(&self, lane: usize) -> (u32, u32) {
        let low = if E::HALF { self.low.0[lane] >> self.shift } else { self.low.0[lane] };
        (low, if E::WIDE { self.high.0[lane] } else { 0 })
    }
}

/// The scalar that `src` broadcasts, if it does.
#[inline(always)]
pub(crate) fn scalar<E: Elem, const L: usize>(wave: &Wave<L>, src: &Src) -> u64 {
    if !E::USED || src.kind == SrcKind::Vgpr {
        0
    } else if E::WIDE {
        wave.s64(src)
    } else {
        u64::from(wave.s32(src))
    }
}

/// One source, without modifiers.
#[inline(always)]
pub(crate) fn view<'a, E: Elem, const L: usize>(
    v: &'a [Row<L>],
    src: &Src,
    scalar: u64,
    temps: &'a mut [Row<L>; 2],
) -> View<'a, L> {
    const { assert!(L == 32 || L == 64) }
    let [low_temp, high_temp] = temps;
    if !E::USED {
        return View { low: low_temp, high: high_temp, shift: 0 };
    }
    let low = row(v, src, scalar, 0, low_temp);
    let high = if E::WIDE { row(v, src, scalar, 1, high_temp) } else { low };
    View { low, high, shift: src.shift }
}

/// Three sources with their modifiers.
#[inline(always)]
pub(crate) fn operands<'a, A: Elem, B: Elem, C: Elem, const L: usize>(
    wave: &'a mut Wave<L>,
    op: &'a MicroOp<L>,
) -> [View<'a, L>; 3] {
    let scalars =
        [scalar::<A, L>(wave, &op.src[0]), scalar::<B, L>(wave, &op.src[1]), scalar::<C, L>(wave, &op.src[2])];
    let flush = [flushes::<A, L>(wave), flushes::<B, L>(wave), flushes::<C, L>(wave)];
    let Wave { v, temp: [ta, tb, tc], .. } = wave;
    if op.neg | op.abs == 0 && !flush[0] && !flush[1] && !flush[2] {
        return [
            view::<A, L>(v, &op.src[0], scalars[0], ta),
            view::<B, L>(v, &op.src[1], scalars[1], tb),
            view::<C, L>(v, &op.src[2], scalars[2], tc),
        ];
    }
    let how = |i: usize| Modify { neg: op.neg >> i & 1 != 0, abs: op.abs >> i & 1 != 0, flush: flush[i] };
    [
        modified::<A, L>(v, &op.src[0], scalars[0], ta, how(0)),
        modified::<B, L>(v, &op.src[1], scalars[1], tb, how(1)),
        modified::<C, L>(v, &op.src[2], scalars[2], tc, how(2)),
    ]
}

/// Modifiers of one source.
#[derive(Clone, Copy)]
struct Modify {
    neg: bool,
    abs: bool,
    flush: bool,
}

/// One source with its modifiers applied, in `temps`.
#[inline(always)]
fn modified<'a, E: Elem, const L: usize>(
    v: &'a [Row<L>],
    src: &'a Src,
    scalar: u64,
    temps: &'a mut [Row<L>; 2],
    how: Modify,
) -> View<'a, L> {
    if !E::USED {
        return View { low: &temps[0], high: &temps[1], shift: 0 };
    }
    level::run(Modified::<E, L> { v, src, scalar, temps, how, elements: std::marker::PhantomData })
}

struct Modified<'a, E, const L: usize> {
    v: &'a [Row<L>],
    src: &'a Src,
    scalar: u64,
    temps: &'a mut [Row<L>; 2],
    how: Modify,
    elements: std::marker::PhantomData<E>,
}

impl<'a, E: Elem, const L: usize> Part for Modified<'a, E, L> {
    type Result = View<'a, L>;
    #[inline(always)]
    fn run(self) -> View<'a, L> {
        let Modified { v, src, scalar, temps, how, .. } = self;
        let mut broadcast = [Row::ZERO; 2];
        let plain = view::<E, L>(v, src, scalar, &mut broadcast);
        let [low, high] = temps;
        for i in 0..L {
            let bits = E::modify_bits(plain.bits::<E>(i), how.neg, how.abs, how.flush);
            low.0[i] = bits.0;
            if E::WIDE {
                high.0[i] = bits.1;
            }
        }
        View { low, high, shift: 0 }
    }
}

impl<O: VOp, const L: usize> Exec<L> for Valu<O> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        let finish = Finish::new::<O::R, L>(wave, group, op);
        if O::R::SATURATES && wave.saturates {
            by_lane::<O::A, O::B, O::C, O::R, L>(wave, op, finish, O::eval);
            return Ok(());
        }
        let [a, b, c] = operands::<O::A, O::B, O::C, L>(wave, op);
        let mut result = Output::new();
        for i in 0..L {
            result.set(i, O::eval(a.get(i), b.get(i), c.get(i)));
        }
        // SAFETY: all lanes are set.
        unsafe { result.finish::<O::R>(wave, op, finish) };
        Ok(())
    }

    #[inline(always)]
    fn exec_by_lane(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        let finish = Finish::new::<O::R, L>(wave, group, op);
        by_lane::<O::A, O::B, O::C, O::R, L>(wave, op, finish, O::eval);
        Ok(())
    }
}

/// An op lane by lane, and also under FP16_OVFL. All ops with the same types share it.
#[cold]
#[inline(never)]
fn by_lane<A: Elem, B: Elem, C: Elem, R: Elem, const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    finish: Finish,
    eval: fn(A, B, C) -> R,
) {
    let saturates = R::SATURATES && wave.saturates;
    let [a, b, c] = operands::<A, B, C, L>(wave, op);
    let mut result = Output::new();
    for lane in 0..L {
        let (a, b, c) = (a.get::<A>(lane), b.get::<B>(lane), c.get::<C>(lane));
        let (mut bits, high) = eval(a, b, c).to_bits();
        if saturates {
            let (a, b, c) = (a.floats(), b.floats(), c.floats());
            let is_finite = [a, b, c].as_flattened().iter().all(|value| value.is_finite());
            let values = if B::USED { [a[0], b[0]] } else { a };
            bits = R::saturate(bits, values, is_finite);
        }
        result.low.set(lane, bits);
        result.high.set(lane, high);
    }
    // SAFETY: all lanes are set.
    unsafe { result.finish::<R>(wave, op, finish) };
}

/// Writes a result in one or two registers, or half of one.
#[inline(always)]
pub(crate) fn put_elem<E: Elem, const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>, low: &Row<L>, high: &Row<L>) {
    let dst = op.dst as usize;
    if E::HALF {
        if op.dst_clears {
            let mut cleared = NewRow::new();
            for i in 0..L {
                cleared.set(i, low.0[i] & 0xffff);
            }
            // SAFETY: all lanes are set.
            wave.put(dst, &unsafe { cleared.done() });
        } else {
            put_half(wave, dst, op.dst_high, low);
        }
    } else {
        wave.put(dst, low);
    }
    if E::WIDE {
        wave.put(dst + 1, high);
    }
}

/// Writes 16 bits to one half of a VGPR's active lanes; the other half stays (RDNA3 ISA 7.2.2).
#[inline(always)]
pub(crate) fn put_half<const L: usize>(wave: &mut Wave<L>, dst: usize, high: bool, value: &Row<L>) {
    let (shift, keep) = if high { (16, 0x0000_ffff) } else { (0, 0xffff_0000) };
    let old = &wave.v[dst];
    let mut merged = NewRow::new();
    for i in 0..L {
        merged.set(i, old.0[i] & keep | (value.0[i] & 0xffff) << shift);
    }
    // SAFETY: all lanes are set.
    wave.put(dst, &unsafe { merged.done() });
}
