// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Minima, maxima and medians of floats that prefer a number to a NaN, except that a signalling NaN wins in IEEE mode
//! (RDNA3 and CDNA3 ISA, V_MIN_F32 and its like).

use super::float::{max32, max64, min32, min64};
use super::level::{Exec, Level, select};
use super::valu::{Bf16, Elem, F16, Finish, Output, View, operands};
use crate::micro_op::{Handler, MicroOp, Step};
use crate::wave::{Group, Wave};
use sim_isa::Op;

/// A float with an order.
pub(super) trait Number: Elem {
    fn least(a: Self, b: Self, ieee: bool) -> Self;
    fn most(a: Self, b: Self, ieee: bool) -> Self;
    fn is_nan(self) -> bool;
}

macro_rules! numbers {
    ($($float:ty, $min:ident, $max:ident, $quiet:literal);*) => {$(
        impl Number for $float {
            #[inline(always)]
            fn least(a: $float, b: $float, ieee: bool) -> $float {
                if ieee { signalled(a, b, $min(a, b)) } else { $min(a, b) }
            }
            #[inline(always)]
            fn most(a: $float, b: $float, ieee: bool) -> $float {
                if ieee { signalled(a, b, $max(a, b)) } else { $max(a, b) }
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                <$float>::is_nan(self)
            }
        }

        impl Signals for $float {
            #[inline(always)]
            fn signals(self) -> bool {
                <$float>::is_nan(self) && self.to_bits() & $quiet == 0
            }
            #[inline(always)]
            fn quiet(self) -> $float {
                <$float>::from_bits(self.to_bits() | $quiet)
            }
        }
    )*};
}

/// A float whose NaNs may be signalling.
trait Signals: Copy {
    fn signals(self) -> bool;
    fn quiet(self) -> Self;
}

numbers!(f32, min32, max32, 0x0040_0000; f64, min64, max64, 0x0008_0000_0000_0000);

/// `otherwise`, unless an operand is a signalling NaN.
#[inline(always)]
fn signalled<F: Signals>(a: F, b: F, otherwise: F) -> F {
    let of_b = if b.signals() { b.quiet() } else { otherwise };
    if a.signals() { a.quiet() } else { of_b }
}

impl Number for F16 {
    #[inline(always)]
    fn least(a: F16, b: F16, ieee: bool) -> F16 {
        F16(f32::least(a.0, b.0, ieee))
    }
    #[inline(always)]
    fn most(a: F16, b: F16, ieee: bool) -> F16 {
        F16(f32::most(a.0, b.0, ieee))
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.0.is_nan()
    }
}

impl Number for Bf16 {
    #[inline(always)]
    fn least(a: Bf16, b: Bf16, ieee: bool) -> Bf16 {
        Bf16(f32::least(a.0, b.0, ieee))
    }
    #[inline(always)]
    fn most(a: Bf16, b: Bf16, ieee: bool) -> Bf16 {
        Bf16(f32::most(a.0, b.0, ieee))
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.0.is_nan()
    }
}

/// An op of two (`c` is then `b`) or three floats.
trait ExtremumOp<E: Number> {
    const THREE: bool;
    fn eval(a: E, b: E, c: E, ieee: bool) -> E;
}

struct Extremum<O, E>(std::marker::PhantomData<(O, E)>);

impl<O: ExtremumOp<E>, E: Number, const L: usize> Exec<L> for Extremum<O, E> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        run::<E, L>(wave, group, op, O::THREE, O::eval)
    }

    #[inline(always)]
    fn exec_by_lane(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        by_lane::<E, L>(wave, group, op, O::THREE, O::eval)
    }
}

/// An op lane by lane. All with the same type share it.
#[cold]
#[inline(never)]
fn by_lane<E: Number, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    three: bool,
    eval: fn(E, E, E, bool) -> E,
) -> Step {
    run(wave, group, op, three, eval)
}

/// Runs an op, which has three sources or two.
#[inline(always)]
fn run<E: Number, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    three: bool,
    eval: impl Fn(E, E, E, bool) -> E,
) -> Step {
    let finish = Finish::new::<E, L>(wave, group, op);
    let ieee = group.ieee(wave);
    let sources = if three { operands::<E, E, E, L>(wave, op) } else { operands::<E, E, (), L>(wave, op) };
    // Two loops without a choice in them.
    let result = if ieee { evaluate(sources, three, true, eval) } else { evaluate(sources, three, false, eval) };
    // SAFETY: all lanes are set.
    unsafe { result.finish::<E>(wave, op, finish) };
    Ok(())
}

#[inline(always)]
fn evaluate<E: Number, const L: usize>(
    [a, b, c]: [View<'_, L>; 3],
    three: bool,
    ieee: bool,
    eval: impl Fn(E, E, E, bool) -> E,
) -> Output<L> {
    let mut result = Output::new();
    for i in 0..L {
        let (x, y): (E, E) = (a.get(i), b.get(i));
        let z = if three { c.get(i) } else { y };
        result.set(i, eval(x, y, z, ieee));
    }
    result
}

macro_rules! extrema {
    ($($name:ident $three:literal ($a:ident, $b:ident, $c:ident, $ieee:ident) $body:block: $($op:ident $float:ty),*;)*) => {
        $(
            struct $name;
            impl<E: Number> ExtremumOp<E> for $name {
                const THREE: bool = $three;
                #[inline(always)]
                fn eval($a: E, $b: E, $c: E, $ieee: bool) -> E $body
            }
        )*

        /// The handler of an op of this module.
        pub(super) fn handler<const L: usize>(op: Op, level: Level) -> Option<Handler<L>> {
            Some(match op {
                $($(Op::$op => select::<Extremum<$name, $float>, L>(level),)*)*
                _ => return None,
            })
        }
    };
}

extrema! {
    Min false (a, b, _c, ieee) { E::least(a, b, ieee) }: VMinF32 f32, VMinF16 F16, VMinF64 f64;
    Max false (a, b, _c, ieee) { E::most(a, b, ieee) }: VMaxF32 f32, VMaxF16 F16, VMaxF64 f64;
    Min3 true (a, b, c, ieee) { E::least(E::least(a, b, ieee), c, ieee) }: VMin3F32 f32, VMin3F16 F16;
    Max3 true (a, b, c, ieee) { E::most(E::most(a, b, ieee), c, ieee) }: VMax3F32 f32, VMax3F16 F16;
    Maxmin true (a, b, c, ieee) { E::least(E::most(a, b, ieee), c, ieee) }: VMaxminF32 f32, VMaxminF16 F16;
    Minmax true (a, b, c, ieee) { E::most(E::least(a, b, ieee), c, ieee) }: VMinmaxF32 f32, VMinmaxF16 F16;
    // With a NaN among them, the minimum.
    Med3 true (a, b, c, ieee) {
        if a.is_nan() || b.is_nan() || c.is_nan() {
            return E::least(E::least(a, b, ieee), c, ieee);
        }
        E::most(E::least(a, b, false), E::least(E::most(a, b, false), c, false), false)
    }: VMed3F32 f32, VMed3F16 F16;
}
