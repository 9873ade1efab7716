// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Templates of matrix instructions: calls of functions that hold all sums in vector registers.

use super::emit::Emitter;
use crate::exec::outer::{self, Host, Strip};
use crate::micro_op::MicroOp;
use crate::operand::SrcKind;
use sim_isa::{Matrix, Op};
use sim_jit::{Gpr, Width};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// A function with the rows of D, C, A and B.
type Function = unsafe extern "sysv64" fn(*mut f32, *const f32, *const u32, *const u32);

/// Compiles an op if its operation has a template. Else nothing has been emitted.
pub(super) fn template<const L: usize>(e: &mut Emitter<'_, L>, code: Op, op: &MicroOp<L>) -> bool {
    let is_plain = !op.clamp && op.matrix == Matrix::default() && op.neg | op.neg_hi | op.abs == 0;
    let in_registers = op.src[..3].iter().all(|src| src.kind == SrcKind::Vgpr);
    // These ops write all lanes, active or not.
    if e.is_masked || !is_plain || !in_registers {
        return false;
    }
    let rows = 256 / L as u16;
    let is_wide = e.width == Width::Zmm;
    let function: Function = match code {
        Op::VMfmaF3216x16x4F32 if L != 64 => return false,
        Op::VMfmaF3216x16x4F32 if is_wide => f32_16x16x4,
        Op::VMfmaF3216x16x4F32 => f32_16x16x4_narrow,
        Op::VMfmaF3216x16x16F16 | Op::VMfmaF3216x16x16Bf16 | Op::VMfmaF3216x16x32F16 | Op::VMfmaF3216x16x32Bf16
            if L != 64 =>
        {
            return false;
        }
        Op::VMfmaF3216x16x16F16 if is_wide => halves_16x16::<false, 16>,
        Op::VMfmaF3216x16x16F16 => halves_16x16_narrow::<false, 16>,
        Op::VMfmaF3216x16x16Bf16 if is_wide => halves_16x16::<true, 16>,
        Op::VMfmaF3216x16x16Bf16 => halves_16x16_narrow::<true, 16>,
        Op::VMfmaF3216x16x32F16 if is_wide => halves_16x16::<false, 32>,
        Op::VMfmaF3216x16x32F16 => halves_16x16_narrow::<false, 32>,
        Op::VMfmaF3216x16x32Bf16 if is_wide => halves_16x16::<true, 32>,
        Op::VMfmaF3216x16x32Bf16 => halves_16x16_narrow::<true, 32>,
        Op::VWmmaF3216x16x16F16 if is_wide => halves_16x16x16::<false, false, L>,
        Op::VWmmaF3216x16x16F16 => halves_16x16x16_narrow::<false, false, L>,
        Op::VWmmaF3216x16x16Bf16 if is_wide => halves_16x16x16::<true, false, L>,
        Op::VWmmaF3216x16x16Bf16 => halves_16x16x16_narrow::<true, false, L>,
        Op::VWmmaF3216x16x16F16Gfx12 if is_wide => halves_16x16x16::<false, true, L>,
        Op::VWmmaF3216x16x16F16Gfx12 => halves_16x16x16_narrow::<false, true, L>,
        Op::VWmmaF3216x16x16Bf16Gfx12 if is_wide => halves_16x16x16::<true, true, L>,
        Op::VWmmaF3216x16x16Bf16Gfx12 => halves_16x16x16_narrow::<true, true, L>,
        _ => return false,
    };
    e.flush();
    e.forget_rows();
    let operands = [op.dst, op.src[2].reg, op.src[0].reg, op.src[1].reg];
    for (to, row) in [Gpr::Rdi, Gpr::Rsi, Gpr::Rdx, Gpr::Rcx].into_iter().zip(operands) {
        e.asm.load_address(to, e.row_memory(row, 0));
    }
    e.asm.constant_wide(Gpr::Rax, function as usize as u64);
    e.asm.call(Gpr::Rax);
    e.overwritten(op.dst, rows);
    true
}

/// `v_mfma_f32_16x16x4_f32`: D = A·B + C. Row *i* of C and D is 16 lanes of register *i* mod 4 from lane 16 ⌊*i* / 4⌋
/// on; element *k* of row *i* of A, or of column *i* of B, is in lane 16 *k* + *i*.
///
/// # Safety
/// The CPU has AVX-512 F. C and D are four rows of 64 lanes, A and B one.
#[target_feature(enable = "avx512f")]
unsafe extern "sysv64" fn f32_16x16x4(d: *mut f32, c: *const f32, a: *const u32, b: *const u32) {
    let (a, b) = (a.cast::<f32>(), b.cast::<f32>());
    // SAFETY: by this function's contract. D is written last: it may overlap the others.
    unsafe {
        let mut sums = [_mm512_setzero_ps(); 16];
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = _mm512_loadu_ps(c.add(mfma_sum_place(i)));
        }
        for k in 0..4 {
            let row = _mm512_loadu_ps(b.add(16 * k));
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = _mm512_fmadd_ps(_mm512_set1_ps(*a.add(16 * k + i)), row, *sum);
            }
        }
        for (i, sum) in sums.into_iter().enumerate() {
            _mm512_storeu_ps(d.add(mfma_sum_place(i)), sum);
        }
    }
}

/// Dwords from the first register on to elements *k* and *k* + 1, *k* even, of row 0 of A, or column 0 of B, of an MFMA
/// of 16×16 with inner dimension `K` and elements of 16 bits. Those of 16 rows follow each other. Lanes 16 apart have
/// `K` / 4 elements of a row each.
const fn mfma_place<const K: usize>(k: usize) -> usize {
    k / (K / 4) * 16 + k % (K / 4) / 2 * 64
}

/// Dwords from the first register on to row *i* of C or D of an MFMA of 16×16, whose elements follow each other.
const fn mfma_sum_place(i: usize) -> usize {
    64 * (i % 4) + 16 * (i / 4)
}

/// `v_mfma_f32_16x16xK_f16` or `_bf16`: D = A·B + C, one fused multiply-add after another in order of K.
///
/// # Safety
/// The CPU has AVX-512 F. C and D are four rows of 64 lanes, A and B `K` / 8.
#[target_feature(enable = "avx512f")]
unsafe extern "sysv64" fn halves_16x16<const BF16: bool, const K: usize>(
    d: *mut f32,
    c: *const f32,
    a: *const u32,
    b: *const u32,
) {
    // SAFETY: by this function's contract. D is written last: it may overlap the others.
    unsafe {
        let mut left = [MaybeUninit::<[f32; 16]>::uninit(); K];
        for k in (0..K).step_by(2) {
            let words = _mm512_loadu_si512(a.add(mfma_place::<K>(k)).cast());
            _mm512_storeu_ps(left[k].as_mut_ptr().cast(), to_f32::<BF16>(words));
            _mm512_storeu_ps(left[k + 1].as_mut_ptr().cast(), to_f32::<BF16>(_mm512_srli_epi32(words, 16)));
        }
        let left = left.as_ptr().cast::<f32>();
        let mut sums = [_mm512_setzero_ps(); 16];
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = _mm512_loadu_ps(c.add(mfma_sum_place(i)));
        }
        for k in (0..K).step_by(2) {
            let words = _mm512_loadu_si512(b.add(mfma_place::<K>(k)).cast());
            let rows = [to_f32::<BF16>(words), to_f32::<BF16>(_mm512_srli_epi32(words, 16))];
            for (k, row) in (k..).zip(rows) {
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = _mm512_fmadd_ps(_mm512_set1_ps(*left.add(16 * k + i)), row, *sum);
                }
            }
        }
        for (i, sum) in sums.into_iter().enumerate() {
            _mm512_storeu_ps(d.add(mfma_sum_place(i)), sum);
        }
    }
}

/// The lower halves of 16 dwords, which are floats.
#[inline]
#[target_feature(enable = "avx512f")]
fn to_f32<const BF16: bool>(words: __m512i) -> __m512 {
    match BF16 {
        true => _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)),
        false => _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)),
    }
}

/// Dwords from the first register on to elements 2 *r* and 2 *r* + 1 of row 0 of A, or column 0 of B, of
/// `v_wmma_*_16x16x16_*`. Those of 16 rows follow each other. RDNA3 has a register for each *r*, RDNA4 (`SPLIT`) the
/// lanes 16 apart for parts of a row.
const fn factor_place<const SPLIT: bool, const L: usize>(r: usize) -> usize {
    let in_lane = if SPLIT { 128 / L } else { 8 };
    r % in_lane * L + r / in_lane * 16
}

/// Dwords from the first register on to row *i* of C or D of `v_wmma_f32_16x16x16_*`, whose elements follow each other.
/// RDNA3's rows go through the lanes first, RDNA4's (`SPLIT`) through the registers.
const fn sum_place<const SPLIT: bool, const L: usize>(i: usize) -> usize {
    match (SPLIT, L) {
        (false, _) => 16 * i,
        (true, 32) => i % 8 * L + i / 8 * 16,
        (true, _) => i % 4 * L + i / 8 * 16 + i / 4 % 2 * 32,
    }
}

/// `v_wmma_f32_16x16x16_f16` or `_bf16`: D = A·B + C, summed in f64 in order of K and rounded once.
///
/// # Safety
/// The CPU has AVX-512 F. C and D are 256 / `L` rows, A and B eight, or 128 / `L` if `SPLIT`.
#[target_feature(enable = "avx512f")]
unsafe extern "sysv64" fn halves_16x16x16<const BF16: bool, const SPLIT: bool, const L: usize>(
    d: *mut f32,
    c: *const f32,
    a: *const u32,
    b: *const u32,
) {
    let (mut left, mut right) = ([MaybeUninit::<[f64; 16]>::uninit(); 16], [MaybeUninit::<[f64; 16]>::uninit(); 16]);
    // SAFETY: by this function's contract. D is written last: it may overlap the others.
    unsafe {
        for (from, to) in [(a, &mut left), (b, &mut right)] {
            for r in 0..8 {
                let words = _mm512_loadu_si512(from.add(factor_place::<SPLIT, L>(r)).cast());
                to_f64::<BF16>(words, to[2 * r].as_mut_ptr().cast());
                to_f64::<BF16>(_mm512_srli_epi32(words, 16), to[2 * r + 1].as_mut_ptr().cast());
            }
        }
        let (left, right) = (left.as_ptr().cast::<f64>(), right.as_ptr().cast::<f64>());
        let mut results = [MaybeUninit::<[f32; 16]>::uninit(); 16];
        for half in [0, 8] {
            // Calls of closures would not be inlined.
            let mut sums = [[_mm512_setzero_pd(); 2]; 8];
            for (i, [low, high]) in sums.iter_mut().enumerate() {
                let row = c.add(sum_place::<SPLIT, L>(half + i));
                *low = _mm512_cvtps_pd(_mm256_loadu_ps(row));
                *high = _mm512_cvtps_pd(_mm256_loadu_ps(row.add(8)));
            }
            for k in 0..16 {
                let row = [_mm512_loadu_pd(right.add(16 * k)), _mm512_loadu_pd(right.add(16 * k + 8))];
                for (i, [low, high]) in sums.iter_mut().enumerate() {
                    let factor = _mm512_set1_pd(*left.add(16 * k + half + i));
                    *low = _mm512_fmadd_pd(factor, row[0], *low);
                    *high = _mm512_fmadd_pd(factor, row[1], *high);
                }
            }
            for (result, [low, high]) in results[half..].iter_mut().zip(sums) {
                let to = result.as_mut_ptr().cast::<f32>();
                _mm256_storeu_ps(to, _mm512_cvtpd_ps(low));
                _mm256_storeu_ps(to.add(8), _mm512_cvtpd_ps(high));
            }
        }
        for (i, result) in results.iter().enumerate() {
            d.add(sum_place::<SPLIT, L>(i)).copy_from_nonoverlapping(result.as_ptr().cast(), 16);
        }
    }
}

/// Writes the lower halves of 16 dwords, which are floats, in f64.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn to_f64<const BF16: bool>(words: __m512i, to: *mut f64) {
    let floats = to_f32::<BF16>(words);
    let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(floats)));
    // SAFETY: by the caller's contract.
    unsafe {
        _mm512_storeu_pd(to, _mm512_cvtps_pd(_mm512_castps512_ps256(floats)));
        _mm512_storeu_pd(to.add(8), _mm512_cvtps_pd(high));
    }
}

/// [`f32_16x16x4`] for AVX2.
///
/// # Safety
/// The CPU has AVX2 and FMA. C and D are four rows of 64 lanes, A and B one.
#[target_feature(enable = "avx2,fma")]
unsafe extern "sysv64" fn f32_16x16x4_narrow(d: *mut f32, c: *const f32, a: *const u32, b: *const u32) {
    let mut sums = [MaybeUninit::<f32>::uninit(); 256];
    let sums = sums.as_mut_ptr().cast::<f32>();
    // SAFETY: by this function's contract. D is written last: it may overlap the others.
    unsafe {
        sums.copy_from_nonoverlapping(c, 256);
        for block in 0..4 {
            let a = a.cast::<f32>().add(4 * block);
            let places = [0, 16, 32, 48].map(|k| (k, k));
            let strip = Strip { a, b: b.cast(), places: &places, d: sums.add(16 * block), stride: 64 };
            outer::add_f32(Host::Avx2, strip);
        }
        d.copy_from_nonoverlapping(sums, 256);
    }
}

/// [`halves_16x16x16`] for AVX2.
///
/// # Safety
/// The CPU has AVX2, FMA and F16C. C and D are 256 / `L` rows, A and B eight, or 128 / `L` if `SPLIT`.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe extern "sysv64" fn halves_16x16x16_narrow<const BF16: bool, const SPLIT: bool, const L: usize>(
    d: *mut f32,
    c: *const f32,
    a: *const u32,
    b: *const u32,
) {
    let [mut left, mut right, mut sums] = [const { [MaybeUninit::<f64>::uninit(); 256] }; 3];
    let sums = sums.as_mut_ptr().cast::<f64>();
    // SAFETY: by this function's contract. D is written last: it may overlap the others.
    unsafe {
        for (from, to) in [(a, left.as_mut_ptr().cast::<f64>()), (b, right.as_mut_ptr().cast())] {
            for n in 0..16 {
                let (r, half) = (n / 2, 8 * (n % 2));
                let words = _mm256_loadu_si256(from.add(factor_place::<SPLIT, L>(r) + half).cast());
                eight_to_f64::<BF16>(words, to.add(32 * r + half));
                eight_to_f64::<BF16>(_mm256_srli_epi32(words, 16), to.add(32 * r + 16 + half));
            }
        }
        for n in (0..256).step_by(4) {
            let c = c.add(sum_place::<SPLIT, L>(n / 16) + n % 16);
            _mm256_storeu_pd(sums.add(n), _mm256_cvtps_pd(_mm_loadu_ps(c)));
        }
        let places: [(usize, usize); 16] = std::array::from_fn(|k| (16 * k, 16 * k));
        for row in (0..16).step_by(4) {
            let (a, b) = (left.as_ptr().cast::<f64>().add(row), right.as_ptr().cast());
            outer::add_f64(Host::Avx2, Strip { a, b, places: &places, d: sums.add(16 * row), stride: 16 });
        }
        for n in (0..256).step_by(4) {
            let d = d.add(sum_place::<SPLIT, L>(n / 16) + n % 16);
            _mm_storeu_ps(d, _mm256_cvtpd_ps(_mm256_loadu_pd(sums.add(n))));
        }
    }
}

/// [`halves_16x16`] for AVX2.
///
/// # Safety
/// The CPU has AVX2, FMA and F16C. C and D are four rows of 64 lanes, A and B `K` / 8.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe extern "sysv64" fn halves_16x16_narrow<const BF16: bool, const K: usize>(
    d: *mut f32,
    c: *const f32,
    a: *const u32,
    b: *const u32,
) {
    let mut factors = [const { [MaybeUninit::<[f32; 16]>::uninit(); K] }; 2];
    let mut sums = [MaybeUninit::<f32>::uninit(); 256];
    let sums = sums.as_mut_ptr().cast::<f32>();
    // SAFETY: by this function's contract. D is written last: it may overlap the others.
    unsafe {
        for (from, to) in [a, b].into_iter().zip(&mut factors) {
            for k in (0..K).step_by(2) {
                for half in [0, 8] {
                    let words = _mm256_loadu_si256(from.add(mfma_place::<K>(k) + half).cast());
                    for (to, words) in to[k..].iter_mut().zip([words, _mm256_srli_epi32(words, 16)]) {
                        _mm256_storeu_ps(to.as_mut_ptr().cast::<f32>().add(half), eight_to_f32::<BF16>(words));
                    }
                }
            }
        }
        sums.copy_from_nonoverlapping(c, 256);
        let places: [(usize, usize); K] = std::array::from_fn(|k| (16 * k, 16 * k));
        for block in 0..4 {
            let a = factors[0].as_ptr().cast::<f32>().add(4 * block);
            let (b, d) = (factors[1].as_ptr().cast(), sums.add(16 * block));
            outer::add_f32(Host::Avx2, Strip { a, b, places: &places, d, stride: 64 });
        }
        d.copy_from_nonoverlapping(sums, 256);
    }
}

/// The lower halves of eight dwords, which are floats.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn eight_to_f32<const BF16: bool>(words: __m256i) -> __m256 {
    if BF16 {
        return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
    }
    let low = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
    let halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0xd8);
    _mm256_cvtph_ps(_mm256_castsi256_si128(halves))
}

/// Writes the lower halves of eight dwords, which are floats, in f64.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn eight_to_f64<const BF16: bool>(words: __m256i, to: *mut f64) {
    let floats = eight_to_f32::<BF16>(words);
    // SAFETY: by the caller's contract.
    unsafe {
        _mm256_storeu_pd(to, _mm256_cvtps_pd(_mm256_castps256_ps128(floats)));
        _mm256_storeu_pd(to.add(4), _mm256_cvtps_pd(_mm256_extractf128_ps(floats, 1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::Random;

    type Sums = unsafe extern "sysv64" fn(*mut f32, *const f32, *const u32, *const u32);

    /// Numbers of many magnitudes, whose sums depend on their order.
    fn number(random: &mut Random) -> f32 {
        (random.next() as i32 as f32) * 2f32.powi(random.below(24) as i32 - 48)
    }

    fn check<const SPLIT: bool, const L: usize>(function: Sums) {
        let mut random = Random::new(0x77);
        let [a, b]: [[[f32; 16]; 16]; 2] = std::array::from_fn(|_| {
            std::array::from_fn(|_| std::array::from_fn(|_| f32::from_bits(number(&mut random).to_bits() & !0xffff)))
        });
        // Rows of factors have their bfloat16 side by side; what no op reads is garbage.
        let pack = |tile: &[[f32; 16]; 16]| {
            let mut rows = vec![u32::MAX; 8 * L];
            for (row, r) in (0..16).flat_map(|row| (0..8).map(move |r| (row, r))) {
                let pair = tile[row][2 * r].to_bits() >> 16 | tile[row][2 * r + 1].to_bits();
                let (place, copies) = if SPLIT {
                    // Parts of 256 / L elements in lanes 16 apart.
                    let (part, at) = (2 * r / (256 / L), 2 * r % (256 / L));
                    (at / 2 * L + 16 * part + row, 1)
                } else {
                    (r * L + row, L / 16)
                };
                (0..copies).for_each(|copy| rows[place + 16 * copy] = pair);
            }
            rows
        };
        let c: Vec<f32> = (0..256).map(|_| number(&mut random)).collect();
        let mut d = c.clone();
        // SAFETY: there are as many rows; the caller has found what the CPU has.
        unsafe { function(d.as_mut_ptr(), d.as_ptr(), pack(&a).as_ptr(), pack(&b).as_ptr()) };
        for (at, (d, c)) in d.into_iter().zip(c).enumerate() {
            let (register, lane) = (at / L, at % L);
            let row = if SPLIT { register + [0, 8, 4, 12][lane / 16] } else { register * (L / 16) + lane / 16 };
            let products = a[row].iter().zip(&b[lane % 16]).map(|(a, b)| f64::from(*a) * f64::from(*b));
            let sum = products.fold(f64::from(c), |sum, product| sum + product) as f32;
            assert_eq!(d.to_bits(), sum.to_bits(), "register {register}, lane {lane}: {d} and {sum}");
        }
    }

    fn check_mfma<const K: usize>(function: Sums) {
        let mut random = Random::new(0x78);
        let [a, b]: [Vec<[f32; 16]>; 2] = std::array::from_fn(|_| {
            let mut element = || f32::from_bits(number(&mut random).to_bits() & !0xffff);
            (0..K).map(|_| std::array::from_fn(|_| element())).collect()
        });
        let pack = |tile: &[[f32; 16]]| {
            let mut rows = vec![0; K / 8 * 64];
            for (k, row) in (0..K).flat_map(|k| (0..16).map(move |row| (k, row))) {
                let (lane, place) = (k / (K / 4) * 16 + row, k % (K / 4));
                rows[place / 2 * 64 + lane] |= tile[k][row].to_bits() >> 16 << (16 * (place % 2));
            }
            rows
        };
        let c: Vec<f32> = (0..256).map(|_| number(&mut random)).collect();
        let mut d = c.clone();
        // SAFETY: as above.
        unsafe { function(d.as_mut_ptr(), d.as_ptr(), pack(&a).as_ptr(), pack(&b).as_ptr()) };
        for (at, (d, c)) in d.into_iter().zip(c).enumerate() {
            let (row, column) = (at % 64 / 16 * 4 + at / 64, at % 16);
            let sum = a.iter().zip(&b).fold(c, |sum, (a, b)| a[row].mul_add(b[column], sum));
            assert_eq!(d.to_bits(), sum.to_bits(), "row {row}, column {column}: {d} and {sum}");
        }
    }

    #[test]
    fn sums_of_mfma_are_fused_multiply_adds_in_order_of_k() {
        if is_x86_feature_detected!("avx512f") {
            check_mfma::<16>(halves_16x16::<true, 16>);
            check_mfma::<32>(halves_16x16::<true, 32>);
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
            check_mfma::<16>(halves_16x16_narrow::<true, 16>);
            check_mfma::<32>(halves_16x16_narrow::<true, 32>);
        }
    }

    #[test]
    fn sums_of_bfloat16_are_in_order_of_k_in_f64() {
        if is_x86_feature_detected!("avx512f") {
            check::<false, 32>(halves_16x16x16::<true, false, 32>);
            check::<false, 64>(halves_16x16x16::<true, false, 64>);
            check::<true, 32>(halves_16x16x16::<true, true, 32>);
            check::<true, 64>(halves_16x16x16::<true, true, 64>);
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
            check::<false, 32>(halves_16x16x16_narrow::<true, false, 32>);
            check::<false, 64>(halves_16x16x16_narrow::<true, false, 64>);
            check::<true, 32>(halves_16x16x16_narrow::<true, true, 32>);
            check::<true, 64>(halves_16x16x16_narrow::<true, true, 64>);
        }
    }
}
