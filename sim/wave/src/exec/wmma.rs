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
use super::level::{self, Part};
use super::outer::{self, Host, Strip};
use crate::fault::FaultKind;
use crate::micro_op::{Handler, MicroOp, Step, Stop};
use crate::operand::SrcKind;
use crate::wave::{Group, Row, Wave};
use sim_isa::Op;
use std::marker::PhantomData;

/// Layout of the tiles' elements in lanes and registers.
trait Layout {
    /// Sparse A: two of each four elements along K, chosen by bits of source 2; D is C.
    const SPARSE: bool = false;
    /// The indices fill their registers: there is no other set to choose.
    const ONE_SET: bool = false;
    /// The lane, before its 16 are added, and the place in it of element `k` of `inner` in a wave of `lanes`; elements
    /// have so many bits.
    fn factor(k: usize, inner: usize, lanes: usize, bits: usize) -> (usize, usize);
    /// Position of an element in the dense row of a sparse A.
    #[inline(always)]
    fn sparse_factor(k: usize, inner: usize, lanes: usize, bits: usize) -> (usize, usize) {
        Self::factor(k, inner, lanes, bits)
    }
    /// The lane, before its 16 are added, and the bit where the index of stored element `at` of `count` in `lane` of a
    /// sparse A is.
    #[inline(always)]
    fn index(lane: usize, at: usize, _count: usize) -> (usize, usize) {
        (lane, 2 * at)
    }
    /// The row of C or D in register `r` of `lane`.
    fn row(r: usize, lane: usize, lanes: usize) -> usize;
}

/// RDNA3: lane *m*, and each copy of it 16 lanes further, holds all of row *m*. Rows of C go through the lanes first.
struct Doubled;

impl Layout for Doubled {
    #[inline(always)]
    fn factor(k: usize, _: usize, _: usize, _: usize) -> (usize, usize) {
        (0, k)
    }

    #[inline(always)]
    fn row(r: usize, lane: usize, lanes: usize) -> usize {
        r * (lanes / 16) + lane / 16
    }
}

/// RDNA4: lanes *m*, *m* + 16 and so on hold the parts of row *m*, which fill a register at least. Rows of C go through
/// the registers first; in wave64 the upper 32 lanes have those that would be in the upper half of wave32's registers.
struct Split;

impl Layout for Split {
    #[inline(always)]
    fn factor(k: usize, inner: usize, lanes: usize, bits: usize) -> (usize, usize) {
        let part = (inner / (lanes / 16)).max(32 / bits);
        (k / part * 16, k % part)
    }

    #[inline(always)]
    fn row(r: usize, lane: usize, _: usize) -> usize {
        r + 8 * (lane / 16 % 2) + 4 * (lane / 32)
    }
}

/// RDNA4's `v_swmmac_*`. How elements of K are numbered makes no difference, as long as four of B in a lane meet two of
/// A in the lane that has the same part of a row.
struct Sparse;

impl Layout for Sparse {
    const SPARSE: bool = true;

    #[inline(always)]
    fn factor(k: usize, inner: usize, lanes: usize, bits: usize) -> (usize, usize) {
        Split::factor(k, inner, lanes, bits)
    }

    #[inline(always)]
    fn row(r: usize, lane: usize, lanes: usize) -> usize {
        Split::row(r, lane, lanes)
    }
}

/// In wave64 `v_swmmac_i32_16x16x32_iu4` has A in the lower 32 lanes alone, a register in each.
struct HalfSparse;

impl Layout for HalfSparse {
    const SPARSE: bool = true;

    #[inline(always)]
    fn factor(k: usize, _: usize, _: usize, _: usize) -> (usize, usize) {
        let part = k / 8;
        (part / 2 * 16 + part % 2 * 32, k % 8)
    }

    #[inline(always)]
    fn sparse_factor(k: usize, _: usize, _: usize, _: usize) -> (usize, usize) {
        (k / 16 * 16, k % 16)
    }

    #[inline(always)]
    fn row(r: usize, lane: usize, lanes: usize) -> usize {
        Split::row(r, lane, lanes)
    }
}

/// gfx1250's `v_swmmac_*`: factors as on RDNA4, but lane *m* has the indices of the first half of both lanes' elements,
/// lane *m* + 16 those of the second half; of each the lower lane's elements have the lower bits. AMD's hip-fpsan has
/// measured it; AMD's hipconv has the same for 16 bits, its simulator rocjitsu for 8.
struct Crossed;

impl Layout for Crossed {
    const SPARSE: bool = true;
    const ONE_SET: bool = true;

    #[inline(always)]
    fn factor(k: usize, inner: usize, lanes: usize, bits: usize) -> (usize, usize) {
        Split::factor(k, inner, lanes, bits)
    }

    #[inline(always)]
    fn index(lane: usize, at: usize, count: usize) -> (usize, usize) {
        let half = count / 2;
        (at / half * 16, 2 * (lane / 16 * half + at % half))
    }

    #[inline(always)]
    fn row(r: usize, lane: usize, lanes: usize) -> usize {
        Split::row(r, lane, lanes)
    }
}

/// gfx1250, 16 and 8 bits: parts of eight elements, by turns in lane *m* and in lane *m* + 16.
struct Eights;

impl Layout for Eights {
    #[inline(always)]
    fn factor(k: usize, _: usize, _: usize, _: usize) -> (usize, usize) {
        (k / 8 % 2 * 16, k / 16 * 8 + k % 8)
    }

    #[inline(always)]
    fn row(r: usize, lane: usize, lanes: usize) -> usize {
        Split::row(r, lane, lanes)
    }
}

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
        Op::VSwmmacF3216x16x64F16 => float32::<Crossed, F16, F16, 64, L>,
        Op::VSwmmacF3216x16x64Bf16 => float32::<Crossed, Bf16, Bf16, 64, L>,
        Op::VSwmmacF1616x16x64F16 => both_halves::<Crossed, F16, F16, F16, 64, L>,
        Op::VSwmmacBf1616x16x64Bf16 => both_halves::<Crossed, Bf16, Bf16, Bf16, 64, L>,
        Op::VSwmmacI3216x16x128Iu8 => integer::<Crossed, 8, 128, L>,
        Op::VSwmmacF3216x16x128Fp8Fp8 => float32::<Crossed, Fp8, Fp8, 128, L>,
        Op::VSwmmacF3216x16x128Fp8Bf8 => float32::<Crossed, Fp8, Bf8, 128, L>,
        Op::VSwmmacF3216x16x128Bf8Fp8 => float32::<Crossed, Bf8, Fp8, 128, L>,
        Op::VSwmmacF3216x16x128Bf8Bf8 => float32::<Crossed, Bf8, Bf8, 128, L>,
        Op::VSwmmacF1616x16x128Fp8Fp8 => both_halves::<Crossed, Fp8, Fp8, F16, 128, L>,
        Op::VSwmmacF1616x16x128Fp8Bf8 => both_halves::<Crossed, Fp8, Bf8, F16, 128, L>,
        Op::VSwmmacF1616x16x128Bf8Fp8 => both_halves::<Crossed, Bf8, Fp8, F16, 128, L>,
        Op::VSwmmacF1616x16x128Bf8Bf8 => both_halves::<Crossed, Bf8, Bf8, F16, 128, L>,
        Op::VWmmaF3216x16x4F32 => float32::<Split, F32, F32, 4, L>,
        Op::VWmmaF3216x16x32F16 => float32::<Eights, F16, F16, 32, L>,
        Op::VWmmaF3216x16x32Bf16 => float32::<Eights, Bf16, Bf16, 32, L>,
        Op::VWmmaF1616x16x32F16 => both_halves::<Eights, F16, F16, F16, 32, L>,
        Op::VWmmaBf1616x16x32Bf16 => both_halves::<Eights, Bf16, Bf16, Bf16, 32, L>,
        Op::VWmmaBf16f3216x16x32Bf16 => narrowed::<Eights, Bf16, 32, L>,
        Op::VWmmaI3216x16x64Iu8 => integer::<Eights, 8, 64, L>,
        Op::VWmmaF3216x16x64Fp8Fp8 => float32::<Eights, Fp8, Fp8, 64, L>,
        Op::VWmmaF3216x16x64Fp8Bf8 => float32::<Eights, Fp8, Bf8, 64, L>,
        Op::VWmmaF3216x16x64Bf8Fp8 => float32::<Eights, Bf8, Fp8, 64, L>,
        Op::VWmmaF3216x16x64Bf8Bf8 => float32::<Eights, Bf8, Bf8, 64, L>,
        Op::VWmmaF1616x16x64Fp8Fp8 => both_halves::<Eights, Fp8, Fp8, F16, 64, L>,
        Op::VWmmaF1616x16x64Fp8Bf8 => both_halves::<Eights, Fp8, Bf8, F16, 64, L>,
        Op::VWmmaF1616x16x64Bf8Fp8 => both_halves::<Eights, Bf8, Fp8, F16, 64, L>,
        Op::VWmmaF1616x16x64Bf8Bf8 => both_halves::<Eights, Bf8, Bf8, F16, 64, L>,
        Op::VWmmaF3216x16x128Fp8Fp8 => float32::<Eights, Fp8, Fp8, 128, L>,
        Op::VWmmaF3216x16x128Fp8Bf8 => float32::<Eights, Fp8, Bf8, 128, L>,
        Op::VWmmaF3216x16x128Bf8Fp8 => float32::<Eights, Bf8, Fp8, 128, L>,
        Op::VWmmaF3216x16x128Bf8Bf8 => float32::<Eights, Bf8, Bf8, 128, L>,
        Op::VWmmaF1616x16x128Fp8Fp8 => both_halves::<Eights, Fp8, Fp8, F16, 128, L>,
        Op::VWmmaF1616x16x128Fp8Bf8 => both_halves::<Eights, Fp8, Bf8, F16, 128, L>,
        Op::VWmmaF1616x16x128Bf8Fp8 => both_halves::<Eights, Bf8, Fp8, F16, 128, L>,
        Op::VWmmaF1616x16x128Bf8Bf8 => both_halves::<Eights, Bf8, Bf8, F16, 128, L>,
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
fn start<T: Layout, const L: usize>(wave: &Wave<L>, op: &MicroOp<L>, part: usize, lane: usize) -> u32 {
    source(wave, op, if T::SPARSE { 3 } else { 2 }, part, lane)
}

/// Where in a lane stored element `n` of a sparse A's row is.
#[inline(always)]
fn stored<T: Layout, const K: usize, const L: usize>(n: usize, bits: usize) -> (usize, usize) {
    let (lane, place) = T::sparse_factor(n / 2 * 4, K, L, bits);
    (lane, place / 2 + n % 2)
}

/// Stops the kernel if a set of indices is chosen where there is one only: LLVM then takes the upper half of them, with
/// zeros in place of the rest.
#[inline(always)]
fn check_set<T: Layout, const L: usize>(op: &MicroOp<L>) -> Step {
    if T::ONE_SET && op.op_sel & 3 != 0 {
        let what = "index_key of a v_swmmac of gfx1250".to_owned();
        return Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what))));
    }
    Ok(())
}

/// For each stored element of row `m` of a sparse A the one of a column of B that it meets. `op_sel` chooses among the
/// sets of indices in a register. The second half is not used; nothing is if A is dense.
#[inline(always)]
fn met<T: Layout, const K: usize, const L: usize>(
    wave: &Wave<L>,
    op: &MicroOp<L>,
    bits: usize,
    m: usize,
) -> [usize; K] {
    let mut met = [0; K];
    if T::SPARSE {
        // As many as the last element's place tells.
        let count = T::sparse_factor(K - 1, K, L, bits).1.div_ceil(2);
        let set = 2 * count * usize::from(op.op_sel & 3) % 32;
        for (n, met) in met[..K / 2].iter_mut().enumerate() {
            let (lane, at) = stored::<T, K, L>(n, bits);
            let (lane, bit) = T::index(lane, at, count);
            let index = source(wave, op, 2, (set + bit) / 32, m + lane) >> ((set + bit) % 32) & 3;
            *met = n / 2 * 4 + index as usize;
        }
    }
    met
}

/// Adds up the products of a row of A and a column of B.
#[inline(always)]
fn dot<T: Layout, N: Copy, S, const K: usize>(
    (row, met): (&[N; K], &[usize; K]),
    column: &[N; K],
    start: S,
    add: impl Fn(S, N, N) -> S,
) -> S {
    if T::SPARSE {
        row[..K / 2].iter().zip(met).fold(start, |sum, (a, met)| add(sum, *a, column[*met]))
    } else {
        row.iter().zip(column).fold(start, |sum, (a, b)| add(sum, *a, *b))
    }
}

/// The bits of element `k` of row `m` of A (`i` 0) or of column `m` of B (1), and its place among those of its lane.
/// A sparse A has half as many elements.
#[inline(always)]
fn element<T: Layout, const K: usize, const L: usize>(
    wave: &Wave<L>,
    op: &MicroOp<L>,
    bits: usize,
    i: usize,
    m: usize,
    k: usize,
) -> (u32, usize) {
    let (lane, place) = match i {
        0 if T::SPARSE && k >= K / 2 => return (0, 0),
        0 if T::SPARSE => stored::<T, K, L>(k, bits),
        _ => T::factor(k, K, L, bits),
    };
    let first = place * bits;
    (source(wave, op, i, first / 32, m + lane) >> (first % 32), place)
}

/// The floats of a row or column, signs changed.
#[inline(always)]
fn line<T: Layout, E: Element, const K: usize, const L: usize>(
    wave: &Wave<L>,
    op: &MicroOp<L>,
    i: usize,
    m: usize,
) -> [f32; K] {
    std::array::from_fn(|k| {
        let (bits, place) = element::<T, K, L>(wave, op, E::BITS, i, m, k);
        let value = E::get(bits);
        // Of two in a register each has a sign; smaller ones have none.
        let neg = if place % 2 == 0 || E::BITS == 32 { op.neg } else { op.neg_hi };
        if E::BITS >= 16 && neg >> i & 1 != 0 { -value } else { value }
    })
}

/// Rows of 16 sums.
type Tile = [[f64; 16]; 16];

/// The elements of 16 rows of a dense A, or columns of B, in f64: those at the first k, then those at the second one.
struct Unpack<'a, E, const L: usize> {
    rows: &'a [Row<L>],
    /// First lane and place in it of each k, and whether its sign is changed.
    places: &'a [(usize, usize, bool)],
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
#[inline(always)]
fn unpack<E: Element, const L: usize>(unpack: Unpack<'_, E, L>) {
    #[cfg(target_arch = "x86_64")]
    if E::IS_F16 && Host::detect() == Host::Avx512 {
        // SAFETY: the CPU has AVX-512 F.
        return unsafe { unpack_f16(unpack.rows, unpack.places, unpack.elements) };
    }
    level::run(unpack);
}

/// [`Unpack`] of f16.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn unpack_f16<const L: usize>(rows: &[Row<L>], places: &[(usize, usize, bool)], elements: &mut [[f64; 16]]) {
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
fn is_dense<T: Layout, const L: usize>(op: &MicroOp<L>) -> bool {
    !T::SPARSE && op.src[..2].iter().all(|src| src.kind == SrcKind::Vgpr)
}

/// Adds the products of a dense A and B to `sums`, as [`products`] does.
#[inline(always)]
fn add_products<T: Layout, A: Element, B: Element, const K: usize, const L: usize>(
    wave: &Wave<L>,
    op: &MicroOp<L>,
    sums: &mut Tile,
) {
    let places = |i: usize, bits: usize| -> [(usize, usize, bool); K] {
        std::array::from_fn(|k| {
            let (lane, place) = T::factor(k, K, L, bits);
            let neg = if place % 2 == 0 || bits == 32 { op.neg } else { op.neg_hi };
            (lane, place, bits >= 16 && neg >> i & 1 != 0)
        })
    };
    let (mut a, mut b) = ([[0.0; 16]; K], [[0.0; 16]; K]);
    let rows = |i: usize| &wave.v[op.src[i].reg as usize..];
    unpack(Unpack::<A, L> { rows: rows(0), places: &places(0, A::BITS), elements: &mut a, of: PhantomData });
    unpack(Unpack::<B, L> { rows: rows(1), places: &places(1, B::BITS), elements: &mut b, of: PhantomData });
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
fn products<T: Layout, A: Element, B: Element, const K: usize, const L: usize>(
    wave: &Wave<L>,
    op: &MicroOp<L>,
    c: impl Fn(usize, usize) -> f32,
) -> [[f32; L]; 8] {
    let mut result = [[0.0; L]; 8];
    if is_dense::<T, L>(op) {
        let mut sums = [[0.0; 16]; 16];
        for r in 0..rows(L) {
            for lane in 0..L {
                sums[T::row(r, lane, L)][lane % 16] = f64::from(c(r, lane));
            }
        }
        add_products::<T, A, B, K, L>(wave, op, &mut sums);
        for (r, result) in result[..rows(L)].iter_mut().enumerate() {
            for (lane, result) in result.iter_mut().enumerate() {
                *result = sums[T::row(r, lane, L)][lane % 16] as f32;
            }
        }
        return result;
    }
    let lines: [[f32; K]; 16] = std::array::from_fn(|m| line::<T, A, K, L>(wave, op, 0, m));
    let columns: [[f32; K]; 16] = std::array::from_fn(|n| line::<T, B, K, L>(wave, op, 1, n));
    let met: [[usize; K]; 16] = std::array::from_fn(|m| met::<T, K, L>(wave, op, A::BITS, m));
    for (r, result) in result[..rows(L)].iter_mut().enumerate() {
        for (lane, result) in result.iter_mut().enumerate() {
            let m = T::row(r, lane, L);
            let start = f64::from(c(r, lane));
            let add = |sum, a, b| sum + f64::from(a) * f64::from(b);
            *result = dot::<T, f32, f64, K>((&lines[m], &met[m]), &columns[lane % 16], start, add) as f32;
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
    check_set::<T, L>(op)?;
    let c = &op.src[2];
    if is_dense::<T, L>(op) {
        let (clear, flip) = (u32::from(op.neg_hi & 4 != 0) << 31, u32::from(op.neg & 4 != 0) << 31);
        let mut sums = [[f64::from(c_modified(op, f32::from_bits(wave.s32(c)))); 16]; 16];
        if c.kind == SrcKind::Vgpr {
            let c = &wave.v[c.reg as usize..c.reg as usize + rows(L)];
            level::run(FromC { c, row: T::row, clear, flip, sums: &mut sums });
        }
        add_products::<T, A, B, K, L>(wave, op, &mut sums);
        let d = &mut wave.v[op.dst as usize..op.dst as usize + rows(L)];
        level::run(ToD { d, row: T::row, sums: &sums });
        return Ok(());
    }
    let d =
        products::<T, A, B, K, L>(wave, op, |r, lane| c_modified(op, f32::from_bits(start::<T, L>(wave, op, r, lane))));
    for (r, row) in d[..rows(L)].iter().enumerate() {
        wave.v[op.dst as usize + r] = Row(row.map(f32::to_bits));
    }
    Ok(())
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
    check_set::<T, L>(op)?;
    let d = products::<T, A, B, K, L>(wave, op, |r, lane| {
        c_modified(op, O::get(start::<T, L>(wave, op, r / 2, lane) >> (16 * (r % 2))))
    });
    put_halves::<O, L>(wave, op, &d)
}

/// D in 16 bits, two rows in each register, with C in 32 bits.
fn narrowed<T: Layout, E: Half, const K: usize, const L: usize>(
    wave: &mut Wave<L>,
    _: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let d =
        products::<T, E, E, K, L>(wave, op, |r, lane| c_modified(op, f32::from_bits(start::<T, L>(wave, op, r, lane))));
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
    check_set::<T, L>(op)?;
    if op.neg & 4 != 0 {
        let what = "negated C of an integer matrix op".to_owned();
        return Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what))));
    }
    let line = |i: usize, m: usize| -> [i32; K] {
        let unused = 32 - BITS as u32;
        std::array::from_fn(|k| {
            let bits = element::<T, K, L>(wave, op, BITS, i, m, k).0 << unused;
            if op.neg >> i & 1 != 0 { bits as i32 >> unused } else { (bits >> unused) as i32 }
        })
    };
    let lines: [[i32; K]; 16] = std::array::from_fn(|m| line(0, m));
    let columns: [[i32; K]; 16] = std::array::from_fn(|n| line(1, n));
    let met: [[usize; K]; 16] = std::array::from_fn(|m| met::<T, K, L>(wave, op, BITS, m));
    let d: [Row<L>; 8] = std::array::from_fn(|r| {
        Row(std::array::from_fn(|lane| {
            if r >= rows(L) {
                return 0;
            }
            let m = T::row(r, lane, L);
            let column = &columns[lane % 16];
            let dot = dot::<T, i32, i32, K>((&lines[m], &met[m]), column, 0, |sum, a, b| sum + a * b);
            let sum = i64::from(dot) + i64::from(start::<T, L>(wave, op, r, lane) as i32);
            if op.clamp { sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32 } else { sum as u32 }
        }))
    });
    for (r, row) in d.into_iter().take(rows(L)).enumerate() {
        wave.v[op.dst as usize + r] = row;
    }
    Ok(())
}
