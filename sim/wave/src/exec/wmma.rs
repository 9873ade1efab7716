// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Matrix ops of RDNA3, RDNA4 and gfx1250: D = A·B + C on tiles of 16×16 with inner dimension K (RDNA3 and RDNA4 ISA
//! 7.9, CDNA5 ISA 7.12). The places of RDNA4's elements are from AMD's matrix instruction calculator. EXEC does not
//! count.
//!
//! A lane holds elements of one row of A and one column of B, packed from the lowest bits of its first register; which
//! ones is the [`Layout`]. C and D: register *r* of lane *l* is an element of column *l* mod 16, in 16 bits on RDNA3
//! the half of it that `op_sel` bit 2 chooses, later two rows in each register.

use super::float::{bf16_to_f32, f32_to_bf16, f32_to_half, half_to_f32};
use super::fp8::ocp;
use super::level::{self, Part, of_lanes};
use super::outer::{self, Host, Strip};
use super::wmma_layout::{Crossed, Doubled, Eights, HalfSparse, Layout, Shape, Sparse, Split};
use crate::fault::FaultKind;
use crate::micro_op::{Handler, MicroOp, Step, Stop};
use crate::operand::SrcKind;
use crate::wave::{Group, Row, Wave};
use sim_isa::Op;
use std::marker::PhantomData;

/// Elements along K of any op at most.
const MOST: usize = 128;

/// Rows of C and D in a lane.
const fn rows(lanes: usize) -> usize {
    16 * 16 / lanes
}

/// A float as an element.
trait Element {
    const BITS: usize;
    /// The element is IEEE's half precision, which hosts convert.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only x86-64 has a conversion of many"))]
    const IS_F16: bool = false;
    fn get(bits: u32) -> f32;
}

/// An element of 16 bits, which C and D may have as well.
trait Half: Element {
    /// Limit of results under FP16_OVFL.
    const MOST: f32;
    fn round(value: f32) -> u16;
}

macro_rules! elements {
    ($($name:ident $bits:literal $(@ $is_f16:literal)? $get:expr $(, $round:expr, $most:expr)?;)*) => {$(
        struct $name;
        impl Element for $name {
            const BITS: usize = $bits;
            $(const IS_F16: bool = $is_f16;)?
            #[inline(always)]
            fn get(bits: u32) -> f32 {
                $get(bits)
            }
        }
        $(impl Half for $name {
            const MOST: f32 = $most;
            #[inline(always)]
            fn round(value: f32) -> u16 {
                $round(value)
            }
        })?
    )*};
}

elements! {
    F32 32 f32::from_bits;
    F16 16 @true |bits| half_to_f32(bits as u16), f32_to_half, 65504.0;
    Bf16 16 |bits| bf16_to_f32(bits as u16), f32_to_bf16, f32::MAX;
    Fp8 8 |bits| ocp::fp8_to_f32(bits as u8);
    Bf8 8 |bits| ocp::bf8_to_f32(bits as u8);
}

/// The handler of a matrix op.
pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    Some(match op {
        Op::VWmmaF3216x16x16F16 => float32::<Doubled, F16, F16, 16, L>,
        Op::VWmmaF3216x16x16Bf16 => float32::<Doubled, Bf16, Bf16, 16, L>,
        Op::VWmmaF1616x16x16F16 => one_half::<F16, L>,
        Op::VWmmaBf1616x16x16Bf16 => one_half::<Bf16, L>,
        Op::VWmmaI3216x16x16Iu8 => integer::<Doubled, 8, 16, L>,
        Op::VWmmaI3216x16x16Iu4 => integer::<Doubled, 4, 16, L>,
        Op::VWmmaF3216x16x16F16Gfx12 => float32::<Split, F16, F16, 16, L>,
        Op::VWmmaF3216x16x16Bf16Gfx12 => float32::<Split, Bf16, Bf16, 16, L>,
        Op::VWmmaF1616x16x16F16Gfx12 => both_halves::<Split, F16, F16, F16, 16, L>,
        Op::VWmmaBf1616x16x16Bf16Gfx12 => both_halves::<Split, Bf16, Bf16, Bf16, 16, L>,
        Op::VWmmaI3216x16x16Iu8Gfx12 => integer::<Split, 8, 16, L>,
        Op::VWmmaI3216x16x16Iu4Gfx12 => integer::<Split, 4, 16, L>,
        Op::VWmmaI3216x16x32Iu4 => integer::<Split, 4, 32, L>,
        Op::VWmmaF3216x16x16Fp8Fp8 => float32::<Split, Fp8, Fp8, 16, L>,
        Op::VWmmaF3216x16x16Fp8Bf8 => float32::<Split, Fp8, Bf8, 16, L>,
        Op::VWmmaF3216x16x16Bf8Fp8 => float32::<Split, Bf8, Fp8, 16, L>,
        Op::VWmmaF3216x16x16Bf8Bf8 => float32::<Split, Bf8, Bf8, 16, L>,
        Op::VSwmmacF3216x16x32F16 => float32::<Sparse, F16, F16, 32, L>,
        Op::VSwmmacF3216x16x32Bf16 => float32::<Sparse, Bf16, Bf16, 32, L>,
        Op::VSwmmacF1616x16x32F16 => both_halves::<Sparse, F16, F16, F16, 32, L>,
        Op::VSwmmacBf1616x16x32Bf16 => both_halves::<Sparse, Bf16, Bf16, Bf16, 32, L>,
        Op::VSwmmacI3216x16x32Iu8 => integer::<Sparse, 8, 32, L>,
        Op::VSwmmacI3216x16x32Iu4 if L == 64 => integer::<HalfSparse, 4, 32, L>,
        Op::VSwmmacI3216x16x32Iu4 => integer::<Sparse, 4, 32, L>,
        Op::VSwmmacI3216x16x64Iu4 => integer::<Sparse, 4, 64, L>,
        Op::VSwmmacF3216x16x32Fp8Fp8 => float32::<Sparse, Fp8, Fp8, 32, L>,
        Op::VSwmmacF3216x16x32Fp8Bf8 => float32::<Sparse, Fp8, Bf8, 32, L>,
        Op::VSwmmacF3216x16x32Bf8Fp8 => float32::<Sparse, Bf8, Fp8, 32, L>,
        Op::VSwmmacF3216x16x32Bf8Bf8 => float32::<Sparse, Bf8, Bf8, 32, L>,
        _ => return of_lanes(gfx1250_handler(op)?),
    })
}

/// The handler of a matrix op that gfx1250 alone has.
fn gfx1250_handler(op: Op) -> Option<Handler<32>> {
    Some(match op {
        Op::VSwmmacF3216x16x64F16 => float32::<Crossed, F16, F16, 64, 32>,
        Op::VSwmmacF3216x16x64Bf16 => float32::<Crossed, Bf16, Bf16, 64, 32>,
        Op::VSwmmacF1616x16x64F16 => both_halves::<Crossed, F16, F16, F16, 64, 32>,
        Op::VSwmmacBf1616x16x64Bf16 => both_halves::<Crossed, Bf16, Bf16, Bf16, 64, 32>,
        Op::VSwmmacI3216x16x128Iu8 => integer::<Crossed, 8, 128, 32>,
        Op::VSwmmacF3216x16x128Fp8Fp8 => float32::<Crossed, Fp8, Fp8, 128, 32>,
        Op::VSwmmacF3216x16x128Fp8Bf8 => float32::<Crossed, Fp8, Bf8, 128, 32>,
        Op::VSwmmacF3216x16x128Bf8Fp8 => float32::<Crossed, Bf8, Fp8, 128, 32>,
        Op::VSwmmacF3216x16x128Bf8Bf8 => float32::<Crossed, Bf8, Bf8, 128, 32>,
        Op::VSwmmacF1616x16x128Fp8Fp8 => both_halves::<Crossed, Fp8, Fp8, F16, 128, 32>,
        Op::VSwmmacF1616x16x128Fp8Bf8 => both_halves::<Crossed, Fp8, Bf8, F16, 128, 32>,
        Op::VSwmmacF1616x16x128Bf8Fp8 => both_halves::<Crossed, Bf8, Fp8, F16, 128, 32>,
        Op::VSwmmacF1616x16x128Bf8Bf8 => both_halves::<Crossed, Bf8, Bf8, F16, 128, 32>,
        Op::VWmmaF3216x16x4F32 => float32::<Split, F32, F32, 4, 32>,
        Op::VWmmaF3216x16x32F16 => float32::<Eights, F16, F16, 32, 32>,
        Op::VWmmaF3216x16x32Bf16 => float32::<Eights, Bf16, Bf16, 32, 32>,
        Op::VWmmaF1616x16x32F16 => both_halves::<Eights, F16, F16, F16, 32, 32>,
        Op::VWmmaBf1616x16x32Bf16 => both_halves::<Eights, Bf16, Bf16, Bf16, 32, 32>,
        Op::VWmmaBf16f3216x16x32Bf16 => narrowed::<Eights, Bf16, 32, 32>,
        Op::VWmmaI3216x16x64Iu8 => integer::<Eights, 8, 64, 32>,
        Op::VWmmaF3216x16x64Fp8Fp8 => float32::<Eights, Fp8, Fp8, 64, 32>,
        Op::VWmmaF3216x16x64Fp8Bf8 => float32::<Eights, Fp8, Bf8, 64, 32>,
        Op::VWmmaF3216x16x64Bf8Fp8 => float32::<Eights, Bf8, Fp8, 64, 32>,
        Op::VWmmaF3216x16x64Bf8Bf8 => float32::<Eights, Bf8, Bf8, 64, 32>,
        Op::VWmmaF1616x16x64Fp8Fp8 => both_halves::<Eights, Fp8, Fp8, F16, 64, 32>,
        Op::VWmmaF1616x16x64Fp8Bf8 => both_halves::<Eights, Fp8, Bf8, F16, 64, 32>,
        Op::VWmmaF1616x16x64Bf8Fp8 => both_halves::<Eights, Bf8, Fp8, F16, 64, 32>,
        Op::VWmmaF1616x16x64Bf8Bf8 => both_halves::<Eights, Bf8, Bf8, F16, 64, 32>,
        Op::VWmmaF3216x16x128Fp8Fp8 => float32::<Eights, Fp8, Fp8, 128, 32>,
        Op::VWmmaF3216x16x128Fp8Bf8 => float32::<Eights, Fp8, Bf8, 128, 32>,
        Op::VWmmaF3216x16x128Bf8Fp8 => float32::<Eights, Bf8, Fp8, 128, 32>,
        Op::VWmmaF3216x16x128Bf8Bf8 => float32::<Eights, Bf8, Bf8, 128, 32>,
        Op::VWmmaF1616x16x128Fp8Fp8 => both_halves::<Eights, Fp8, Fp8, F16, 128, 32>,
        Op::VWmmaF1616x16x128Fp8Bf8 => both_halves::<Eights, Fp8, Bf8, F16, 128, 32>,
        Op::VWmmaF1616x16x128Bf8Fp8 => both_halves::<Eights, Bf8, Fp8, F16, 128, 32>,
        Op::VWmmaF1616x16x128Bf8Bf8 => both_halves::<Eights, Bf8, Bf8, F16, 128, 32>,
        _ => return None,
    })
}

/// Dword `part` of source `i` in `lane`.
#[inline(always)]
fn source<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>, i: usize, part: usize, lane: usize) -> u32 {
    let src = &op.src[i];
    if src.kind == SrcKind::Vgpr { wave.v[src.reg as usize + part].0[lane] } else { wave.s32(src) }
}

/// Dword `part` of C in `lane`.
#[inline(always)]
fn start<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>, shape: &Shape, part: usize, lane: usize) -> u32 {
    source(wave, op, if shape.is_sparse { 3 } else { 2 }, part, lane)
}

/// Where in a lane stored element `n` of a sparse A's row is.
#[inline(always)]
fn stored<const L: usize>(shape: &Shape, n: usize, bits: usize) -> (usize, usize) {
    let (lane, place) = (shape.sparse_factor)(n / 2 * 4, shape.inner, L, bits);
    (lane, place / 2 + n % 2)
}

/// Stops the kernel if a set of indices is chosen where there is one only: LLVM then takes the upper half of them, with
/// zeros in place of the rest.
#[inline(always)]
fn check_set<const L: usize>(op: &MicroOp<L>, shape: &Shape) -> Step {
    if shape.has_one_set && op.op_sel & 3 != 0 {
        let what = "index_key of a v_swmmac of gfx1250".to_owned();
        return Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what))));
    }
    Ok(())
}

/// For each stored element of row `m` of a sparse A the one of a column of B that it meets. `op_sel` chooses among the
/// sets of indices in a register. The second half is not used; nothing is if A is dense.
#[inline(always)]
fn met<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>, shape: &Shape, bits: usize, m: usize) -> [usize; MOST] {
    let mut met = [0; MOST];
    if shape.is_sparse {
        let inner = shape.inner;
        // As many as the last element's place tells.
        let count = (shape.sparse_factor)(inner - 1, inner, L, bits).1.div_ceil(2);
        let set = 2 * count * usize::from(op.op_sel & 3) % 32;
        for (n, met) in met[..inner / 2].iter_mut().enumerate() {
            let (lane, at) = stored::<L>(shape, n, bits);
            let (lane, bit) = (shape.index)(lane, at, count);
            let index = source(wave, op, 2, (set + bit) / 32, m + lane) >> ((set + bit) % 32) & 3;
            *met = n / 2 * 4 + index as usize;
        }
    }
    met
}

/// Adds up the products of a row of A, and for a sparse one what its elements meet, and a column of B.
#[inline(always)]
fn dot<N: Copy, S>((row, met): (&[N], Option<&[usize]>), column: &[N], start: S, add: impl Fn(S, N, N) -> S) -> S {
    match met {
        Some(met) => row[..row.len() / 2].iter().zip(met).fold(start, |sum, (a, met)| add(sum, *a, column[*met])),
        None => row.iter().zip(column).fold(start, |sum, (a, b)| add(sum, *a, *b)),
    }
}

/// The bits of element `k` of row `m` of A (`i` 0) or of column `m` of B (1), and its place among those of its lane.
/// A sparse A has half as many elements.
#[inline(always)]
fn element<const L: usize>(
    wave: &Wave<L>,
    op: &MicroOp<L>,
    shape: &Shape,
    bits: usize,
    (i, m, k): (usize, usize, usize),
) -> (u32, usize) {
    let (lane, place) = match i {
        0 if shape.is_sparse && k >= shape.inner / 2 => return (0, 0),
        0 if shape.is_sparse => stored::<L>(shape, k, bits),
        _ => (shape.factor)(k, shape.inner, L, bits),
    };
    let first = place * bits;
    (source(wave, op, i, first / 32, m + lane) >> (first % 32), place)
}

/// Type of the elements of a factor: their bits, and what they are worth.
type Kind = (usize, fn(u32) -> f32);

/// The floats of a row or column, signs changed.
fn line<const L: usize>(
    wave: &Wave<L>,
    op: &MicroOp<L>,
    shape: &Shape,
    (bits, get): Kind,
    (i, m): (usize, usize),
) -> [f32; MOST] {
    let mut line = [0.0; MOST];
    for (k, value) in line[..shape.inner].iter_mut().enumerate() {
        let (word, place) = element(wave, op, shape, bits, (i, m, k));
        // Of two in a register each has a sign; smaller ones have none.
        let neg = if place % 2 == 0 || bits == 32 { op.neg } else { op.neg_hi };
        *value = if bits >= 16 && neg >> i & 1 != 0 { -get(word) } else { get(word) };
    }
    line
}

/// Rows of 16 sums.
type Tile = [[f64; 16]; 16];

/// First lane and place in it of an element of a dense factor, and whether its sign is changed.
type Spot = (usize, usize, bool);

/// The elements of 16 rows of a dense A, or columns of B, in f64: those at the first k, then those at the second one.
struct Unpack<'a, E, const L: usize> {
    rows: &'a [Row<L>],
    /// Of each k.
    places: &'a [Spot],
    elements: &'a mut [[f64; 16]],
    of: PhantomData<E>,
}

impl<E: Element, const L: usize> Part for Unpack<'_, E, L> {
    type Result = ();
    #[inline(always)]
    fn run(self) {
        for (&(lane, place, neg), elements) in self.places.iter().zip(self.elements) {
            let first = place * E::BITS;
            let words = &self.rows[first / 32].0[lane..lane + 16];
            let sign = u64::from(neg) << 63;
            for (element, word) in elements.iter_mut().zip(words) {
                let value = f64::from(E::get(word >> (first % 32)));
                *element = f64::from_bits(value.to_bits() ^ sign);
            }
        }
    }
}

/// [`Unpack`]s with the features of this CPU.
fn unpack<E: Element, const L: usize>(rows: &[Row<L>], places: &[Spot], elements: &mut [[f64; 16]]) {
    #[cfg(target_arch = "x86_64")]
    if E::IS_F16 && Host::detect() == Host::Avx512 {
        // SAFETY: the CPU has AVX-512 F.
        return unsafe { unpack_f16(rows, places, elements) };
    }
    level::run(Unpack::<E, L> { rows, places, elements, of: PhantomData });
}

/// [`Unpack`] of f16.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn unpack_f16<const L: usize>(rows: &[Row<L>], places: &[Spot], elements: &mut [[f64; 16]]) {
    use std::arch::x86_64::*;
    for (&(lane, place, neg), elements) in places.iter().zip(elements) {
        let words = &rows[place / 2].0[lane..lane + 16];
        let sign = _mm512_set1_epi64(i64::from(neg) << 63);
        let signed = |value: __m512d| _mm512_castsi512_pd(_mm512_xor_si512(_mm512_castpd_si512(value), sign));
        // SAFETY: there are 16 words and elements.
        unsafe {
            let words = _mm512_loadu_si512(words.as_ptr().cast());
            let words = _mm512_srl_epi32(words, _mm_cvtsi32_si128(16 * (place % 2) as i32));
            let floats = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
            let high = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(floats));
            let low = _mm512_cvtps_pd(_mm512_castps512_ps256(floats));
            _mm512_storeu_pd(elements.as_mut_ptr(), signed(low));
            _mm512_storeu_pd(elements.as_mut_ptr().add(8), signed(_mm512_cvtps_pd(_mm256_castpd_ps(high))));
        }
    }
}

/// Sums from the registers of C in 32 bits, with its modifiers.
struct FromC<'a, const L: usize> {
    c: &'a [Row<L>],
    row: fn(usize, usize, usize) -> usize,
    clear: u32,
    flip: u32,
    sums: &'a mut Tile,
}

impl<const L: usize> Part for FromC<'_, L> {
    type Result = ();
    #[inline(always)]
    fn run(self) {
        for (r, row) in self.c.iter().enumerate() {
            for (n, words) in row.0.as_chunks::<16>().0.iter().enumerate() {
                let sums = &mut self.sums[(self.row)(r, 16 * n, L) % 16];
                for (sum, word) in sums.iter_mut().zip(words) {
                    *sum = f64::from(f32::from_bits((word & !self.clear) ^ self.flip));
                }
            }
        }
    }
}

/// The registers of D in 32 bits from sums.
struct ToD<'a, const L: usize> {
    d: &'a mut [Row<L>],
    row: fn(usize, usize, usize) -> usize,
    sums: &'a Tile,
}

impl<const L: usize> Part for ToD<'_, L> {
    type Result = ();
    #[inline(always)]
    fn run(self) {
        for (r, row) in self.d.iter_mut().enumerate() {
            for (n, words) in row.0.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                let sums = &self.sums[(self.row)(r, 16 * n, L) % 16];
                for (word, sum) in words.iter_mut().zip(sums) {
                    *word = (*sum as f32).to_bits();
                }
            }
        }
    }
}

/// True if A is dense, and A and B are in registers.
#[inline(always)]
fn is_dense<const L: usize>(op: &MicroOp<L>, shape: &Shape) -> bool {
    !shape.is_sparse && op.src[..2].iter().all(|src| src.kind == SrcKind::Vgpr)
}

/// A dense factor: where its elements are, and the function that unpacks them.
struct Dense<const K: usize, const L: usize> {
    places: [Spot; K],
    unpack: fn(&[Row<L>], &[Spot], &mut [[f64; 16]]),
}

impl<const K: usize, const L: usize> Dense<K, L> {
    /// Factor `i`.
    #[inline(always)]
    fn new<T: Layout, E: Element>(op: &MicroOp<L>, i: usize) -> Self {
        let places = std::array::from_fn(|k| {
            let (lane, place) = T::factor(k, K, L, E::BITS);
            let neg = if place % 2 == 0 || E::BITS == 32 { op.neg } else { op.neg_hi };
            (lane, place, E::BITS >= 16 && neg >> i & 1 != 0)
        });
        Dense { places, unpack: unpack::<E, L> }
    }
}

/// Adds the products of a dense A and B to `sums`, as [`products`] does.
#[inline(never)]
fn add_products<const K: usize, const L: usize>(
    wave: &Wave<L>,
    op: &MicroOp<L>,
    factors: &[Dense<K, L>; 2],
    sums: &mut Tile,
) {
    let (mut a, mut b) = ([[0.0; 16]; K], [[0.0; 16]; K]);
    for (i, elements) in [&mut a, &mut b].into_iter().enumerate() {
        (factors[i].unpack)(&wave.v[op.src[i].reg as usize..], &factors[i].places, elements);
    }
    let places: [(usize, usize); K] = std::array::from_fn(|k| (16 * k, 16 * k));
    let host = Host::detect();
    for strip in (0..16).step_by(outer::ROWS) {
        let (a, b) = (a.as_flattened()[strip..].as_ptr(), b.as_flattened().as_ptr());
        let d = sums[strip..strip + outer::ROWS].as_mut_ptr().cast();
        // SAFETY: A and B have 16 elements for each k, a strip of `sums` has rows of 16. The host is this one.
        unsafe { outer::add_f64(host, Strip { a, b, places: &places, d, stride: 16 }) };
    }
}

/// All products of rows and columns, on top of `c`, in f64 (the hardware's order and intermediate precision are not
/// documented). Those past the wave's rows are left out.
#[inline(always)]
fn products<T: Layout, A: Element, B: Element, const K: usize, const L: usize>(
    wave: &Wave<L>,
    op: &MicroOp<L>,
    c: impl Fn(usize, usize) -> f32,
) -> [[f32; L]; 8] {
    let shape = const { &Shape::of::<T>(K) };
    if !is_dense(op, shape) {
        return products_by_element(wave, op, shape, [(A::BITS, A::get), (B::BITS, B::get)], &c);
    }
    let mut sums = [[0.0; 16]; 16];
    for r in 0..rows(L) {
        for lane in 0..L {
            sums[T::row(r, lane, L)][lane % 16] = f64::from(c(r, lane));
        }
    }
    add_products(wave, op, &[Dense::<K, L>::new::<T, A>(op, 0), Dense::new::<T, B>(op, 1)], &mut sums);
    let mut result = [[0.0; L]; 8];
    for (r, result) in result[..rows(L)].iter_mut().enumerate() {
        for (lane, result) in result.iter_mut().enumerate() {
            *result = sums[T::row(r, lane, L)][lane % 16] as f32;
        }
    }
    result
}

/// [`products`] of factors that are sparse, or not in vector registers.
#[cold]
#[inline(never)]
fn products_by_element<const L: usize>(
    wave: &Wave<L>,
    op: &MicroOp<L>,
    shape: &Shape,
    [a, b]: [Kind; 2],
    c: &dyn Fn(usize, usize) -> f32,
) -> [[f32; L]; 8] {
    let lines: [[f32; MOST]; 16] = std::array::from_fn(|m| line(wave, op, shape, a, (0, m)));
    let columns: [[f32; MOST]; 16] = std::array::from_fn(|n| line(wave, op, shape, b, (1, n)));
    let met: [[usize; MOST]; 16] = std::array::from_fn(|m| met(wave, op, shape, a.0, m));
    let mut result = [[0.0; L]; 8];
    for (r, result) in result[..rows(L)].iter_mut().enumerate() {
        for (lane, result) in result.iter_mut().enumerate() {
            let m = (shape.row)(r, lane, L);
            let row = (&lines[m][..shape.inner], shape.is_sparse.then_some(&met[m][..]));
            let add = |sum, a, b| sum + f64::from(a) * f64::from(b);
            *result = dot(row, &columns[lane % 16], f64::from(c(r, lane)), add) as f32;
        }
    }
    result
}

/// C's modifiers: negation and absolute value (in `neg_hi`).
fn c_modified<const L: usize>(op: &MicroOp<L>, value: f32) -> f32 {
    let value = if op.neg_hi & 4 != 0 { value.abs() } else { value };
    if op.neg & 4 != 0 { -value } else { value }
}

fn float32<T: Layout, A: Element, B: Element, const K: usize, const L: usize>(
    wave: &mut Wave<L>,
    _: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let shape = const { &Shape::of::<T>(K) };
    check_set(op, shape)?;
    if is_dense(op, shape) {
        add_dense(wave, op, &[Dense::<K, L>::new::<T, A>(op, 0), Dense::new::<T, B>(op, 1)], T::row);
    } else {
        add_by_element(wave, op, shape, [(A::BITS, A::get), (B::BITS, B::get)]);
    }
    Ok(())
}

/// D in 32 bits of dense factors.
#[inline(never)]
fn add_dense<const K: usize, const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    factors: &[Dense<K, L>; 2],
    row: fn(usize, usize, usize) -> usize,
) {
    let c = &op.src[2];
    let (clear, flip) = (u32::from(op.neg_hi & 4 != 0) << 31, u32::from(op.neg & 4 != 0) << 31);
    let mut sums = [[f64::from(c_modified(op, f32::from_bits(wave.s32(c)))); 16]; 16];
    if c.kind == SrcKind::Vgpr {
        let c = &wave.v[c.reg as usize..c.reg as usize + rows(L)];
        level::run(FromC { c, row, clear, flip, sums: &mut sums });
    }
    add_products(wave, op, factors, &mut sums);
    let d = &mut wave.v[op.dst as usize..op.dst as usize + rows(L)];
    level::run(ToD { d, row, sums: &sums });
}

/// D in 32 bits of other factors.
#[cold]
#[inline(never)]
fn add_by_element<const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>, shape: &Shape, kinds: [Kind; 2]) {
    let c = |r, lane| c_modified(op, f32::from_bits(start(wave, op, shape, r, lane)));
    let d = products_by_element(wave, op, shape, kinds, &c);
    for (r, row) in d[..rows(L)].iter().enumerate() {
        wave.v[op.dst as usize + r] = Row(row.map(f32::to_bits));
    }
}

/// A result in 16 bits; with FP16_OVFL none that was finite becomes infinite.
fn rounded<E: Half>(value: f32, saturates: bool) -> u16 {
    E::round(if saturates && value.is_finite() { value.clamp(-E::MOST, E::MOST) } else { value })
}

/// RDNA3: D in 16 bits, one row in half of each register.
fn one_half<E: Half, const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let (shift, saturates) = (if op.op_sel & 4 != 0 { 16 } else { 0 }, wave.saturates);
    let d = products::<Doubled, E, E, 16, L>(wave, op, |r, lane| {
        c_modified(op, E::get(source(wave, op, 2, r, lane) >> shift))
    });
    for (r, row) in d[..rows(L)].iter().enumerate() {
        let target = &mut wave.v[op.dst as usize + r];
        for (old, value) in target.0.iter_mut().zip(row) {
            *old = *old & !(0xffff << shift) | u32::from(rounded::<E>(*value, saturates)) << shift;
        }
    }
    Ok(())
}

/// D in 16 bits, two rows in each register.
fn both_halves<T: Layout, A: Element, B: Element, O: Half, const K: usize, const L: usize>(
    wave: &mut Wave<L>,
    _: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let shape = const { &Shape::of::<T>(K) };
    check_set(op, shape)?;
    let d = products::<T, A, B, K, L>(wave, op, |r, lane| {
        c_modified(op, O::get(start(wave, op, shape, r / 2, lane) >> (16 * (r % 2))))
    });
    put_halves::<O, L>(wave, op, &d)
}

/// D in 16 bits, two rows in each register, with C in 32 bits.
fn narrowed<T: Layout, E: Half, const K: usize, const L: usize>(
    wave: &mut Wave<L>,
    _: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let d = products::<T, E, E, K, L>(wave, op, |r, lane| c_modified(op, f32::from_bits(source(wave, op, 2, r, lane))));
    put_halves::<E, L>(wave, op, &d)
}

fn put_halves<E: Half, const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>, d: &[[f32; L]; 8]) -> Step {
    for (n, pair) in d[..rows(L)].as_chunks::<2>().0.iter().enumerate() {
        let half = |row: usize, lane: usize| u32::from(rounded::<E>(pair[row][lane], wave.saturates));
        let word = |lane: usize| half(0, lane) | half(1, lane) << 16;
        wave.v[op.dst as usize + n] = Row(std::array::from_fn(word));
    }
    Ok(())
}

fn integer<T: Layout, const BITS: usize, const K: usize, const L: usize>(
    wave: &mut Wave<L>,
    _: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let shape = const { &Shape::of::<T>(K) };
    check_set(op, shape)?;
    if op.neg & 4 != 0 {
        let what = "negated C of an integer matrix op".to_owned();
        return Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what))));
    }
    let line = |i: usize, m: usize| -> [i32; K] {
        let unused = 32 - BITS as u32;
        std::array::from_fn(|k| {
            let bits = element(wave, op, shape, BITS, (i, m, k)).0 << unused;
            if op.neg >> i & 1 != 0 { bits as i32 >> unused } else { (bits >> unused) as i32 }
        })
    };
    let lines: [[i32; K]; 16] = std::array::from_fn(|m| line(0, m));
    let columns: [[i32; K]; 16] = std::array::from_fn(|n| line(1, n));
    add_integers(wave, op, shape, (BITS, lines.as_flattened(), columns.as_flattened()));
    Ok(())
}

/// D of rows of A and columns of B, with elements of so many bits.
#[inline(never)]
fn add_integers<const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    shape: &Shape,
    (bits, rows_of_a, columns): (usize, &[i32], &[i32]),
) {
    let met: [[usize; MOST]; 16] = std::array::from_fn(|m| met(wave, op, shape, bits, m));
    let mut d = [Row::<L>::ZERO; 8];
    for (r, d) in d[..rows(L)].iter_mut().enumerate() {
        for (lane, d) in d.0.iter_mut().enumerate() {
            let m = (shape.row)(r, lane, L);
            let row = (&rows_of_a[m * shape.inner..][..shape.inner], shape.is_sparse.then_some(&met[m][..]));
            let column = &columns[lane % 16 * shape.inner..][..shape.inner];
            let dot = dot(row, column, 0, |sum, a, b| sum + a * b);
            let sum = i64::from(dot) + i64::from(start(wave, op, shape, r, lane) as i32);
            *d = if op.clamp { sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32 } else { sum as u32 };
        }
    }
    let dst = op.dst as usize;
    wave.v[dst..dst + rows(L)].copy_from_slice(&d[..rows(L)]);
}
