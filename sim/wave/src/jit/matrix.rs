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
        Op::VWmmaF3216x16x16F16 if is_wide => halves_16x16x16::<false, L>,
        Op::VWmmaF3216x16x16F16 => halves_16x16x16_narrow::<false, L>,
        Op::VWmmaF3216x16x16Bf16 if is_wide => halves_16x16x16::<true, L>,
        Op::VWmmaF3216x16x16Bf16 => halves_16x16x16_narrow::<true, L>,
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
    let place = |i: usize| 64 * (i % 4) + 16 * (i / 4);
    // SAFETY: by this function's contract. D is written last: it may overlap the others.
    unsafe {
        let mut sums = [_mm512_setzero_ps(); 16];
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = _mm512_loadu_ps(c.add(place(i)));
        }
        for k in 0..4 {
            let row = _mm512_loadu_ps(b.add(16 * k));
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = _mm512_fmadd_ps(_mm512_set1_ps(*a.add(16 * k + i)), row, *sum);
            }
        }
        for (i, sum) in sums.into_iter().enumerate() {
            _mm512_storeu_ps(d.add(place(i)), sum);
        }
    }
}

/// `v_wmma_f32_16x16x16_f16` or `_bf16` of RDNA3: D = A·B + C, summed in f64 in order of K and rounded once. C and D
/// are 16 rows of 16 elements. Register *r* of lane *m* has elements 2 *r* and 2 *r* + 1 of row *m* of A, or of column
/// *m* of B.
///
/// # Safety
/// The CPU has AVX-512 F. C and D are 256 / `L` rows, A and B eight.
#[target_feature(enable = "avx512f")]
unsafe extern "sysv64" fn halves_16x16x16<const BF16: bool, const L: usize>(
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
                let words = _mm512_loadu_si512(from.add(r * L).cast());
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
                let row = c.add(16 * (half + i));
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
        d.copy_from_nonoverlapping(results.as_ptr().cast(), 256);
    }
}

/// Writes the lower halves of 16 dwords, which are floats, in f64.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn to_f64<const BF16: bool>(words: __m512i, to: *mut f64) {
    let floats = match BF16 {
        true => _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)),
        false => _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)),
    };
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
/// The CPU has AVX2, FMA and F16C. C and D are 256 / `L` rows, A and B eight.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe extern "sysv64" fn halves_16x16x16_narrow<const BF16: bool, const L: usize>(
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
                let (row, half) = (n / 2, 8 * (n % 2));
                let words = _mm256_loadu_si256(from.add(row * L + half).cast());
                eight_to_f64::<BF16>(words, to.add(32 * row + half));
                eight_to_f64::<BF16>(_mm256_srli_epi32(words, 16), to.add(32 * row + 16 + half));
            }
        }
        for n in (0..256).step_by(4) {
            _mm256_storeu_pd(sums.add(n), _mm256_cvtps_pd(_mm_loadu_ps(c.add(n))));
        }
        let places: [(usize, usize); 16] = std::array::from_fn(|k| (16 * k, 16 * k));
        for row in (0..16).step_by(4) {
            let (a, b) = (left.as_ptr().cast::<f64>().add(row), right.as_ptr().cast());
            outer::add_f64(Host::Avx2, Strip { a, b, places: &places, d: sums.add(16 * row), stride: 16 });
        }
        for n in (0..256).step_by(4) {
            _mm_storeu_ps(d.add(n), _mm256_cvtpd_ps(_mm256_loadu_pd(sums.add(n))));
        }
    }
}

/// Writes the lower halves of eight dwords, which are floats, in f64.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn eight_to_f64<const BF16: bool>(words: __m256i, to: *mut f64) {
    let floats = if BF16 {
        _mm256_castsi256_ps(_mm256_slli_epi32(words, 16))
    } else {
        let low = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
        let halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0xd8);
        _mm256_cvtph_ps(_mm256_castsi256_si128(halves))
    };
    // SAFETY: by the caller's contract.
    unsafe {
        _mm256_storeu_pd(to, _mm256_cvtps_pd(_mm256_castps256_ps128(floats)));
        _mm256_storeu_pd(to.add(4), _mm256_cvtps_pd(_mm256_extractf128_ps(floats, 1)));
    }
}
