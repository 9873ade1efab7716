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
use super::fp8::{bf8_to_f32, fp8_to_f32};
use super::level::of_lanes;
use super::outer::{self, Host, Strip};
use crate::micro_op::{Handler, MicroOp, Step};
use crate::operand::SrcKind;
use crate::wave::{Group, Row, Wave};
use sim_isa::Op;
use std::mem::MaybeUninit;

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
    /// An element of A or B is IEEE's half precision, which hosts convert.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only x86-64 has a conversion of many"))]
    const IS_F16: bool = false;
    fn a(bits: u64) -> Self::Factor;
    fn b(bits: u64) -> Self::Factor {
        Self::a(bits)
    }
    fn read(bits: u64) -> Self::Sum;
    fn write(sum: Self::Sum) -> u64;
    fn step(a: Self::Factor, b: Self::Factor, c: Self::Sum) -> Self::Sum;
    /// The pointers, if factors and sums are f32.
    fn floats(a: *const Self::Factor, b: *const Self::Factor) -> Option<(*const f32, *const f32)>;
}

macro_rules! elements {
    ($($(#[$doc:meta])* $name:ident<$factor:ty, $sum:ty> [$bits:literal $(@ $is_f16:literal)?] |$x:ident| $a:expr, |$y:ident| $b:expr;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name;
        impl Elements for $name {
            type Factor = $factor;
            type Sum = $sum;
            const BITS: usize = $bits;
            $(const IS_F16: bool = $is_f16;)?
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
            #[inline(always)]
            fn floats(a: *const $factor, b: *const $factor) -> Option<(*const f32, *const f32)> {
                <$sum as Sum>::IS_F32.then_some((a.cast(), b.cast()))
            }
        }
    )*};
}

pub(super) use elements;

/// Accumulator type. Steps go through the inner dimension in order, each a fused multiply-add: the documents leave the
/// hardware's order and intermediate precision open.
pub(super) trait Sum {
    const IS_F32: bool = false;
    fn read(bits: u64) -> Self;
    fn write(self) -> u64;
    fn step(a: Self, b: Self, c: Self) -> Self;
}

impl Sum for f32 {
    const IS_F32: bool = true;
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
    F16<f32, f32> [16 @true] |x| half_to_f32(x as u16), |x| half_to_f32(x as u16);
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
struct Broadcast {
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

/// Where row `i` of block `b` of C and D is: its register, in elements, which may be two dwords, and its first lane.
#[inline(always)]
fn place<const M: usize>(is_wide: bool, i: usize, b: usize) -> (usize, usize) {
    let strip = if is_wide { 1 } else { 4 };
    let strips_in_register = LANES / M;
    let blocks_in_register = (LANES * strip / (M * M)).max(1);
    let register = b * (M * M / LANES) + i / (strip * strips_in_register) * strip + i % strip;
    let lane = b % blocks_in_register * M + i / strip % strips_in_register * blocks_in_register * M;
    (register, lane)
}

/// Elements of A or B that a lane has at most.
const MOST: usize = 32;

/// The elements of A or B, ready to be multiplied: those of all lanes at the first place, then at the second one, and
/// so on. Not zeroed: a lane has as many as its op says.
struct Factors<E: Elements>([MaybeUninit<[E::Factor; LANES]>; MOST]);

impl<E: Elements> Factors<E> {
    #[inline(always)]
    fn new() -> Self {
        Factors([const { MaybeUninit::uninit() }; MOST])
    }

    /// Reads the elements, in place: moving all of them would cost more. `flip` inverts bits of each element.
    #[inline(always)]
    fn fill(&mut self, rows: &Rows, per_lane: usize, flip: u64, convert: impl Fn(u64) -> E::Factor) {
        #[cfg(target_arch = "x86_64")]
        if E::IS_F16 && flip == 0 && Host::detect() == Host::Avx512 {
            // SAFETY: the CPU has AVX-512 F, and factors of f16 are f32.
            return unsafe { fill_f16(rows, per_lane, self.0.as_mut_ptr().cast()) };
        }
        for (at, lanes) in self.0[..per_lane].iter_mut().enumerate() {
            let first = at * E::BITS;
            let low = &rows[first / 32];
            let high = if E::BITS == 64 { &rows[first / 32 + 1] } else { low };
            let lanes = lanes.as_mut_ptr().cast::<E::Factor>();
            for lane in 0..LANES {
                let bits = u64::from(low.0[lane]) >> (first % 32);
                let bits = if E::BITS == 64 { bits | u64::from(high.0[lane]) << 32 } else { bits };
                // SAFETY: the array has an element for each lane.
                unsafe { lanes.add(lane).write(convert(bits ^ flip)) };
            }
        }
    }

    /// Takes each lane's elements from another lane.
    #[inline(never)]
    fn permute(&mut self, per_lane: usize, from: impl Fn(usize) -> usize) {
        for lanes in &mut self.0[..per_lane] {
            // SAFETY: `fill` has written as many.
            let old = unsafe { lanes.assume_init() };
            lanes.write(std::array::from_fn(|lane| old[from(lane)]));
        }
    }

    fn first(&self) -> *const E::Factor {
        self.0.as_ptr().cast()
    }
}

/// [`Factors::fill`] of f16.
///
/// # Safety
/// The CPU has AVX-512 F, and there are as many factors.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn fill_f16(rows: &Rows, per_lane: usize, factors: *mut [f32; LANES]) {
    use std::arch::x86_64::*;
    for at in 0..per_lane {
        let shift = _mm_cvtsi32_si128(16 * (at % 2) as i32);
        for (part, words) in rows[at / 2].0.as_chunks::<16>().0.iter().enumerate() {
            // SAFETY: by this function's contract; there are 16 words.
            unsafe {
                let words = _mm512_srl_epi32(_mm512_loadu_si512(words.as_ptr().cast()), shift);
                let to = factors.add(at).cast::<f32>().add(16 * part);
                _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)));
            }
        }
    }
}

/// [`multiply`] of one block.
#[inline(always)]
pub(super) fn multiply_rows<E: Elements, const M: usize, const K: usize>(a: &Rows, b: &Rows, d: &mut Rows) {
    let per_lane = K * M / LANES;
    let (mut left, mut right) = (Factors::<E>::new(), Factors::<E>::new());
    left.fill(a, per_lane, 0, E::a);
    right.fill(b, per_lane, 0, E::b);
    multiply::<E, M, K, 1>(&left, &right, Broadcast::default(), d);
}

/// D = A·B + C in `d`, which holds C.
#[inline(always)]
fn multiply<E: Elements, const M: usize, const K: usize, const B: usize>(
    a: &Factors<E>,
    b: &Factors<E>,
    how: Broadcast,
    d: &mut Rows,
) {
    if M.is_multiple_of(outer::WIDTH)
        && let Some((a, b)) = E::floats(a.first(), b.first())
    {
        // SAFETY: the factors of all k have been written.
        return unsafe { multiply_floats::<M, K, B>(a, b, how, d) };
    }
    let (a, b) = (a.first(), b.first());
    for block in 0..B {
        let places = places::<M, K, B>(how, block);
        for i in 0..M {
            let (register, first) = place::<M>(E::WIDE, i, block);
            let mut sums = [E::Sum::default(); M];
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum = E::read(element_of_sum::<E>(d, register, first + j));
            }
            for (from, column) in places {
                // SAFETY: the factors of all k have been written.
                let factor = unsafe { a.add(from + i).read() };
                for (j, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: as above.
                    *sum = E::step(factor, unsafe { b.add(column + j).read() }, *sum);
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

/// Where the factors of a block are for each k: A's of row 0, and B's of column 0.
#[inline(always)]
fn places<const M: usize, const K: usize, const B: usize>(how: Broadcast, block: usize) -> [(usize, usize); K] {
    let per_lane = K * M * B / LANES;
    let first = |block: usize, k: usize| k % per_lane * LANES + M * block + M * B * (k / per_lane);
    let from = how.block(block) % B;
    std::array::from_fn(|k| (first(from, k), first(block, k)))
}

/// [`multiply`] of f32, which all types of elements share.
///
/// # Safety
/// The factors of all k can be read.
#[inline(never)]
unsafe fn multiply_floats<const M: usize, const K: usize, const B: usize>(
    a: *const f32,
    b: *const f32,
    how: Broadcast,
    d: &mut Rows,
) {
    let host = Host::detect();
    for block in 0..B {
        let places = places::<M, K, B>(how, block);
        for i in (0..M).step_by(outer::ROWS) {
            let (register, lane) = place::<M>(false, i, block);
            let d = d[register..register + outer::ROWS].as_mut_ptr().cast::<f32>();
            for column in (0..M).step_by(outer::WIDTH) {
                // SAFETY: by this function's contract; the rows of a strip are in registers that follow each other, and
                // the host is this one.
                unsafe {
                    let (a, b, d) = (a.add(i), b.add(column), d.add(lane + column));
                    outer::add_f32(host, Strip { a, b, places: &places, d, stride: LANES });
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

/// A matrix op: reads its operands and writes its result.
pub(super) fn product<E: Elements, const M: usize, const K: usize, const B: usize>(
    wave: &mut Wave<LANES>,
    _: &mut Group<'_>,
    op: &MicroOp<LANES>,
) -> Step {
    let sign = |source: usize| if E::WIDE && op.neg >> source & 1 != 0 { 1 << (E::BITS - 1) } else { 0 };
    let per_lane = K * M * B / LANES;
    // All of A and B is read before D is written, which may overlap them.
    let (mut a, mut b) = (Factors::<E>::new(), Factors::<E>::new());
    a.fill(&wave.v[op.src[0].reg as usize..], per_lane, sign(0), E::a);
    b.fill(&wave.v[op.src[1].reg as usize..], per_lane, sign(1), E::b);
    let how = Broadcast { cbsz: op.matrix.cbsz, abid: op.matrix.abid, blgp: op.matrix.blgp };
    if how.blgp != 0 {
        b.permute(per_lane, |lane| how.lane(lane));
    }
    let registers = M * M * B / LANES * if E::WIDE { 2 } else { 1 };
    let (c, first) = (&op.src[2], op.dst as usize);
    if c.kind != SrcKind::Vgpr {
        let bits = wave.s64(c);
        for (n, row) in wave.v[first..first + registers].iter_mut().enumerate() {
            *row = Row([(bits >> if E::WIDE { 32 * (n % 2) } else { 0 }) as u32; LANES]);
        }
    } else if c.reg != op.dst {
        wave.v.copy_within(c.reg as usize..c.reg as usize + registers, first);
    }
    let d = &mut wave.v[first..first + registers];
    if sign(2) != 0 {
        for row in d.iter_mut().skip(1).step_by(2) {
            row.0.iter_mut().for_each(|x| *x ^= 1 << 31);
        }
    }
    multiply::<E, M, K, B>(&a, &b, how, d);
    Ok(())
}

/// A matrix op whose A is sparse: of each four elements of a row two are there, and source 2 tells in two bits which
/// the two are (CDNA3 ISA 7.1.5). D is C.
pub(super) fn sparse_product<E: Elements, const M: usize, const K: usize>(
    wave: &mut Wave<LANES>,
    _: &mut Group<'_>,
    op: &MicroOp<LANES>,
) -> Step {
    let a = spread::<E, M, K, 4>(wave, op);
    let b: [Row<LANES>; 4] = std::array::from_fn(|n| wave.v[op.src[1].reg as usize + n]);
    let d = op.dst as usize;
    multiply_rows::<E, M, K>(&a, &b, &mut wave.v[d..d + M * M / LANES]);
    Ok(())
}

/// A sparse A with zeros between the elements that lanes have. `N` is the number of registers of a lane.
#[inline(always)]
pub(super) fn spread<E: Elements, const M: usize, const K: usize, const N: usize>(
    wave: &Wave<LANES>,
    op: &MicroOp<LANES>,
) -> [Row<LANES>; N] {
    // Elements of A that a lane has; their places are in as many pairs of bits of one of the index register's sets.
    let present = K * M / LANES / 2;
    let set = if op.matrix.cbsz == 0 { usize::from(op.matrix.abid) % (16 / present) } else { 0 };
    let mut a = [Row::ZERO; N];
    for lane in 0..LANES {
        let index = wave.lane(&op.src[2], lane) >> (2 * present * set);
        for n in 0..present {
            let value = element::<E>(&wave.v[op.src[0].reg as usize..], lane, n);
            put::<E>(&mut a, lane, n / 2 * 4 + (index >> (2 * n) & 3) as usize, value);
        }
    }
    a
}

/// Adds an element to zeros at its place in a lane's registers.
#[inline(always)]
pub(super) fn put<E: Elements>(rows: &mut [Row<LANES>], lane: usize, place: usize, value: u64) {
    let at = place * E::BITS;
    rows[at / 32].0[lane] |= (value as u32 & (u32::MAX >> (32 - E::BITS))) << (at % 32);
}

macro_rules! products {
    (
        dense { $($op:ident $elements:ident $m:literal $k:literal $blocks:literal;)* }
        sparse { $($sparse:ident $sparse_elements:ident $sm:literal $sk:literal;)* }
    ) => {
        /// The handler of a matrix op of this table.
        pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
            let handler: Handler<LANES> = match op {
                $(Op::$op => product::<$elements, $m, $k, $blocks>,)*
                $(Op::$sparse => sparse_product::<$sparse_elements, $sm, $sk>,)*
                _ => return None,
            };
            of_lanes(handler)
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
