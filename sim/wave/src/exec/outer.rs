// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Sums of outer products, the inner part of matrix ops, for AVX-512, AVX2 and any host. All give the same results:
//! each element is a chain of fused multiply-adds in order of K.

/// Columns of a tile that are computed at a time.
pub(super) const WIDTH: usize = 16;
/// Rows of a tile that are computed at a time.
pub(super) const ROWS: usize = 4;

/// Vector extensions of the host that the functions here are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Any,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Host {
    /// This CPU's.
    #[inline]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                return Host::Avx512;
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return Host::Avx2;
            }
        }
        Host::Any
    }
}

/// Where the factors and sums of [`ROWS`] × [`WIDTH`] elements are.
#[derive(Clone, Copy)]
pub(crate) struct Strip<'a, T> {
    /// Elements of A for each k: [`ROWS`] from the first of these places on.
    pub a: *const T,
    /// Elements of B for each k: [`WIDTH`] from the second of these places on.
    pub b: *const T,
    pub places: &'a [(usize, usize)],
    /// Sums: rows of [`WIDTH`], `stride` elements apart.
    pub d: *mut T,
    pub stride: usize,
}

/// Adds products of f32 to sums.
///
/// # Safety
/// All elements that `strip` names can be accessed. The CPU has the features in `host`.
#[inline(always)]
pub(crate) unsafe fn add_f32(host: Host, strip: Strip<'_, f32>) {
    // SAFETY: by this function's contract.
    unsafe {
        match host {
            Host::Any => add_f32_any(strip),
            #[cfg(target_arch = "x86_64")]
            Host::Avx2 => add_f32_avx2(strip),
            #[cfg(target_arch = "x86_64")]
            Host::Avx512 => add_f32_avx512(strip),
        }
    }
}

unsafe fn add_f32_any(strip: Strip<'_, f32>) {
    for row in 0..ROWS {
        for column in 0..WIDTH {
            // SAFETY: by this function's contract.
            unsafe {
                let d = strip.d.add(row * strip.stride + column);
                let products = strip.places.iter().map(|(a, b)| (*strip.a.add(a + row), *strip.b.add(b + column)));
                d.write(products.fold(d.read(), |sum, (a, b)| a.mul_add(b, sum)));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn add_f32_avx2(strip: Strip<'_, f32>) {
    use std::arch::x86_64::{_mm256_broadcast_ss, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_storeu_ps};
    // SAFETY: by this function's contract.
    unsafe {
        let mut sums = [[_mm256_loadu_ps(strip.d); 2]; ROWS];
        for (row, [low, high]) in sums.iter_mut().enumerate() {
            let d = strip.d.add(row * strip.stride);
            (*low, *high) = (_mm256_loadu_ps(d), _mm256_loadu_ps(d.add(8)));
        }
        for &(a, b) in strip.places {
            let (low, high) = (_mm256_loadu_ps(strip.b.add(b)), _mm256_loadu_ps(strip.b.add(b + 8)));
            for (row, sums) in sums.iter_mut().enumerate() {
                let factor = _mm256_broadcast_ss(&*strip.a.add(a + row));
                *sums = [_mm256_fmadd_ps(factor, low, sums[0]), _mm256_fmadd_ps(factor, high, sums[1])];
            }
        }
        for (row, [low, high]) in sums.into_iter().enumerate() {
            let d = strip.d.add(row * strip.stride);
            _mm256_storeu_ps(d, low);
            _mm256_storeu_ps(d.add(8), high);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn add_f32_avx512(strip: Strip<'_, f32>) {
    use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_storeu_ps};
    // SAFETY: by this function's contract.
    unsafe {
        let mut sums = [_mm512_loadu_ps(strip.d); ROWS];
        for (row, sum) in sums.iter_mut().enumerate() {
            *sum = _mm512_loadu_ps(strip.d.add(row * strip.stride));
        }
        for &(a, b) in strip.places {
            let factors = _mm512_loadu_ps(strip.b.add(b));
            for (row, sum) in sums.iter_mut().enumerate() {
                *sum = _mm512_fmadd_ps(_mm512_set1_ps(*strip.a.add(a + row)), factors, *sum);
            }
        }
        for (row, sum) in sums.into_iter().enumerate() {
            _mm512_storeu_ps(strip.d.add(row * strip.stride), sum);
        }
    }
}

/// Adds products of f64 that are exact to sums. Where a product is exact, a fused multiply-add is a product and a sum.
///
/// # Safety
/// As of [`add_f32`].
#[inline(always)]
pub(crate) unsafe fn add_f64(host: Host, strip: Strip<'_, f64>) {
    // SAFETY: by this function's contract.
    unsafe {
        match host {
            Host::Any => add_f64_any(strip),
            #[cfg(target_arch = "x86_64")]
            Host::Avx2 => add_f64_avx2(strip),
            #[cfg(target_arch = "x86_64")]
            Host::Avx512 => add_f64_avx512(strip),
        }
    }
}

unsafe fn add_f64_any(strip: Strip<'_, f64>) {
    for row in 0..ROWS {
        for column in 0..WIDTH {
            // SAFETY: by this function's contract.
            unsafe {
                let d = strip.d.add(row * strip.stride + column);
                let products = strip.places.iter().map(|(a, b)| *strip.a.add(a + row) * *strip.b.add(b + column));
                d.write(products.fold(d.read(), |sum, product| sum + product));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn add_f64_avx2(strip: Strip<'_, f64>) {
    use std::arch::x86_64::{_mm256_broadcast_sd, _mm256_fmadd_pd, _mm256_loadu_pd, _mm256_storeu_pd};
    // Two columns of vectors at a time: eight sums and two factors of the sixteen registers.
    for half in [0, 8] {
        // SAFETY: by this function's contract.
        unsafe {
            let mut sums = [[_mm256_loadu_pd(strip.d); 2]; ROWS];
            for (row, [low, high]) in sums.iter_mut().enumerate() {
                let d = strip.d.add(row * strip.stride + half);
                (*low, *high) = (_mm256_loadu_pd(d), _mm256_loadu_pd(d.add(4)));
            }
            for &(a, b) in strip.places {
                let b = strip.b.add(b + half);
                let (low, high) = (_mm256_loadu_pd(b), _mm256_loadu_pd(b.add(4)));
                for (row, sums) in sums.iter_mut().enumerate() {
                    let factor = _mm256_broadcast_sd(&*strip.a.add(a + row));
                    *sums = [_mm256_fmadd_pd(factor, low, sums[0]), _mm256_fmadd_pd(factor, high, sums[1])];
                }
            }
            for (row, [low, high]) in sums.into_iter().enumerate() {
                let d = strip.d.add(row * strip.stride + half);
                _mm256_storeu_pd(d, low);
                _mm256_storeu_pd(d.add(4), high);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn add_f64_avx512(strip: Strip<'_, f64>) {
    use std::arch::x86_64::{_mm512_fmadd_pd, _mm512_loadu_pd, _mm512_set1_pd, _mm512_storeu_pd};
    // SAFETY: by this function's contract.
    unsafe {
        let mut sums = [[_mm512_loadu_pd(strip.d); 2]; ROWS];
        for (row, [low, high]) in sums.iter_mut().enumerate() {
            let d = strip.d.add(row * strip.stride);
            (*low, *high) = (_mm512_loadu_pd(d), _mm512_loadu_pd(d.add(8)));
        }
        for &(a, b) in strip.places {
            let (low, high) = (_mm512_loadu_pd(strip.b.add(b)), _mm512_loadu_pd(strip.b.add(b + 8)));
            for (row, sums) in sums.iter_mut().enumerate() {
                let factor = _mm512_set1_pd(*strip.a.add(a + row));
                *sums = [_mm512_fmadd_pd(factor, low, sums[0]), _mm512_fmadd_pd(factor, high, sums[1])];
            }
        }
        for (row, [low, high]) in sums.into_iter().enumerate() {
            let d = strip.d.add(row * strip.stride);
            _mm512_storeu_pd(d, low);
            _mm512_storeu_pd(d.add(8), high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instruction sets that this CPU has.
    fn hosts() -> Vec<Host> {
        #[allow(unused_mut)]
        let mut hosts = vec![Host::Any];
        #[cfg(target_arch = "x86_64")]
        {
            hosts.extend(is_x86_feature_detected!("fma").then_some(Host::Avx2));
            hosts.extend(is_x86_feature_detected!("avx512f").then_some(Host::Avx512));
        }
        hosts
    }

    /// Numbers of many magnitudes, whose sums depend on their order.
    fn numbers(seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        (0..256).map(|_| (next() as f32 - 8e6) * 2f32.powi((next() % 24) as i32 - 40)).collect()
    }

    #[test]
    fn all_hosts_give_the_same_sums() {
        let (a, b, c) = (numbers(1), numbers(2), numbers(3));
        let places: Vec<_> = (0..7).map(|k| (5 * k, 16 * k + 3)).collect();
        let wide = |values: &[f32]| values.iter().map(|value| f64::from(*value)).collect::<Vec<_>>();
        let (a64, b64) = (wide(&a), wide(&b));
        let results = hosts().into_iter().map(|host| {
            let (mut d, mut d64) = (c.clone(), wide(&c));
            let places = &places[..];
            // SAFETY: all places are in the vectors, and the CPU has the features in `hosts`.
            unsafe {
                add_f32(host, Strip { a: a.as_ptr(), b: b.as_ptr(), places, d: d.as_mut_ptr(), stride: 64 });
                add_f64(host, Strip { a: a64.as_ptr(), b: b64.as_ptr(), places, d: d64.as_mut_ptr(), stride: 64 });
            }
            (d, d64)
        });
        let results: Vec<_> = results.collect();
        assert!(results.iter().all(|result| *result == results[0]));
        let first = (0..7).fold(c[66], |sum, k| a[5 * k + 1].mul_add(b[16 * k + 5], sum));
        assert_eq!(results[0].0[66], first);
        assert_eq!(results[0].0[16..64], c[16..64]);
    }
}
