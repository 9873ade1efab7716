// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Matrix ops of CDNA in wave64: D = A·B + C for one or more blocks of square tiles (CDNA3 ISA 7.1; AMD's matrix
//! instruction calculator gives the same layouts). EXEC does not count.
//!
//! For M×M tiles with inner dimension K in B blocks, a lane holds K·M·B/64 consecutive elements of a row of A (or
//! column of B), packed from the lowest bits of its first register: element *k* of row *i* of block *b* is in lane `i +
//! M·b + M·B·(k / per_lane)`. C and D in 32 bits go to the lanes in strips of four rows, in 64 bits of one row: a lane
//! has the rows of a strip in consecutive registers, the strips of a row of tiles follow each other through the lanes,
//! then through the registers.

use super::float::{bf16_to_f32, half_to_f32};
use super::level::{Exec, Level, select};
use super::small_float::{bf8_to_f32, fp8_to_f32};
use crate::micro_op::{Handler, MicroOp, Step};
use crate::operand::SrcKind;
use crate::wave::{Group, Row, Wave};
use sim_isa::Op;
use std::any::Any;

/// Lanes of a wave that has matrix ops.
pub(super) const LANES: usize = 64;

/// The registers of one operand.
pub(super) type Rows = [Row<LANES>];

/// Element type of a product.
pub(super) trait Elements {
    /// An element of A or B, ready to be multiplied.
    type Factor: Copy + Default;
    /// An element of C or D.
    type Sum: Copy + Default;
    /// Bits of an element of A or B.
    const BITS: usize;
    /// An element of C and D is two dwords.
    const WIDE: bool = false;
    fn a(bits: u64) -> Self::Factor;
    fn b(bits: u64) -> Self::Factor {
        Self::a(bits)
    }
    fn read(bits: u64) -> Self::Sum;
    fn write(sum: Self::Sum) -> u64;
    fn step(a: Self::Factor, b: Self::Factor, c: Self::Sum) -> Self::Sum;
}

macro_rules! elements {
    ($($(#[$doc:meta])* $name:ident<$factor:ty, $sum:ty> [$bits:literal] |$x:ident| $a:expr, |$y:ident| $b:expr;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name;
        impl Elements for $name {
            type Factor = $factor;
            type Sum = $sum;
            const BITS: usize = $bits;
            const WIDE: bool = size_of::<$sum>() == 8;
            #[inline(always)]
            fn a($x: u64) -> $factor {
                $a
            }
            #[inline(always)]
            fn b($y: u64) -> $factor {
                $b
            }
            #[inline(always)]
            fn read(bits: u64) -> $sum {
                <$sum as Sum>::read(bits)
            }
            #[inline(always)]
            fn write(sum: $sum) -> u64 {
                Sum::write(sum)
            }
            #[inline(always)]
            fn step(a: $factor, b: $factor, c: $sum) -> $sum {
                Sum::step(a, b, c)
            }
        }
    )*};
}

pub(super) use elements;

/// Accumulator type. Steps go through the inner dimension in order, each a fused multiply-add: the documents leave the
/// hardware's order and intermediate precision open.
pub(super) trait Sum {
    fn read(bits: u64) -> Self;
    fn write(self) -> u64;
    fn step(a: Self, b: Self, c: Self) -> Self;
}

impl Sum for f32 {
    #[inline(always)]
    fn read(bits: u64) -> Self {
        f32::from_bits(bits as u32)
    }
    #[inline(always)]
    fn write(self) -> u64 {
        self.to_bits().into()
    }
    #[inline(always)]
    fn step(a: Self, b: Self, c: Self) -> Self {
        a.mul_add(b, c)
    }
}

impl Sum for f64 {
    #[inline(always)]
    fn read(bits: u64) -> Self {
        f64::from_bits(bits)
    }
    #[inline(always)]
    fn write(self) -> u64 {
        self.to_bits()
    }
    #[inline(always)]
    fn step(a: Self, b: Self, c: Self) -> Self {
        a.mul_add(b, c)
    }
}

impl Sum for i32 {
    #[inline(always)]
    fn read(bits: u64) -> Self {
        bits as i32
    }
    #[inline(always)]
    fn write(self) -> u64 {
        (self as u32).into()
    }
    #[inline(always)]
    fn step(a: Self, b: Self, c: Self) -> Self {
        a.wrapping_mul(b).wrapping_add(c)
    }
}

elements! {
    F32<f32, f32> [32] |x| f32::from_bits(x as u32), |x| f32::from_bits(x as u32);
    F16<f32, f32> [16] |x| half_to_f32(x as u16), |x| half_to_f32(x as u16);
    Bf16<f32, f32> [16] |x| bf16_to_f32(x as u16), |x| bf16_to_f32(x as u16);
    Xf32<f32, f32> [32] |x| xf32(x as u32), |x| xf32(x as u32);
    F64<f64, f64> [64] |x| f64::from_bits(x), |x| f64::from_bits(x);
    I8<i32, i32> [8] |x| i32::from(x as i8), |x| i32::from(x as i8);
    Fp8Fp8<f32, f32> [8] |x| fp8_to_f32(x as u8), |x| fp8_to_f32(x as u8);
    Fp8Bf8<f32, f32> [8] |x| fp8_to_f32(x as u8), |x| bf8_to_f32(x as u8);
    Bf8Fp8<f32, f32> [8] |x| bf8_to_f32(x as u8), |x| fp8_to_f32(x as u8);
    Bf8Bf8<f32, f32> [8] |x| bf8_to_f32(x as u8), |x| bf8_to_f32(x as u8);
}

/// An f32 with the ten mantissa bits that XF32 multiplies, rounded to nearest even.
#[inline(always)]
fn xf32(bits: u32) -> f32 {
    let value = f32::from_bits(bits);
    if !value.is_finite() {
        return value;
    }
    f32::from_bits(bits.wrapping_add(0xfff + (bits >> 13 & 1)) & !0x1fff)
}

/// Modifiers that choose other blocks or lanes than an element's own.
#[derive(Clone, Copy, Default)]
pub(super) struct Broadcast {
    /// Groups of 2^cbsz blocks share one block of A.
    cbsz: u8,
    /// Index in the group.
    abid: u8,
    /// Pattern of B's lanes.
    blgp: u8,
}

impl Broadcast {
    /// The block of A that block `b` multiplies.
    fn block(self, b: usize) -> usize {
        (b >> self.cbsz << self.cbsz) + usize::from(self.abid)
    }

    /// The lane that B's lane is taken from.
    fn lane(self, lane: usize) -> usize {
        match self.blgp {
            0 => lane,
            1 => lane % 32,
            2 => lane % 32 + 32,
            3 => (lane + 16) % 64,
            n => lane % 16 + 16 * usize::from(n & 3),
        }
    }
}

/// Element `at` of a lane's row or column.
#[inline(always)]
pub(super) fn element<E: Elements>(rows: &Rows, lane: usize, at: usize) -> u64 {
    let first = at * E::BITS;
    let low = u64::from(rows[first / 32].0[lane]) >> (first % 32);
    if E::BITS == 64 { low | u64::from(rows[first / 32 + 1].0[lane]) << 32 } else { low }
}

/// Where row `i` of block `b` of C and D is: its register, in elements, and its first lane.
#[inline(always)]
fn place<E: Elements, const M: usize>(i: usize, b: usize) -> (usize, usize) {
    let strip = if E::WIDE { 1 } else { 4 };
    let strips_in_register = LANES / M;
    let blocks_in_register = (LANES * strip / (M * M)).max(1);
    let register = b * (M * M / LANES) + i / (strip * strips_in_register) * strip + i % strip;
    let lane = b % blocks_in_register * M + i / strip % strips_in_register * blocks_in_register * M;
    (register, lane)
}

/// D = A·B + C in `d`, which holds C.
#[inline(always)]
pub(super) fn multiply<E: Elements, const M: usize, const K: usize, const B: usize>(
    a: &Rows,
    b: &Rows,
    how: Broadcast,
    d: &mut Rows,
) {
    let per_lane = K * M * B / LANES;
    let lane = |block: usize, k: usize, i: usize| i + M * block + M * B * (k / per_lane);
    for block in 0..B {
        let mut columns = [[E::Factor::default(); M]; K];
        for (k, column) in columns.iter_mut().enumerate() {
            for (j, value) in column.iter_mut().enumerate() {
                *value = E::b(element::<E>(b, how.lane(lane(block, k, j)), k % per_lane));
            }
        }
        let from = how.block(block) % B;
        for i in 0..M {
            let (register, first) = place::<E, M>(i, block);
            let mut sums = [E::Sum::default(); M];
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum = E::read(element_of_sum::<E>(d, register, first + j));
            }
            for (k, column) in columns.iter().enumerate() {
                let factor = E::a(element::<E>(a, lane(from, k, i), k % per_lane));
                for (sum, value) in sums.iter_mut().zip(column) {
                    *sum = E::step(factor, *value, *sum);
                }
            }
            for (j, sum) in sums.into_iter().enumerate() {
                let bits = E::write(sum);
                if E::WIDE {
                    d[2 * register].0[first + j] = bits as u32;
                    d[2 * register + 1].0[first + j] = (bits >> 32) as u32;
                } else {
                    d[register].0[first + j] = bits as u32;
                }
            }
        }
    }
}

#[inline(always)]
fn element_of_sum<E: Elements>(d: &Rows, register: usize, lane: usize) -> u64 {
    if E::WIDE {
        u64::from(d[2 * register].0[lane]) | u64::from(d[2 * register + 1].0[lane]) << 32
    } else {
        d[register].0[lane].into()
    }
}

/// A matrix op.
pub(super) struct Product<E, const M: usize, const K: usize, const B: usize>(std::marker::PhantomData<E>);

impl<E: Elements, const M: usize, const K: usize, const B: usize, const L: usize> Exec<L> for Product<E, M, K, B> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        // The handlers are of waves with 64 lanes only, which the types do not say.
        let (wave, op): (&mut dyn Any, &dyn Any) = (wave, op);
        if let (Some(wave), Some(op)) = (wave.downcast_mut(), op.downcast_ref()) {
            product::<E, M, K, B>(wave, op);
        }
        Ok(())
    }
}

/// Reads the operands of a matrix op and writes its result.
#[inline(always)]
fn product<E: Elements, const M: usize, const K: usize, const B: usize>(wave: &mut Wave<LANES>, op: &MicroOp<LANES>) {
    let flip = |row: &mut Row<LANES>, negative: bool| {
        if negative {
            row.0.iter_mut().for_each(|x| *x ^= 1 << 31);
        }
    };
    // A and B are copied, as D may overlap them.
    let registers = (K * M * B / LANES * E::BITS).div_ceil(32);
    let factors = |at: usize| {
        std::array::from_fn(|n| if n < registers { wave.v[op.src[at].reg as usize + n] } else { Row::ZERO })
    };
    let (mut a, mut b): ([Row<LANES>; 4], [Row<LANES>; 4]) = (factors(0), factors(1));
    let registers = M * M * B / LANES * if E::WIDE { 2 } else { 1 };
    let mut d = [Row::ZERO; 32];
    let d = &mut d[..registers];
    for (n, row) in d.iter_mut().enumerate() {
        *row = match op.src[2].kind {
            SrcKind::Vgpr => wave.v[op.src[2].reg as usize + n],
            _ => Row([(wave.s64(&op.src[2]) >> if E::WIDE { 32 * (n % 2) } else { 0 }) as u32; LANES]),
        };
    }
    if E::WIDE {
        flip(&mut a[1], op.neg & 1 != 0);
        flip(&mut b[1], op.neg & 2 != 0);
        d.iter_mut().skip(1).step_by(2).for_each(|row| flip(row, op.neg & 4 != 0));
    }
    let how = Broadcast { cbsz: op.matrix.cbsz, abid: op.matrix.abid, blgp: op.matrix.blgp };
    multiply::<E, M, K, B>(&a, &b, how, d);
    let first = op.dst as usize;
    wave.v[first..first + registers].copy_from_slice(d);
}

/// A matrix op whose A is sparse: of each four elements of a row two are there, and source 2 tells in two bits which
/// the two are (CDNA3 ISA 7.1.5). D is C.
pub(super) struct Sparse<E, const M: usize, const K: usize>(std::marker::PhantomData<E>);

impl<E: Elements, const M: usize, const K: usize, const L: usize> Exec<L> for Sparse<E, M, K> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        // The handlers are of waves with 64 lanes only, which the types do not say.
        let (wave, op): (&mut dyn Any, &dyn Any) = (wave, op);
        if let (Some(wave), Some(op)) = (wave.downcast_mut(), op.downcast_ref()) {
            sparse_product::<E, M, K>(wave, op);
        }
        Ok(())
    }
}

#[inline(always)]
fn sparse_product<E: Elements, const M: usize, const K: usize>(wave: &mut Wave<LANES>, op: &MicroOp<LANES>) {
    let registers = |at: usize| op.src[at].reg as usize;
    // Elements of A that a lane has; their places are in as many pairs of bits of one of the index register's sets.
    let present = K * M / LANES / 2;
    let set = if op.matrix.cbsz == 0 { usize::from(op.matrix.abid) % (16 / present) } else { 0 };
    let mut a = [Row::ZERO; 4];
    for lane in 0..LANES {
        let index = wave.lane(&op.src[2], lane) >> (2 * present * set);
        for n in 0..present {
            let value = element::<E>(&wave.v[registers(0)..], lane, n) as u32 & (u32::MAX >> (32 - E::BITS));
            let place = (n / 2 * 4 + (index >> (2 * n) & 3) as usize) * E::BITS;
            a[place / 32].0[lane] |= value << (place % 32);
        }
    }
    let b: [Row<LANES>; 4] = std::array::from_fn(|n| wave.v[registers(1) + n]);
    let d = op.dst as usize;
    multiply::<E, M, K, 1>(&a, &b, Broadcast::default(), &mut wave.v[d..d + M * M / LANES]);
}

macro_rules! products {
    (
        dense { $($op:ident $elements:ident $m:literal $k:literal $blocks:literal;)* }
        sparse { $($sparse:ident $sparse_elements:ident $sm:literal $sk:literal;)* }
    ) => {
        /// The handler of a matrix op of this table.
        pub(super) fn handler<const L: usize>(op: Op, level: Level) -> Option<Handler<L>> {
            if L != LANES {
                return None;
            }
            Some(match op {
                $(Op::$op => select::<Product<$elements, $m, $k, $blocks>, L>(level),)*
                $(Op::$sparse => select::<Sparse<$sparse_elements, $sm, $sk>, L>(level),)*
                _ => return None,
            })
        }
    };
}
pub(super) use products;

products! {
    dense {
        VMfmaF3232x32x12bF32 F32 32 1 2;
        VMfmaF3216x16x14bF32 F32 16 1 4;
        VMfmaF324x4x116bF32 F32 4 1 16;
        VMfmaF3232x32x2F32 F32 32 2 1;
        VMfmaF3216x16x4F32 F32 16 4 1;
        VMfmaF3232x32x42bF16 F16 32 4 2;
        VMfmaF3216x16x44bF16 F16 16 4 4;
        VMfmaF324x4x416bF16 F16 4 4 16;
        VMfmaF3232x32x8F16 F16 32 8 1;
        VMfmaF3216x16x16F16 F16 16 16 1;
        VMfmaF3232x32x42bBf16 Bf16 32 4 2;
        VMfmaF3216x16x44bBf16 Bf16 16 4 4;
        VMfmaF324x4x416bBf16 Bf16 4 4 16;
        VMfmaF3232x32x8Bf16 Bf16 32 8 1;
        VMfmaF3216x16x16Bf16 Bf16 16 16 1;
        VMfmaF3232x32x2bf16 Bf16 32 2 2;
        VMfmaF3216x16x2bf16 Bf16 16 2 4;
        VMfmaF324x4x2bf16 Bf16 4 2 16;
        VMfmaF3232x32x4bf16 Bf16 32 4 1;
        VMfmaF3216x16x8bf16 Bf16 16 8 1;
        VMfmaF3216x16x8Xf32 Xf32 16 8 1;
        VMfmaF3232x32x4Xf32 Xf32 32 4 1;
        VMfmaI3232x32x42bI8 I8 32 4 2;
        VMfmaI3216x16x44bI8 I8 16 4 4;
        VMfmaI324x4x416bI8 I8 4 4 16;
        VMfmaI3232x32x8i8 I8 32 8 1;
        VMfmaI3216x16x16i8 I8 16 16 1;
        VMfmaI3232x32x16I8 I8 32 16 1;
        VMfmaI3216x16x32I8 I8 16 32 1;
        VMfmaF6416x16x4F64 F64 16 4 1;
        VMfmaF644x4x44bF64 F64 4 4 4;
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
        VSmfmacF3216x16x32F16 F16 16 32;
        VSmfmacF3232x32x16F16 F16 32 16;
        VSmfmacF3216x16x32Bf16 Bf16 16 32;
        VSmfmacF3232x32x16Bf16 Bf16 32 16;
        VSmfmacI3216x16x64I8 I8 16 64;
        VSmfmacF3216x16x64Fp8Fp8 Fp8Fp8 16 64;
        VSmfmacF3216x16x64Fp8Bf8 Fp8Bf8 16 64;
        VSmfmacF3216x16x64Bf8Fp8 Bf8Fp8 16 64;
        VSmfmacF3216x16x64Bf8Bf8 Bf8Bf8 16 64;
        VSmfmacI3232x32x32I8 I8 32 32;
        VSmfmacF3232x32x32Fp8Fp8 Fp8Fp8 32 32;
        VSmfmacF3232x32x32Fp8Bf8 Fp8Bf8 32 32;
        VSmfmacF3232x32x32Bf8Fp8 Bf8Fp8 32 32;
        VSmfmacF3232x32x32Bf8Bf8 Bf8Bf8 32 32;
    }
}
